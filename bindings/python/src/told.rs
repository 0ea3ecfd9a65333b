//! Reports progress to a Python function.
//!
//! Takes   a callable or `None`; progress, from a call that runs without the interpreter's lock
//! Gives   whether to continue: a callable that returns `False` stops the call, and so does an exception or a signal
//! Never   loses an exception: it is raised when the call has ended

use pyo3::prelude::*;
use strongroom::GoOn;

use crate::error::raise;

/// Who hears of progress.
pub(crate) struct Told {
    callable: Option<Py<PyAny>>,
    failed: Option<PyErr>,
}

impl Told {
    /// Calls `callable`, if there is one.
    pub(crate) fn new(callable: Option<Py<PyAny>>) -> Self {
        Self {
            callable,
            failed: None,
        }
    }

    /// Reports bytes, and bytes in all, from a thread that has not the interpreter's lock.
    pub(crate) fn step(&mut self, at: (u64, u64)) -> GoOn {
        match Python::attach(|py| self.call(py, at)) {
            Ok(true) => GoOn::Yes,
            Ok(false) => GoOn::No,
            Err(error) => {
                self.failed = Some(error);
                GoOn::No
            }
        }
    }

    fn call(&self, py: Python<'_>, at: (u64, u64)) -> PyResult<bool> {
        py.check_signals()?;
        let Some(callable) = &self.callable else {
            return Ok(true);
        };
        let answer = callable.bind(py).call1(at)?;
        // `None` is what a function without `return` gives.
        Ok(answer.is_none() || answer.is_truthy()?)
    }

    /// What the call came to, or what the callable raised.
    pub(crate) fn end<T>(self, py: Python<'_>, result: strongroom::Result<T>) -> PyResult<T> {
        self.end_of(py, result, &[])
    }

    /// The same of a call about `paths`.
    pub(crate) fn end_of<T>(
        self,
        py: Python<'_>,
        result: strongroom::Result<T>,
        paths: &[&[u8]],
    ) -> PyResult<T> {
        match self.failed {
            Some(error) => Err(error),
            None => result.map_err(|error| raise(py, &error, paths)),
        }
    }
}
