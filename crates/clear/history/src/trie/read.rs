//! Finds items in a trie: by key, by position, in a range, and those that differ between two tries.
//!
//! Takes   the reference of a root
//! Gives   items in the order of their keys
//! Never   opens a node that cannot hold an answer
//! Spec    spec/6-history.md, section 6.3

use super::{FAN, Key, LEVELS, Node, Ref, Trie, open};
use crate::blocks::Blocks;
use crate::error::Error;

/// The item of `key`.
pub(crate) fn get<T: Trie, S: Blocks>(
    source: &S,
    root: Ref,
    level: usize,
    key: &Key,
) -> Result<Option<T::Item>, S::Error> {
    let mut at = root;
    for level in level..=LEVELS {
        match open::<T, S>(source, &at)? {
            Node::Leaf(items) => {
                let found = items.binary_search_by(|item| T::key(item).cmp(key));
                return Ok(found.ok().map(|index| items[index].clone()));
            }
            Node::Branch(children) if level < LEVELS => match children[key.digit(level)] {
                Some(child) => at = child,
                None => return Ok(None),
            },
            Node::Branch(_) => break,
        }
    }
    Err(Error::Damaged("a tree is too deep").into())
}

/// Up to `limit` items from the one numbered `skip` on, in the order of their keys.
pub(crate) fn page<T: Trie, S: Blocks>(
    source: &S,
    root: Ref,
    skip: u64,
    limit: usize,
) -> Result<Vec<T::Item>, S::Error> {
    let mut found = Vec::new();
    collect::<T, S>(source, &root, 0, skip, limit, &mut found)?;
    Ok(found)
}

fn collect<T: Trie, S: Blocks>(
    source: &S,
    at: &Ref,
    depth: usize,
    mut skip: u64,
    limit: usize,
    found: &mut Vec<T::Item>,
) -> Result<(), S::Error> {
    if depth > LEVELS {
        return Err(Error::Damaged("a tree is too deep").into());
    }
    match open::<T, S>(source, at)? {
        Node::Leaf(items) => {
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let room = limit.saturating_sub(found.len());
            found.extend(items.into_iter().skip(skip).take(room));
        }
        Node::Branch(children) => {
            for child in children.iter().flatten() {
                if found.len() >= limit {
                    break;
                }
                if skip >= child.count {
                    skip -= child.count;
                    continue;
                }
                collect::<T, S>(source, child, depth + 1, skip, limit, found)?;
                skip = 0;
            }
        }
    }
    Ok(())
}

/// Gives the items whose keys lie in `from..=to` to `take`, in order, until it gives false.
pub(crate) fn range<T: Trie, S: Blocks>(
    source: &S,
    root: Ref,
    level: usize,
    from: &Key,
    to: &Key,
    take: &mut impl FnMut(&T::Item) -> bool,
) -> Result<bool, S::Error> {
    match open::<T, S>(source, &root)? {
        Node::Leaf(items) => {
            let first = items.partition_point(|item| T::key(item) < *from);
            for item in &items[first..] {
                if T::key(item) > *to {
                    break;
                }
                if !take(item) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Node::Branch(_) if level >= LEVELS => Err(Error::Damaged("a tree is too deep").into()),
        Node::Branch(children) => {
            let (first, last) = (from.digit(level), to.digit(level));
            for (digit, child) in children.iter().enumerate() {
                let Some(child) = child.filter(|_| (first..=last).contains(&digit)) else {
                    continue;
                };
                // Only along its own border does a bound reach further down.
                let low = if digit == first { *from } else { Key([0; 32]) };
                let high = if digit == last { *to } else { Key([0xff; 32]) };
                if !range::<T, S>(source, child, level + 1, &low, &high, take)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// How two trees differ, by key, from the first key behind `after` on: what one has and what the other has, until `take`
/// gives false. Parts that are the same are not opened. Gives whether the end was reached.
pub(crate) fn compare<T: Trie, S: Blocks>(
    source: &S,
    one: Option<Ref>,
    other: Option<Ref>,
    level: usize,
    after: Option<&Key>,
    take: &mut impl FnMut(Option<T::Item>, Option<T::Item>) -> Result<bool, S::Error>,
) -> Result<bool, S::Error> {
    if one == other {
        return Ok(true);
    }
    let (one, other) = (load::<T, S>(source, one)?, load::<T, S>(source, other)?);
    const NOTHING: &[Option<Ref>; FAN] = &[None; FAN];
    let children = match (&one, &other) {
        (Node::Branch(ones), Node::Branch(others)) => Some((ones, others)),
        // Else a whole large directory would be gathered to be compared with nothing.
        (Node::Branch(ones), Node::Leaf(none)) if none.is_empty() => Some((ones, NOTHING)),
        (Node::Leaf(none), Node::Branch(others)) if none.is_empty() => Some((NOTHING, others)),
        _ => None,
    };
    if let Some((ones, others)) = children {
        if level >= LEVELS {
            return Err(Error::Damaged("a tree is too deep").into());
        }
        let first = after.map_or(0, |after| after.digit(level));
        for (digit, (one, other)) in ones.iter().zip(others).enumerate().skip(first) {
            let after = after.filter(|_| digit == first);
            if !compare::<T, S>(source, *one, *other, level + 1, after, take)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let (one, other) = (gather(source, one)?, gather(source, other)?);
    let behind = |item: &T::Item| after.is_none_or(|after| T::key(item) > *after);
    let mut one = one.into_iter().filter(behind).peekable();
    let mut other = other.into_iter().filter(behind).peekable();
    loop {
        let order = match (one.peek(), other.peek()) {
            (None, None) => return Ok(true),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => T::key(one).cmp(&T::key(other)),
        };
        let pair = match order {
            std::cmp::Ordering::Less => (one.next(), None),
            std::cmp::Ordering::Greater => (None, other.next()),
            std::cmp::Ordering::Equal => (one.next(), other.next()),
        };
        if pair.0 != pair.1 && !take(pair.0, pair.1)? {
            return Ok(false);
        }
    }
}

fn load<T: Trie, S: Blocks>(source: &S, at: Option<Ref>) -> Result<Node<T>, S::Error> {
    at.map_or_else(|| Ok(Node::Leaf(Vec::new())), |at| open(source, &at))
}

/// All items of a node.
fn gather<T: Trie, S: Blocks>(source: &S, node: Node<T>) -> Result<Vec<T::Item>, S::Error> {
    match node {
        Node::Leaf(items) => Ok(items),
        Node::Branch(children) => {
            let mut all = Vec::new();
            for child in children.iter().flatten() {
                collect::<T, S>(source, child, 1, 0, usize::MAX, &mut all)?;
            }
            Ok(all)
        }
    }
}
