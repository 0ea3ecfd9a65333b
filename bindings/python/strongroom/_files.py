"""Open files, with the interface of Python's ``io``.

``RawFile`` reads and writes bytes; the buffers and the text layer above it are those of the standard library.
"""

from __future__ import annotations

import io
import warnings
import weakref
from typing import TYPE_CHECKING, Any, List, Optional

from . import _native
from ._names import AnyPath, buffer, encode, like
from ._stat import BLOCK_BYTES, stat_result

if TYPE_CHECKING:
    import os

    from ._tree import Tree

#: Most bytes in one call of the native module; more are read and written in several.
_TRANSFER_BYTES_MAX = 1024 * 1024


class RawFile(io.RawIOBase):
    """An open file without a buffer: what ``open(path, "rb", buffering=0)`` gives.

    Beside what every Python file has there are ``pread`` and ``pwrite``, which leave the position alone, ``sync``, ``lock`` and
    ``unlock``, ``allocate`` and ``copy_range``. A file object with buffers has it as ``.raw``, or ``.buffer.raw`` if it is text.
    """

    def __init__(self, tree: Tree, native: _native.File, name: Any, mode: str) -> None:
        self._above: List[weakref.ref[Any]] = []
        self._inner = native
        self._tree = tree  # holds the vault open
        self._mode = mode
        self.name = name
        tree._holds(self)

    # ---- what it is

    @property
    def mode(self) -> str:
        """As it was opened: of ``r``, ``w``, ``a``, ``x`` with ``b`` and perhaps ``+``."""
        return self._mode

    @property
    def closed(self) -> bool:
        """Whether it is closed, as it also is in a process that was forked from the one that opened it."""
        return self._inner.closed

    def readable(self) -> bool:
        """Whether it was opened to read."""
        self._check_closed()
        return "r" in self._mode or "+" in self._mode

    def writable(self) -> bool:
        """Whether it was opened to write."""
        self._check_closed()
        return "r" not in self._mode or "+" in self._mode

    def seekable(self) -> bool:
        """True."""
        self._check_closed()
        return True

    def isatty(self) -> bool:
        """False."""
        self._check_closed()
        return False

    def fileno(self) -> int:
        """Raises: the operating system knows nothing of the file."""
        raise io.UnsupportedOperation("a file in a vault has no descriptor; read it, or mount the vault")

    def stat(self) -> os.stat_result:
        """What ``os.fstat`` shows of a file of the disk."""
        return stat_result(self._inner.stat())

    def _check_closed(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check(self, able: bool, what: str) -> None:
        if not able:
            raise io.UnsupportedOperation(f"file not open for {what}")

    # ---- content

    def read(self, size: Optional[int] = -1) -> bytes:
        """Up to ``size`` bytes, 1 MiB at most; everything to the end if it is negative or ``None``."""
        if size is None or size < 0:
            return self.readall()
        self._check(self.readable(), "reading")
        return self._inner.read(size)

    def readall(self) -> bytes:
        """Everything to the end."""
        self._check(self.readable(), "reading")
        rest = self._inner.read_rest()
        parts = [rest]
        # Somebody may have written more meanwhile.
        while parts[-1]:
            parts.append(self._inner.read(_TRANSFER_BYTES_MAX))
        return rest if len(parts) <= 2 else b"".join(parts)

    def readinto(self, target: Any) -> int:
        """Reads into ``target``, 1 MiB at most; gives how many bytes."""
        self._check(self.readable(), "reading")
        view = memoryview(target).cast("B")
        if view.readonly:
            raise TypeError("readinto() argument must be read-write bytes-like object")
        data = self._inner.read(len(view))
        view[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        """Writes the beginning of ``data``, 1 MiB at most; gives how many bytes."""
        self._check(self.writable(), "writing")
        if not isinstance(data, bytes) or len(data) > _TRANSFER_BYTES_MAX:
            if isinstance(data, str):
                raise TypeError("a bytes-like object is required, not 'str'")
            data = memoryview(data).cast("B")[:_TRANSFER_BYTES_MAX].tobytes()
        return self._inner.write(data)

    def pread(self, size: int, offset: int) -> bytes:
        """The ``size`` bytes at ``offset``, fewer only at the end of the file. The position stays."""
        return self._inner.read_at(_offset(offset), _offset(size))

    def pwrite(self, data: Any, offset: int) -> int:
        """Writes all of ``data`` at ``offset``, or at the end of a file that was opened to append. The position stays."""
        data = buffer(data)
        self._inner.write_at(_offset(offset), data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves the position and gives it. ``whence`` may be ``os.SEEK_DATA`` or ``os.SEEK_HOLE`` too."""
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._inner.seek(0, 1)

    def truncate(self, size: Optional[int] = None) -> int:
        """Cuts the file, or extends it by a hole, to ``size`` bytes, or to the position."""
        self._check(self.writable(), "writing")
        size = self.tell() if size is None else _offset(size)
        self._inner.set_attributes(size=size)
        return size

    # ---- what a file of a vault can do beside

    def sync(self) -> None:
        """Makes content, size, attributes and name durable. Flush a file with buffers before."""
        self._inner.sync()

    def chmod(self, mode: int) -> None:
        """Changes the low 12 bits of the mode."""
        self._inner.set_attributes(mode=mode)

    def lock(self, *, shared: bool = False, blocking: bool = True) -> None:
        """Takes an advisory lock that belongs to this open file, whichever process opened another.

        Without ``blocking``, ``LockedError`` if another open file holds one that is in the way. Locks of programs on a mount are kept by
        the kernel; they and these do not know of each other.
        """
        self._inner.lock(shared, blocking)

    def unlock(self) -> None:
        """Gives the lock back; without one it does nothing."""
        self._inner.unlock()

    def allocate(self, how: str, offset: int, length: int) -> None:
        """``reserve``, ``reserve_keep_size``, ``punch_hole``, ``zero`` or ``zero_keep_size``: as ``fallocate(2)``."""
        self._inner.allocate(how, _offset(offset), _offset(length))

    def copy_range(self, offset: int, target: RawFile, target_offset: int, length: int) -> int:
        """Copies a range into ``target``, of the same vault, by sharing blocks; gives how many bytes.

        They are fewer than ``length`` at the end, or if something fails behind those. The next call, which begins there, gives the error.
        """
        return self._inner.copy_range(_offset(offset), target._inner, _offset(target_offset), _offset(length))

    # ---- the end

    def close(self) -> None:
        """Closes it. A second time does nothing."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            self._inner.close()
            self._tree._lets_go(self)

    def __del__(self) -> None:
        if self._above:
            # The collector may begin with this one. What is above it still has bytes to write, and closes it then; if that was taken off,
            # the native file goes with this object.
            self._tree._lets_go(self)
        elif not self.closed:
            self._dealloc_warn(self)
            self.close()

    def _dealloc_warn(self, source: Any) -> None:
        # Python's buffers call it when nobody closed them.
        warnings.warn(f"unclosed file {source!r}", ResourceWarning, source=source, stacklevel=2)

    def _close_all(self) -> None:
        """Closes it with what is above it, whose buffers are written."""
        for above in self._above:
            opened = above()
            if opened is not None:
                try:
                    opened.close()
                except ValueError:
                    pass  # it was detached from what is below
        self.close()

    def __repr__(self) -> str:
        state = "[closed]" if self.closed else f"mode={self._mode!r}"
        return f"<strongroom.RawFile name={self.name!r} {state}>"

    def __reduce__(self) -> Any:
        raise TypeError("an open file of a vault cannot be pickled")


def _offset(offset: int) -> int:
    if offset < 0:
        raise OSError(22, "a negative offset or size")
    return offset


def open_file(
    tree: Tree,
    path: AnyPath,
    mode: str,
    buffering: int,
    encoding: Optional[str],
    errors: Optional[str],
    newline: Optional[str],
    permissions: int,
) -> Any:
    """Opens a file as ``io.open`` does; see ``Vault.open``."""
    flags, binary_mode, is_text = _parse(mode)
    if not is_text and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if buffering == 0 and is_text:
        raise ValueError("can't have unbuffered text I/O")
    if buffering == 1 and not is_text:
        warnings.warn("line buffering isn't supported in binary mode", RuntimeWarning, stacklevel=3)
        buffering = -1
    name = encode(path, tree)
    raw = RawFile(tree, _native.open_file(tree._inner, name, flags, permissions), like(path, name), binary_mode)
    try:
        if "a" in mode:
            raw.seek(0, 2)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else BLOCK_BYTES
        if "+" in mode:
            buffered: Any = io.BufferedRandom(raw, size)
        elif "r" in mode:
            buffered = io.BufferedReader(raw, size)
        else:
            buffered = io.BufferedWriter(raw, size)
        raw._above = [weakref.ref(buffered)]
        if not is_text:
            return buffered
        text = io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        raw._above.insert(0, weakref.ref(text))
        return text
    except BaseException:
        raw.close()
        raise


def _parse(mode: str) -> Any:
    """The flags of the native module, the mode of the raw file, and whether text is meant."""
    if not isinstance(mode, str):
        raise TypeError(f"open() argument 'mode' must be str, not {type(mode).__name__}")
    kinds = [letter for letter in mode if letter in "rwax"]
    if set(mode) - set("rwaxbt+") or len(set(mode)) != len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if "b" in mode and "t" in mode:
        raise ValueError("can't have text and binary mode at once")
    if len(kinds) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    flags = {
        "r": ["read"],
        "w": ["write", "create", "truncate"],
        "a": ["append", "create"],
        "x": ["write", "create_new"],
    }[kinds[0]]
    plus = "+" in mode
    if plus:
        flags = flags + [flag for flag in ("read", "write") if flag not in flags]
    # As Python's own raw files show it.
    shown = "r" if kinds[0] == "w" and plus else kinds[0]
    return flags, shown + "b" + ("+" if plus else ""), "b" not in mode
