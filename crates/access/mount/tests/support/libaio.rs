//! Several simultaneous asynchronous writes, as databases and virtual machines send them.
#![allow(unsafe_code, reason = "these system calls have no safe interface")]

use std::ffi::c_long;
use std::fs::File;
use std::os::fd::AsRawFd;

use super::mapped::{PAGE, Page};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// The numbers of io_setup, io_destroy, io_getevents and io_submit.
#[cfg(target_arch = "x86_64")]
const NUMBERS: [c_long; 4] = [206, 207, 208, 209];
#[cfg(not(target_arch = "x86_64"))]
const NUMBERS: [c_long; 4] = [0, 1, 4, 2];

const IOCB_CMD_PWRITE: u16 = 1;

/// `struct iocb` of linux/aio_abi.h, little-endian.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    second: i64,
}

/// A queue of the kernel.
pub(crate) struct Queue {
    context: u64,
    depth: usize,
}

impl Queue {
    pub(crate) fn new(depth: usize) -> Self {
        let mut context = 0_u64;
        // SAFETY: io_setup writes one number to where it is told.
        let made = unsafe { syscall(NUMBERS[0], depth as c_long, &raw mut context) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        Self { context, depth }
    }

    /// Writes `pages` at the beginning of `file`, all parts at once, and returns when all are complete.
    pub(crate) fn write(&self, file: &File, pages: &[Page]) {
        let part = pages.len().div_ceil(self.depth);
        let mut requests: Vec<Iocb> = pages
            .chunks(part)
            .enumerate()
            .map(|(index, pages)| Iocb {
                opcode: IOCB_CMD_PWRITE,
                file: file.as_raw_fd().cast_unsigned(),
                buffer: pages.as_ptr() as u64,
                len: size_of_val(pages) as u64,
                offset: (index * part * PAGE) as i64,
                ..Iocb::default()
            })
            .collect();
        let list: Vec<*mut Iocb> = requests
            .iter_mut()
            .map(|request| &raw mut *request)
            .collect();
        let mut events = vec![Event::default(); list.len()];
        let (context, count) = (self.context, list.len() as c_long);
        // SAFETY: requests, list and pages live until all events are here, which the second call waits for.
        let (sent, complete) = unsafe {
            let sent = syscall(NUMBERS[3], context, count, list.as_ptr());
            let none = std::ptr::null::<u8>();
            let complete = syscall(NUMBERS[2], context, count, count, events.as_mut_ptr(), none);
            (sent, complete)
        };
        assert_eq!((sent, complete), (count, count));
        for (event, pages) in events.iter().zip(pages.chunks(part)) {
            assert_eq!(event.result, size_of_val(pages) as i64);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: a context of `new`, without requests under way.
        unsafe { syscall(NUMBERS[1], self.context) };
    }
}
