//! An object of a vault that a Python object holds until it is closed.
//!
//! Takes   the opened object, and the process that opened it
//! Gives   access to it during one call; nothing once it is closed
//! Never   uses it in a process that was forked since, not even to drop it, because the threads that it waits for do
//!         not exist there
//!
//! Invariants
//!  (1) A value is dropped without the interpreter's lock, because the drop may wait for a thread that waits for that lock.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::detached;

/// A value until it is closed.
pub(crate) struct Opened<T: Send> {
    value: Mutex<Option<T>>,
    /// Whether it was taken out for good; changed only under the lock of the value.
    is_closed: AtomicBool,
    pid: u32,
    what: &'static str,
}

impl<T: Send> Opened<T> {
    /// Of this process; `what` names it in messages.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self {
            value: Mutex::new(Some(value)),
            is_closed: AtomicBool::new(false),
            pid: std::process::id(),
            what,
        }
    }

    /// Whether this process is another than the one that opened it.
    pub(crate) fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }

    /// A copy for one call.
    ///
    /// # Errors
    /// `ValueError` if it is closed, or was opened before this process was forked.
    pub(crate) fn get(&self) -> PyResult<T>
    where
        T: Clone,
    {
        self.check_fork()?;
        self.value.lock().clone().ok_or_else(|| self.closed())
    }

    /// Calls `with` while nobody else uses the value. It must not ask the vault anything, or wait for the interpreter.
    ///
    /// # Errors
    /// As `get`.
    pub(crate) fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        self.check_fork()?;
        let mut value = self.value.lock();
        value.as_mut().map(with).ok_or_else(|| self.closed())
    }

    /// Takes the value out for good; `None` if it is closed, or a call uses it: that one drops it then.
    ///
    /// # Errors
    /// As `get`, in a process that was forked.
    pub(crate) fn take(&self) -> PyResult<Option<T>> {
        self.check_fork()?;
        let mut value = self.value.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        Ok(value.take())
    }

    /// Takes the value out for one call, and puts it back unless it was closed meanwhile. Others find it closed until then.
    ///
    /// # Errors
    /// As `get`.
    pub(crate) fn borrow<R: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let mut value = self.lend()?;
        let (value, result) = detached(py, move || {
            let result = with(&mut value);
            (value, result)
        })?;
        self.give_back(py, value)?;
        Ok(result)
    }

    /// The same with a second value, which others find closed meanwhile, too.
    ///
    /// # Errors
    /// As `get`.
    pub(crate) fn borrow_both<U: Send, R: Send>(
        &self,
        py: Python<'_>,
        other: &Opened<U>,
        with: impl FnOnce(&mut T, &mut U) -> R + Send,
    ) -> PyResult<R> {
        let mut second = other.lend()?;
        let result = self.borrow(py, |first| with(first, &mut second));
        other.give_back(py, second)?;
        result
    }

    fn lend(&self) -> PyResult<T> {
        self.check_fork()?;
        self.value.lock().take().ok_or_else(|| self.closed())
    }

    fn give_back(&self, py: Python<'_>, value: T) -> PyResult<()> {
        let mut place = self.value.lock();
        if self.is_closed.load(Ordering::Relaxed) {
            drop(place);
            return detached(py, move || drop(value)); // (1)
        }
        *place = Some(value);
        Ok(())
    }

    fn check_fork(&self) -> PyResult<()> {
        match self.is_forked() {
            false => Ok(()),
            true => Err(PyValueError::new_err(format!(
                "the {} was opened before this process was forked; open the vault again here",
                self.what
            ))),
        }
    }

    fn closed(&self) -> PyErr {
        PyValueError::new_err(format!("the {} is closed", self.what))
    }
}

impl<T: Send> Drop for Opened<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.get_mut().take() else {
            return;
        };
        if self.is_forked() {
            std::mem::forget(value);
            return;
        }
        // (1) The interpreter may be ending: then there is nobody to release a lock to.
        let mut value = Some(value);
        let _ = Python::try_attach(|py| {
            let value = value.take();
            // Nobody is left who could hear of a panic.
            let _ = detached(py, move || drop(value));
        });
        drop(value);
    }
}
