//! The steps of a transaction, as they are sent to the owner.
//!
//! Takes   `Operation`s
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   accepts a list beyond its bounds from the socket

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use strongroom_filesystem::{Attributes, RenameMode, SetAttributes, XattrMode};

use crate::limits::{TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};
use crate::path::Links;
use crate::request::Handle;
use crate::request::frame::Bytes;
use crate::{Error, Result};

/// An `Operation` on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) enum Step<'a> {
    RequireMissing {
        path: Bytes<'a>,
        links: Links,
    },
    RequireUnchanged {
        path: Bytes<'a>,
        links: Links,
        seen: Attributes,
    },
    MakeDirectory {
        path: Bytes<'a>,
        mode: u32,
    },
    MakeSymlink {
        path: Bytes<'a>,
        target: Bytes<'a>,
    },
    WriteFile {
        path: Bytes<'a>,
        mode: u32,
        content: Bytes<'a>,
    },
    WriteAt {
        path: Bytes<'a>,
        offset: u64,
        data: Bytes<'a>,
    },
    /// `WriteFile` with what an open file holds.
    WriteFileFrom {
        path: Bytes<'a>,
        mode: u32,
        source: Handle,
    },
    /// `WriteAt` with what an open file holds.
    WriteAtFrom {
        path: Bytes<'a>,
        offset: u64,
        source: Handle,
    },
    /// `Link` of what an open file holds that has no name yet.
    NameFrom {
        path: Bytes<'a>,
        source: Handle,
    },
    Rename {
        path: Bytes<'a>,
        new_path: Bytes<'a>,
        mode: RenameMode,
    },
    Link {
        path: Bytes<'a>,
        new_path: Bytes<'a>,
    },
    RemoveFile {
        path: Bytes<'a>,
    },
    RemoveDirectory {
        path: Bytes<'a>,
    },
    SetAttributes {
        path: Bytes<'a>,
        links: Links,
        set: SetAttributes,
    },
    SetXattr {
        path: Bytes<'a>,
        links: Links,
        name: Bytes<'a>,
        value: Bytes<'a>,
        mode: XattrMode,
    },
    RemoveXattr {
        path: Bytes<'a>,
        links: Links,
        name: Bytes<'a>,
    },
}

impl<'a> Step<'a> {
    /// What it writes.
    pub(crate) fn content(&self) -> &'a [u8] {
        match self {
            Self::WriteFile { content, .. } => content.0,
            Self::WriteAt { data, .. } => data.0,
            _ => &[],
        }
    }

    /// Bytes of paths, names and content.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::RequireMissing { path, .. }
            | Self::RequireUnchanged { path, .. }
            | Self::MakeDirectory { path, .. }
            | Self::WriteFileFrom { path, .. }
            | Self::WriteAtFrom { path, .. }
            | Self::NameFrom { path, .. }
            | Self::RemoveFile { path }
            | Self::RemoveDirectory { path }
            | Self::SetAttributes { path, .. } => path.0.len(),
            Self::MakeSymlink { path, target: more }
            | Self::WriteFile {
                path,
                content: more,
                ..
            }
            | Self::WriteAt {
                path, data: more, ..
            }
            | Self::Rename {
                path,
                new_path: more,
                ..
            }
            | Self::Link {
                path,
                new_path: more,
            }
            | Self::RemoveXattr {
                path, name: more, ..
            } => path.0.len() + more.0.len(),
            Self::SetXattr {
                path, name, value, ..
            } => path.0.len() + name.0.len() + value.0.len(),
        }
    }
}

/// The steps of a transaction on their way: from a socket never more than `TRANSACTION_OPERATIONS_MAX`.
#[derive(Debug, Serialize)]
pub(crate) struct Steps<'a>(pub(crate) Vec<Step<'a>>);

impl Steps<'_> {
    /// # Errors
    /// `TransactionTooLarge`.
    pub(crate) fn check_bounds(&self) -> Result<()> {
        let bytes: usize = self.0.iter().map(Step::bytes).sum();
        if self.0.len() > TRANSACTION_OPERATIONS_MAX || bytes > TRANSACTION_BYTES_MAX {
            return Err(Error::TransactionTooLarge);
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Steps<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Vec<Step<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the steps of a transaction")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut steps: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut taken = Vec::new();
                while let Some(step) = steps.next_element()? {
                    // A step takes two bytes on its way and a hundred times that in memory.
                    if taken.len() == TRANSACTION_OPERATIONS_MAX {
                        return Err(de::Error::custom("too many steps"));
                    }
                    taken.push(step);
                }
                Ok(taken)
            }
        }
        deserializer.deserialize_seq(Bounded).map(Steps)
    }
}
