//! The border between C and Rust: pointers in, numbers out, no panic across.
//!
//! Invariants
//!  (1) A panic ends here. Its message is dropped and printed nowhere, because it could contain a secret.
//!  (2) Only the functions of this file follow a pointer, after they have checked that it is not NULL.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io::{Write as _, stderr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use strongroom::Error;

/// Why a call failed.
pub(crate) enum Fail {
    /// The vault says so.
    Vault(Error),
    /// This crate does: a number of `errno.h`, and the sentence.
    Here(c_int, &'static str),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Vault(error)
    }
}

pub(crate) type Outcome<T> = Result<T, Fail>;

/// An argument that is none.
pub(crate) const fn invalid(why: &'static str) -> Fail {
    Fail::Here(libc::EINVAL, why)
}

/// What is shown before the first error.
const NO_ERROR: &CStr = c"no call of this thread has failed";
/// What is shown of a panic.                                                                                 (1)
const BUG: &str = "an internal error, which is a bug of Strongroom; whether the call was carried out is not known";

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::new(NO_ERROR.to_owned());
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// What the last call of this thread that failed says: one sentence, what happened and what to do. Never NULL.
///
/// It is the library's, and stays as it is until the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn sr_error_message() -> *const c_char {
    let shown = MESSAGE.try_with(|message| message.borrow().as_ptr());
    // A thread that is ending keeps none.
    shown.unwrap_or(NO_ERROR.as_ptr())
}

fn keep_message(text: &str) {
    let kept = CString::new(text.replace('\0', "?")).unwrap_or_default();
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = kept);
}

/// A panic of any thread prints its place in the code and no more: the shared library has a hook of its own, because it has a standard
/// library of its own. What the static one may share is in the README.                                       (1)
fn hide_messages_of_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        strongroom::panics::report_places(|sentence| {
            // A program may have closed it.
            let _ = writeln!(stderr(), "strongroom: {sentence}");
        });
    });
}

/// Runs `call` and gives what it gives, or a negative number.
pub(crate) fn count(call: impl FnOnce() -> Outcome<i64>) -> i64 {
    hide_messages_of_panics();
    let number = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(count)) => return count,
        Ok(Err(Fail::Vault(error))) => {
            keep_message(&error.to_string());
            error.errno()
        }
        Ok(Err(Fail::Here(number, why))) => {
            keep_message(why);
            number
        }
        Err(panic) => {
            // Dropping it could panic once more.
            std::mem::forget(panic);
            keep_message(BUG);
            libc::EIO
        }
    };
    -i64::from(number)
}

/// The same for what gives nothing: 0, or a negative number.
pub(crate) fn done(call: impl FnOnce() -> Outcome<()>) -> c_int {
    let number = count(|| call().map(|()| 0));
    c_int::try_from(number).unwrap_or(-libc::EIO)
}

/// The same for a question: 1, 0, or a negative number.
pub(crate) fn asked(call: impl FnOnce() -> Outcome<bool>) -> c_int {
    let number = count(|| call().map(i64::from));
    c_int::try_from(number).unwrap_or(-libc::EIO)
}

// ---- what comes in

/// The bytes of a string that ends with NUL.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Outcome<&'a [u8]> {
    if text.is_null() {
        return Err(invalid("a string is NULL"));
    }
    Ok(CStr::from_ptr(text).to_bytes())
}

/// The same where the library needs UTF-8.
pub(crate) unsafe fn utf8<'a>(string: *const c_char) -> Outcome<&'a str> {
    std::str::from_utf8(text(string)?).map_err(|_| invalid("a name or message is not UTF-8"))
}

/// A path of the machine.
pub(crate) unsafe fn machine_path<'a>(path: *const c_char) -> Outcome<&'a Path> {
    match text(path)? {
        b"" => Err(invalid("the path of a folder is empty")),
        path => Ok(Path::new(OsStr::from_bytes(path))),
    }
}

/// `len` bytes at `data`; `data` may be NULL for none.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: u64) -> Outcome<&'a [u8]> {
    let len = length(len)?;
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid("a buffer is NULL")),
        (false, len) => Ok(std::slice::from_raw_parts(data.cast(), len)),
    }
}

/// The same to be filled.
pub(crate) unsafe fn buffer<'a>(data: *mut c_void, len: u64) -> Outcome<&'a mut [u8]> {
    let len = length(len)?;
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(invalid("a buffer is NULL")),
        (false, len) => Ok(std::slice::from_raw_parts_mut(data.cast(), len)),
    }
}

fn length(len: u64) -> Outcome<usize> {
    let len = usize::try_from(len).ok();
    let len = len.filter(|len| isize::try_from(*len).is_ok());
    len.ok_or(invalid("a length exceeds the address space"))
}

/// `count` values at `items`.
pub(crate) unsafe fn items<'a, T>(items: *const T, count: u64) -> Outcome<&'a [T]> {
    let count = length(count)?;
    if count == 0 {
        return Ok(&[]);
    }
    if items.is_null() {
        return Err(invalid("a list is NULL"));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(invalid("a list exceeds the address space"));
    }
    Ok(std::slice::from_raw_parts(items, count))
}

/// What is at `value`; `None` for NULL.
pub(crate) unsafe fn optional<T: Copy>(value: *const T) -> Option<T> {
    (!value.is_null()).then(|| *value)
}

/// What is at `value`.
pub(crate) unsafe fn given<T: Copy>(value: *const T) -> Outcome<T> {
    optional(value).ok_or(invalid("a pointer is NULL"))
}

/// What no struct that a program gives is longer than.
const STRUCT_BYTES_MAX: u64 = 4096;

/// The struct of `len` bytes at `value`. One of a program that knows an earlier header is shorter: the rest is as in `others`. One of a later
/// header is longer: what this library does not know must be zero there, because the program asks for nothing with it then.
pub(crate) unsafe fn beginning<T: Copy>(value: *const T, len: u64, others: T) -> Outcome<T> {
    const LATER: Fail = Fail::Here(
        libc::E2BIG,
        "a struct asks for something that only a later version of this library knows",
    );
    if len > STRUCT_BYTES_MAX {
        return Err(LATER);
    }
    let all = bytes(value.cast(), len)?;
    let (known, later) = all.split_at(all.len().min(size_of::<T>()));
    if later.iter().any(|byte| *byte != 0) {
        return Err(LATER);
    }
    let mut whole = others;
    std::ptr::copy_nonoverlapping(known.as_ptr(), (&raw mut whole).cast::<u8>(), known.len());
    Ok(whole)
}

/// An offset or size: C programs give negative ones by mistake.
pub(crate) fn offset(offset: u64) -> Outcome<u64> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(invalid(
            "an offset or size above 2^63 - 1, or a negative one",
        )),
    }
}

/// A count for C.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

// ---- what goes out

/// Where an answer goes.
pub(crate) struct Out<T>(*mut T);

/// Where an answer goes, which must not be NULL: asked before the call does anything.
pub(crate) fn out<T>(place: *mut T) -> Outcome<Out<T>> {
    match place.is_null() {
        true => Err(invalid("the pointer for the answer is NULL")),
        false => Ok(Out(place)),
    }
}

impl<T> Out<T> {
    /// Puts the answer there.
    pub(crate) unsafe fn put(self, value: T) {
        self.0.write(value);
    }
}

// ---- calls back

/// Runs a function of the program that wants to know how far a call is.
pub(crate) fn call_back<T>(call: impl FnOnce() -> T) -> T {
    let before = CALLED_BACK.with(|called| called.replace(true));
    let given = call();
    CALLED_BACK.with(|called| called.set(before));
    given
}

/// Refuses what would wait for itself: the call that this thread is called back from.
pub(crate) fn check_not_called_back() -> Outcome<()> {
    match CALLED_BACK.with(Cell::get) {
        true => Err(Fail::Here(
            libc::EDEADLK,
            "a function that the library calls may not use remotes or keys, or call sr_verify, sr_backup or sr_close",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> String {
        // SAFETY: it is a string of the library, and no call of this thread comes between.
        let message = unsafe { CStr::from_ptr(sr_error_message()) };
        message.to_str().expect("it is text").to_owned()
    }

    /// What a panic says may hold content; it is not passed on.
    #[test]
    fn a_panic_becomes_a_number_and_says_nothing_of_itself() {
        assert_eq!(done(|| panic!("a secret")), -libc::EIO);
        assert!(message().contains("bug") && !message().contains("secret"));
    }

    #[test]
    #[ignore = "a part of the next test, which runs it in a process of its own"]
    fn panics_in_a_call_and_in_a_thread() {
        assert_eq!(done(|| panic!("a secret")), -libc::EIO);
        let thread = std::thread::spawn(|| panic!("a secret"));
        assert!(thread.join().is_err());
    }

    /// SECURITY.md, claim 7. Method: a process of its own panics; what it prints is read.
    #[test]
    fn a_panic_prints_its_place_and_nothing_else() {
        let test = std::env::current_exe().expect("a test is a program");
        let output = std::process::Command::new(test)
            .arg("border::tests::panics_in_a_call_and_in_a_thread")
            .args(["--exact", "--ignored", "--nocapture"])
            .output()
            .expect("it runs");
        let printed = [output.stdout, output.stderr].map(|printed| {
            let printed = String::from_utf8(printed);
            printed.expect("it is text")
        });
        let printed = printed.concat();
        assert!(output.status.success(), "{printed}");
        let places = printed.matches("strongroom: a bug: panicked at ").count();
        assert_eq!(places, 2, "{printed}");
        assert!(!printed.contains("a secret"), "{printed}");
    }

    #[test]
    fn the_message_is_that_of_the_last_error_of_the_thread() {
        assert_eq!(message(), NO_ERROR.to_str().expect("it is text"));
        assert_eq!(done(|| Err(invalid("first"))), -libc::EINVAL);
        assert_eq!(done(|| Ok(())), 0);
        assert_eq!(message(), "first");
        assert_eq!(count(|| Err(Error::Closed.into())), -i64::from(libc::EBADF));
        assert_eq!(message(), Error::Closed.to_string());
        std::thread::spawn(|| assert_eq!(message(), NO_ERROR.to_str().expect("it is text")))
            .join()
            .expect("its message is its own");
    }

    #[test]
    fn null_is_refused_and_no_bytes_may_be_null() {
        // SAFETY: NULL is what is tried.
        unsafe {
            assert!(text(std::ptr::null()).is_err());
            assert!(bytes(std::ptr::null(), 1).is_err());
            assert!(matches!(bytes(std::ptr::null(), 0), Ok([])));
            assert!(bytes(std::ptr::dangling(), u64::MAX).is_err());
            assert!(items::<u64>(std::ptr::dangling(), 1 << 61).is_err());
            assert!(given::<u32>(std::ptr::null()).is_err());
        }
        assert!(out::<u32>(std::ptr::null_mut()).is_err());
        assert!(offset(u64::MAX).is_err() && offset(1 << 62).is_ok());
    }

    #[test]
    fn a_call_from_a_call_back_is_noticed() {
        assert!(check_not_called_back().is_ok());
        call_back(|| assert!(check_not_called_back().is_err()));
        assert!(check_not_called_back().is_ok());
    }
}
