//! Names and what they refer to: attributes, creation, removal, renaming; and whole files.
//!
//! Takes   a handle of a vault, of a snapshot or of a transaction, and paths that begin with `/`
//! Gives   attributes, names, targets, values of extended attributes; a transaction collects changes for its commit
//! Never   resolves a path itself

use jni::objects::{JByteArray, JClass, JLongArray};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, NativeMethod};
use strongroom::filesystem::{
    Attributes, Durability, Error as FileError, NodeKind, RenameMode, SetAttributes, SetTime,
    Timestamp, XattrMode,
};
use strongroom::{Error, Links, Operation, Snapshot, Vault};

use crate::answer::{Answer, array};
use crate::border::{Outcome, Throw, bits, bytes, invalid, native, unsigned};
use crate::handles::{Object, get, transaction, vault};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(stat(tree: jlong, path: [jbyte], follow: jboolean) -> [jlong]),
    native!(read_link(tree: jlong, path: [jbyte]) -> [jbyte]),
    native!(get_xattr(tree: jlong, path: [jbyte], follow: jboolean, name: [jbyte]) -> [jbyte]),
    native!(list_xattrs(tree: jlong, path: [jbyte], follow: jboolean) -> [jbyte]),
    native!(read(tree: jlong, path: [jbyte]) -> [jbyte]),
    native!(write(tree: jlong, path: [jbyte], content: [jbyte]) -> void),
    native!(replace(vault: jlong, path: [jbyte], content: [jbyte], durable: jboolean) -> void),
    native!(make_directory(tree: jlong, path: [jbyte], mode: jint) -> void),
    native!(make_directories(vault: jlong, path: [jbyte], mode: jint) -> void),
    native!(make_node(vault: jlong, path: [jbyte], kind: jint, mode: jint, device: jlong) -> void),
    native!(make_symlink(tree: jlong, target: [jbyte], path: [jbyte]) -> void),
    native!(link(tree: jlong, path: [jbyte], new_path: [jbyte]) -> void),
    native!(remove_file(tree: jlong, path: [jbyte]) -> void),
    native!(remove_directory(tree: jlong, path: [jbyte]) -> void),
    native!(remove_tree(vault: jlong, path: [jbyte]) -> void),
    native!(rename(tree: jlong, path: [jbyte], new_path: [jbyte], how: jint) -> void),
    native!(set_attributes(
        tree: jlong, path: [jbyte], follow: jboolean, what: jint,
        mode: jint, uid: jint, gid: jint, size: jlong, atime: jlong, mtime: jlong
    ) -> void),
    native!(set_xattr(tree: jlong, path: [jbyte], follow: jboolean, name: [jbyte], value: [jbyte], how: jint) -> void),
    native!(remove_xattr(tree: jlong, path: [jbyte], follow: jboolean, name: [jbyte]) -> void),
];

/// `Changes.what` in Java.
const SET_MODE: jint = 1;
const SET_UID: jint = 2;
const SET_GID: jint = 4;
const SET_SIZE: jint = 8;
const SET_ATIME: jint = 16;
const SET_MTIME: jint = 32;

/// A tree of names that is read: as it is now, as it was, or as a transaction may require it to be.
pub(crate) enum State {
    /// As it is now.
    Now(Vault),
    /// As it was.
    Then(Snapshot),
}

/// What a handle that is no transaction means.
pub(crate) fn state(tree: jlong) -> Outcome<State> {
    match get(tree)? {
        Object::Snapshot(snapshot) => Ok(State::Then(snapshot)),
        _ => vault(tree).map(State::Now),
    }
}

pub(crate) fn is_transaction(tree: jlong) -> bool {
    matches!(get(tree), Ok(Object::Transaction(_)))
}

/// Adds `operation` if `tree` is a transaction, else calls `now` with the vault; a snapshot changes never.
fn change(
    tree: jlong,
    operation: Operation,
    now: impl FnOnce(Vault) -> strongroom::Result<()>,
) -> Outcome<()> {
    if is_transaction(tree) {
        return transaction(tree, |transaction| {
            transaction.add(operation);
            Ok(())
        });
    }
    match state(tree)? {
        State::Now(vault) => Ok(now(vault)?),
        State::Then(_) => Err(Error::File(FileError::InSnapshot).into()),
    }
}

const fn links(follow: jboolean) -> Links {
    match follow {
        true => Links::Follow,
        false => Links::Stay,
    }
}

// ---- attributes

/// The numbers of a node, in the order of `Attributes.java`.
const STAT: usize = 13;

/// What `stat` shows.
pub(crate) fn numbers(node: &Attributes) -> [jlong; STAT] {
    let kind = match node.kind {
        NodeKind::File => 1,
        NodeKind::Directory => 2,
        NodeKind::Symlink => 3,
        NodeKind::Fifo => 4,
        NodeKind::Socket => 5,
        NodeKind::CharDevice => 6,
        NodeKind::BlockDevice => 7,
    };
    [
        node.inode.0.cast_signed(),
        node.size.cast_signed(),
        node.blocks.cast_signed(),
        node.rdev.cast_signed(),
        node.atime.0,
        node.mtime.0,
        node.ctime.0,
        node.btime.0,
        kind,
        node.mode.into(),
        node.uid.into(),
        node.gid.into(),
        node.nlink.into(),
    ]
}

/// The same as Java gets it.
pub(crate) fn longs<'local>(
    env: &mut Env<'local>,
    numbers: &[jlong],
) -> Outcome<JLongArray<'local>> {
    let longs = JLongArray::new(env, numbers.len())?;
    longs.set_region(env, 0, numbers)?;
    Ok(longs)
}

/// Which attributes to change, and to what.
pub(crate) fn changes(
    what: jint,
    (mode, uid, gid): (jint, jint, jint),
    size: jlong,
    (atime, mtime): (jlong, jlong),
) -> Outcome<SetAttributes> {
    let wants = |flag| what & flag != 0;
    let time = |flag, time| wants(flag).then_some(SetTime::At(Timestamp(time)));
    Ok(SetAttributes {
        mode: wants(SET_MODE).then_some(bits(mode)),
        uid: wants(SET_UID).then_some(bits(uid)),
        gid: wants(SET_GID).then_some(bits(gid)),
        size: match wants(SET_SIZE) {
            true => Some(unsigned(size)?),
            false => None,
        },
        atime: time(SET_ATIME, atime),
        mtime: time(SET_MTIME, mtime),
    })
}

fn stat<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
) -> Outcome<JLongArray<'local>> {
    let (path, links) = (bytes(env, &path)?, links(follow));
    let node = match is_transaction(tree) {
        true => transaction(tree, |reads| Ok(reads.attributes(&*path, links)?))?,
        false => match state(tree)? {
            State::Now(vault) => vault.attributes(&*path, links)?,
            State::Then(snapshot) => snapshot.attributes(&*path, links)?,
        },
    };
    longs(env, &numbers(&node))
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn set_attributes<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
    what: jint,
    mode: jint,
    uid: jint,
    gid: jint,
    size: jlong,
    atime: jlong,
    mtime: jlong,
) -> Outcome<()> {
    let (path, links) = (bytes(env, &path)?, links(follow));
    let set = changes(what, (mode, uid, gid), size, (atime, mtime))?;
    let operation = match set.size {
        Some(size) => Operation::Truncate {
            path: path.clone(),
            size,
        },
        None => Operation::SetAttributes {
            path: path.clone(),
            links,
            set: set.clone(),
        },
    };
    change(tree, operation, |vault| {
        vault.set_attributes(&*path, links, &set).map(drop)
    })
}

// ---- extended attributes

fn get_xattr<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
    name: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let (path, name) = (bytes(env, &path)?, bytes(env, &name)?);
    let value = match state(tree)? {
        State::Now(vault) => vault.xattr(&*path, links(follow), &name)?,
        State::Then(snapshot) => snapshot.xattr(&*path, links(follow), &name)?,
    };
    array(env, &value)
}

fn list_xattrs<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let names = match state(tree)? {
        State::Now(vault) => vault.xattrs(&*path, links(follow))?,
        State::Then(snapshot) => snapshot.xattrs(&*path, links(follow))?,
    };
    Answer::new().names(&names).give(env)
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn set_xattr<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
    name: JByteArray<'local>,
    value: JByteArray<'local>,
    how: jint,
) -> Outcome<()> {
    let (path, name, value) = (bytes(env, &path)?, bytes(env, &name)?, bytes(env, &value)?);
    let (links, mode) = (links(follow), xattr_mode(how)?);
    let operation = Operation::SetXattr {
        path: path.clone(),
        links,
        name: name.clone(),
        value: value.clone(),
        mode,
    };
    change(tree, operation, |vault| {
        vault.set_xattr(&*path, links, &name, &value, mode)
    })
}

fn xattr_mode(how: jint) -> Outcome<XattrMode> {
    match how {
        0 => Ok(XattrMode::Set),
        1 => Ok(XattrMode::CreateOnly),
        2 => Ok(XattrMode::ReplaceOnly),
        _ => Err(invalid("an unknown way to set an extended attribute")),
    }
}

fn remove_xattr<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    follow: jboolean,
    name: JByteArray<'local>,
) -> Outcome<()> {
    let (path, name, links) = (bytes(env, &path)?, bytes(env, &name)?, links(follow));
    let operation = Operation::RemoveXattr {
        path: path.clone(),
        links,
        name: name.clone(),
    };
    change(tree, operation, |vault| {
        vault.remove_xattr(&*path, links, &name)
    })
}

// ---- whole files

fn read<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let content = match is_transaction(tree) {
        true => transaction(tree, |reads| Ok(reads.read(&*path)?))?,
        false => match state(tree)? {
            State::Now(vault) => vault.read(&*path)?,
            State::Then(snapshot) => snapshot.read(&*path)?,
        },
    };
    array(env, &content)
}

fn write<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    content: JByteArray<'local>,
) -> Outcome<()> {
    let (path, content) = (bytes(env, &path)?, bytes(env, &content)?);
    if is_transaction(tree) {
        return transaction(tree, |transaction| {
            transaction.write(&*path, content);
            Ok(())
        });
    }
    match state(tree)? {
        State::Now(vault) => Ok(vault.write(&*path, content)?),
        State::Then(_) => Err(Error::File(FileError::InSnapshot).into()),
    }
}

/// When a change returns.
pub(crate) const fn durability(durable: jboolean) -> Durability {
    match durable {
        true => Durability::OnReturn,
        false => Durability::WriteBehind,
    }
}

fn replace<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    content: JByteArray<'local>,
    durable: jboolean,
) -> Outcome<()> {
    let (path, content) = (bytes(env, &path)?, bytes(env, &content)?);
    Ok(vault(handle)?.replace(&*path, &*content, durability(durable))?)
}

// ---- names

fn read_link<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
) -> Outcome<JByteArray<'local>> {
    let path = bytes(env, &path)?;
    let target = match state(tree)? {
        State::Now(vault) => vault.read_link(&*path)?,
        State::Then(snapshot) => snapshot.read_link(&*path)?,
    };
    array(env, &target)
}

fn make_directory<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    mode: jint,
) -> Outcome<()> {
    let (path, mode) = (bytes(env, &path)?, bits(mode));
    let operation = Operation::MakeDirectory {
        path: path.clone(),
        mode,
    };
    change(tree, operation, |vault| {
        vault.make_directory(&*path, mode).map(drop)
    })
}

fn make_directories<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    mode: jint,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    Ok(vault(handle)?.create_dir_all(&*path, bits(mode))?)
}

fn make_node<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    kind: jint,
    mode: jint,
    device: jlong,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    let kind = match kind {
        1 => NodeKind::File,
        2 => NodeKind::Directory,
        4 => NodeKind::Fifo,
        5 => NodeKind::Socket,
        6 => NodeKind::CharDevice,
        7 => NodeKind::BlockDevice,
        _ => return Err(invalid("a node of this kind cannot be made in this way")),
    };
    vault(handle)?.make_node(&*path, kind, bits(mode), device.cast_unsigned())?;
    Ok(())
}

fn make_symlink<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    target: JByteArray<'local>,
    path: JByteArray<'local>,
) -> Outcome<()> {
    let (target, path) = (bytes(env, &target)?, bytes(env, &path)?);
    let operation = Operation::MakeSymlink {
        path: path.clone(),
        target: target.clone(),
    };
    change(tree, operation, |vault| {
        vault.make_symlink(&*target, &*path).map(drop)
    })
}

fn link<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    new_path: JByteArray<'local>,
) -> Outcome<()> {
    let (path, new_path) = (bytes(env, &path)?, bytes(env, &new_path)?);
    let operation = Operation::Link {
        path: path.clone(),
        new_path: new_path.clone(),
    };
    change(tree, operation, |vault| {
        vault.link(&*path, &*new_path).map(drop)
    })
}

fn remove_file<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    let operation = Operation::RemoveFile { path: path.clone() };
    change(tree, operation, |vault| vault.remove_file(&*path))
}

fn remove_directory<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    let operation = Operation::RemoveDirectory { path: path.clone() };
    change(tree, operation, |vault| vault.remove_directory(&*path))
}

fn remove_tree<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    Ok(vault(handle)?.remove_dir_all(&*path)?)
}

fn rename<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    new_path: JByteArray<'local>,
    how: jint,
) -> Outcome<()> {
    let (path, new_path) = (bytes(env, &path)?, bytes(env, &new_path)?);
    let mode = match how {
        0 => RenameMode::Replace,
        1 => RenameMode::NoReplace,
        2 => RenameMode::Exchange,
        3 => RenameMode::Whiteout,
        _ => return Err(invalid("an unknown way to rename")),
    };
    let operation = Operation::Rename {
        path: path.clone(),
        new_path: new_path.clone(),
        mode,
    };
    change(tree, operation, |vault| {
        vault.rename(&*path, &*new_path, mode)
    })
}
