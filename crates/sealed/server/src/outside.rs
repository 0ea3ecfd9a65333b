//! The threads on which requests to PostgreSQL and S3 run.
//!
//! Takes   a future, from a thread that may wait for it
//! Gives   its result
//! Never   delays the thread that ends it: work that still runs then is abandoned

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result};

/// These threads. They end when this is dropped, on whatever thread that is.
#[derive(Debug)]
pub(crate) struct Outside(Option<Runtime>);

impl Outside {
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("outside")
            .enable_all()
            .build();
        runtime
            .map(|runtime| Self(Some(runtime)))
            .map_err(Error::io("starting threads"))
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.0.as_ref();
        runtime.expect("the threads are there until they are dropped")
    }

    /// Waits for `answer`. Not for threads that run tasks: those of `apart` may, and those without any runtime.
    pub(crate) fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime().block_on(answer)
    }

    /// Begins `work`, which nobody waits for.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime().spawn(work)
    }

    /// The same for work that may wait.
    pub(crate) fn apart(&self, work: impl FnOnce() + Send + 'static) {
        self.runtime().spawn_blocking(work);
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
