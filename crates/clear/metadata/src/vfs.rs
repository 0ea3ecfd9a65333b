//! The SQLite VFS "strongroom": passes file operations to the system's VFS, and checks and counts them.
//!
//! Takes   SQLite's file operations on the three files of a store
//! Gives   files of the system's VFS, checked (`vfs/file.rs`); syncs the log for a thread that does not hold the connection
//! Never   opens any other kind of file, so that no page can spill into a plaintext temporary file
//! Spec    spec/4-metadata.md, 4.8
//!
//! Invariants
//!  (1) SQLite's memory for an open file has room for a `ShimFile` and, after it, the system's file.
//!  (2) The pointer in a `LogFile` refers to an open system file: `close` waits until no sync uses it.
//!  (3) A log is removed only once the file of leaves covers all pages in it.                               [4.12.6]
//!
//! `unsafe` is used only here and in `vfs/`: SQLite's interface is C.
#![allow(
    unsafe_code,
    reason = "SQLite calls these functions through C pointers"
)]

mod checked_read;
pub(crate) mod database;
mod file;
mod log_file;
mod log_index;
pub(crate) mod registration;

use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::ptr;
use std::sync::{Arc, OnceLock};

use libsqlite3_sys as ffi;
use rusqlite::Connection;

use crate::disk::FileKind;
use crate::ending;
use crate::limits::PAGE_BYTES;

use database::Database;
use file::{ShimFile, sync_system, system_file};

/// The name the VFS is registered under.
pub(crate) const NAME: &CStr = c"strongroom";

/// The system's VFS. Lives as long as the process, as SQLite promises for built-in ones.
struct SystemVfs(*mut ffi::sqlite3_vfs);
// SAFETY: the struct behind the pointer is constant after SQLite's start, and its functions are thread-safe.
unsafe impl Send for SystemVfs {}
// SAFETY: as above.
unsafe impl Sync for SystemVfs {}

static SYSTEM: OnceLock<Option<SystemVfs>> = OnceLock::new();

/// Makes everything written to the log of `database` durable; callable from any thread, at any time.
///
/// Gives a result code of SQLite. A store whose log is not open has nothing to sync.
pub(crate) fn sync_log(database: &Database) -> c_int {
    let flags = ffi::SQLITE_SYNC_NORMAL | ffi::SQLITE_SYNC_DATAONLY;
    let synced = database.log_file.sync_with(|file| {
        // SAFETY: (2): the file is open.
        unsafe { sync_system(&database.disk, FileKind::Log, file, flags) }
    });
    synced.unwrap_or(ffi::SQLITE_OK)
}

/// Reads page `number` of the database file behind `connection`, as it is sealed. Gives whether it is the page of the newest commit.
///
/// # Errors
/// The result code of SQLite.
pub(crate) fn read_page(
    connection: &Connection,
    number: u32,
    page: &mut [u8; PAGE_BYTES],
) -> Result<(), c_int> {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and stays so; SQLite puts a pointer to its open database file where it is asked to.
    let asked = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        )
    };
    if asked != ffi::SQLITE_OK {
        return Err(asked);
    }
    // SAFETY: an open file of SQLite has methods.
    let read = unsafe { file.as_ref().and_then(|file| (*file.pMethods).xRead) };
    let offset = i64::from(number.saturating_sub(1)) * PAGE_BYTES as i64;
    // SAFETY: the file is open, its connection is used by this thread alone, and `page` has room for what is asked.
    let result = read.map_or(ffi::SQLITE_IOERR_READ, |read| unsafe {
        read(file, page.as_mut_ptr().cast(), PAGE_BYTES as c_int, offset)
    });
    match result {
        // Behind the end of the file there are pages that were never written: zeros.
        ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ => Ok(()),
        failed => Err(failed),
    }
}

/// Whether SQLite knows the VFS; registers it when first asked.
pub(crate) fn is_registered() -> bool {
    SYSTEM.get_or_init(register).is_some()
}

/// Registers the VFS beside the system's; `None` if SQLite refuses.
fn register() -> Option<SystemVfs> {
    // Else OpenSSL, when SQLCipher begins with it, registers a function that frees what threads still use while the program ends.
    openssl_sys::init();
    // SAFETY: a null name asks for the default VFS; SQLite initialises itself here.
    let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if system.is_null() {
        return None;
    }
    // After SQLite, with which SQLCipher has registered the function that `end` has to be called before.
    // SAFETY: `end` may be called at any time, on any thread, and is there as long as this library is.
    if unsafe { libc::atexit(ending::end) } != 0 {
        return None;
    }
    // SAFETY: SQLite gave a valid pointer, constant from now on.
    let base = unsafe { &*system };
    let shim = Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<ShimFile>() as c_int + base.szOsFile,
        mxPathname: base.mxPathname,
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: None, // replaced by the next from version 2 on
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    });
    // SAFETY: the struct is leaked, so it outlives its registration; 0 leaves the default VFS alone.
    let result = unsafe { ffi::sqlite3_vfs_register(Box::leak(shim), 0) };
    (result == ffi::SQLITE_OK).then_some(SystemVfs(system))
}

/// The system's VFS; null before `register` succeeded, when SQLite cannot call any of what follows.
fn system() -> *mut ffi::sqlite3_vfs {
    SYSTEM
        .get()
        .and_then(Option::as_ref)
        .map_or(ptr::null_mut(), |vfs| vfs.0)
}

/// Calls a function of the system's VFS, or gives `$otherwise` if it has none.
macro_rules! system_call {
    ($name:ident ( $($argument:expr),* ), $otherwise:expr) => {{
        let vfs = system();
        // SAFETY: SQLite calls with arguments that are valid for this function of any VFS.
        unsafe { vfs.as_ref().and_then(|vfs| vfs.$name).map_or($otherwise, |call| call(vfs, $($argument),*)) }
    }};
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: SQLite gives the name of a file that it opened here.
    let database = unsafe { database_of(name) };
    let pages = database
        .as_ref()
        .and_then(|database| database.pages.as_ref());
    // SAFETY: SQLite gives a C string.
    let is_log = unsafe { CStr::from_ptr(name) }
        .to_bytes()
        .ends_with(b"-wal");
    if is_log && pages.is_some_and(|pages| !pages.is_filed()) {
        return ffi::SQLITE_IOERR_DELETE; // (3)
    }
    system_call!(xDelete(name, sync_dir), ffi::SQLITE_IOERR_DELETE)
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a C string.
    let is_journal = unsafe { CStr::from_ptr(name) }
        .to_bytes()
        .ends_with(b"-journal");
    if is_journal {
        // SAFETY: SQLite gives a place for the answer. A journal that lies there would be rolled back into the database, page by
        // page, and no database of ours ever leaves one: it is none of its files.                                    [4.8.8]
        unsafe { *out = 0 };
        return ffi::SQLITE_OK;
    }
    system_call!(xAccess(name, flags, out), ffi::SQLITE_IOERR_ACCESS)
}

/// Gives a name back as it is: the system's function would resolve links on the way, the file's own name included, and
/// then open what they lead to.
unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    out_len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if !name.starts_with(b"/") || usize::try_from(out_len).map_or(true, |len| name.len() > len) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: SQLite gives room for `out_len` bytes, which is not less than the name has; the two do not overlap.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    system_call!(xRandomness(len, out), 0)
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    system_call!(xSleep(microseconds), 0)
}

unsafe extern "C" fn current_time_int64(
    _: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    system_call!(xCurrentTimeInt64(out), ffi::SQLITE_ERROR)
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    system_call!(xGetLastError(len, out), 0)
}

/// The files that `name`, as SQLite gives it to `open`, belongs to.
///
/// # Safety
/// `name` is null or a file name that SQLite gave to `open`.
unsafe fn database_of(name: *const c_char) -> Option<Arc<Database>> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises; the parameter's name is a C string.
    let id = unsafe { ffi::sqlite3_uri_int64(name, registration::PARAMETER.as_ptr(), 0) };
    registration::database(id)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes. (1)
    unsafe { file::prepare(file) };
    // SAFETY: SQLite gave the name.
    let (Some(kind), Some(database)) = (FileKind::of(flags), unsafe { database_of(name) }) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let flags = if database.frozen {
        flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE) | ffi::SQLITE_OPEN_READONLY
    } else {
        flags
    };
    // SAFETY: (1): there is room for both, and `ShimFile` keeps the alignment.
    let real = unsafe { system_file(file) };
    let result = system_call!(xOpen(name, real, flags, out_flags), ffi::SQLITE_CANTOPEN);
    // SAFETY: `xOpen` was called on it; it sets the methods, or null if `close` must not be called.
    let methods = unsafe { (*real).pMethods };
    if result != ffi::SQLITE_OK || methods.is_null() {
        // SAFETY: methods that are set on a failure ask for `close`, as SQLite's interface says.
        unsafe {
            methods
                .as_ref()
                .and_then(|methods| methods.xClose)
                .map(|close| close(real))
        };
        return if result == ffi::SQLITE_OK {
            ffi::SQLITE_CANTOPEN
        } else {
            result
        };
    }
    if kind == FileKind::Log {
        // SAFETY: the file was just opened and nobody else knows it.
        unsafe { log_opened(&database, real) };
    }
    // SAFETY: (1), and the system's file was just opened.
    unsafe { file::begin(file, kind, database) };
    ffi::SQLITE_OK
}

/// Makes the log file known for `sync_log`, its directory entry durable, its length counted.
///
/// # Safety
/// `real` is an open file of the system's VFS that no other thread uses yet.
unsafe fn log_opened(database: &Database, real: *mut ffi::sqlite3_file) {
    // SAFETY: as the caller promises.
    let methods = unsafe { &*(*real).pMethods };
    let mut len = 0;
    // SAFETY: as the caller promises.
    unsafe { methods.xFileSize.map(|size| size(real, &raw mut len)) };
    if database.frozen || !database.log_file.put(real) {
        return;
    }
    database.disk.set_log_len(len.max(0).cast_unsigned());
    // The first sync of a new file also syncs its directory and clears the flag for it. A failure is
    // remembered by `sync_system`, and refuses every later change.
    // SAFETY: as the caller promises.
    unsafe { sync_system(&database.disk, FileKind::Log, real, ffi::SQLITE_SYNC_NORMAL) };
}
