//! Does work on several items at a time, and stops at the first error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::bounded;

/// Does `work` on each of `items`, on up to `threads` threads, in no order. `ended` hears of each result on the caller's thread.
///
/// # Errors
/// The first error of `work` or `ended`: then nothing new is begun, and what is under way is waited for.
pub fn in_parallel<T: Send, R: Send, E: Send>(
    items: impl Iterator<Item = T> + Send,
    threads: usize,
    work: impl Fn(T) -> Result<R, E> + Sync,
    ended: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let items = Mutex::new(items);
    let stop = AtomicBool::new(false);
    let end = || stop.store(true, Ordering::Release);
    let next = || match stop.load(Ordering::Acquire) {
        true => None,
        // Nobody panics with it: it only gives items.
        false => items.lock().ok().and_then(|mut items| items.next()),
    };
    thread::scope(|scope| {
        let (given, results) = bounded(threads);
        for _ in 0..threads.max(1) {
            let given = given.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                while let Some(item) = next() {
                    let result = work(item);
                    if result.is_err() {
                        end();
                    }
                    // Whoever listens goes on to the end.
                    let _ = given.send(result);
                }
            });
        }
        drop(given);
        let mut first = Ok(());
        for result in results {
            let told = result.and_then(&mut *ended);
            if first.is_ok() && told.is_err() {
                end();
                first = told;
            }
        }
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_an_error_ends_it() {
        let mut sum = 0;
        let done = in_parallel(0..1000_u64, 4, Ok::<_, ()>, &mut |one| {
            sum += one;
            Ok(())
        });
        assert_eq!((done, sum), (Ok(()), 499_500));
        // There is no last item: only an error ends these.
        let failed = in_parallel(
            0_u64..,
            4,
            |one| if one == 10 { Err(one) } else { Ok(()) },
            &mut |()| Ok(()),
        );
        assert_eq!(failed, Err(10));
        let stopped = in_parallel(0_u64.., 4, Ok, &mut |_| Err("enough"));
        assert_eq!(stopped, Err("enough"));
    }
}
