//! A server that keeps sealed objects for the vaults of many accounts, and an order of their publications.
//!
//! Takes   a folder, an address to listen at; requests of `strongroom_remote::protocol`
//! Gives   objects that are created once and read by who has the token of their account; a sign when something is published
//! Never   has a key, a name of a file or a plaintext byte; keeps or logs a token
//! Spec    docs/adr/0035-a-server-of-our-own.md; spec/11-sync.md, 11.1
//!
//! Invariants
//!  (1) What was answered as created is durable, whole, and has the hash that was said.                      [11.1.2]
//!  (2) An account reaches nothing of another one.
//!  (3) What a request takes of memory is bounded, whatever it says and however slowly it comes.
#![forbid(unsafe_code)]

mod answers;
mod app;
mod connections;
mod error;
mod file_id;
mod files;
mod followers;
mod ledger;
pub mod limits;
mod named;
mod request_log;
mod server;
mod store;
mod tls;
mod token;
mod upload;

pub use error::{Error, Result};
pub use ledger::{Account, Quota, Standing};
pub use server::{Server, Settings};
pub use store::Accounts;
pub use tls::Tls;
pub use token::Token;
