"""A file system for programs that read and write through fsspec: pandas, pyarrow, zarr, Dask, DuckDB …

>>> import pandas                                                                              # doctest: +SKIP
>>> options = {"folder": "vault", "key_file": "vault.key"}                                     # doctest: +SKIP
>>> pandas.read_parquet("strongroom:///measurements.parquet", storage_options=options)         # doctest: +SKIP

Options name the place of a secret, never the secret itself: fsspec shows, hashes and pickles the options of a file system.
"""

from __future__ import annotations

import datetime
import io
import os
import secrets
import shutil
import stat as bits
import threading
from typing import Any, Callable, Dict, List, Optional

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from ._history import Snapshot
from ._names import buffer, encode
from ._stat import Stat
from ._tree import DirEntry, Tree
from ._vault import Vault
from . import _native

__all__ = ["StrongroomFileSystem"]


class StrongroomFileSystem(AbstractFileSystem):
    """The files of a vault under ``strongroom://``.

    ``folder`` is the vault folder. The secret is named by one of ``key_file`` (a path), ``passphrase_env`` (the name of an environment
    variable), ``passphrase_file`` (a path; a line end behind it is not meant) and ``identity_file``; none is needed while another process
    has the vault open, a mount for example. Or ``vault`` is a ``Vault`` or ``Snapshot`` that is open already.

    ``snapshot``: a selector; reads that state. ``read_only``: change nothing. ``auto_mkdir``: make the directories that a new file lacks.
    """

    protocol = "strongroom"
    root_marker = "/"
    cachable = True

    def __init__(
        self,
        folder: Optional[str] = None,
        *,
        vault: Optional[Tree] = None,
        key_file: Optional[str] = None,
        passphrase_env: Optional[str] = None,
        passphrase_file: Optional[str] = None,
        identity_file: Optional[str] = None,
        snapshot: Optional[str] = None,
        read_only: bool = False,
        auto_mkdir: bool = False,
        **kwargs: Any,
    ) -> None:
        if self._cached:
            return
        for name in ("passphrase", "recovery_code"):
            if name in kwargs:
                raise TypeError(
                    f"{name} would be shown and pickled with the file system; give passphrase_env, passphrase_file or "
                    "key_file, or an open vault"
                )
        super().__init__(**kwargs)
        self.auto_mkdir = auto_mkdir
        self._own: Optional[_Shared] = None
        if vault is not None:
            self._tree = vault
        elif folder is None:
            raise TypeError("give the folder of a vault: storage_options={'folder': …, 'key_file': …}")
        else:
            passphrase = _passphrase(passphrase_env, passphrase_file)
            named = (os.path.realpath(folder), read_only, key_file, passphrase_env, passphrase_file, identity_file)
            self._own = _Shared.open(
                named,
                lambda: Vault(
                    folder, passphrase=passphrase, key_file=key_file, identity_file=identity_file, read_only=read_only
                ),
            )
            self._tree = self._own.vault
        if snapshot is not None:
            if not isinstance(self._tree, Vault):
                raise TypeError("a snapshot of a snapshot; give its vault")
            self._tree = self._tree.at(snapshot)

    @property
    def vault(self) -> Tree:
        """The vault, or the snapshot, that it shows."""
        return self._tree

    @property
    def fsid(self) -> str:
        """Which vault it is."""
        vault = self._tree._vault if isinstance(self._tree, Snapshot) else self._tree
        assert isinstance(vault, Vault)
        return "strongroom-" + vault.information().fingerprint

    def close(self) -> None:
        """Closes the vault, if this opened it and no other file system of this process uses it."""
        type(self)._cache.pop(self._fs_token, None)
        own, self._own = self._own, None
        if own is not None:
            own.close()

    # ---- paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        for prefix in (cls.protocol + "://", cls.protocol + ":"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        return "/" + path.strip("/")

    @classmethod
    def _parent(cls, path: Any) -> str:
        return cls._strip_protocol(path).rpartition("/")[0] or "/"

    @property
    def _changing(self) -> Vault:
        if not isinstance(self._tree, Vault):
            raise OSError(30, "snapshots cannot be changed")
        return self._tree

    # ---- what is there

    def info(self, path: Any, **kwargs: Any) -> Dict[str, Any]:
        """What is at ``path``: ``name``, ``size``, ``type``, ``mode``, ``uid``, ``gid``, ``mtime``, ``created``, ``ino``, ``nlink``, ``islink``."""
        path = self._strip_protocol(path)
        stat = _native.stat(self._tree._inner, encode(path), False)
        return self._info(path, stat)

    def _info(self, path: str, stat: Stat) -> Dict[str, Any]:
        is_link = bits.S_ISLNK(stat[0])
        is_dangling = False
        destination = None
        if is_link:
            destination = self._tree.readlink(path)
            try:
                stat = _native.stat(self._tree._inner, encode(path), True)
            except OSError:
                is_dangling = True
        kind = "directory" if bits.S_ISDIR(stat[0]) else "file" if bits.S_ISREG(stat[0]) else "other"
        found = {
            "name": path,
            "size": 0 if is_dangling else stat[5],
            "type": kind,
            "created": stat[9] / 1e9,
            "islink": is_link,
            "mode": stat[0],
            "uid": stat[3],
            "gid": stat[4],
            "mtime": stat[7] / 1e9,
            "ino": stat[1],
            "nlink": stat[2],
        }
        if is_link:
            found["destination"] = destination
        return found

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> List[Any]:
        """The paths in a directory, sorted; with ``detail`` the ``info`` of each. Of a file itself."""
        path = self._strip_protocol(path)
        own = self.info(path)
        if own["type"] != "directory":
            return [own] if detail else [path]
        with self._tree.scandir(path) as entries:
            found: List[DirEntry] = sorted(entries, key=lambda entry: entry.path)
        if not detail:
            return [entry.path for entry in found]
        return [self._info(entry.path, entry._stat) for entry in found]

    def lexists(self, path: Any, **kwargs: Any) -> bool:
        """Whether something is there; also a dangling symlink."""
        return self._tree.lexists(self._strip_protocol(path))

    def islink(self, path: Any) -> bool:
        """Whether a symbolic link is there."""
        return self._tree.islink(self._strip_protocol(path))

    def created(self, path: Any) -> datetime.datetime:
        """When it was made."""
        return _time(self._tree.created_ns(self._strip_protocol(path)))

    def modified(self, path: Any) -> datetime.datetime:
        """When its content was changed last."""
        return _time(self._tree.stat(self._strip_protocol(path)).st_mtime_ns)

    # ---- content

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_room(path)
            if not autocommit:
                return _Pending(self._changing, path, mode, self._earlier(path) if "a" in mode else None)
        return self._tree.open(path, mode)

    def _earlier(self, path: str) -> Optional[_Pending]:
        """The file that the transaction gives this path, as it is now."""
        of_path = [file for file in self.transaction.files if isinstance(file, _Pending) and file._path == path]
        return of_path[-1] if of_path else None

    def _make_room(self, path: str) -> None:
        if self.auto_mkdir:
            self.makedirs(self._parent(path), exist_ok=True)

    def cat_file(self, path: Any, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        """The content, or the bytes from ``start`` to before ``end``; negative ones count from the end."""
        with self._tree.open(self._strip_protocol(path), "rb", 0) as file:
            if start is None and end is None:
                return file.readall()
            size = file.stat().st_size
            first, behind, _ = slice(start, end).indices(size)
            return file.pread(max(behind - first, 0), first)

    def pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Makes a file that holds ``value``; ``mode="create"`` fails if it is there."""
        path, value = self._strip_protocol(path), buffer(value)
        self._make_room(path)
        with self._tree.open(path, "xb" if mode == "create" else "wb", 0) as file:
            file.pwrite(value, 0)

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Copies a file by sharing its blocks: no content is moved. Of a directory, makes the directory.

        Raises ``shutil.SameFileError`` for a file and itself.
        """
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        self._make_room(path2)
        if self._tree.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self._tree.open(path1, "rb", 0) as source, self._changing.open_raw(path2, ("write", "create")) as target:
            # Cut only when it is known to be another file.
            if source.stat().st_ino == target.stat().st_ino:
                raise shutil.SameFileError(f"{path1!r} and {path2!r} are the same file")
            target.truncate(0)
            _copy(source, target)

    # ---- names

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        """Makes a directory, which must not be there."""
        path = self._strip_protocol(path)
        if create_parents:
            self._changing.makedirs(path)
        else:
            self._changing.mkdir(path)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        """Makes a directory and all that are missing on the way."""
        path = self._strip_protocol(path)
        if path == "/" and exist_ok:
            return
        self._changing.makedirs(path, exist_ok=exist_ok)

    def rmdir(self, path: Any) -> None:
        """Removes an empty directory."""
        self._changing.rmdir(self._strip_protocol(path))

    def rm_file(self, path: Any) -> None:
        """Removes a file."""
        self._changing.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files, and with ``recursive`` directories with all below them."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        found = set()
        for given in path if isinstance(path, (list, tuple, set)) else [path]:
            exact = self._strip_protocol(given)
            # A name may look like a pattern: what has that name is meant then, and nothing that the pattern fits.
            found.update([exact] if self._tree.lexists(exact) else self.expand_path(exact, recursive=False))
        for one in sorted(found):
            if not self._tree.isdir(one) or self._tree.islink(one):
                self._changing.remove(one)
            elif recursive:
                self._changing.rmtree(one)
            else:
                raise IsADirectoryError(21, "a directory; set recursive=True to remove it with all below it", one)

    def mv(self, path1: Any, path2: Any, recursive: bool = True, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """Moves a file, or a directory with all below it; into ``path2`` if that is a directory."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self._tree.isdir(path2):
            path2 = path2.rstrip("/") + "/" + path1.rpartition("/")[2]
        self._make_room(path2)
        self._changing.rename(path1, path2)

    def link(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """Gives a file a further name."""
        self._changing.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """Makes a symbolic link ``dst`` that points to ``src``."""
        self._changing.symlink(self._strip_protocol(src), self._strip_protocol(dst))

    def touch(self, path: Any, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file; of one that is there, empties it or sets its times to now."""
        path = self._strip_protocol(path)
        self._make_room(path)
        self._tree.open(path, "wb" if truncate else "ab", 0).close()
        self._changing.utime(path)

    def chmod(self, path: Any, mode: int) -> None:
        """Changes the mode."""
        self._changing.chmod(self._strip_protocol(path), mode)


class _Shared:
    """A vault that file systems of this process share: fsspec makes one for each thread."""

    _lock = threading.Lock()
    _open: Dict[Any, _Shared] = {}

    def __init__(self, key: Any, vault: Vault) -> None:
        self._key = key
        self._users = 0
        self.vault = vault

    @classmethod
    def open(cls, key: Any, opened: Callable[[], Vault]) -> _Shared:
        """What was opened by the same arguments and is open still, or what ``opened`` gives."""
        with cls._lock:
            shared = cls._open.get(key)
            if shared is None or shared.vault.closed:
                shared = cls._open[key] = cls(key, opened())
            shared._users += 1
            return shared

    def close(self) -> None:
        """Closes it with its last user."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            if self._open.get(self._key) is self:
                del self._open[self._key]
        self.vault.close()

    @classmethod
    def _after_fork(cls) -> None:
        cls._lock = threading.Lock()


os.register_at_fork(after_in_child=_Shared._after_fork)


def _copy(source: Any, target: Any) -> None:
    """Makes what an open file holds the beginning of another."""
    done, size = 0, source.stat().st_size
    while done < size:
        copied = source.copy_range(done, target, done, size - done)
        if copied == 0:
            break
        done += copied


class _Pending(io.BufferedWriter):
    """A file of an fsspec transaction: it has a name of its own until it is committed.

    One that appends to a file of the same transaction, ``earlier``, writes to that one, which is given its name and removed as such.
    """

    def __init__(self, vault: Vault, path: str, mode: str, earlier: Optional[_Pending]) -> None:
        self._vault = vault
        self._path = path
        self._is_first = earlier is None
        self._new_only = "x" in mode
        if earlier is not None:
            if not earlier.closed:
                earlier.flush()
            self._pending = earlier._pending
            super().__init__(vault.open(self._pending, "ab", 0))
            return
        above, _, name = path.rpartition("/")
        # A name has at most 255 bytes, whatever its characters are.
        begin = encode(name)[:200].decode("utf-8", "ignore")
        self._pending = f"{above}/.{begin}.{secrets.token_hex(8)}.part"
        if "a" in mode and vault.isfile(path):
            with vault.open(path, "rb", 0) as old, vault.open(self._pending, "xb", 0) as new:
                _copy(old, new)
        super().__init__(vault.open(self._pending, "ab" if "a" in mode else "xb", 0))

    def commit(self) -> None:
        """Gives it its name."""
        self.close()
        if self._is_first:
            self._vault.rename(self._pending, self._path, how="no_replace" if self._new_only else "replace")

    def discard(self) -> None:
        """Removes it."""
        self.close()
        if self._is_first:
            self._vault.remove(self._pending)


def _passphrase(env: Optional[str], file: Optional[str]) -> Any:
    """A function that reads the passphrase when it is needed; ``None`` if there is none."""
    if env is not None and file is not None:
        raise TypeError("give passphrase_env or passphrase_file, not both")
    if env is not None:
        name = env

        def of_environment() -> str:
            if name not in os.environ:
                raise ValueError(f"the environment variable {name}, which passphrase_env names, is not set")
            return os.environ[name]

        return of_environment
    if file is not None:
        path = file

        def of_file() -> bytes:
            with open(path, "rb") as opened:
                content = opened.read()
            for end in (b"\r\n", b"\n"):
                if content.endswith(end):
                    return content[: -len(end)]
            return content

        return of_file
    return None


def _time(ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ns / 1e9, datetime.timezone.utc)
