//! The library for programs in C, and in every language that can call C.
//!
//! Takes   C strings, pointers and numbers
//! Gives   the calls of the crate `strongroom`, with errors as negative numbers of `errno.h`
//! Never   lets a panic out, trusts a handle, or calls back while it holds a lock of its own
//!
//! Invariants
//!  (1) No argument of a program is used before it is checked: pointers for NULL, handles by the table, numbers by their bounds.
//!  (2) A handle that was closed is never valid again.                                                 [handles.rs]
//!  (3) Every function goes through `done` or `count`, which turn errors and panics into numbers.       [border.rs]
//!
//! The header `include/strongroom.h` is generated from these files. Its texts are the comments of public items here, written
//! for readers who know C. The file `cbindgen.toml` has the head of the header, with everything that holds for all functions.
//!
//! `unsafe` is everywhere here, because C passes pointers. The head of the header says once what every function
//! requires of them, and only the functions in `border.rs` follow a pointer.
#![allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "C calls these functions and gives pointers; see above"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "said once, at the head of the header"
)]
#![allow(non_camel_case_types, reason = "the names are those of the header")]

pub mod border;
mod handles;
mod joining;
mod syncing;
pub mod types;

pub mod memory;

pub mod vaults;

pub mod keys;

pub mod paths;

pub mod files;

pub mod directories;

pub mod names;

pub mod snapshots;

pub mod transactions;

pub mod remotes;

pub mod space;

pub mod continuous_sync;

pub mod pairing;
