//! Defines what a file system must do, by a model so simple that it is easily seen to be right.
//!
//! Takes   any `FileSystemUnderTest`
//! Gives   the reference model, its comparison with a real file system step by step, and checks of the documents
//! Never   is part of the product
//! Spec    spec/5-crash-contract.md for what survives a crash; POSIX for what an operation does
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
