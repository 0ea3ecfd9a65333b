"""Transactions: several changes, made all at once or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Optional

from . import _native
from ._names import AnyPath, buffer, encode, like
from ._stat import stat_result

if TYPE_CHECKING:
    from ._vault import Vault


class Transaction:
    """Reads, and changes that happen all together at ``commit``, or not at all. See ``Vault.transaction``.

    Reads see what is in the vault now. To read what the transaction is about to change, read first. At most 1,024 operations, 1 MiB of
    paths, names and values, and 1 GiB of content.
    """

    def __init__(self, vault: Vault, native: _native.Transaction, durable: bool) -> None:
        self._vault = vault
        self._inner = native
        self._durable = durable

    # ---- reads

    def stat(self, path: AnyPath, *, follow_symlinks: bool = True) -> os.stat_result:
        """What ``stat`` shows."""
        return stat_result(self._inner.stat(encode(path, self._vault), follow_symlinks))

    def exists(self, path: AnyPath) -> bool:
        """Whether something is at ``path``; a dangling symlink is not."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def read_bytes(self, path: AnyPath) -> bytes:
        """All that a file holds."""
        return self._inner.read(encode(path, self._vault))

    def read_text(self, path: AnyPath, encoding: str = "utf-8") -> str:
        """All that a text file holds."""
        return self.read_bytes(path).decode(encoding)

    def listdir(self, path: AnyPath = "/") -> List[Any]:
        """The names in a directory, sorted. That the same names are there is required, not that their nodes stay as they are."""
        return [like(path, name) for name in self._inner.names(encode(path, self._vault))]

    # ---- changes

    def write_bytes(self, path: AnyPath, data: Any, permissions: int = 0o644) -> None:
        """Makes a file, or replaces its content."""
        self._inner.write(encode(path, self._vault), buffer(data), permissions)

    def write_text(self, path: AnyPath, text: str, encoding: str = "utf-8") -> None:
        """The same with text."""
        self.write_bytes(path, text.encode(encoding))

    def pwrite(self, path: AnyPath, data: Any, offset: int) -> None:
        """Writes into an existing file."""
        self._inner.write_at(encode(path, self._vault), offset, buffer(data))

    def truncate(self, path: AnyPath, length: int) -> None:
        """Cuts a file, or extends it by zeros."""
        self._inner.truncate(encode(path, self._vault), length)

    def mkdir(self, path: AnyPath, mode: int = 0o755) -> None:
        """Makes a directory."""
        self._inner.make_directory(encode(path, self._vault), mode)

    def symlink(self, source: AnyPath, target: AnyPath) -> None:
        """Makes a symbolic link at ``target`` that points to ``source``."""
        self._inner.make_symlink(encode(source, self._vault), encode(target, self._vault))

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Gives a node a further name."""
        self._inner.link(encode(source, self._vault), encode(target, self._vault))

    def rename(self, source: AnyPath, target: AnyPath, *, how: str = "replace") -> None:
        """Moves a name; ``how`` as that of ``Vault.rename``."""
        self._inner.rename(encode(source, self._vault), encode(target, self._vault), how)

    def remove(self, path: AnyPath) -> None:
        """Removes the name of anything but a directory."""
        self._inner.remove_file(encode(path, self._vault))

    def rmdir(self, path: AnyPath) -> None:
        """Removes an empty directory."""
        self._inner.remove_directory(encode(path, self._vault))

    def chmod(self, path: AnyPath, mode: int, *, follow_symlinks: bool = True) -> None:
        """Changes the low 12 bits of the mode."""
        self._inner.set_attributes(encode(path, self._vault), follow_symlinks, mode=mode)

    def chown(self, path: AnyPath, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Changes owner and group; -1 leaves one as it is."""
        changes = {name: value for name, value in (("uid", uid), ("gid", gid)) if value != -1}
        self._inner.set_attributes(encode(path, self._vault), follow_symlinks, **changes)

    def utime(self, path: AnyPath, *, ns: Any, follow_symlinks: bool = True) -> None:
        """Changes the times of access and modification; ``None`` leaves one as it is."""
        self._inner.set_attributes(encode(path, self._vault), follow_symlinks, atime=ns[0], mtime=ns[1])

    def setxattr(
        self, path: AnyPath, attribute: Any, value: Any, flags: int = 0, *, follow_symlinks: bool = True
    ) -> None:
        """Sets an extended attribute."""
        if flags not in (0, 1, 2):
            raise OSError(22, "flags are 0, os.XATTR_CREATE or os.XATTR_REPLACE")
        how = ("set", "create", "replace")[flags]
        self._inner.set_xattr(encode(path, self._vault), encode(attribute), buffer(value), how, follow_symlinks)

    def removexattr(self, path: AnyPath, attribute: Any, *, follow_symlinks: bool = True) -> None:
        """Removes an extended attribute."""
        self._inner.remove_xattr(encode(path, self._vault), encode(attribute), follow_symlinks)

    # ---- the end

    def commit(self, *, durable: Optional[bool] = None) -> None:
        """Carries the changes out, all or none; ``durable``: returns when that cannot be lost any more."""
        self._inner.commit(self._durable if durable is None else durable)

    def rollback(self) -> None:
        """Ends it without a change."""
        self._inner.roll_back()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()
