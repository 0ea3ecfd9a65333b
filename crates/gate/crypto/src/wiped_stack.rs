//! Runs work with secrets on a separate stack, and wipes the first `WIPED_BYTES` of that stack before other code can use
//! them.
//!
//! Takes   work to be done
//! Gives   its result
//! Never   leaves bytes of the work in that part, not even those of libraries, unless the work panics. If no thread can
//!         be started, the work runs on the caller's stack, which is not wiped
//!
//! Values are moved from frame to frame, and no language wipes the frame that they came from. So the result of the work
//! may hold secrets only through a pointer (`Locked`).

use zeroize::Zeroize as _;

/// Bytes of the stack.
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of it that are wiped: several times what unlocking uses, with every library in it.
const WIPED_BYTES: usize = 1024 * 1024;

/// Runs `work` in a thread whose stack is wiped behind it. Costs a thread and a quarter of a millisecond.
///
/// # Panics
/// If `work` does.
pub fn on_wiped_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut done = None;
    std::thread::scope(|scope| {
        let (work, done) = (&mut work, &mut done);
        let thread = std::thread::Builder::new()
            .name("strongroom-keys".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                *done = work.take().map(|work| work());
                wipe();
            });
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => {}
        }
    });
    match (done, work) {
        (Some(done), _) => done,
        // No thread can be had: better with a trace on this stack than not at all.
        (None, Some(work)) => work(),
        (None, None) => unreachable!("the work ran, or is still here"),
    }
}

/// Bytes of stack below a hash that it may have used: several times what was measured.
const HASHED_BYTES: usize = 16 * 1024;

/// Does `work`, which leaves copies of a key in its frames, and overwrites them. Costs a fifth of a microsecond: for hashes with
/// a key, which threads make that live as long as the vault is open.
pub(crate) fn wiping_behind<T>(work: impl FnOnce() -> T) -> T {
    let done = below(work);
    overwrite();
    done
}

#[inline(never)]
fn below<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(never)]
fn overwrite() {
    std::hint::black_box(&mut [0_u8; HASHED_BYTES]);
}

#[inline(never)]
fn wipe() {
    let mut room = [0_u8; WIPED_BYTES];
    room.zeroize();
    std::hint::black_box(&room);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_gives_its_value_or_its_panic() {
        let text = "given".to_owned();
        assert_eq!(on_wiped_stack(|| text + "!"), "given!");
        let panicked = std::panic::catch_unwind(|| on_wiped_stack(|| panic!("as it is")));
        assert_eq!(
            panicked.unwrap_err().downcast_ref::<&str>(),
            Some(&"as it is")
        );
    }
}
