//! Memory that the library hands to a program as pointers, and how it is freed.

use zeroize::Zeroize;

use crate::types::{sr_bytes, sr_names};

impl From<Vec<u8>> for sr_bytes {
    fn from(mut bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        bytes.reserve_exact(1);
        bytes.push(0);
        let data = Box::into_raw(bytes.into_boxed_slice()).cast();
        Self { data, len }
    }
}

impl From<Vec<Vec<u8>>> for sr_names {
    fn from(names: Vec<Vec<u8>>) -> Self {
        let (items, count) = list(names.into_iter().map(sr_bytes::from).collect());
        Self { items, count }
    }
}

impl From<Vec<String>> for sr_names {
    fn from(lines: Vec<String>) -> Self {
        let lines = lines.into_iter().map(String::into_bytes);
        lines.collect::<Vec<_>>().into()
    }
}

/// A list for C; NULL if it is empty.
pub(crate) fn list<T>(items: Vec<T>) -> (*mut T, u64) {
    if items.is_empty() {
        return (std::ptr::null_mut(), 0);
    }
    let count = items.len() as u64;
    (Box::into_raw(items.into_boxed_slice()).cast(), count)
}

/// A list that comes back.
pub(crate) unsafe fn unlist<T>(items: *mut T, count: u64) -> Box<[T]> {
    if items.is_null() {
        return Box::default();
    }
    Box::from_raw(std::ptr::slice_from_raw_parts_mut(items, count as usize))
}

/// Wipes and frees what a function filled in. Does nothing for NULL, and for one that was freed already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_bytes_free(bytes: *mut sr_bytes) {
    if bytes.is_null() || (*bytes).data.is_null() {
        return;
    }
    let mut held = unlist((*bytes).data, (*bytes).len + 1);
    held.zeroize();
    (*bytes).data = std::ptr::null_mut();
    (*bytes).len = 0;
}

/// The same for names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sr_names_free(names: *mut sr_names) {
    if names.is_null() {
        return;
    }
    for mut one in unlist((*names).items, (*names).count) {
        sr_bytes_free(&raw mut one);
    }
    (*names).items = std::ptr::null_mut();
    (*names).count = 0;
}
