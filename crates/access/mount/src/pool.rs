//! Threads for requests that may wait, so that no event loop waits.
//!
//! Takes   jobs, each with its reply in it
//! Gives   each job run once, in the order given as far as threads allow
//! Never   loses a job: `close` runs all jobs that were given before it

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// What waits for a thread. A channel would do, but its receivers spin before they sleep, which takes the processor
/// from those they wait for.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<(Job, usize)>,
    closed: bool,
}

impl Queue {
    /// The next job and the bytes it carries; `None` when the queue is closed and empty.
    fn next(&self) -> Option<(Job, usize)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
    }

    /// Whether the job was taken.
    fn put(&self, job: Job, bytes: usize) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.jobs.push_back((job, bytes));
        drop(state);
        self.filled.notify_one();
        true
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }
}

/// A fixed set of threads with one queue.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Pool {
    /// Starts `count` threads. `on_panic` is called when a job panicked; the thread continues.
    pub(crate) fn start(
        name: &str,
        count: usize,
        on_panic: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        // Unbounded in jobs: each stands for one sleeping caller in the kernel, and the bytes they
        // carry are bounded by `has_room_for`.
        let queue = Arc::<Queue>::default();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let on_panic: Arc<dyn Fn() + Send + Sync> = Arc::new(on_panic);
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let queue = Arc::clone(&queue);
            let queued_bytes = Arc::clone(&queued_bytes);
            let on_panic = Arc::clone(&on_panic);
            let work = move || {
                while let Some((job, bytes)) = queue.next() {
                    if catch_unwind(AssertUnwindSafe(job)).is_err() {
                        on_panic();
                    }
                    queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
                }
            };
            threads.push(
                std::thread::Builder::new()
                    .name(format!("{name}-{index}"))
                    .spawn(work)?,
            );
        }
        Ok(Self {
            queue,
            threads: Mutex::new(threads),
            queued_bytes,
        })
    }

    /// Whether `bytes` more may be queued.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.queued_bytes
            .load(Ordering::Acquire)
            .saturating_add(bytes)
            <= crate::limits::QUEUED_BYTES_MAX
    }

    /// Queues `job`, which carries `bytes` of data.
    pub(crate) fn run(&self, bytes: usize, job: impl FnOnce() + Send + 'static) {
        self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        // After `close` the job is dropped, and a reply that is dropped answers EIO.
        if !self.queue.put(Box::new(job), bytes) {
            self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
    }

    /// Runs what is queued, then ends the threads. Not to be called from one of them.
    pub(crate) fn close(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        self.queue.close();
        for thread in threads {
            // Jobs are caught, so a thread does not panic; if it did, it has ended all the same.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_runs_everything_that_was_queued_before() {
        let done = Arc::new(AtomicUsize::new(0));
        let pool = Pool::start("test", 3, || ()).unwrap();
        for _ in 0..1000 {
            let done = Arc::clone(&done);
            pool.run(10, move || {
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        pool.close();
        assert_eq!(done.load(Ordering::SeqCst), 1000);
        assert_eq!(pool.queued_bytes.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_job_that_panics_is_told_and_the_thread_goes_on() {
        let panics = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&panics);
        let pool = Pool::start("test", 1, move || {
            told.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        let (sender, receiver) = crossbeam_channel::unbounded();
        pool.run(0, || panic!("a job of a test"));
        pool.run(0, move || sender.send(7).unwrap());
        assert_eq!(receiver.recv(), Ok(7));
        assert_eq!(panics.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn there_is_no_room_beyond_the_bound() {
        let (hold, held) = crossbeam_channel::bounded::<()>(0);
        let pool = Pool::start("test", 1, || ()).unwrap();
        pool.run(crate::limits::QUEUED_BYTES_MAX - 1, move || {
            let _ = held.recv();
        });
        assert!(pool.has_room_for(1));
        assert!(!pool.has_room_for(2));
        assert!(!pool.has_room_for(usize::MAX));
        drop(hold);
    }
}
