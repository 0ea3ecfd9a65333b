//! The SQLite VFS "strongroom": the system's own file layer, watched.
//!
//! Takes   SQLite's file operations on the three files of a store
//! Gives   them to the system's VFS, counted; syncs the log for a thread that does not hold the connection;
//!         frees the reserve when the disk is full, and tries again
//! Never   opens a file of any other kind, so that no page can spill into a plaintext temporary file
//! Spec    spec/4-metadata.md, 4.8
//!
//! Invariants
//!  (1) A file of this VFS lies in memory that SQLite gives, `ShimFile` first, the system's file behind it;
//!      the system's file is open exactly from a successful `open` to `close`.
//!  (2) The pointer in a `LogFile` is that of an open system file: `close` waits until no sync uses it.
//!
//! This is the one file of the crate with `unsafe`: SQLite's interface is C.
#![allow(
    unsafe_code,
    reason = "SQLite calls these functions through C pointers"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{align_of, size_of};
use std::ptr;
use std::sync::{Arc, OnceLock};

use libsqlite3_sys as ffi;
use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, DiskEvent, FileKind, fault_code, with_reserve};
use crate::registration;

/// The name the VFS is registered under.
pub(crate) const NAME: &CStr = c"strongroom";

/// What every open file of the VFS begins with; the system's file follows behind it. (1)
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    kind: FileKind,
    /// From `Arc::into_raw`; given back by `close`.
    disk: *const Disk,
}

// SQLite aligns the memory of a file to 8 bytes.
const _: () = assert!(align_of::<ShimFile>() <= 8, "(1) holds: it is aligned");
const _: () = assert!(
    size_of::<ShimFile>().is_multiple_of(8),
    "(1) holds: the system's file behind it is aligned"
);

/// The system's VFS. Lives as long as the process, as SQLite promises for built-in ones.
struct SystemVfs(*mut ffi::sqlite3_vfs);
// SAFETY: the struct behind the pointer is constant after SQLite's start, and its functions are thread-safe.
unsafe impl Send for SystemVfs {}
// SAFETY: as above.
unsafe impl Sync for SystemVfs {}

static SYSTEM: OnceLock<Option<SystemVfs>> = OnceLock::new();

/// The log file of a store's writer, while it is open.
#[derive(Default)]
pub(crate) struct LogFile {
    state: Mutex<LogState>,
    idle: Condvar,
}

#[derive(Default)]
struct LogState {
    file: Option<LogPointer>,
    syncs_running: usize,
}

/// The system's file of an open log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LogPointer(*mut ffi::sqlite3_file);
// SAFETY: the only thing done with it on another thread is `xSync`, which in the system's VFS reads the
// descriptor and stores into the file only the error number of a failure, by which nobody decides. The flag
// that its first call clears (sync the directory of a new file) was cleared in `open`, before it got here.
unsafe impl Send for LogPointer {}

impl LogFile {
    /// Puts `file` here if there is none; whether it did.
    fn put(&self, file: *mut ffi::sqlite3_file) -> bool {
        let mut state = self.state.lock();
        let vacant = state.file.is_none();
        if vacant {
            state.file = Some(LogPointer(file));
        }
        vacant
    }

    /// Takes `file` away, once no sync uses it. (2)
    fn take(&self, file: *mut ffi::sqlite3_file) {
        let mut state = self.state.lock();
        if state.file != Some(LogPointer(file)) {
            return;
        }
        while state.syncs_running > 0 {
            self.idle.wait(&mut state);
        }
        state.file = None;
    }
}

/// Makes everything written to the log of `disk` durable; callable from any thread, at any time.
///
/// Gives a result code of SQLite. A store whose log is not open has nothing to sync.
pub(crate) fn sync_log(disk: &Disk) -> c_int {
    let pointer = {
        let mut state = disk.log_file.state.lock();
        let Some(pointer) = state.file else {
            return ffi::SQLITE_OK;
        };
        state.syncs_running += 1;
        pointer
    };
    // SAFETY: (2): `syncs_running` keeps `close` waiting, so the file is open.
    let result = unsafe {
        sync_system(
            disk,
            FileKind::Log,
            pointer.0,
            ffi::SQLITE_SYNC_NORMAL | ffi::SQLITE_SYNC_DATAONLY,
        )
    };
    let mut state = disk.log_file.state.lock();
    state.syncs_running -= 1;
    if state.syncs_running == 0 {
        disk.log_file.idle.notify_all();
    }
    result
}

/// Whether SQLite knows the VFS; registers it when first asked.
pub(crate) fn is_registered() -> bool {
    SYSTEM.get_or_init(register).is_some()
}

/// Registers the VFS beside the system's; `None` if SQLite refuses.
fn register() -> Option<SystemVfs> {
    // SAFETY: a null name asks for the default VFS; SQLite initialises itself here.
    let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if system.is_null() {
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
    system_call!(xDelete(name, sync_dir), ffi::SQLITE_IOERR_DELETE)
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    system_call!(xAccess(name, flags, out), ffi::SQLITE_IOERR_ACCESS)
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    out_len: c_int,
    out: *mut c_char,
) -> c_int {
    system_call!(xFullPathname(name, out_len, out), ffi::SQLITE_CANTOPEN)
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
unsafe fn disk_of(name: *const c_char) -> Option<Arc<Disk>> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises; the parameter's name is a C string.
    let id = unsafe { ffi::sqlite3_uri_int64(name, registration::PARAMETER.as_ptr(), 0) };
    registration::disk(id)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let shim = file.cast::<ShimFile>();
    // SAFETY: SQLite gives `szOsFile` bytes; a file without methods is one that `close` is not called for.
    unsafe { (*shim).base.pMethods = ptr::null() };
    // SAFETY: SQLite gave the name.
    let (Some(kind), Some(disk)) = (FileKind::of(flags), unsafe { disk_of(name) }) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let flags = if disk.frozen {
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
        unsafe { log_opened(&disk, real) };
    }
    let methods = if disk.frozen {
        &raw const FROZEN_METHODS
    } else {
        &raw const METHODS
    };
    // SAFETY: (1); the struct is plain data, so overwriting uninitialised memory is fine.
    unsafe {
        ptr::write(
            shim,
            ShimFile {
                base: ffi::sqlite3_file { pMethods: methods },
                kind,
                disk: Arc::into_raw(disk),
            },
        );
    }
    ffi::SQLITE_OK
}

/// Makes the log file known for `sync_log`, its directory entry durable, its length counted.
///
/// # Safety
/// `real` is an open file of the system's VFS that no other thread uses yet.
unsafe fn log_opened(disk: &Disk, real: *mut ffi::sqlite3_file) {
    // SAFETY: as the caller promises.
    let methods = unsafe { &*(*real).pMethods };
    let mut len = 0;
    // SAFETY: as the caller promises.
    unsafe { methods.xFileSize.map(|size| size(real, &raw mut len)) };
    if disk.frozen || !disk.log_file.put(real) {
        return;
    }
    disk.set_log_len(len.max(0).cast_unsigned());
    // The first sync of a new file also syncs its directory and clears the flag for it. A failure is
    // remembered by `sync_system`, and refuses every later change.
    // SAFETY: as the caller promises.
    unsafe { sync_system(disk, FileKind::Log, real, ffi::SQLITE_SYNC_NORMAL) };
}

/// The system's file behind a shim file.
///
/// # Safety
/// `file` was given by SQLite to `open` of this VFS.
unsafe fn system_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
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
    &'a Disk,
    FileKind,
) {
    // SAFETY: (1), and as the caller promises: both files are open, and the `Arc` is held until `close`.
    unsafe {
        let shim = &*file.cast::<ShimFile>();
        let real = system_file(file);
        (real, &*(*real).pMethods, &*shim.disk, shim.kind)
    }
}

/// Syncs an open file of the system's VFS; a failure is remembered for the whole store.
///
/// # Safety
/// `real` is an open file of the system's VFS and stays open.
unsafe fn sync_system(
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
    let shim = file.cast::<ShimFile>();
    // SAFETY: SQLite closes open files only.
    let (real, _, disk, kind) = unsafe { parts(file) };
    if kind == FileKind::Log {
        disk.log_file.take(real);
    }
    let result = system_method!(file, xClose(), ffi::SQLITE_IOERR_CLOSE);
    // SAFETY: the pointer came from `Arc::into_raw` in `open`, and is not used after this.
    unsafe {
        (*shim).base.pMethods = ptr::null();
        drop(Arc::from_raw((*shim).disk));
    }
    result
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, disk, kind) = unsafe { parts(file) };
    match disk.before(&DiskEvent::Read {
        file: kind,
        len: len.max(0) as u64,
    }) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_READ),
        Ok(()) => system_method!(file, xRead(out, len, offset), ffi::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, disk, kind) = unsafe { parts(file) };
    // SAFETY: SQLite gives `len` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.max(0) as usize) };
    let event = DiskEvent::Write {
        file: kind,
        offset: offset.max(0).cast_unsigned(),
        bytes,
    };
    with_reserve(disk, || match disk.before(&event) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_WRITE),
        Ok(()) => system_method!(file, xWrite(data, len, offset), ffi::SQLITE_IOERR_WRITE),
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, disk, kind) = unsafe { parts(file) };
    match disk.before(&DiskEvent::Truncate {
        file: kind,
        len: len.max(0).cast_unsigned(),
    }) {
        Err(fault) => fault_code(fault, ffi::SQLITE_IOERR_TRUNCATE),
        Ok(()) => system_method!(file, xTruncate(len), ffi::SQLITE_IOERR_TRUNCATE),
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls methods on open files only, and does not close one meanwhile.
    unsafe {
        let (real, _, disk, kind) = parts(file);
        sync_system(disk, kind, real, flags)
    }
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    system_method!(file, xFileSize(out), ffi::SQLITE_IOERR_FSTAT)
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
    page: c_int,
    page_len: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls methods on open files only.
    let (_, _, disk, _) = unsafe { parts(file) };
    with_reserve(disk, || {
        system_method!(
            file,
            xShmMap(page, page_len, extend, out),
            ffi::SQLITE_IOERR_SHMMAP
        )
    })
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    system_method!(
        file,
        xShmLock(offset, count, flags),
        ffi::SQLITE_IOERR_SHMLOCK
    )
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    let () = system_method!(file, xShmBarrier(), ());
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    system_method!(file, xShmUnmap(delete), ffi::SQLITE_OK)
}
