//! A thread that repeats its work until its handle is dropped.
//!
//! Takes   the work, which says how long to wait until it is repeated
//! Gives   a handle to the caller; for work that takes long, the answer whether it should continue
//! Never   outlives its handle, unless somebody else takes over the wait for its thread

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::{Error, GoOn, Result};

/// A thread that works until this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// How the work is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    None,
    /// Once more, and then.
    Finish,
    /// At once.
    Stop,
}

/// What is wished of the work.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Ending {
    /// Whether what takes long is to go on.
    pub(crate) fn go_on(&self) -> GoOn {
        match *self.wish.lock() {
            Wish::Stop => GoOn::No,
            Wish::None | Wish::Finish => GoOn::Yes,
        }
    }

    /// Whether this is the last time.
    pub(crate) fn is_finishing(&self) -> bool {
        *self.wish.lock() == Wish::Finish
    }

    /// Of work that is to be done once more.
    #[cfg(test)]
    pub(crate) fn finishing() -> Self {
        Self {
            wish: Mutex::new(Wish::Finish),
            ..Self::default()
        }
    }

    fn wish(&self, wish: Wish) {
        *self.wish.lock() = wish;
        self.changed.notify_all();
    }

    fn wait(&self, wait: Duration) -> Wish {
        let mut wish = self.wish.lock();
        if *wish == Wish::None {
            self.changed.wait_for(&mut wish, wait);
        }
        *wish
    }
}

impl Worker {
    /// Does `work` now and again after as long as it says each time; `None` ends it.
    ///
    /// # Errors
    /// `Io` if the system has no thread left.
    pub(crate) fn start(
        name: &str,
        mut work: impl FnMut(&Ending) -> Option<Duration> + Send + 'static,
    ) -> Result<Self> {
        let ending = Arc::new(Ending::default());
        let of_thread = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            while let Some(wait) = work(&of_thread) {
                match of_thread.wait(wait) {
                    Wish::None => {}
                    Wish::Finish => {
                        work(&of_thread);
                        break;
                    }
                    Wish::Stop => break,
                }
            }
        });
        Ok(Self {
            ending,
            thread: Some(thread.map_err(Error::io("starting a thread"))?),
        })
    }

    /// Lets it work once more, and waits for that.
    pub(crate) fn finish(&mut self) {
        self.ending.wish(Wish::Finish);
        self.join();
    }

    /// Its thread, for who waits for it later: once this is dropped it ends when what it does now returns.
    pub(crate) fn leave(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }

    fn join(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The work itself may drop this: no thread waits for itself, and this one ends when its work returns.
        if thread.thread().id() != std::thread::current().id() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ending.wish(Wish::Stop);
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Goal: what hears of the work may end it. Method: the work drops its own worker at its first turn; the channel ends with the thread.
    #[test]
    fn work_that_ends_itself_is_not_repeated() {
        let place: Arc<Mutex<Option<Worker>>> = Arc::default();
        let (told, heard) = channel();
        let mut held = place.lock();
        let own = Arc::clone(&place);
        let started = Worker::start("test", move |_| {
            let worker = own.lock().take();
            told.send(worker.is_some()).expect("the test listens");
            Some(Duration::ZERO)
        });
        *held = Some(started.expect("a thread"));
        drop(held);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [true]);
    }
}
