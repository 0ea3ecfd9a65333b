//! Carries out SQLite's operations on an open file of the VFS.
//!
//! Takes   operations on the database, the log and the rollback journal
//! Gives   each operation on the system's file, counted; one write to the log per commit (a few for a long one), with its
//!         seal; a second try when the disk is full, after freeing the reserve
//! Never   maps the database into memory, answers about the log before all gathered frames are in it, or gives a page
//!         that is not of the newest commit
//! Spec    spec/4-metadata.md, 4.8 and 4.12
//!
//! Invariants
//!  (1) A file of this VFS is in memory that SQLite allocates: `ShimFile` first, the system's file after it. The system's
//!      file is open exactly from a successful `open` to `close`.
//!  (2) Frames are gathered only between the calls of one commit. They are written before SQLite's next operation of any
//!      other kind on the log.                                                                    [4.8.6]
//!
//! `unsafe` is used here because SQLite's interface is C.
#![allow(
    unsafe_code,
    reason = "SQLite calls these functions through C pointers"
)]

use std::ffi::{c_int, c_void};
use std::mem::{align_of, size_of};
use std::ptr;
use std::sync::Arc;

use libsqlite3_sys as ffi;
use strongroom_folder::is_full;

use crate::disk::{Disk, DiskEvent, FileKind, fault_code, with_reserve};
use crate::error::OTHER_STATE;
use crate::limits::PAGE_BYTES;
use crate::pages::Pages;
use crate::pages::frames::{Due, Frames, Gathered};
use crate::pages::log_layout::{self, HEADER_BYTES};
use crate::vfs::checked_read::{check_frame, check_page, place_in_log};
use crate::vfs::database::Database;
use crate::vfs::log_index::{Hold, REGION_BYTES};

/// What every open file of the VFS begins with; the system's file follows behind it. (1)
#[repr(C)]
pub(super) struct ShimFile {
    base: ffi::sqlite3_file,
    kind: FileKind,
    /// From `Arc::into_raw`; given back by `close`.
    database: *const Database,
    /// Of a log: what its file does not have yet.
    frames: Frames,
    /// Of a database: what its connection holds of the index of the log.
    hold: Hold,
}

// SQLite aligns the memory of a file to 8 bytes.
const _: () = assert!(align_of::<ShimFile>() <= 8, "(1) holds: it is aligned");
const _: () = assert!(
    size_of::<ShimFile>().is_multiple_of(8),
    "(1) holds: the system's file behind it is aligned"
);

/// Makes what SQLite gave to `open` a file without methods: one that `close` is not called for.
///
/// # Safety
/// `file` was given by SQLite to `open` of this VFS.
pub(super) unsafe fn prepare(file: *mut ffi::sqlite3_file) {
    // SAFETY: as the caller promises.
    unsafe { (*file.cast::<ShimFile>()).base.pMethods = ptr::null() };
}

/// Makes `file` an open file.
///
/// # Safety
/// `file` was given by SQLite to `open` of this VFS, and the system's file behind it is open. (1)
pub(super) unsafe fn begin(file: *mut ffi::sqlite3_file, kind: FileKind, database: Arc<Database>) {
    let methods = if database.frozen {
        &raw const FROZEN_METHODS
    } else {
        &raw const METHODS
    };
    let has_seals = database.pages.is_some();
    let opened = ShimFile {
        base: ffi::sqlite3_file { pMethods: methods },
        kind,
        database: Arc::into_raw(database),
        frames: Frames::new(has_seals),
        hold: Hold::default(),
    };
    // SAFETY: (1); what is overwritten has nothing to drop: `close` ended any file that was here before.
    unsafe { ptr::write(file.cast(), opened) };
}

/// The system's file behind a shim file.
///
/// # Safety
/// `file` was given by SQLite to `open` of this VFS.
pub(super) unsafe fn system_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: (1).
    unsafe { file.cast::<u8>().add(size_of::<ShimFile>()).cast() }
}

/// What a method needs: the system's file, its methods, and what the store knows.
///
/// # Safety
/// `file` is an open file of this VFS, and stays so for as long as the result is used.
unsafe fn parts<'a>(
    file: *mut ffi::sqlite3_file,
) -> (
    *mut ffi::sqlite3_file,
    &'a ffi::sqlite3_io_methods,
    &'a Database,
    FileKind,
) {
    // SAFETY: (1), and as the caller promises: both files are open, and the `Arc` is held until `close`.
    unsafe {
        let shim = &*file.cast::<ShimFile>();
        let real = system_file(file);
        (real, &*(*real).pMethods, &*shim.database, shim.kind)
    }
}

/// What is gathered for an open file.
///
/// # Safety
/// As `parts`; and nobody else borrows it meanwhile. SQLite uses a file on one thread at a time.
unsafe fn frames<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Frames {
    // SAFETY: (1), and as the caller promises.
    unsafe { &mut (*file.cast::<ShimFile>()).frames }
}

/// What the connection of an open file holds of the index.
///
/// # Safety
/// As `frames`.
unsafe fn hold<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Hold {
    // SAFETY: (1), and as the caller promises.
    unsafe { &mut (*file.cast::<ShimFile>()).hold }
}

/// Syncs an open file of the system's VFS; a failure is remembered for the whole store.
///
/// # Safety
/// `real` is an open file of the system's VFS and stays open.
pub(super) unsafe fn sync_system(
    disk: &Disk,
    kind: FileKind,
    real: *mut ffi::sqlite3_file,
    flags: c_int,
) -> c_int {
    let result = match disk.before(&DiskEvent::Sync { file: kind }) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_FSYNC),
        // SAFETY: as the caller promises.
        Ok(()) => unsafe {
            (*(*real).pMethods)
                .xSync
                .map_or(ffi::SQLITE_IOERR_FSYNC, |sync| sync(real, flags))
        },
    };
    if result != ffi::SQLITE_OK {
        disk.set_sync_failed();
    }
    result
}

/// Version 1: without the shared index of a log either, which would be a file beside it.
static FROZEN_METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    ..ALL_METHODS
};

/// Of files that can be changed.
static METHODS: ffi::sqlite3_io_methods = ALL_METHODS;

/// Version 2: without `xFetch`, so that SQLite cannot map the database into memory.
const ALL_METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the system's file, or gives `$otherwise` if it has none.
macro_rules! system_method {
    ($file:expr, $name:ident ( $($argument:expr),* ), $otherwise:expr) => {{
        // SAFETY: SQLite calls methods on open files only, with arguments valid for any VFS.
        unsafe {
            let (real, methods, _, _) = parts($file);
            methods.$name.map_or($otherwise, |call| call(real, $($argument),*))
        }
    }};
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes open files only.
    let (real, _, database, kind) = unsafe { parts(file) };
    if kind == FileKind::Log {
        database.log_file.take(real);
    }
    let result = system_method!(file, xClose(), ffi::SQLITE_IOERR_CLOSE);
    let shim = file.cast::<ShimFile>();
    // SAFETY: the file was begun, and nothing of it is used after this. What a commit that broke off may have gathered goes
    // with it: without its end nobody would read it.
    unsafe {
        drop(Arc::from_raw((*shim).database));
        ptr::drop_in_place(shim);
        prepare(file);
    }
    result
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (database, kind) = match up_to_date(file) {
        Ok(known) => known,
        Err(failed) => return failed,
    };
    let event = DiskEvent::Read {
        file: kind,
        len: len.max(0) as u64,
    };
    if let Err(fault) = database.disk.before(&event) {
        return fault_code(fault, ffi::SQLITE_IOERR_READ);
    }
    // SAFETY: SQLite gives room for `len` bytes, which no one else uses; the system's VFS filled what is looked at.
    let bytes = |from: usize, len: usize| unsafe {
        std::slice::from_raw_parts(out.cast::<u8>().add(from), len)
    };
    let wanted = (offset.max(0).cast_unsigned(), len.max(0) as usize);
    match (&database.pages, kind) {
        (Some(pages), FileKind::Database) => {
            let attempt = || {
                let result = system_method!(file, xRead(out, len, offset), ffi::SQLITE_IOERR_READ);
                check_page(pages, wanted, result, bytes)
            };
            match attempt() {
                // A check of the whole file reads pages that a checkpoint may be writing at this moment.
                OTHER_STATE => pages.while_nobody_writes(attempt),
                result => result,
            }
        }
        (Some(pages), FileKind::Log) => {
            let Some(at) = place_in_log(pages, wanted) else {
                // SAFETY: as above. SQLite wants what lies behind the end as zeros.
                unsafe { ptr::write_bytes(out.cast::<u8>(), 0, wanted.1) };
                return ffi::SQLITE_IOERR_SHORT_READ;
            };
            let result = system_method!(file, xRead(out, len, at), ffi::SQLITE_IOERR_READ);
            check_frame(pages, wanted, result, bytes)
        }
        _ => system_method!(file, xRead(out, len, offset), ffi::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives `len` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.max(0) as usize) };
    let offset = offset.max(0).cast_unsigned();
    // SAFETY: SQLite calls methods on open files only.
    let gathered = match unsafe { parts(file).3 } {
        // SAFETY: as above.
        FileKind::Log => unsafe { frames(file) }.gather(offset, bytes),
        FileKind::Database | FileKind::Journal | FileKind::Tree => Gathered::Not,
    };
    match gathered {
        Gathered::Kept => ffi::SQLITE_OK,
        Gathered::Due => write_gathered(file),
        Gathered::Not => match write_gathered(file) {
            ffi::SQLITE_OK => write_through(file, offset, bytes), // (2)
            failed => failed,
        },
    }
}

/// Writes what is gathered for `file`. After a failure too nothing is gathered any more: SQLite knows that it is not there.
fn write_gathered(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    if unsafe { frames(file) }.is_empty() {
        return ffi::SQLITE_OK;
    }
    // SAFETY: as above. Taken, so that nothing borrows from the file while it is written.
    let mut gathered = std::mem::replace(unsafe { frames(file) }, Frames::new(false));
    let result = write_frames(file, gathered.due());
    gathered.clear();
    // SAFETY: as above.
    unsafe { *frames(file) = gathered };
    result
}

/// Writes frames, with the seal of the commit that they end.
fn write_frames(file: *mut ffi::sqlite3_file, due: Due<'_>) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, database, _) = unsafe { parts(file) };
    let Some(pages) = &database.pages else {
        return write_at(file, due.start, due.bytes);
    };
    match pages.append(due.first, due.frames) {
        Err(_) => ffi::SQLITE_IOERR_WRITE,
        Ok(None) => write_at(file, due.start, due.bytes),
        Ok(Some((seal, undo))) => {
            let place = due.bytes.len() - seal.len();
            due.bytes[place..].copy_from_slice(&seal);
            let result = write_at(file, due.start, due.bytes);
            if result != ffi::SQLITE_OK {
                pages.undo(undo);
            }
            result
        }
    }
}

/// Carries out a write of SQLite that is no frame of a commit.
fn write_through(file: *mut ffi::sqlite3_file, offset: u64, bytes: &[u8]) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, database, kind) = unsafe { parts(file) };
    let Some(pages) = &database.pages else {
        return write_at(file, offset, bytes);
    };
    match kind {
        FileKind::Log if offset == 0 && bytes.len() == HEADER_BYTES => {
            match pages.restart_log(&database.disk, Some(bytes)) {
                Ok(()) => write_at(file, offset, bytes),
                Err(error) => not_filed(&error),
            }
        }
        // Nothing spills, so SQLite writes nothing else.
        FileKind::Log => ffi::SQLITE_IOERR_WRITE,
        FileKind::Database => write_page(file, pages, offset, bytes),
        FileKind::Journal | FileKind::Tree => write_at(file, offset, bytes),
    }
}

fn write_page(file: *mut ffi::sqlite3_file, pages: &Pages, offset: u64, bytes: &[u8]) -> c_int {
    let number = u32::try_from(offset / PAGE_BYTES as u64 + 1);
    let is_page = offset.is_multiple_of(PAGE_BYTES as u64) && bytes.len() == PAGE_BYTES;
    let (Ok(number), true) = (number, is_page) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    pages.while_nobody_writes(|| {
        let result = write_at(file, offset, bytes);
        if result == ffi::SQLITE_OK {
            pages.page_written(number, bytes);
        }
        result
    })
}

/// The result code for leaves that could not be filed.
fn not_filed(error: &std::io::Error) -> c_int {
    match is_full(error) {
        true => ffi::SQLITE_FULL,
        false => ffi::SQLITE_IOERR_FSYNC,
    }
}

/// Writes `bytes` into the system's file.
fn write_at(file: *mut ffi::sqlite3_file, offset: u64, bytes: &[u8]) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, database, kind) = unsafe { parts(file) };
    let event = DiskEvent::Write {
        file: kind,
        offset,
        bytes,
    };
    let (data, len) = (bytes.as_ptr().cast(), bytes.len() as c_int);
    let offset = offset.cast_signed();
    with_reserve(&database.disk, || match database.disk.before(&event) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_WRITE),
        Ok(()) => system_method!(file, xWrite(data, len, offset), ffi::SQLITE_IOERR_WRITE),
    })
}

/// (2): what was written is in the file. Gives what the store knows, or why it could not be written.
fn up_to_date<'a>(file: *mut ffi::sqlite3_file) -> Result<(&'a Database, FileKind), c_int> {
    match write_gathered(file) {
        ffi::SQLITE_OK => {
            // SAFETY: SQLite calls methods on open files only.
            let (_, _, database, kind) = unsafe { parts(file) };
            Ok((database, kind))
        }
        failed => Err(failed),
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    let (database, kind) = match up_to_date(file) {
        Ok(known) => known,
        Err(failed) => return failed,
    };
    if let (Some(pages), FileKind::Log) = (&database.pages, kind) {
        match (len, pages.restart_log(&database.disk, None)) {
            (0, Ok(())) => {}
            (0, Err(error)) => return not_filed(&error),
            _ => return ffi::SQLITE_IOERR_TRUNCATE,
        }
    }
    match database.disk.before(&DiskEvent::Truncate {
        file: kind,
        len: len.max(0).cast_unsigned(),
    }) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_TRUNCATE),
        Ok(()) => system_method!(file, xTruncate(len), ffi::SQLITE_IOERR_TRUNCATE),
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    if let Err(failed) = up_to_date(file) {
        return failed;
    }
    // SAFETY: SQLite calls methods on open files only, and does not close one meanwhile.
    unsafe {
        let (real, _, database, kind) = parts(file);
        if let (Some(pages), FileKind::Database) = (&database.pages, kind)
            && let Err(error) = pages.file_leaves(&database.disk)
        {
            return not_filed(&error);
        }
        sync_system(&database.disk, kind, real, flags)
    }
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    let (database, kind) = match up_to_date(file) {
        Ok(known) => known,
        Err(failed) => return failed,
    };
    let result = system_method!(file, xFileSize(out), ffi::SQLITE_IOERR_FSTAT);
    let Some(pages) = database.pages.as_ref().filter(|_| result == ffi::SQLITE_OK) else {
        return result;
    };
    // What was put behind the last page or frame is not of the database, however much it is.
    let len_max = match kind {
        FileKind::Database => pages.database_len_max(),
        FileKind::Log => Some(pages.log_frames().map_or(0, log_layout::len_of)),
        FileKind::Journal | FileKind::Tree => None,
    };
    if let Some(len_max) = len_max {
        let len_max = ffi::sqlite3_int64::try_from(len_max).unwrap_or(ffi::sqlite3_int64::MAX);
        // SAFETY: SQLite gives a place for the answer, and the system's VFS filled it.
        unsafe {
            *out = if kind == FileKind::Log {
                len_max
            } else {
                len_max.min(*out)
            }
        };
    }
    result
}

/// Whether locks are left out, because nobody can change the medium and it may refuse locks.
fn is_frozen(file: *mut ffi::sqlite3_file) -> bool {
    // SAFETY: SQLite calls methods on open files only.
    unsafe { parts(file).2.frozen }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    if is_frozen(file) {
        return ffi::SQLITE_OK;
    }
    system_method!(file, xLock(level), ffi::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    if is_frozen(file) {
        return ffi::SQLITE_OK;
    }
    system_method!(file, xUnlock(level), ffi::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    if is_frozen(file) {
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = 0 };
        return ffi::SQLITE_OK;
    }
    system_method!(
        file,
        xCheckReservedLock(out),
        ffi::SQLITE_IOERR_CHECKRESERVEDLOCK
    )
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    system_method!(
        file,
        xFileControl(operation, argument),
        ffi::SQLITE_NOTFOUND
    )
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    system_method!(file, xSectorSize(), 0)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    system_method!(file, xDeviceCharacteristics(), 0)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    region_len: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls methods on open files only, and uses a file on one thread at a time.
    let (database, hold) = unsafe { (parts(file).2, hold(file)) };
    if region_len as usize != REGION_BYTES {
        return ffi::SQLITE_IOERR_SHMMAP;
    }
    let found = database
        .index
        .region(hold, region.max(0) as usize, extend != 0);
    // SAFETY: SQLite gives a place for the answer.
    unsafe { *out = found.map_or(ptr::null_mut(), |region| region.cast_mut().cast()) };
    match found {
        None if extend != 0 => ffi::SQLITE_IOERR_SHMSIZE,
        _ => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: as in `shm_map`.
    let (database, hold) = unsafe { (parts(file).2, hold(file)) };
    match database
        .index
        .lock(hold, first.max(0) as usize, count.max(0) as usize, flags)
    {
        true => ffi::SQLITE_OK,
        false => ffi::SQLITE_BUSY,
    }
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: as in `shm_map`.
    let (database, hold) = unsafe { (parts(file).2, hold(file)) };
    database.index.detach(hold);
    ffi::SQLITE_OK
}
