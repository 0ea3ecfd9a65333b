//! Compares two trees path by path.
//!
//! Takes   two roots, the path below which to compare, and the path after which to continue
//! Gives   differences in a fixed order, page by page, so that no walk has to stay open between pages
//! Never   opens a node that is the same on both sides
//!
//! Invariants
//!  (1) A directory comes before its contents, and these come before the next name.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use strongroom_metadata::{NodeKind, Timestamp};

use crate::blocks::Blocks;
use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::limits::{DEPTH_MAX, PAGE_ROWS};
use crate::read::{Directory, Tree};

/// A path that is not the same in two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDifference {
    /// From the root, beginning with `/`.
    pub path: Vec<u8>,
    /// What was there before.
    pub before: Option<Side>,
    /// What is there after.
    pub after: Option<Side>,
    /// Both sides are files with the same content, symlinks with the same target, or of another kind alike.
    pub same_content: bool,
    /// Both sides have the same extended attributes.
    pub same_xattrs: bool,
}

/// What is at a path on one side of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The node, and what tells it from another of its number: the same under another name was moved.
    pub node: (u64, u64),
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of content.
    pub size: u64,
    /// Last change of content.
    pub mtime: Timestamp,
}

impl From<&Entry> for Side {
    fn from(entry: &Entry) -> Self {
        Self {
            node: (entry.inode.0, entry.birth_id),
            kind: entry.kind,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            size: entry.size,
            mtime: entry.mtime,
        }
    }
}

fn same_content(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    before.zip(after).is_some_and(|(one, other)| {
        one.kind == other.kind
            && one.size == other.size
            && (one.has_content_of(other) || same_body(&one.body, &other.body))
    })
}

fn same_body(one: &Body, other: &Body) -> bool {
    matches!((one, other), (Body::Directory(_), Body::Directory(_))) || one == other
}

/// Whether what is at the path `other` of the tree `after` is at the path `one` of `before` too, with all below it.
///
/// # Errors
/// Those of the blocks.
pub fn has_same<B: Blocks>(
    tree: &Tree<'_, B>,
    (before, one): (&Entry, &[u8]),
    (after, other): (&Entry, &[u8]),
) -> Result<bool, B::Error> {
    let at = |root: &Entry, path: &[u8]| {
        let mut found = Some(root.clone());
        for name in names(path) {
            let directory = found.as_ref().and_then(Entry::directory);
            found = tree.lookup(directory, &name)?;
        }
        Ok::<_, B::Error>(found)
    };
    let (Some(one), Some(other)) = (at(before, one)?, at(after, other)?) else {
        return Ok(false);
    };
    Ok(same_content(Some(&one), Some(&other))
        && one.directory() == other.directory()
        && (one.mode, one.uid, one.gid) == (other.mode, other.uid, other.gid)
        && one.xattrs == other.xattrs)
}

/// A directory on the way: both sides, and the name behind which to go on.
struct Frame {
    path: Vec<u8>,
    before: Directory,
    after: Directory,
    behind: Option<Vec<u8>>,
    /// What was found behind it already, and whether that is all.
    pending: VecDeque<(Option<Entry>, Option<Entry>)>,
    whole: bool,
}

/// Up to `limit` differences at and below `base` behind `behind`, the path of one that was given; fewer at the end only.
///
/// # Errors
/// `Error::NotADirectory` for a `behind` that does not lie below `base`; those of the blocks.
pub fn differences<B: Blocks>(
    tree: &Tree<'_, B>,
    (before, after): (&Entry, &Entry),
    base: &[u8],
    behind: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<PathDifference>, B::Error> {
    let base = names(base);
    let mut found = Vec::new();
    let mut pair = (Some(before.clone()), Some(after.clone()));
    for name in &base {
        pair = child(tree, &pair, name)?;
    }
    let mut path = joined(&base);
    if behind.is_none() && !base.is_empty() && pair.0 != pair.1 {
        push(&mut found, &path, pair.clone());
    }
    let mut frames = Vec::new();
    match behind.map(names) {
        None => frames.push(frame(path, &pair, None)),
        Some(behind) => {
            if behind.len() > DEPTH_MAX {
                return Err(Error::NotADirectory.into());
            }
            let rest = behind.strip_prefix(&base[..]).ok_or(Error::NotADirectory)?;
            for name in rest {
                frames.push(frame(path.clone(), &pair, Some(name.clone())));
                pair = child(tree, &pair, name)?;
                path = [&path[..], b"/", name].concat();
            }
            frames.push(frame(path, &pair, None));
        }
    }
    while let Some(mut at) = frames.pop() {
        if frames.len() > DEPTH_MAX {
            return Err(Error::Damaged("directories are nested too deep").into());
        }
        let Some(inside) = step(tree, &mut at, limit, &mut found)? else {
            continue;
        };
        // (1)
        frames.push(at);
        match inside {
            Some(inside) => frames.push(inside),
            None => break,
        }
    }
    Ok(found)
}

/// Goes on in one directory until a directory lies below, or the page is full. `None`: its end was reached.
fn step<B: Blocks>(
    tree: &Tree<'_, B>,
    at: &mut Frame,
    limit: usize,
    found: &mut Vec<PathDifference>,
) -> Result<Option<Option<Frame>>, B::Error> {
    loop {
        if found.len() >= limit {
            return Ok(Some(None));
        }
        let Some(pair) = at.pending.pop_front() else {
            if at.whole {
                return Ok(None);
            }
            let pending = &mut at.pending;
            at.whole = tree.compare(
                at.before,
                at.after,
                at.behind.as_deref(),
                &mut |before, after| {
                    pending.push_back((before, after));
                    Ok(pending.len() < PAGE_ROWS)
                },
            )?;
            continue;
        };
        let name = pair.0.as_ref().or(pair.1.as_ref());
        let name = name.map(|entry| entry.name.clone()).unwrap_or_default();
        let path = [&at.path[..], b"/", &name].concat();
        at.behind = Some(name);
        let inside = frame(path.clone(), &pair, None);
        push(found, &path, pair);
        if inside.before != inside.after {
            return Ok(Some(Some(inside)));
        }
    }
}

/// Notes a pair, unless a directory differs by nothing but what lies below it.
fn push(
    found: &mut Vec<PathDifference>,
    path: &[u8],
    (before, after): (Option<Entry>, Option<Entry>),
) {
    if let (Some(before), Some(after)) = (&before, &after)
        && let (Body::Directory(_), Body::Directory(_)) = (&before.body, &after.body)
        && before.inode == after.inode
        && (before.mode, before.uid, before.gid) == (after.mode, after.uid, after.gid)
        && before.xattrs == after.xattrs
    {
        return;
    }
    let (before, after) = (before.as_ref(), after.as_ref());
    found.push(PathDifference {
        path: path.to_vec(),
        before: before.map(Side::from),
        after: after.map(Side::from),
        same_content: same_content(before, after),
        same_xattrs: before.map(|side| &side.xattrs) == after.map(|side| &side.xattrs),
    });
}

fn frame(path: Vec<u8>, pair: &(Option<Entry>, Option<Entry>), behind: Option<Vec<u8>>) -> Frame {
    Frame {
        path,
        before: pair.0.as_ref().and_then(Entry::directory),
        after: pair.1.as_ref().and_then(Entry::directory),
        behind,
        pending: VecDeque::new(),
        whole: false,
    }
}

fn child<B: Blocks>(
    tree: &Tree<'_, B>,
    pair: &(Option<Entry>, Option<Entry>),
    name: &[u8],
) -> Result<(Option<Entry>, Option<Entry>), B::Error> {
    let of = |entry: &Option<Entry>| match entry {
        Some(entry) => tree.lookup(entry.directory(), name),
        None => Ok(None),
    };
    Ok((of(&pair.0)?, of(&pair.1)?))
}

fn names(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    names
        .iter()
        .flat_map(|name| [&b"/"[..], name].concat())
        .collect()
}
