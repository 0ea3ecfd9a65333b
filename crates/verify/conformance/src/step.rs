//! Runs the model and another file system step by step, and reports where they differ.
//!
//! Takes   operations
//! Gives   nothing, or a description of the first difference
//! Never   ignores a difference; but values that the interface leaves open (unset times, sizes of directories, blocks)
//!         are not compared
//! Spec    none: test only

use strongroom_filesystem::{Attributes, NodeKind, Timestamp};

use crate::model::Model;
use crate::operation::{Answer, Operation, Session};
use crate::tree::{first_difference, read_tree};
use crate::under_test::{FileSystemUnderTest, same_error};

/// The model and the file system it is compared with.
#[derive(Debug)]
pub struct Pair<F> {
    /// What should happen.
    pub model: Session<Model>,
    /// What happens.
    pub tested: Session<F>,
}

impl<F: FileSystemUnderTest> Pair<F> {
    /// `system` must be empty, its root owned by root with mode 0755.
    pub fn new(system: F) -> Self {
        Self {
            model: Session::new(Model::new()),
            tested: Session::new(system),
        }
    }

    /// Runs one operation on both.
    ///
    /// # Errors
    /// The difference, in words.
    pub fn step(&mut self, operation: &Operation) -> Result<(), String> {
        let expected = self.model.apply(operation);
        let found = self.tested.apply(operation);
        if agree(&expected, &found) {
            return Ok(());
        }
        Err(format!(
            "{operation:?}: expected {}, found {}",
            brief(&expected),
            brief(&found)
        ))
    }

    /// Compares the whole trees, and what is held without a name.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn compare_trees(&self) -> Result<(), String> {
        let expected =
            read_tree(&self.model.system).map_err(|error| format!("the model's tree: {error}"))?;
        let found = read_tree(&self.tested.system)
            .map_err(|error| format!("the tree cannot be read: {error}"))?;
        if let Some(difference) = first_difference(&expected, &found) {
            return Err(difference);
        }
        for (model, tested) in self.model.held().zip(self.tested.held()) {
            let expected = self
                .model
                .system
                .attributes(model)
                .map_err(|error| error.to_string())?;
            let found = self
                .tested
                .system
                .attributes(tested)
                .map_err(|error| format!("a held node: {error}"))?;
            if !same_attributes(&expected, &found) {
                return Err(format!(
                    "a held node: expected {expected:?}, found {found:?}"
                ));
            }
        }
        Ok(())
    }

    /// Puts a reopened file system in the place of the old one: nodes without a name are gone, the rest is found again.
    ///
    /// # Errors
    /// The difference, in words.
    pub fn reopened(self, system: F) -> Result<Self, String> {
        self.model.system.forget_all();
        let mut pair = Self {
            model: self.model,
            tested: Session::new(system),
        };
        pair.model
            .take_hold()
            .map_err(|error| format!("the model's tree: {error}"))?;
        pair.tested
            .take_hold()
            .map_err(|error| format!("after reopening: {error}"))?;
        pair.compare_trees()?;
        Ok(pair)
    }
}

fn agree(expected: &Answer, found: &Answer) -> bool {
    match (expected, found) {
        (Answer::Done, Answer::Done) => true,
        (Answer::Node(one, expected), Answer::Node(other, found)) => {
            one == other && same_attributes(expected, found)
        }
        (Answer::Bytes(one), Answer::Bytes(other)) => one == other,
        (Answer::Number(one), Answer::Number(other)) => one == other,
        (Answer::Names(one), Answer::Names(other)) => one == other,
        (Answer::Refused(one), Answer::Refused(other)) => same_error(one, other),
        _ => false,
    }
}

/// Whether `found` is what the model says, in all the model knows.
fn same_attributes(expected: &Attributes, found: &Attributes) -> bool {
    let size = |attributes: &Attributes| {
        if attributes.kind == NodeKind::Directory {
            0
        } else {
            attributes.size
        }
    };
    let known = |attributes: &Attributes| {
        (
            attributes.kind,
            attributes.mode,
            attributes.uid,
            attributes.gid,
            attributes.rdev,
            attributes.nlink,
        )
    };
    let time =
        |expected: Timestamp, found: Timestamp| expected == Timestamp(0) || expected == found;
    known(expected) == known(found)
        && size(expected) == size(found)
        && time(expected.atime, found.atime)
        && time(expected.mtime, found.mtime)
}

fn brief(answer: &Answer) -> String {
    match answer {
        Answer::Bytes(bytes) => format!(
            "{} bytes {:02x?}…",
            bytes.len(),
            &bytes[..bytes.len().min(16)]
        ),
        other => format!("{other:?}"),
    }
}
