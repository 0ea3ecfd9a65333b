//! Listings: the names in a directory, or the paths of everything below it, one page at a time.
//!
//! Takes   a handle of a vault or a snapshot, and a path
//! Gives   a handle, and pages of entries: a name or a path, with the attributes of the entry itself (of a symlink, not
//!         of its target)
//! Never   holds more than a page

use std::sync::Arc;

use jni::objects::{JByteArray, JClass};
use jni::sys::{jboolean, jlong};
use jni::{Env, NativeMethod};
use parking_lot::Mutex;
use strongroom::filesystem::Attributes;
use strongroom::{Directory, Error, Walk};

use crate::answer::Answer;
use crate::border::{EBADF, Fail, Outcome, Throw, bytes, invalid, native};
use crate::handles::{Object, get, keep, take, vault_of};
use crate::tree::{State, is_transaction, numbers, state};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(list(tree: jlong, path: [jbyte], deep: jboolean) -> jlong),
    native!(page(listing: jlong) -> [jbyte]),
    native!(close(handle: jlong) -> void),
];

/// Entries that a listing gives at once.
const PAGE: usize = 1024;

/// A listing under way, and an error that came behind entries, for the next call.
pub(crate) struct Listing {
    source: Source,
    failed: Option<Error>,
}

enum Source {
    Directory(Directory),
    Walk(Box<Walk>),
}

impl Iterator for Source {
    type Item = strongroom::Result<(Vec<u8>, Attributes)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Directory(directory) => {
                let entry = directory.next()?;
                Some(entry.map(|entry| (entry.name, entry.attributes)))
            }
            Self::Walk(walk) => {
                let entry = walk.next()?;
                Some(entry.map(|entry| (entry.path, entry.attributes)))
            }
        }
    }
}

fn list<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    deep: jboolean,
) -> Outcome<jlong> {
    let path = bytes(env, &path)?;
    if is_transaction(tree) {
        return Err(invalid("a transaction has no such listing"));
    }
    let of_walk = |walk| Source::Walk(Box::new(walk));
    let source = match (state(tree)?, deep) {
        (State::Now(vault), true) => vault.walk(&*path).map(of_walk),
        (State::Now(vault), false) => vault.list(&*path).map(Source::Directory),
        (State::Then(snapshot), true) => snapshot.walk(&*path).map(of_walk),
        (State::Then(snapshot), false) => snapshot.list(&*path).map(Source::Directory),
    }?;
    let listing = Arc::new(Mutex::new(Listing {
        source,
        failed: None,
    }));
    keep(Object::Listing(listing), vault_of(tree)?)
}

fn page<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    listing: jlong,
) -> Outcome<JByteArray<'local>> {
    let Object::Listing(listing) = get(listing)? else {
        return Err(Fail::Here(EBADF, "it is closed"));
    };
    let entries = {
        let mut listing = listing.lock();
        if let Some(error) = listing.failed.take() {
            return Err(Fail::Vault(error));
        }
        let mut entries = Vec::new();
        while entries.len() < PAGE {
            match listing.source.next() {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) if entries.is_empty() => return Err(Fail::Vault(error)),
                Some(Err(error)) => {
                    listing.failed = Some(error);
                    break;
                }
                None => break,
            }
        }
        entries
    };
    let entries = entries.iter();
    let page = Answer::new().list(entries, |answer, (name, node)| {
        let named = answer.bytes(name);
        numbers(node).into_iter().fold(named, Answer::number)
    });
    page.give(env)
}

/// Closes a file, a listing, a snapshot, keys, or a transaction, which then changes nothing. What is closed already stays so.
fn close<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    drop(take(handle));
    Ok(())
}
