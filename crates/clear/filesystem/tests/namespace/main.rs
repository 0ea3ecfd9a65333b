//! The namespace half of the file system, through its public methods: the reference is the behaviour of Linux on ext4.

#[path = "../support/mod.rs"]
mod support;

mod attributes;
mod directories;
mod links;
mod listings;
mod names;
mod renames;
mod xattrs;
