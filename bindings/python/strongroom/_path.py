"""Paths in a vault, with the methods of ``pathlib.Path``."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple

from ._names import AnyPath, decode, encode

if TYPE_CHECKING:
    from ._tree import Tree
    from ._vault import Vault


class VaultPath:
    """A path in a vault, or in a snapshot of one.

    It has no ``__fspath__``, on purpose: the builtin ``open`` and other functions of the operating system would take it for a path of
    the disk, and write there what belongs into the vault.

    >>> path = vault.path("/photos") / "2026" / "a.jpg"      # doctest: +SKIP
    >>> path.parent.mkdir(parents=True)                      # doctest: +SKIP
    >>> path.write_bytes(picture)                            # doctest: +SKIP
    """

    __slots__ = ("_pure", "_tree")

    def __init__(self, tree: Tree, *parts: AnyPath) -> None:
        self._tree = tree
        self._pure = PurePosixPath("/", *(decode(encode(part, tree)) for part in parts))

    def _with(self, pure: PurePosixPath) -> VaultPath:
        path = VaultPath.__new__(VaultPath)
        path._tree = self._tree
        path._pure = pure
        return path

    # ---- without asking the vault

    @property
    def vault(self) -> Any:
        """The vault, or snapshot, that it is a path of."""
        return self._tree

    @property
    def path_in_vault(self) -> str:
        """The path as text."""
        return str(self._pure)

    def __str__(self) -> str:
        return str(self._pure)

    def __repr__(self) -> str:
        return f"VaultPath({str(self._pure)!r})"

    def __bytes__(self) -> bytes:
        return encode(str(self._pure))

    def as_posix(self) -> str:
        """The path as text."""
        return str(self._pure)

    def __hash__(self) -> int:
        return hash((id(self._tree), self._pure))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VaultPath):
            return NotImplemented
        return self._tree is other._tree and self._pure == other._pure

    def __lt__(self, other: VaultPath) -> bool:
        if not isinstance(other, VaultPath):
            return NotImplemented
        return self._pure < other._pure

    def __truediv__(self, part: AnyPath) -> VaultPath:
        return self.joinpath(part)

    def joinpath(self, *parts: AnyPath) -> VaultPath:
        """The path with more parts; one that begins with ``/`` starts again at the root."""
        return self._with(self._pure.joinpath(*(decode(encode(part, self._tree)) for part in parts)))

    @property
    def parts(self) -> Tuple[str, ...]:
        """The root and all names."""
        return self._pure.parts

    @property
    def parent(self) -> VaultPath:
        """The directory that has it."""
        return self._with(self._pure.parent)

    @property
    def parents(self) -> Tuple[VaultPath, ...]:
        """All directories above it, the nearest first."""
        return tuple(self._with(parent) for parent in self._pure.parents)

    @property
    def name(self) -> str:
        """The last name."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The last name without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The last suffix of the last name, with its dot."""
        return self._pure.suffix

    @property
    def suffixes(self) -> List[str]:
        """All suffixes of the last name."""
        return self._pure.suffixes

    def with_name(self, name: str) -> VaultPath:
        """The path with another last name."""
        return self._with(self._pure.with_name(name))

    def with_stem(self, stem: str) -> VaultPath:
        """The path with another last name before its suffix."""
        return self._with(self._pure.with_stem(stem))

    def with_suffix(self, suffix: str) -> VaultPath:
        """The path with another suffix."""
        return self._with(self._pure.with_suffix(suffix))

    def relative_to(self, other: AnyPath) -> PurePosixPath:
        """What leads from ``other`` here."""
        return self._pure.relative_to(decode(encode(other, self._tree)))

    def is_relative_to(self, other: AnyPath) -> bool:
        """Whether it is ``other`` or below it. It is not if that is a path of another vault or snapshot."""
        try:
            return self._pure.is_relative_to(decode(encode(other, self._tree)))
        except ValueError:
            return False

    def match(self, pattern: str) -> bool:
        """Whether it fits a pattern, from the right."""
        return self._pure.match(pattern)

    def is_absolute(self) -> bool:
        """True: a path of a vault begins at its root."""
        return True

    # ---- what is there

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """What ``stat`` shows."""
        return self._tree.stat(self, follow_symlinks=follow_symlinks)

    def lstat(self) -> os.stat_result:
        """The same of a symlink itself."""
        return self._tree.lstat(self)

    def exists(self) -> bool:
        """Whether something is there; a dangling symlink is not."""
        return self._tree.exists(self)

    def is_dir(self) -> bool:
        """Whether a directory is there."""
        return self._tree.isdir(self)

    def is_file(self) -> bool:
        """Whether a file is there."""
        return self._tree.isfile(self)

    def is_symlink(self) -> bool:
        """Whether a symbolic link is there."""
        return self._tree.islink(self)

    def samefile(self, other: AnyPath) -> bool:
        """Whether both are names of one node."""
        return self.stat().st_ino == self._tree.stat(other).st_ino

    def readlink(self) -> PurePosixPath:
        """Where a symlink points."""
        return PurePosixPath(self._tree.readlink(str(self)))

    def resolve(self, strict: bool = False) -> VaultPath:
        """The path without symlinks and ``..``. With ``strict`` it must be there."""
        done = "/"
        ahead = list(reversed(self._pure.parts[1:]))
        followed = 0
        while ahead:
            name = ahead.pop()
            if name == "..":
                done = posixpath.dirname(done)
                continue
            path = posixpath.join(done, name)
            if not self._tree.islink(path):
                done = path
                continue
            followed += 1
            if followed > 40:
                raise OSError(40, "too many symbolic links in the path", str(self))
            target = PurePosixPath(self._tree.readlink(path))
            if target.is_absolute():
                done = "/"
            ahead.extend(reversed([part for part in target.parts if part != "/"]))
        resolved = self._with(PurePosixPath(done))
        if strict:
            resolved.stat()
        return resolved

    # ---- files

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> Any:
        """Opens the file; see ``Vault.open``."""
        return self._tree.open(self, mode, buffering, encoding, errors, newline)

    def read_bytes(self) -> bytes:
        """All that the file holds."""
        return self._tree.read_bytes(self)

    def read_text(self, encoding: str = "utf-8", errors: Optional[str] = None) -> str:
        """All that the text file holds."""
        return self._tree.read_text(self, encoding, errors)

    def write_bytes(self, data: Any) -> int:
        """Makes or empties the file and writes ``data``."""
        return self._changing.write_bytes(self, data)

    def write_text(
        self, text: str, encoding: str = "utf-8", errors: Optional[str] = None, newline: Optional[str] = None
    ) -> int:
        """The same with text."""
        return self._changing.write_text(self, text, encoding, errors, newline)

    def touch(self, mode: int = 0o644, exist_ok: bool = True) -> None:
        """Makes an empty file; of one that is there, sets the times to now."""
        try:
            self._tree.open(self, "xb", 0, permissions=mode).close()
        except FileExistsError:
            if not exist_ok:
                raise
            self._changing.utime(self)

    # ---- directories

    def iterdir(self) -> Iterator[VaultPath]:
        """The paths in the directory."""
        for name in self._tree.listdir(self):
            yield self._with(self._pure / name)

    def walk(self, top_down: bool = True, on_error: Any = None, follow_symlinks: bool = False) -> Iterator[Any]:
        """As ``pathlib.Path.walk``."""
        for path, directories, others in self._tree.walk(self, top_down, on_error, follow_symlinks):
            yield self._with(PurePosixPath(path)), directories, others

    def glob(self, pattern: str) -> Iterator[VaultPath]:
        """The paths below that fit a pattern, such as ``*.txt`` or ``**/*.jpg``. Symlinks to directories are not followed by ``**``."""
        parts = PurePosixPath(pattern).parts
        if not parts or parts[0] == "/":
            raise ValueError(f"unacceptable pattern: {pattern!r}")
        seen = set()
        for found in self._glob(parts):
            if found not in seen:
                seen.add(found)
                yield found

    def rglob(self, pattern: str) -> Iterator[VaultPath]:
        """The same in every directory below."""
        return self.glob("**/" + pattern)

    def _glob(self, parts: Tuple[str, ...]) -> Iterator[VaultPath]:
        part, rest = parts[0], parts[1:]
        if part == "**":
            if self.is_dir():
                yield from self._glob(rest) if rest else iter([self])
                for entry in self._entries():
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._with(self._pure / entry.name)._glob(parts)
            return
        if re.search(r"[*?[]", part):
            found = [self._with(self._pure / entry.name) for entry in self._entries() if _fits(entry.name, part)]
        else:
            exact = self._with(self._pure / part)
            found = [exact] if self._tree.lexists(exact) else []
        for path in found:
            if not rest:
                yield path
            elif path.is_dir():
                yield from path._glob(rest)

    def _entries(self) -> List[Any]:
        try:
            with self._tree.scandir(str(self)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    # ---- changes

    @property
    def _changing(self) -> Vault:
        from ._vault import Vault

        if not isinstance(self._tree, Vault):
            raise OSError(30, "snapshots cannot be changed", str(self))
        return self._tree

    def mkdir(self, mode: int = 0o755, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes the directory; ``parents``: with all that are missing on the way."""
        try:
            if parents:
                self._changing.makedirs(self, mode)
            else:
                self._changing.mkdir(self, mode)
        except OSError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self) -> None:
        """Removes the empty directory."""
        self._changing.rmdir(self)

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes the name."""
        try:
            self._changing.remove(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: AnyPath) -> VaultPath:
        """Moves the name; gives the new path."""
        self._changing.rename(self, target)
        return self._with(PurePosixPath(decode(encode(target))))

    replace = rename

    def symlink_to(self, target: AnyPath, target_is_directory: bool = False) -> None:
        """Makes this path a symbolic link that points to ``target``."""
        self._changing.symlink(target, self)

    def hardlink_to(self, target: AnyPath) -> None:
        """Makes this path a further name of what is at ``target``."""
        self._changing.link(target, self)

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Changes the mode."""
        self._changing.chmod(self, mode, follow_symlinks=follow_symlinks)

    def __reduce__(self) -> Any:
        raise TypeError("a path of an open vault cannot be pickled; take str(path)")


def _fits(name: str, pattern: str) -> bool:
    # As pathlib: a hidden name is a name.
    return fnmatch.fnmatchcase(name, pattern)
