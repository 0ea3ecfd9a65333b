//! The namespace half of the file system, through its public methods: what Linux does on ext4 is the measure.

#[path = "../support/mod.rs"]
mod support;

mod attributes;
mod directories;
mod links;
mod listings;
mod names;
mod renames;
mod xattrs;
