//! Open files.
//!
//! Takes   a handle, and ranges of arrays
//! Gives   the number of bytes read, or the position
//! Never   waits for a lock: Java does, so that a waiting thread can be interrupted
//!
//! Invariants
//!  (1) Other threads can change a Java array. So bytes are copied through memory that only this thread uses, at most
//!      `TRANSFER_BYTES_MAX` at a time.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use jni::objects::{JByteArray, JClass, JLongArray};
use jni::sys::{jboolean, jbyte, jint, jlong};
use jni::{Env, NativeMethod};
use strongroom::filesystem::{AllocateMode, Error as FileError, SeekTarget};
use strongroom::limits::TRANSFER_BYTES_MAX;
use strongroom::{Error, File, FileOptions};
use zerocopy::IntoBytes;

use crate::border::{Fail, Outcome, Throw, bits, bytes, invalid, native, signed, unsigned};
use crate::handles::{Object, file, get, keep, vault, vault_of};
use crate::tree::{changes, longs, numbers};

pub(crate) const METHODS: &[NativeMethod] = &[
    native!(open_file(tree: jlong, path: [jbyte], flags: jint, mode: jint) -> jlong),
    native!(unnamed_file(vault: jlong, path: [jbyte], mode: jint) -> jlong),
    native!(name_file(vault: jlong, file: jlong, path: [jbyte]) -> void),
    native!(read_at(file: jlong, offset: jlong, to: [jbyte], start: jint, len: jint) -> jint),
    native!(write_at(file: jlong, offset: jlong, from: [jbyte], start: jint, len: jint) -> void),
    native!(read_on(file: jlong, to: [jbyte], start: jint, len: jint) -> jint),
    native!(write_on(file: jlong, from: [jbyte], start: jint, len: jint) -> void),
    native!(seek(file: jlong, by: jlong, whence: jint) -> jlong),
    native!(file_stat(file: jlong) -> [jlong]),
    native!(set_file_attributes(
        file: jlong, what: jint, mode: jint, uid: jint, gid: jint, size: jlong, atime: jlong, mtime: jlong
    ) -> void),
    native!(sync_file(file: jlong) -> void),
    native!(allocate(file: jlong, how: jint, offset: jlong, len: jlong) -> void),
    native!(find(file: jlong, hole: jboolean, offset: jlong) -> jlong),
    native!(copy_range(file: jlong, offset: jlong, target: jlong, target_offset: jlong, len: jlong) -> jlong),
    native!(try_lock(file: jlong, shared: jboolean) -> void),
    native!(unlock(file: jlong) -> void),
];

/// `VaultFile` in Java.
const READ: jint = 1;
const WRITE: jint = 2;
const APPEND: jint = 4;
const TRUNCATE: jint = 8;
const CREATE: jint = 16;
const CREATE_NEW: jint = 32;

thread_local! {
    /// Memory that bytes go through, of the length of the largest call so far.
    static THROUGH: RefCell<Vec<jbyte>> = const { RefCell::new(Vec::new()) };
}

/// Calls `call` with `len` bytes of memory of this thread.                                                    (1)
fn through<T>(len: usize, call: impl FnOnce(&mut [jbyte]) -> Outcome<T>) -> Outcome<T> {
    THROUGH.with_borrow_mut(|memory| {
        if memory.len() < len {
            memory.resize(len, 0);
        }
        call(&mut memory[..len])
    })
}

/// How many bytes a call moves: Java asks for a transfer at most.
fn length(len: jint) -> Outcome<usize> {
    let len = usize::try_from(len).map_err(|_| invalid("a length below 0"))?;
    match len > TRANSFER_BYTES_MAX {
        true => Err(invalid("more bytes than one transfer can have")),
        false => Ok(len),
    }
}

fn of_io(error: std::io::Error) -> Fail {
    let kind = error.kind();
    match error.downcast::<Error>() {
        Ok(error) => Fail::Vault(error),
        Err(_) if kind == std::io::ErrorKind::InvalidInput => {
            invalid("a position before the start")
        }
        Err(_) => Fail::Here(5, "reading or writing at the position failed"),
    }
}

fn kept(opened: File, tree: jlong) -> Outcome<jlong> {
    keep(Object::File(Arc::new(opened)), vault_of(tree)?)
}

fn options(flags: jint, mode: jint) -> FileOptions {
    let mut options = FileOptions::new().mode(bits(mode));
    let wants = |flag| flags & flag != 0;
    if wants(READ) {
        options = options.read();
    }
    if wants(WRITE) {
        options = options.write();
    }
    if wants(APPEND) {
        options = options.append();
    }
    if wants(TRUNCATE) {
        options = options.truncate();
    }
    // The stricter of the two counts.
    if wants(CREATE) {
        options = options.create();
    }
    if wants(CREATE_NEW) {
        options = options.create_new();
    }
    options
}

fn open_file<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    tree: jlong,
    path: JByteArray<'local>,
    flags: jint,
    mode: jint,
) -> Outcome<jlong> {
    let path = bytes(env, &path)?;
    let opened = match get(tree)? {
        Object::Snapshot(_) if flags & !READ != 0 => {
            return Err(Error::File(FileError::InSnapshot).into());
        }
        Object::Snapshot(snapshot) => snapshot.open_file(&*path)?,
        _ => vault(tree)?.open_file(&*path, options(flags, mode))?,
    };
    kept(opened, tree)
}

fn unnamed_file<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    path: JByteArray<'local>,
    mode: jint,
) -> Outcome<jlong> {
    let path = bytes(env, &path)?;
    kept(vault(handle)?.unnamed_file(&*path, bits(mode))?, handle)
}

fn name_file<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    unnamed: jlong,
    path: JByteArray<'local>,
) -> Outcome<()> {
    let path = bytes(env, &path)?;
    Ok(vault(handle)?.name_file(&*file(unnamed)?, &*path)?)
}

/// What `fill` gives goes to the array.
fn filled(
    env: &Env<'_>,
    to: &JByteArray<'_>,
    start: jint,
    len: jint,
    fill: impl FnOnce(&mut [u8]) -> Outcome<usize>,
) -> Outcome<jint> {
    through(length(len)?, |memory| {
        let count = fill(memory.as_mut_bytes())?;
        to.set_region(env, start, &memory[..count])?;
        Ok(jint::try_from(count).unwrap_or(len))
    })
}

/// What the array has goes to `take`.
fn taken(
    env: &Env<'_>,
    from: &JByteArray<'_>,
    start: jint,
    len: jint,
    take: impl FnOnce(&[u8]) -> Outcome<()>,
) -> Outcome<()> {
    through(length(len)?, |memory| {
        from.get_region(env, start, memory)?;
        take(memory.as_bytes())
    })
}

fn read_at<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    offset: jlong,
    to: JByteArray<'local>,
    start: jint,
    len: jint,
) -> Outcome<jint> {
    let (file, offset) = (file(handle)?, unsigned(offset)?);
    filled(env, &to, start, len, |memory| {
        Ok(file.read_at(memory, offset)?)
    })
}

fn write_at<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    offset: jlong,
    from: JByteArray<'local>,
    start: jint,
    len: jint,
) -> Outcome<()> {
    let (file, offset) = (file(handle)?, unsigned(offset)?);
    taken(env, &from, start, len, |data| {
        Ok(file.write_all_at(data, offset)?)
    })
}

fn read_on<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    to: JByteArray<'local>,
    start: jint,
    len: jint,
) -> Outcome<jint> {
    let file = file(handle)?;
    filled(env, &to, start, len, |memory| {
        (&*file).read(memory).map_err(of_io)
    })
}

fn write_on<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    from: JByteArray<'local>,
    start: jint,
    len: jint,
) -> Outcome<()> {
    let file = file(handle)?;
    taken(env, &from, start, len, |data| {
        (&*file).write_all(data).map_err(of_io)
    })
}

fn seek<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    by: jlong,
    whence: jint,
) -> Outcome<jlong> {
    let to = match whence {
        0 => {
            SeekFrom::Start(u64::try_from(by).map_err(|_| invalid("a position before the start"))?)
        }
        1 => SeekFrom::Current(by),
        2 => SeekFrom::End(by),
        _ => return Err(invalid("an unknown place to seek from")),
    };
    Ok(signed((&*file(handle)?).seek(to).map_err(of_io)?))
}

fn file_stat<'local>(
    env: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
) -> Outcome<JLongArray<'local>> {
    let node = file(handle)?.attributes()?;
    longs(env, &numbers(&node))
}

#[expect(clippy::too_many_arguments, reason = "Java gives them one by one")]
fn set_file_attributes<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    what: jint,
    mode: jint,
    uid: jint,
    gid: jint,
    size: jlong,
    atime: jlong,
    mtime: jlong,
) -> Outcome<()> {
    let set = changes(what, (mode, uid, gid), size, (atime, mtime))?;
    file(handle)?.set_attributes(&set)?;
    Ok(())
}

fn sync_file<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    Ok(file(handle)?.sync_all()?)
}

fn allocate<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    how: jint,
    offset: jlong,
    len: jlong,
) -> Outcome<()> {
    let mode = match how {
        0 => AllocateMode::Reserve,
        1 => AllocateMode::ReserveKeepSize,
        2 => AllocateMode::PunchHole,
        3 => AllocateMode::ZeroRange,
        4 => AllocateMode::ZeroRangeKeepSize,
        _ => return Err(invalid("an unknown way to allocate")),
    };
    Ok(file(handle)?.allocate(mode, unsigned(offset)?, unsigned(len)?)?)
}

fn find<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    hole: jboolean,
    offset: jlong,
) -> Outcome<jlong> {
    let target = match hole {
        true => SeekTarget::Hole,
        false => SeekTarget::Data,
    };
    Ok(signed(file(handle)?.find(target, unsigned(offset)?)?))
}

fn copy_range<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    offset: jlong,
    target: jlong,
    target_offset: jlong,
    len: jlong,
) -> Outcome<jlong> {
    let (source, target) = (file(handle)?, file(target)?);
    let (offset, target_offset) = (unsigned(offset)?, unsigned(target_offset)?);
    Ok(signed(source.copy_range(
        offset,
        &target,
        target_offset,
        unsigned(len)?,
    )?))
}

fn try_lock<'local>(
    _: &mut Env<'local>,
    _: JClass<'local>,
    handle: jlong,
    shared: jboolean,
) -> Outcome<()> {
    let file = file(handle)?;
    let tried = match shared {
        true => file.try_lock_shared(),
        false => file.try_lock(),
    };
    Ok(tried?)
}

fn unlock<'local>(_: &mut Env<'local>, _: JClass<'local>, handle: jlong) -> Outcome<()> {
    Ok(file(handle)?.unlock()?)
}
