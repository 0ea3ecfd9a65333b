"""Reading a vault or a snapshot by paths: the functions have the names of ``os`` and ``os.path``."""

from __future__ import annotations

import io
import os
import stat as bits
import weakref
from typing import Any, Callable, Dict, Iterator, List, Literal, Optional, Sequence, Tuple, Union, overload

from . import _native
from ._files import RawFile, open_file
from ._names import AnyPath, decode, encode, join, like
from ._stat import Stat, created_ns, stat_result


ReadMode = Literal["rb", "br"]
WriteMode = Literal["wb", "bw", "ab", "ba", "xb", "bx"]
UpdateMode = Literal["rb+", "r+b", "+rb", "wb+", "w+b", "+wb", "ab+", "a+b", "+ab", "xb+", "x+b", "+xb"]
BinaryMode = Union[ReadMode, WriteMode, UpdateMode]
TextMode = Literal[
    "r", "w", "a", "x", "r+", "+r", "w+", "+w", "a+", "+a", "x+", "+x", "rt", "wt", "at", "xt", "r+t", "w+t", "a+t", "x+t"
]


class DirEntry:
    """An entry of a directory, as that of ``os.scandir``. What ``stat`` shows of it is known without asking again."""

    __slots__ = ("_stat", "_tree", "name", "path")

    def __init__(self, tree: Tree, name: Any, path: Any, stat: Stat) -> None:
        self._tree = tree
        self._stat = stat
        #: The name in its directory.
        self.name = name
        #: The directory that was listed, and the name.
        self.path = path

    def inode(self) -> int:
        """The number of the node."""
        return self._stat[1]

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """What ``stat`` shows; of a symlink what it points to, which is asked for now."""
        if follow_symlinks and self.is_symlink():
            return self._tree.stat(self.path)
        return stat_result(self._stat)

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return bits.S_ISLNK(self._stat[0])

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a symlink to one."""
        if follow_symlinks and self.is_symlink():
            return self._tree.isdir(self.path)
        return bits.S_ISDIR(self._stat[0])

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file, or a symlink to one."""
        if follow_symlinks and self.is_symlink():
            return self._tree.isfile(self.path)
        return bits.S_ISREG(self._stat[0])

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class ScanDirIterator:
    """The entries of a directory; close it, or use it in a ``with``, when not all of them are taken."""

    def __init__(self, tree: Tree, path: AnyPath, deep: bool = False) -> None:
        self._tree = tree
        self._given = path
        # What the names that are listed lie below.
        self._top = b"" if deep else encode(path, tree)
        self._listing = _native.list_directory(tree._inner, encode(path, tree), deep)
        self._page: Iterator[Tuple[bytes, Stat]] = iter(())
        self._ended = False
        tree._holds(self)

    def __iter__(self) -> ScanDirIterator:
        return self

    def __next__(self) -> DirEntry:
        while not self._ended:
            for found, stat in self._page:
                path = join(self._top, found) if self._top else found
                name = path.rpartition(b"/")[2]
                return DirEntry(self._tree, like(self._given, name), like(self._given, path), stat)
            page = self._listing.page()
            if not page:
                self.close()
            self._page = iter(page)
        raise StopIteration

    def close(self) -> None:
        """Ends the listing. A second time does nothing."""
        self._ended = True
        self._tree._lets_go(self)
        self._listing.close()

    def __enter__(self) -> ScanDirIterator:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ended", True) is False:
            self.close()


class Tree:
    """Reads files and directories. A ``Vault`` is one, and a ``Snapshot``.

    Paths are text, bytes, ``os.PathLike`` or ``VaultPath``, and begin with ``/``. Names come back as bytes where the path was bytes.
    """

    _inner: Any

    def __init__(self) -> None:
        self._open: Dict[int, Callable[[], Any]] = {}

    # ---- open files

    @overload
    def open(
        self,
        path: AnyPath,
        mode: TextMode = ...,
        buffering: int = ...,
        encoding: Optional[str] = ...,
        errors: Optional[str] = ...,
        newline: Optional[str] = ...,
        *,
        permissions: int = ...,
    ) -> io.TextIOWrapper: ...
    @overload
    def open(
        self, path: AnyPath, mode: BinaryMode, buffering: Literal[0], *, permissions: int = ...
    ) -> RawFile: ...
    @overload
    def open(
        self, path: AnyPath, mode: ReadMode, buffering: Literal[-1, 1] = ..., *, permissions: int = ...
    ) -> io.BufferedReader: ...
    @overload
    def open(
        self, path: AnyPath, mode: WriteMode, buffering: Literal[-1, 1] = ..., *, permissions: int = ...
    ) -> io.BufferedWriter: ...
    @overload
    def open(
        self, path: AnyPath, mode: UpdateMode, buffering: Literal[-1, 1] = ..., *, permissions: int = ...
    ) -> io.BufferedRandom: ...
    @overload
    def open(
        self,
        path: AnyPath,
        mode: str,
        buffering: int = ...,
        encoding: Optional[str] = ...,
        errors: Optional[str] = ...,
        newline: Optional[str] = ...,
        *,
        permissions: int = ...,
    ) -> Any: ...
    def open(
        self,
        path: AnyPath,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
        *,
        permissions: int = 0o644,
    ) -> Any:
        """Opens a file as the builtin ``open`` does, with the same modes and the same kinds of file objects.

        Text is UTF-8 unless ``encoding`` says otherwise. ``permissions``: the mode of a new file; no umask is applied.
        """
        return open_file(self, path, mode, buffering, encoding, errors, newline, permissions)

    def open_raw(self, path: AnyPath, flags: Sequence[str] = ("read",), permissions: int = 0o644) -> RawFile:
        """Opens a file as ``os.open`` does, without a buffer. ``flags``: of ``read``, ``write``, ``append``, ``truncate``,
        ``create`` and ``create_new``, which no mode of ``open`` joins in every way.
        """
        name = encode(path, self)
        flags = list(flags)
        if "unnamed" in flags:
            raise ValueError("use unnamed_file to make a file without a name")
        writes = {"write", "append"}.intersection(flags)
        mode = ("rb+" if writes else "rb") if "read" in flags else "wb"
        return RawFile(self, _native.open_file(self._inner, name, flags, permissions), like(path, name), mode)

    def read_bytes(self, path: AnyPath) -> bytes:
        """All that a file holds."""
        with self.open(path, "rb", 0) as file:
            return file.readall()

    def read_text(self, path: AnyPath, encoding: str = "utf-8", errors: Optional[str] = None) -> str:
        """All that a text file holds."""
        with self.open(path, "r", -1, encoding, errors) as file:
            return file.read()

    def _holds(self, opened: Any) -> None:
        """Closes ``opened`` with the vault, if it is still there."""
        self._open[id(opened)] = weakref.ref(opened)

    def _lets_go(self, opened: Any) -> None:
        self._open.pop(id(opened), None)

    def _close_what_is_open(self) -> Optional[BaseException]:
        """Closes files, listings and the like; gives the first error, when the others are closed too."""
        first: Optional[BaseException] = None
        for reference in list(self._open.values()):
            opened = reference()
            if opened is not None:
                try:
                    if isinstance(opened, RawFile):
                        opened._close_all()
                    else:
                        opened.close()
                except Exception as error:
                    first = first or error
        self._open.clear()
        return first

    # ---- what is there

    def stat(self, path: AnyPath, *, follow_symlinks: bool = True) -> os.stat_result:
        """As ``os.stat``."""
        return stat_result(_native.stat(self._inner, encode(path, self), follow_symlinks))

    def lstat(self, path: AnyPath) -> os.stat_result:
        """As ``os.lstat``: of a symlink itself."""
        return self.stat(path, follow_symlinks=False)

    def created_ns(self, path: AnyPath, *, follow_symlinks: bool = True) -> int:
        """When the node was made, in nanoseconds since 1970."""
        return created_ns(_native.stat(self._inner, encode(path, self), follow_symlinks))

    def _mode(self, path: AnyPath, follow_symlinks: bool = True) -> int:
        """``st_mode``; 0 if nothing is there."""
        try:
            return _native.stat(self._inner, encode(path, self), follow_symlinks)[0]
        except OSError as error:
            if error.errno in _NOTHING_THERE:
                return 0
            raise

    def exists(self, path: AnyPath) -> bool:
        """Whether something is at ``path``; a dangling symlink is not."""
        return self._mode(path) != 0

    def lexists(self, path: AnyPath) -> bool:
        """Whether something is at ``path``; also a dangling symlink."""
        return self._mode(path, False) != 0

    def isdir(self, path: AnyPath) -> bool:
        """Whether a directory is there."""
        return bits.S_ISDIR(self._mode(path))

    def isfile(self, path: AnyPath) -> bool:
        """Whether a file is there."""
        return bits.S_ISREG(self._mode(path))

    def islink(self, path: AnyPath) -> bool:
        """Whether a symbolic link is there."""
        return bits.S_ISLNK(self._mode(path, False))

    def getsize(self, path: AnyPath) -> int:
        """The size of the file, in bytes."""
        return _native.stat(self._inner, encode(path, self), True)[5]

    def readlink(self, path: AnyPath) -> Any:
        """Where a symlink points."""
        return like(path, _native.read_link(self._inner, encode(path, self)))

    # ---- directories

    def listdir(self, path: AnyPath = "/") -> List[Any]:
        """The names in a directory, in no order that can be relied on."""
        with self.scandir(path) as entries:
            return [entry.name for entry in entries]

    def scandir(self, path: AnyPath = "/") -> ScanDirIterator:
        """The entries of a directory, as ``os.scandir``."""
        return ScanDirIterator(self, path)

    def walk(
        self,
        top: AnyPath = "/",
        topdown: bool = True,
        onerror: Optional[Callable[[OSError], Any]] = None,
        followlinks: bool = False,
    ) -> Iterator[Tuple[Any, List[Any], List[Any]]]:
        """As ``os.walk``: for each directory its path, the names of directories in it, and all other names."""
        given = top if isinstance(top, bytes) else decode(encode(top, self))
        directories: List[Any] = []
        others: List[Any] = []
        below: List[Any] = []
        try:
            with self.scandir(given) as entries:
                for entry in entries:
                    is_directory = entry.is_dir()
                    (directories if is_directory else others).append(entry.name)
                    if is_directory and not topdown and (followlinks or not entry.is_symlink()):
                        below.append(entry.path)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        if topdown:
            yield given, directories, others
            for name in directories:
                path = like(given, join(encode(given), encode(name)))
                if followlinks or not self.islink(path):
                    yield from self.walk(path, topdown, onerror, followlinks)
        else:
            for path in below:
                yield from self.walk(path, topdown, onerror, followlinks)
            yield given, directories, others

    def tree(self, path: AnyPath = "/") -> ScanDirIterator:
        """Everything below a directory, sorted by path, a directory before what lies in it. Symlinks are given and not followed."""
        return ScanDirIterator(self, path, deep=True)

    # ---- extended attributes

    def getxattr(self, path: AnyPath, attribute: Any, *, follow_symlinks: bool = True) -> bytes:
        """The value of an extended attribute."""
        return _native.get_xattr(self._inner, encode(path, self), encode(attribute), follow_symlinks)

    def listxattr(self, path: AnyPath = "/", *, follow_symlinks: bool = True) -> List[str]:
        """The names of all extended attributes."""
        return [decode(name) for name in _native.list_xattrs(self._inner, encode(path, self), follow_symlinks)]

    def path(self, *parts: AnyPath) -> Any:
        """A ``VaultPath`` in this vault or snapshot."""
        from ._path import VaultPath

        return VaultPath(self, *parts)


#: ENOENT, ENOTDIR, ELOOP, and EINVAL and ENAMETOOLONG of what can be no name: as ``os.path.exists`` takes them.
_NOTHING_THERE = frozenset({2, 20, 40, 22, 36})
