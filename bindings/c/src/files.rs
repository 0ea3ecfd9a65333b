//! Open files.

use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use strongroom::{Error, File};

use crate::border::{
    Fail, Outcome, buffer, bytes, count, done, given, invalid, offset, out, signed, text,
};
use crate::handles::{Object, keep};
use crate::types::{
    SR_FROM_CURRENT, SR_FROM_END, SR_FROM_START, SR_LOCK_EXCLUSIVE, SR_LOCK_SHARED, SR_LOCK_TRY,
    allocate_mode, file_options, seek_target, sr_file, sr_set, sr_stat, sr_vault,
};

/// Keeps an open file for the program. `vault`: the handle of the vault that it is of.
pub(crate) fn kept(file: File, vault: sr_vault) -> Outcome<sr_file> {
    let id = keep(Object::File(Arc::new(file)), vault.id)?;
    Ok(sr_file { id })
}

/// An error of `std::io` that came out of the library.
fn of_io(error: std::io::Error) -> Fail {
    let kind = error.kind();
    match error.into_inner().map(|inner| inner.downcast::<Error>()) {
        Some(Ok(error)) => Fail::Vault(*error),
        _ if kind == std::io::ErrorKind::InvalidInput => invalid("a position before the start"),
        _ => Fail::Here(libc::EIO, "reading or writing at the position failed"),
    }
}

/// Opens a file. `flags`: SR_READ, SR_WRITE and so on, joined by |. `mode`: the low 12 bits of the mode of a new file; no umask is applied.
///
/// Fails with -EISDIR for a directory, with -EOPNOTSUPP for pipes, sockets and devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_open(
    vault: sr_vault,
    path: *const c_char,
    flags: u32,
    mode: u32,
    file: *mut sr_file,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(file)?);
        let options = file_options(flags, mode)?;
        let opened = vault.get()?.open_file(path, options)?;
        answer.put(kept(opened, vault)?);
        Ok(())
    })
}

/// Opens a new file without a name in the directory `path`, to read and write. It is gone when it is closed, unless sr_file_name names it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_open_unnamed(
    vault: sr_vault,
    path: *const c_char,
    mode: u32,
    file: *mut sr_file,
) -> c_int {
    done(|| {
        let (path, answer) = (text(path)?, out(file)?);
        let opened = vault.get()?.unnamed_file(path, mode)?;
        answer.put(kept(opened, vault)?);
        Ok(())
    })
}

/// Gives an open file of the vault a further name; an unnamed one, its first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_name(
    vault: sr_vault,
    file: sr_file,
    path: *const c_char,
) -> c_int {
    done(|| {
        let path = text(path)?;
        Ok(vault.get()?.name_file(&*file.get()?, path)?)
    })
}

/// Closes a file. What was written is not durable before sr_file_sync, sr_sync or sr_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_close(file: sr_file) -> c_int {
    done(|| file.take().map(drop))
}

/// Reads from `offset` on, as far as the file goes, at most `len` bytes; gives how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pread(file: sr_file, data: *mut c_void, len: u64, offset: u64) -> i64 {
    count(|| {
        let offset = self::offset(offset)?;
        let data = buffer(data, len)?;
        Ok(signed(file.get()?.read_at(data, offset)? as u64))
    })
}

/// Writes all `len` bytes at `offset`; gives `len`. On failure a part may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_pwrite(
    file: sr_file,
    data: *const c_void,
    len: u64,
    offset: u64,
) -> i64 {
    count(|| {
        let offset = self::offset(offset)?;
        let data = bytes(data, len)?;
        file.get()?.write_all_at(data, offset)?;
        Ok(signed(len))
    })
}

/// Reads at the position of the file, which moves on; gives how many bytes, 0 at the end. They are fewer than `len` at the end, or if
/// something fails behind those: the next call gives the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_read(file: sr_file, data: *mut c_void, len: u64) -> i64 {
    count(|| {
        let data = buffer(data, len)?;
        let file = file.get()?;
        let mut done = 0;
        while done < data.len() {
            match (&mut &*file).read(&mut data[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                // The position is behind what was read: a program that tried again would miss it.
                Err(_) if done > 0 => break,
                Err(error) => return Err(of_io(error)),
            }
        }
        Ok(signed(done as u64))
    })
}

/// Writes all `len` bytes at the position of the file, which moves on; an appending file at its end. Gives `len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_write(file: sr_file, data: *const c_void, len: u64) -> i64 {
    count(|| {
        let data = bytes(data, len)?;
        let file = file.get()?;
        (&mut &*file).write_all(data).map_err(of_io)?;
        Ok(signed(len))
    })
}

/// Moves the position of the file by `by` bytes from `whence`, SR_FROM_START and so on; gives the new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_seek(file: sr_file, by: i64, whence: u32) -> i64 {
    count(|| {
        let to = match whence {
            SR_FROM_START => {
                let by = u64::try_from(by).map_err(|_| invalid("a position before the start"))?;
                SeekFrom::Start(by)
            }
            SR_FROM_CURRENT => SeekFrom::Current(by),
            SR_FROM_END => SeekFrom::End(by),
            _ => return Err(invalid("`whence` must be SR_FROM_START or similar")),
        };
        let file = file.get()?;
        Ok(signed((&mut &*file).seek(to).map_err(of_io)?))
    })
}

/// Gives the attributes of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_get_stat(file: sr_file, stat: *mut sr_stat) -> c_int {
    done(|| {
        let answer = out(stat)?;
        answer.put(sr_stat::from(&file.get()?.attributes()?));
        Ok(())
    })
}

/// Changes attributes of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_set_stat(file: sr_file, set: *const sr_set) -> c_int {
    done(|| {
        let set = given(set)?.attributes()?;
        file.get()?.set_attributes(&set)?;
        Ok(())
    })
}

/// Cuts an open file, or extends it by zeros, to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_truncate(file: sr_file, size: u64) -> c_int {
    done(|| {
        let size = offset(size)?;
        Ok(file.get()?.set_len(size)?)
    })
}

/// Makes content, attributes and name of a file durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_sync(file: sr_file) -> c_int {
    done(|| Ok(file.get()?.sync_all()?))
}

/// Reserves, punches or zeroes a range. `how`: SR_RESERVE and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_allocate(file: sr_file, how: u32, offset: u64, len: u64) -> c_int {
    done(|| {
        let how = allocate_mode(how)?;
        let (offset, len) = (self::offset(offset)?, self::offset(len)?);
        Ok(file.get()?.allocate(how, offset, len)?)
    })
}

/// Gives where the next data or hole begins, at or behind `offset`. `target`: SR_DATA or SR_HOLE. Fails with -ENXIO if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_find(file: sr_file, target: u32, offset: u64) -> i64 {
    count(|| {
        let target = seek_target(target)?;
        let offset = self::offset(offset)?;
        Ok(signed(file.get()?.find(target, offset)?))
    })
}

/// Copies a range into `target`, a file of the same vault, without moving content; gives how many bytes: fewer than `len` at the
/// end, or if something fails behind those. The next call, which begins there, gives the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_copy(
    file: sr_file,
    offset: u64,
    target: sr_file,
    target_offset: u64,
    len: u64,
) -> i64 {
    count(|| {
        let (from, to) = (self::offset(offset)?, self::offset(target_offset)?);
        let len = self::offset(len)?;
        let target = target.get()?;
        Ok(signed(file.get()?.copy_range(from, &target, to, len)?))
    })
}

/// Locks a file as a whole against others who lock it, in this program and others. `how`: SR_LOCK_SHARED or SR_LOCK_EXCLUSIVE, with
/// | SR_LOCK_TRY to fail with -EAGAIN instead of waiting. The lock is that of this open file, and goes when that is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_lock(file: sr_file, how: u32) -> c_int {
    const TRY_EXCLUSIVE: u32 = SR_LOCK_EXCLUSIVE | SR_LOCK_TRY;
    const TRY_SHARED: u32 = SR_LOCK_SHARED | SR_LOCK_TRY;
    done(|| {
        let file = file.get()?;
        match how {
            SR_LOCK_EXCLUSIVE => file.lock()?,
            SR_LOCK_SHARED => file.lock_shared()?,
            TRY_EXCLUSIVE => file.try_lock()?,
            TRY_SHARED => file.try_lock_shared()?,
            _ => return Err(invalid("`how` must be SR_LOCK_SHARED or SR_LOCK_EXCLUSIVE")),
        }
        Ok(())
    })
}

/// Gives the lock back; does nothing without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_file_unlock(file: sr_file) -> c_int {
    done(|| Ok(file.get()?.unlock()?))
}
