//! Decides which bytes of a read SQLite gets: only pages of the newest commit, and nothing after the end of the log.
//!
//! Takes   the offset of SQLite's read, and the bytes that the system's VFS read there
//! Gives   a result code: the system's, or an error if the page is of another state
//! Never   reads the file itself
//! Spec    spec/4-metadata.md, 4.12.1

use std::ffi::c_int;

use libsqlite3_sys as ffi;

use crate::error::OTHER_STATE;
use crate::limits::PAGE_BYTES;
use crate::pages::log_layout::{self, FRAME_HEADER_BYTES, Part};
use crate::pages::{Mixed, Pages};

/// What a read of the database gives SQLite: pages of the newest commit only. Less than a page it asks for only to learn what
/// the key then overrules.
pub(super) fn check_page<'a>(
    pages: &Pages,
    (offset, len): (u64, usize),
    result: c_int,
    bytes: impl Fn(usize, usize) -> &'a [u8],
) -> c_int {
    let is_page = len == PAGE_BYTES && offset.is_multiple_of(PAGE_BYTES as u64);
    if !is_page || !matches!(result, ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ) {
        return result;
    }
    let Ok(page) = u32::try_from(offset / PAGE_BYTES as u64 + 1) else {
        return OTHER_STATE;
    };
    checked(pages.check_page(page, bytes(0, len)), result)
}

/// Where in its file the log has what SQLite asks for; `None` behind its end.
pub(super) fn place_in_log(
    pages: &Pages,
    (offset, len): (u64, usize),
) -> Option<ffi::sqlite3_int64> {
    let frames = pages.log_frames()?;
    match log_layout::part(offset, len)? {
        Part::Header => Some(offset.cast_signed()),
        Part::Frame(frame, within) if frame < frames => {
            Some((log_layout::frame_start(frame) + within as u64).cast_signed())
        }
        Part::Frame(..) => None,
    }
}

/// What a read of the log gives SQLite: pages as they were written there only.
pub(super) fn check_frame<'a>(
    pages: &Pages,
    (offset, len): (u64, usize),
    result: c_int,
    bytes: impl Fn(usize, usize) -> &'a [u8],
) -> c_int {
    match log_layout::part(offset, len) {
        Some(Part::Frame(frame, within))
            if result == ffi::SQLITE_OK
                && within <= FRAME_HEADER_BYTES
                && within + len >= FRAME_HEADER_BYTES + PAGE_BYTES =>
        {
            let page = bytes(FRAME_HEADER_BYTES - within, PAGE_BYTES);
            checked(pages.check_frame(frame, page), result)
        }
        _ => result,
    }
}

fn checked(found: Result<(), Mixed>, result: c_int) -> c_int {
    match found {
        Ok(()) => result,
        Err(_) => OTHER_STATE,
    }
}
