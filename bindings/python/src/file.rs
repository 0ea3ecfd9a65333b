//! Open files.
//!
//! Takes   ranges of bytes
//! Gives   the functions on which the class `RawFile` of `strongroom/_files.py` builds Python's file objects
//! Never   buffers, or returns more than `TRANSFER_BYTES_MAX` bytes from one `read`
//!
//! Invariants
//!  (1) Reads fill an object that no other code has yet, and writes use an object that no code changes. So both run
//!      without the interpreter's lock.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strongroom::filesystem::{AllocateMode, SeekTarget};
use strongroom::limits::TRANSFER_BYTES_MAX;
use strongroom::{Error, FileOptions, filesystem};

use crate::attributes::{Stat, stat_of};
use crate::calls::detached;
use crate::error::{raise, raise_io};
use crate::history::{State, Tree};
use crate::names::Changes;
use crate::opened::Opened;
use crate::vault::Vault;

/// How long a thread that waits for a lock sleeps between two tries: so it hears signals, and the file can be closed.
const LOCK_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// An open file.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct File {
    opened: Opened<Arc<strongroom::File>>,
}

impl File {
    pub(crate) fn new(file: strongroom::File) -> Self {
        Self {
            opened: Opened::new("file", Arc::new(file)),
        }
    }

    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&strongroom::File) -> strongroom::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.opened.get()?;
        detached(py, move || question(&file))?.map_err(|error| raise(py, &error, &[]))
    }

    /// The same of what moves the position.
    fn ask_io<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&strongroom::File) -> std::io::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.opened.get()?;
        detached(py, move || question(&file))?.map_err(|error| raise_io(py, error))
    }

    /// Up to `len` bytes, as `fill` gives them.
    ///
    /// The memory is zeroed before. Without that, PyO3 gives it for one version of Python only: for the stable ABI, its writer of bytes
    /// collects them elsewhere and copies them, which costs more.
    fn bytes<'py>(
        py: Python<'py>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> PyResult<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut filled = 0;
        let bytes = PyBytes::new_with(py, len, |buffer| {
            filled = fill(buffer)?; // (1)
            Ok(())
        })?;
        match filled == len {
            true => Ok(bytes),
            false => Ok(PyBytes::new(py, &bytes.as_bytes()[..filled])),
        }
    }
}

#[pymethods]
impl File {
    /// Closes it. A second time does nothing; neither does it in a process that was forked from the one that opened it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.opened.is_forked() {
            let file = self.opened.take()?;
            detached(py, move || drop(file))?;
        }
        Ok(())
    }

    /// Whether it is closed, as it is in a process that was forked from the one that opened it.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.get().is_err()
    }

    /// Up to `len` bytes from the position on, at most a transfer.
    fn read<'py>(&self, py: Python<'py>, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        Self::bytes(py, len.min(TRANSFER_BYTES_MAX), |buffer| {
            self.ask_io(py, |mut file| file.read(buffer))
        })
    }

    /// What lies between the position and the end, as far as it is there now.
    fn read_rest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (at, size) = self.ask_io(py, |mut file| {
            Ok((file.stream_position()?, file.attributes()?.size))
        })?;
        let len = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
        Self::bytes(py, len, |buffer| {
            let count = self.ask(py, |file| file.read_at(buffer, at))?;
            self.ask_io(py, |mut file| file.seek(SeekFrom::Start(at + count as u64)))?;
            Ok(count)
        })
    }

    /// The `len` bytes at `offset`, fewer at the end; the position stays.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        // The memory is zeroed, so it is used: a program that asks for more than there is gets no more than that. A small read is not slowed.
        let len = match len > TRANSFER_BYTES_MAX {
            true => len.min(self.ask(py, |file| rest(file, offset))?),
            false => len,
        };
        Self::bytes(py, len, |buffer| {
            self.ask(py, |file| file.read_at(buffer, offset))
        })
    }

    /// Writes at the position, at most a transfer; gives how much.
    fn write(&self, py: Python<'_>, data: &[u8]) -> PyResult<usize> {
        self.ask_io(py, |mut file| file.write(data))
    }

    /// Writes all of `data` at `offset`; the position stays.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<()> {
        self.ask(py, |file| file.write_all_at(data, offset))
    }

    /// Moves the position; `whence` as that of `io.IOBase.seek`, 3 for `SEEK_DATA`, 4 for `SEEK_HOLE`.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let refused = |why| raise_io(py, std::io::Error::new(ErrorKind::InvalidInput, why));
        let start = || u64::try_from(offset).map_err(|_| refused("a position before the start"));
        let target = match whence {
            0 => SeekFrom::Start(start()?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            3 | 4 => {
                let target = match whence {
                    3 => SeekTarget::Data,
                    _ => SeekTarget::Hole,
                };
                SeekFrom::Start(self.find(py, target, start()?)?)
            }
            _ => return Err(refused("an unknown place to seek from")),
        };
        self.ask_io(py, |mut file| file.seek(target))
    }

    /// What `stat` shows.
    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        self.ask(py, |file| file.attributes().map(|node| stat_of(&node)))
    }

    /// Changes attributes; see `set_attributes` of a path.
    #[pyo3(signature = (*, mode=None, uid=None, gid=None, size=None, atime=None, mtime=None))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn set_attributes(
        &self,
        py: Python<'_>,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<i64>,
        mtime: Option<i64>,
    ) -> PyResult<()> {
        let set = Changes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        }
        .into();
        self.ask(py, |file| file.set_attributes(&set).map(drop))
    }

    /// Makes content, size and attributes durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, strongroom::File::sync_all)
    }

    /// Reserves, punches or zeroes a range.
    fn allocate(&self, py: Python<'_>, how: &str, offset: u64, len: u64) -> PyResult<()> {
        let mode = match how {
            "reserve" => AllocateMode::Reserve,
            "reserve_keep_size" => AllocateMode::ReserveKeepSize,
            "punch_hole" => AllocateMode::PunchHole,
            "zero" => AllocateMode::ZeroRange,
            "zero_keep_size" => AllocateMode::ZeroRangeKeepSize,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{how:?} is not reserve, reserve_keep_size, punch_hole, zero or zero_keep_size"
                )));
            }
        };
        self.ask(py, |file| file.allocate(mode, offset, len))
    }

    /// Copies a range into another file of the same vault by sharing its blocks; gives how many bytes: fewer than `len` at the end, or if
    /// something fails behind those. The next call, which begins there, gives the error.
    fn copy_range(
        &self,
        py: Python<'_>,
        offset: u64,
        target: &Self,
        target_offset: u64,
        len: u64,
    ) -> PyResult<u64> {
        let target = target.opened.get()?;
        self.ask(py, move |file| {
            file.copy_range(offset, &target, target_offset, len)
        })
    }

    /// Takes a lock; waits for it if `wait` says so, and hears signals meanwhile.
    fn lock(&self, py: Python<'_>, shared: bool, wait: bool) -> PyResult<()> {
        let mut pause = LOCK_PAUSE.0;
        loop {
            let taken = self.ask(py, |file| {
                let tried = match shared {
                    true => file.try_lock_shared(),
                    false => file.try_lock(),
                };
                match tried {
                    Err(Error::Locked) if wait => Ok(false),
                    tried => tried.map(|()| true),
                }
            })?;
            if taken {
                return Ok(());
            }
            detached(py, || std::thread::sleep(pause))?;
            pause = (pause * 2).min(LOCK_PAUSE.1);
            py.check_signals()?;
        }
    }

    /// Gives the lock back.
    fn unlock(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, strongroom::File::unlock)
    }

    /// Gives it a further name; an unnamed file its first.
    fn name(&self, py: Python<'_>, vault: &Vault, path: &[u8]) -> PyResult<()> {
        let file = self.opened.get()?;
        vault.ask(py, &[path], move |vault| vault.name_file(&file, path))
    }
}

/// How many bytes lie between `offset` and the end.
fn rest(file: &strongroom::File, offset: u64) -> strongroom::Result<usize> {
    let bytes = file.attributes()?.size.saturating_sub(offset);
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

impl File {
    fn find(&self, py: Python<'_>, target: SeekTarget, offset: u64) -> PyResult<u64> {
        self.ask(py, |file| file.find(target, offset))
    }
}

/// Opens a file. `flags`: of `read`, `write`, `append`, `truncate`, `create`, `create_new`; or `unnamed`: one without a name in the
/// directory `path`, to read and write.
#[pyfunction]
pub(crate) fn open_file(
    py: Python<'_>,
    tree: Tree<'_>,
    path: &[u8],
    flags: Vec<String>,
    mode: u32,
) -> PyResult<File> {
    let mut options = FileOptions::new().mode(mode);
    let mut unnamed = false;
    let mut writes = false;
    for flag in &flags {
        writes |= flag != "read";
        options = match flag.as_str() {
            "read" => options.read(),
            "write" => options.write(),
            "append" => options.append(),
            "truncate" => options.truncate(),
            "create" => options.create(),
            "create_new" => options.create_new(),
            "unnamed" => {
                unnamed = true;
                options
            }
            other => return Err(PyValueError::new_err(format!("{other:?} is not a flag"))),
        };
    }
    let opened = tree.ask(py, &[path], |state| match state {
        State::Now(vault) if unnamed => vault.unnamed_file(path, mode),
        State::Now(vault) => vault.open_file(path, options),
        State::Then(_) if writes => Err(Error::File(filesystem::Error::InSnapshot)),
        State::Then(snapshot) => snapshot.open_file(path),
    })?;
    Ok(File::new(opened))
}
