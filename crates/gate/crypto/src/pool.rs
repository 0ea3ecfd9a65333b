//! Spreads independent jobs over the cores, and waits for all of them.
//!
//! Takes   a list of jobs
//! Gives   their results, in the same order
//! Never   hangs because a job panicked, or because a job itself asks the pool
//! Spec    none: nothing here affects the format
//!
//! Invariants
//!  (1) Each job is run by exactly one thread: an atomic counter gives out the job numbers.
//!  (2) The calling thread runs jobs like a worker, and waits only for jobs that another thread has begun. So a call
//!      always ends: without workers, with all workers busy, or from inside a job.

use crate::limits::POOL_THREADS_MAX;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::{Condvar, Mutex};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

/// An invitation to help with one call of `run_all`.
type Invitation = Arc<dyn Shared>;

/// Worker threads that wait for jobs.
///
/// Dropping it ends them, after the jobs they have begun.
pub struct Pool {
    /// `None` only while dropping: closing the channel is what ends the workers.
    invitations: Option<Sender<Invitation>>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` workers, at most `POOL_THREADS_MAX`. The caller of `run_all` works too: for `n` cores
    /// give `n - 1`, and 0 for none.
    ///
    /// Where the system refuses a thread the pool has fewer; everything still gets done.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let threads = threads.min(POOL_THREADS_MAX);
        // Room for a few calls at a time; when it is full all workers are busy and the caller does its jobs alone.
        let (invitations, inbox) = bounded(threads.max(1) * 4);
        let workers = (0..threads)
            .map_while(|number| start_worker(number, inbox.clone()).ok())
            .collect();
        Self {
            invitations: Some(invitations),
            workers,
        }
    }

    /// Count of workers that did start.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Runs every job once, on the workers and the calling thread, and gives the results in order.
    ///
    /// # Panics
    /// With the panic of the first job, in order, that panicked; after all jobs have ended.
    pub fn run_all<T, J>(&self, jobs: Vec<J>) -> Vec<T>
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let helpers = jobs.len().saturating_sub(1);
        self.run(helpers, jobs, || ()).0
    }

    /// As `run_all`; the calling thread does `meanwhile` before it takes jobs, and workers begin at once.
    ///
    /// # Panics
    /// As `run_all`; with a panic of `meanwhile` at once.
    pub fn run_all_beside<T, J, M>(
        &self,
        jobs: Vec<J>,
        meanwhile: impl FnOnce() -> M,
    ) -> (Vec<T>, M)
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.run(jobs.len(), jobs, meanwhile)
    }

    fn run<T, J, M>(
        &self,
        helpers: usize,
        jobs: Vec<J>,
        meanwhile: impl FnOnce() -> M,
    ) -> (Vec<T>, M)
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let call = Arc::new(Call::new(jobs));
        self.invite(helpers.min(self.threads()), &call);
        let done = meanwhile();
        call.work();
        let results = call
            .results()
            .into_iter()
            .map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect();
        (results, done)
    }

    fn invite<T, J>(&self, helpers: usize, call: &Arc<Call<T, J>>)
    where
        J: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let invitations = self
            .invitations
            .as_ref()
            .expect("only drop takes the channel away");
        for _ in 0..helpers {
            let invitation: Invitation = call.clone();
            match invitations.try_send(invitation) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads())
            .finish()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.invitations = None;
        // No worker waits for itself here: `run_all` borrows the pool until its last job has ended, so a job
        // never holds the last handle.
        for worker in self.workers.drain(..) {
            worker
                .join()
                .expect("a worker catches the panics of its jobs");
        }
    }
}

fn start_worker(number: usize, inbox: Receiver<Invitation>) -> std::io::Result<JoinHandle<()>> {
    Builder::new()
        .name(format!("strongroom-{number}"))
        .spawn(move || {
            for invitation in inbox {
                invitation.work();
            }
        })
}

/// What a worker sees of a call: something to help with.
trait Shared: Send + Sync {
    /// Takes jobs until none is left to take.
    fn work(&self);
}

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// One call of `run_all`.
struct Call<T, J> {
    jobs: Vec<Mutex<Option<J>>>,
    next: AtomicUsize,
    finished: Mutex<Finished<T>>,
    all_finished: Condvar,
}

struct Finished<T> {
    count: usize,
    results: Vec<Option<Outcome<T>>>,
}

impl<T, J: FnOnce() -> T> Call<T, J> {
    fn new(jobs: Vec<J>) -> Self {
        let results = jobs.iter().map(|_| None).collect();
        Self {
            jobs: jobs.into_iter().map(|job| Mutex::new(Some(job))).collect(),
            next: AtomicUsize::new(0),
            finished: Mutex::new(Finished { count: 0, results }),
            all_finished: Condvar::new(),
        }
    }

    /// Waits for the jobs that others have begun, and takes all results.
    fn results(&self) -> Vec<Outcome<T>> {
        let mut finished = self.finished.lock();
        while finished.count < self.jobs.len() {
            self.all_finished.wait(&mut finished);
        }
        let results = std::mem::take(&mut finished.results);
        results
            .into_iter()
            .map(|result| result.expect("each job is counted with its result"))
            .collect()
    }
}

impl<T: Send, J: FnOnce() -> T + Send> Shared for Call<T, J> {
    fn work(&self) {
        loop {
            // Relaxed is enough: the job itself is handed over under its own lock, its result under another.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = self.jobs.get(number) else {
                return;
            };
            let job = slot
                .lock()
                .take()
                .expect("(1) holds: each number is handed out once");
            // A job that panicked is gone with all it owned, so nobody sees it half done.
            let result = catch_unwind(AssertUnwindSafe(job));
            let mut finished = self.finished.lock();
            finished.results[number] = Some(result);
            finished.count += 1;
            if finished.count == self.jobs.len() {
                self.all_finished.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    fn boxed<T, F: FnOnce() -> T + Send + 'static>(job: F) -> Box<dyn FnOnce() -> T + Send> {
        Box::new(job)
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        for threads in [0, 1, 4] {
            let pool = Pool::new(threads);
            for count in [0, 1, 2, 100] {
                let results =
                    pool.run_all((0..count).map(|number| move || number * number).collect());
                assert_eq!(
                    results,
                    (0..count).map(|number| number * number).collect::<Vec<_>>()
                );
            }
        }
    }

    /// Three jobs wait for one another: they can only end if three threads run them at once.
    #[test]
    fn jobs_run_at_the_same_time_on_workers_and_the_caller() {
        let pool = Pool::new(2);
        let barrier = Arc::new(Barrier::new(3));
        let job = |_| {
            let barrier = barrier.clone();
            move || {
                barrier.wait();
                std::thread::current().id()
            }
        };
        let threads: HashSet<_> = pool
            .run_all((0..3).map(job).collect())
            .into_iter()
            .collect();
        assert_eq!(threads.len(), 3);
        assert!(threads.contains(&std::thread::current().id()));
    }

    #[test]
    fn workers_do_jobs_while_the_caller_does_something_else() {
        let pool = Pool::new(1);
        let (tell, told) = bounded(1);
        let jobs: Vec<_> = (0..3)
            .map(|number| {
                let tell = tell.clone();
                move || {
                    let _ = tell.try_send(number);
                    number
                }
            })
            .collect();
        // Only a worker can have told: the caller takes no job before this returns.
        let (numbers, first) = pool.run_all_beside(jobs, || told.recv());
        assert_eq!((numbers, first), (vec![0, 1, 2], Ok(0)));
    }

    #[test]
    fn without_a_worker_the_caller_does_the_jobs_afterwards() {
        let mut order = Vec::new();
        let jobs = vec![boxed(|| 7)];
        let (results, ()) = Pool::new(0).run_all_beside(jobs, || order.push("beside"));
        assert_eq!((results, order), (vec![7], vec!["beside"]));
    }

    #[test]
    fn workers_have_names() {
        let pool = Pool::new(1);
        let barrier = Arc::new(Barrier::new(2));
        let job = |_| {
            let barrier = barrier.clone();
            move || {
                barrier.wait();
                std::thread::current().name().map(str::to_owned)
            }
        };
        let names = pool.run_all((0..2).map(job).collect());
        assert!(names.contains(&Some("strongroom-0".to_owned())));
    }

    #[test]
    fn a_panic_reaches_the_caller_after_every_job_has_run_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let ran = Arc::new(AtomicUsize::new(0));
        let job = |number| {
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
                assert!(number % 7 != 3, "job {number}");
            }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| {
            pool.run_all((0..50).map(job).collect())
        }))
        .unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), "job 3");
        assert_eq!(ran.load(Ordering::SeqCst), 50);
        assert_eq!(
            pool.run_all(vec![boxed(|| 1), boxed(|| 2), boxed(|| 3)]),
            [1, 2, 3]
        );
    }

    #[test]
    fn a_job_may_itself_ask_the_pool() {
        let pool = Arc::new(Pool::new(1));
        let job = |outer: usize| {
            let pool = pool.clone();
            move || {
                pool.run_all((0..8).map(|inner| move || outer * 8 + inner).collect())
                    .into_iter()
                    .sum::<usize>()
            }
        };
        let sums = pool.run_all((0..8).map(job).collect());
        assert_eq!(sums.into_iter().sum::<usize>(), (0..64).sum::<usize>());
    }

    #[test]
    fn many_threads_may_use_one_pool_at_once() {
        let pool = Pool::new(3);
        std::thread::scope(|scope| {
            for caller in 0..8_usize {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..100_usize {
                        let jobs = (0..5_usize)
                            .map(|job| move || caller + round + job)
                            .collect();
                        assert_eq!(pool.run_all(jobs)[4], caller + round + 4);
                    }
                });
            }
        });
    }
}
