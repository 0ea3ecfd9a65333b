//! A set of items, distributed over blocks by their keys, so that one change rewrites one path.
//!
//! Takes   items with keys of 64 hexadecimal digits, and changes to them
//! Gives   the blocks of the changed tree, children before parents
//! Never   writes a node that exists already, or gives two trees for one set of items
//! Spec    spec/6-history.md, section 6.3
//!
//! Invariants
//!  (1) Items that share a prefix form a leaf if together they take at most `LEAF_BYTES_MAX`; else they form a branch over the next
//!      digit. So the set alone determines the tree.                                               [6.3.2]
//!  (2) Each reference states how many items are below it and how many bytes they take, so that (1) can be kept without
//!      opening more nodes.                                                                        [6.3.3]

use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::{BlockId, Kind};

use crate::blocks::Blocks;
use crate::error::{Error, Result};
use crate::limits::{LEAF_BYTES_MAX, LEAF_ITEMS_MAX};

mod read;

pub(crate) use read::{compare, get, page, range};

/// Digits of a key.
pub(crate) const LEVELS: usize = 64;

/// Children of a branch: one for each digit.
const FAN: usize = 16;

/// What orders items: 64 digits, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub(crate) [u8; 32]);

impl Key {
    pub(crate) fn digit(&self, level: usize) -> usize {
        let byte = self.0[level / 2];
        usize::from(if level.is_multiple_of(2) {
            byte >> 4
        } else {
            byte & 15
        })
    }
}

/// A stored node: its block, and what lies below it. (2)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The block's name.
    pub block: BlockId,
    /// Items below it.
    pub count: u64,
    /// What their encodings take, in bytes.
    pub bytes: u64,
}

impl Ref {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder
            .bytes(&self.block.0)
            .unsigned(self.count)
            .unsigned(self.bytes);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self> {
        let found = Self {
            block: BlockId(*decoder.bytes_exact()?),
            count: decoder.unsigned()?,
            bytes: decoder.unsigned()?,
        };
        if found.count == 0 || found.bytes == 0 {
            return Err(Error::Damaged("a node is recorded as empty"));
        }
        Ok(found)
    }
}

/// What is kept in a tree.
pub(crate) trait Trie {
    /// One of it.
    type Item: Clone + PartialEq;
    /// What its nodes are sealed as.
    const KIND: Kind;
    /// No item takes fewer bytes.
    const ITEM_BYTES_MIN: u64;
    /// Its place.
    fn key(item: &Self::Item) -> Key;
    /// Writes it as one CBOR item.
    fn encode(item: &Self::Item, encoder: &mut Encoder);
    /// Reads what `encode` wrote.
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self::Item>;
    /// Adds the blocks that it names.
    fn names(item: &Self::Item, names: &mut Vec<BlockId>);
}

/// Stores nodes, too.
pub(crate) trait Sink: Blocks {
    /// Takes a node and the blocks that it names; gives its name.
    fn put(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        names: Vec<BlockId>,
    ) -> std::result::Result<BlockId, Self::Error>;
}

/// A node, decoded.
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, and no list holds them"
)]
pub(crate) enum Node<T: Trie> {
    Leaf(Vec<T::Item>),
    /// By digit.
    Branch([Option<Ref>; FAN]),
}

impl<T: Trie> std::fmt::Debug for Node<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Leaf(_) => "Leaf",
            Self::Branch(_) => "Branch",
        })
    }
}

const LEAF: u64 = 0;
const BRANCH: u64 = 1;

impl<T: Trie> Node<T> {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new("node of a tree", bytes);
        decoder.array_exact(2)?;
        let node = match decoder.unsigned()? {
            LEAF => Self::Leaf(decode_leaf::<T>(&mut decoder)?),
            BRANCH => Self::Branch(decode_branch(&mut decoder)?),
            _ => return Err(Error::Damaged("a node has an unknown form")),
        };
        decoder.finish()?;
        Ok(node)
    }

    /// The blocks that it names, each once.
    pub(crate) fn names(&self) -> Vec<BlockId> {
        let mut names = Vec::new();
        match self {
            Self::Leaf(items) => items.iter().for_each(|item| T::names(item, &mut names)),
            Self::Branch(children) => names.extend(children.iter().flatten().map(|at| at.block)),
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.array(2);
        match self {
            Self::Leaf(items) => {
                encoder.unsigned(LEAF).array(items.len());
                items.iter().for_each(|item| T::encode(item, &mut encoder));
            }
            Self::Branch(children) => {
                encoder
                    .unsigned(BRANCH)
                    .array(children.iter().flatten().count() * 4);
                for (digit, child) in children.iter().enumerate() {
                    if let Some(child) = child {
                        encoder.unsigned(digit as u64);
                        child.encode(&mut encoder);
                    }
                }
            }
        }
        encoder.finish()
    }
}

fn decode_leaf<T: Trie>(decoder: &mut Decoder<'_>) -> Result<Vec<T::Item>> {
    let count = decoder.array(LEAF_ITEMS_MAX)?;
    let mut items: Vec<T::Item> = Vec::new();
    for _ in 0..count {
        let item = T::decode(decoder)?;
        if items
            .last()
            .is_some_and(|last| T::key(last) >= T::key(&item))
        {
            return Err(Error::Damaged("a leaf is not sorted"));
        }
        items.push(item);
    }
    if items.is_empty() {
        return Err(Error::Damaged("a leaf is empty"));
    }
    Ok(items)
}

fn decode_branch(decoder: &mut Decoder<'_>) -> Result<[Option<Ref>; FAN]> {
    let count = decoder.array(FAN * 4)?;
    if count == 0 || count % 4 != 0 {
        return Err(Error::Damaged("a branch is truncated"));
    }
    let mut children = [None; FAN];
    let mut least = 0;
    for _ in 0..count / 4 {
        let digit = decoder.unsigned()?;
        let place = usize::try_from(digit).ok().filter(|at| *at >= least);
        let slot = place
            .and_then(|at| children.get_mut(at))
            .ok_or(Error::Damaged("a branch is not sorted"))?;
        *slot = Some(Ref::decode(decoder)?);
        least = place.unwrap_or(FAN) + 1;
    }
    Ok(children)
}

/// What an item takes, in bytes.
fn len_of<T: Trie>(item: &T::Item) -> u64 {
    let mut encoder = Encoder::new();
    T::encode(item, &mut encoder);
    encoder.finish().len() as u64
}

fn bytes_of<T: Trie>(items: &[T::Item]) -> u64 {
    items.iter().map(len_of::<T>).sum()
}

/// What a part of a tree becomes.
enum Part<T: Trie> {
    Empty,
    /// A node that is stored.
    Stored(Ref),
    /// Few items, not stored yet: they may share a leaf with their neighbours.
    Few(Vec<T::Item>),
}

/// One change: the item of a key, or that there is none any more.
pub(crate) type Change<T> = (Key, Option<<T as Trie>::Item>);

/// The tree at `root` after `changes`, which are sorted and name each key once; `None` if nothing is left.
pub(crate) fn update<T: Trie, S: Sink>(
    sink: &mut S,
    root: Option<Ref>,
    level: usize,
    changes: &[Change<T>],
) -> std::result::Result<Option<Ref>, S::Error> {
    let part = update_part::<T, S>(sink, root, level, changes)?;
    finish::<T, S>(sink, part)
}

/// A tree of `count` items, the keys of which `key` gives in rising order and which `make` gives one after the other.
pub(crate) fn build<T: Trie, S: Sink>(
    sink: &mut S,
    level: usize,
    keys: &[Key],
    make: &mut impl FnMut(&mut S, usize) -> std::result::Result<T::Item, S::Error>,
) -> std::result::Result<Option<Ref>, S::Error> {
    let part = build_part::<T, S>(sink, level, keys, 0, make)?;
    finish::<T, S>(sink, part)
}

fn finish<T: Trie, S: Sink>(
    sink: &mut S,
    part: Part<T>,
) -> std::result::Result<Option<Ref>, S::Error> {
    match part {
        Part::Empty => Ok(None),
        Part::Stored(stored) => Ok(Some(stored)),
        Part::Few(items) => store_leaf::<T, S>(sink, items).map(Some),
    }
}

fn open<T: Trie, S: Blocks>(source: &S, at: &Ref) -> std::result::Result<Node<T>, S::Error> {
    let node = Node::<T>::decode(&source.need(T::KIND, &at.block)?)?;
    // What is below is counted by what names it, and has to agree.
    let count = match &node {
        Node::Leaf(items) => items.len() as u64,
        Node::Branch(children) => children
            .iter()
            .flatten()
            .fold(0_u64, |sum, child| sum.saturating_add(child.count)),
    };
    if count == at.count {
        Ok(node)
    } else {
        Err(Error::Damaged("the count of a node does not match its record").into())
    }
}

fn update_part<T: Trie, S: Sink>(
    sink: &mut S,
    at: Option<Ref>,
    level: usize,
    changes: &[Change<T>],
) -> std::result::Result<Part<T>, S::Error> {
    let Some(at) = at else {
        let items = changes.iter().filter_map(|(_, item)| item.clone());
        return spread(sink, level, items.collect());
    };
    if changes.is_empty() {
        return Ok(Part::Stored(at));
    }
    match open::<T, S>(sink, &at)? {
        Node::Leaf(items) => {
            let changed = merge::<T>(&items, changes);
            if changed == items {
                return Ok(Part::Stored(at));
            }
            spread(sink, level, changed)
        }
        Node::Branch(children) => update_branch(sink, at, children, level, changes),
    }
}

fn update_branch<T: Trie, S: Sink>(
    sink: &mut S,
    at: Ref,
    children: [Option<Ref>; FAN],
    level: usize,
    changes: &[Change<T>],
) -> std::result::Result<Part<T>, S::Error> {
    if level >= LEVELS {
        return Err(Error::Damaged("a tree is too deep").into());
    }
    let mut parts: Vec<Part<T>> = Vec::with_capacity(FAN);
    let mut rest = changes;
    let mut changed = false;
    for (digit, child) in children.into_iter().enumerate() {
        let count = rest.partition_point(|(key, _)| key.digit(level) <= digit);
        let (here, later) = rest.split_at(count);
        rest = later;
        let part = match child {
            None if here.is_empty() => Part::Empty,
            child => update_part::<T, S>(sink, child, level + 1, here)?,
        };
        changed |= !matches!((&part, &child), (Part::Stored(now), Some(was)) if now == was)
            && !matches!((&part, &child), (Part::Empty, None));
        parts.push(part);
    }
    if !changed {
        return Ok(Part::Stored(at));
    }
    join(sink, parts)
}

/// The items after `changes`; both are sorted.
fn merge<T: Trie>(items: &[T::Item], changes: &[Change<T>]) -> Vec<T::Item> {
    let mut merged = Vec::with_capacity(items.len() + changes.len());
    let mut old = items.iter().peekable();
    for (key, item) in changes {
        while let Some(before) = old.next_if(|old| T::key(old) < *key) {
            merged.push(before.clone());
        }
        old.next_if(|old| T::key(old) == *key);
        merged.extend(item.clone());
    }
    merged.extend(old.cloned());
    merged
}

/// (1): sorted items become few, or a branch.
fn spread<T: Trie, S: Sink>(
    sink: &mut S,
    level: usize,
    items: Vec<T::Item>,
) -> std::result::Result<Part<T>, S::Error> {
    if items.is_empty() {
        return Ok(Part::Empty);
    }
    if bytes_of::<T>(&items) <= LEAF_BYTES_MAX || level >= LEVELS {
        return Ok(Part::Few(items));
    }
    let mut parts = Vec::with_capacity(FAN);
    let mut rest = &items[..];
    for digit in 0..FAN {
        let count = rest.partition_point(|item| T::key(item).digit(level) <= digit);
        let (here, later) = rest.split_at(count);
        rest = later;
        parts.push(spread(sink, level + 1, here.to_vec())?);
    }
    join(sink, parts)
}

fn build_part<T: Trie, S: Sink>(
    sink: &mut S,
    level: usize,
    keys: &[Key],
    first: usize,
    make: &mut impl FnMut(&mut S, usize) -> std::result::Result<T::Item, S::Error>,
) -> std::result::Result<Part<T>, S::Error> {
    if keys.len() as u64 * T::ITEM_BYTES_MIN <= LEAF_BYTES_MAX || level >= LEVELS {
        let mut items = Vec::with_capacity(keys.len());
        for index in 0..keys.len() {
            items.push(make(sink, first + index)?);
        }
        return spread(sink, level, items);
    }
    let mut parts = Vec::with_capacity(FAN);
    let (mut rest, mut first) = (keys, first);
    for digit in 0..FAN {
        let count = rest.partition_point(|key| key.digit(level) <= digit);
        let (here, later) = rest.split_at(count);
        rest = later;
        parts.push(match here.is_empty() {
            true => Part::Empty,
            false => build_part::<T, S>(sink, level + 1, here, first, make)?,
        });
        first += count;
    }
    join(sink, parts)
}

/// (1): the parts of a branch become few items, or the branch.
fn join<T: Trie, S: Sink>(
    sink: &mut S,
    parts: Vec<Part<T>>,
) -> std::result::Result<Part<T>, S::Error> {
    let bytes: u64 = parts
        .iter()
        .map(|part| match part {
            Part::Empty => 0,
            Part::Stored(stored) => stored.bytes,
            Part::Few(items) => bytes_of::<T>(items),
        })
        .fold(0, u64::saturating_add);
    if bytes == 0 {
        return Ok(Part::Empty);
    }
    if bytes <= LEAF_BYTES_MAX {
        let mut all = Vec::new();
        for part in parts {
            match part {
                Part::Empty => {}
                Part::Few(items) => all.extend(items),
                Part::Stored(stored) => match open::<T, S>(sink, &stored)? {
                    Node::Leaf(items) => all.extend(items),
                    // (1) holds for what was written: so few bytes are a leaf.
                    Node::Branch(_) => {
                        return Err(Error::Damaged("a branch should be a leaf").into());
                    }
                },
            }
        }
        return Ok(Part::Few(all));
    }
    let mut children = [None; FAN];
    for (slot, part) in children.iter_mut().zip(parts) {
        *slot = finish::<T, S>(sink, part)?;
    }
    let count = children.iter().flatten().map(|child| child.count).sum();
    let node = Node::<T>::Branch(children);
    let block = sink.put(T::KIND, &node.encode(), node.names())?;
    Ok(Part::Stored(Ref {
        block,
        count,
        bytes,
    }))
}

fn store_leaf<T: Trie, S: Sink>(
    sink: &mut S,
    items: Vec<T::Item>,
) -> std::result::Result<Ref, S::Error> {
    let (count, bytes) = (items.len() as u64, bytes_of::<T>(&items));
    let node = Node::<T>::Leaf(items);
    let block = sink.put(T::KIND, &node.encode(), node.names())?;
    Ok(Ref {
        block,
        count,
        bytes,
    })
}

#[cfg(test)]
mod tests;
