//! A server that keeps sealed objects for the vaults of many accounts, and the order of their publications.
//!
//! Takes   a folder, or a database and an object store that other instances use, too; an address to listen on; requests of
//!         `strongroom_remote::protocol`
//! Gives   objects that are created once and read only with the token of their account; notice of new publications
//! Never   has a key, a file name or a plaintext byte of a vault, or keeps or logs a token
//! Spec    docs/adr/0035-a-server-of-our-own.md, docs/adr/0038-devices-log-in-at-a-server.md,
//!         docs/adr/0041-a-server-of-several-instances.md; spec/11-sync.md, 11.1 and 11.11; spec/12-inbox.md, 12.5
//!
//! Invariants
//!  (1) An object that was acknowledged as created is durable and whole, and has the stated hash.            [11.1.2]
//!  (2) An account can reach nothing of another account.
//!  (3) The memory for a request is bounded, whatever it contains and however slowly it arrives.
//!  (4) In a vault that the server follows, only members create, remove or read what was pushed.               [11.11.6]
//!  (5) Whoever has an address of an inbox can create deposits there, and nothing else.                        [12.5.1]
//!  (6) No client removes an object before the days for which its account keeps it are over.                 [11.8.8]
#![forbid(unsafe_code)]

mod answers;
mod app;
mod authority;
mod backup_lock;
mod bucket;
mod configuration;
mod connections;
mod database;
mod download;
mod error;
mod file_id;
mod files;
mod followers;
mod header_chain;
mod hearing;
mod inbox;
mod inbox_rows;
mod ledger;
pub mod limits;
mod login;
mod logins;
mod metrics;
mod named;
mod names;
mod objects;
mod openapi;
mod operations;
mod outside;
mod request_log;
mod request_rates;
mod rights;
mod routes;
mod server;
mod storage;
mod store;
mod tls;
mod token;
mod turns;
mod upkeep;
mod upload;

pub use configuration::Configuration;
pub use error::{Error, Result};
pub use files::Collecting;
pub use ledger::{Account, Quota, Standing};
pub use openapi::document as openapi_document;
pub use server::{Server, Settings, raise_open_files};
pub use storage::{Shared, Storage};
pub use store::Accounts;
pub use tls::Tls;
pub use token::Token;
pub use upkeep::{
    BackupReport, CheckReport, GarbageReport, Problem, Reading, Unfinished, Upkeep, UpkeepProgress,
};
