//! Says what a file system must do, so plainly that it can be compared with one that is fast.
//!
//! Takes   any `FileSystemUnderTest`
//! Gives   the reference model, the comparison in step, and checks of the documents
//! Never   is part of the product
//! Spec    spec/5-crash-contract.md for what survives; POSIX for what an operation does
#![forbid(unsafe_code)]

pub mod canary;
pub mod claims;
pub mod documents;
pub mod engine;
pub mod hostile;
pub mod kept_view;
pub mod model;
pub mod modules;
pub mod operation;
pub mod prose;
pub mod source;
pub mod step;
pub mod tree;
pub mod under_test;

pub use model::Model;
pub use under_test::FileSystemUnderTest;
