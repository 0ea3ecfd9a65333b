"""The class ``Vault``: opens, reads, changes and closes a vault."""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
import warnings
import weakref
from dataclasses import asdict
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _native
from ._files import RawFile
from ._history import Snapshot, SnapshotInfo
from ._names import AnyPath, buffer, decode, encode, like
from ._pairing import Invitation
from ._secrets import AnyFile, AnyPassphrase, new_keys, source
from ._sync import (
    BringBackReport,
    Conflict,
    ContinuousSync,
    EvictReport,
    Progress,
    PruneReport,
    PullReport,
    PushReport,
    Remote,
    RemoteStatus,
    SyncReport,
)
from ._transaction import Transaction
from ._tree import Tree
from ._whole import Erased, Information, Retention, Rotation, Space, Usage, VerifyReport

_SUITES = {"aes-256-gcm": 1, "chacha20-poly1305": 2, "aegis-256": 3}


class Vault(Tree):
    """An open vault. Usable from many threads; every call that asks the vault anything lets other threads run.

    The vault in ``folder`` is used through the process that has it open (a mount, a session, another program), or else owned by this
    one, with the secret: ``passphrase`` (text, bytes, or a function that is called when one is needed), ``recovery_code``,
    ``key_file`` or ``identity_file`` (a path, or the content as bytes).

    ``read_only``: change nothing. ``exclusive``: own it, or fail if another process does. ``fingerprint``: the only vault that is
    meant. ``accept_older``: take an older state of the vault for what you put back. ``remember``: note what was seen of the vault, so
    that an older state is noticed.

    >>> with Vault("vault", passphrase="correct horse") as vault:      # doctest: +SKIP
    ...     with vault.open("/notes.txt", "a") as notes:
    ...         print("one more", file=notes)
    """

    _inner: _native.Vault

    def __init__(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        passphrase: Optional[AnyPassphrase] = None,
        recovery_code: Optional[str] = None,
        key_file: Optional[AnyFile] = None,
        identity_file: Optional[AnyFile] = None,
        identity_passphrase: Optional[str] = None,
        read_only: bool = False,
        exclusive: bool = False,
        fingerprint: Optional[str] = None,
        accept_older: bool = False,
        remember: bool = True,
    ) -> None:
        secret = source(passphrase, recovery_code, key_file, identity_file, identity_passphrase)
        native = _native.open(
            folder,
            secret,
            read_only=read_only,
            own=exclusive,
            remember=remember,
            fingerprint=fingerprint,
            accept_older=accept_older,
        )
        self._begin(folder, native, None)

    @classmethod
    def create(
        cls,
        folder: Union[str, os.PathLike[str]],
        *,
        passphrase: Optional[AnyPassphrase] = None,
        key_file: Optional[AnyFile] = None,
        recipient: Optional[str] = None,
        suite: str = "aes-256-gcm",
        remember: bool = True,
    ) -> Vault:
        """Makes a vault in a new or empty folder, and opens it.

        A recovery code is always made too: ``vault.recovery_code``, to be shown once and written down. ``recipient``: an age or SSH
        public key. ``suite``: ``aes-256-gcm``, ``chacha20-poly1305`` or ``aegis-256``.
        """
        if suite not in _SUITES:
            raise ValueError(f"{suite!r} is not one of {', '.join(_SUITES)}")
        keys = new_keys(passphrase, key_file, recipient)
        native, code, _fingerprint = _native.create(folder, keys, suite=_SUITES[suite], remember=remember)
        vault = cls.__new__(cls)
        vault._begin(folder, native, code)
        return vault

    def _begin(self, folder: Union[str, os.PathLike[str]], native: _native.Vault, code: Optional[str]) -> None:
        Tree.__init__(self)
        self._inner = native
        self._folder = os.fspath(folder)
        self._recovery_code = code
        _open_vaults.add(self)

    # ---- the end

    def close(self) -> None:
        """Closes the files that are open in it, makes everything durable, and lets others own it. A second time does nothing.

        If a file cannot be written out, that error is raised when the vault is closed.
        """
        if getattr(self, "_inner", None) is None or self.closed:
            return
        failed = self._close_what_is_open()
        self._inner.close()
        if failed is not None:
            raise failed

    @property
    def closed(self) -> bool:
        """Whether it is closed, as it also is in a process that was forked from the one that opened it."""
        return self._inner.closed

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        native = getattr(self, "_inner", None)
        if native is not None and not native.closed:
            warnings.warn(f"unclosed vault {self!r}", ResourceWarning, source=self, stacklevel=2)
            # Files that are collected with it are perhaps not written out yet: then the native vault closes with the last of them.
            if not self._open:
                self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<strongroom.Vault {self._folder!r} {state}>"

    def __reduce__(self) -> Any:
        raise TypeError("an open vault cannot be pickled; give its folder, and open it there")

    # ---- what it is

    @property
    def folder(self) -> str:
        """The vault folder."""
        return self._folder

    @property
    def recovery_code(self) -> Optional[str]:
        """The code that ``create`` made; ``None`` of a vault that was opened."""
        return self._recovery_code

    @property
    def is_owner(self) -> bool:
        """Whether this process owns the vault; else it uses it through the one that does."""
        return self._inner.is_owner

    def information(self) -> Information:
        """What the vault is: fingerprint, algorithms, epoch of its keys, owner."""
        return Information._of(_native.information(self._inner))

    def accept_records(self) -> None:
        """Accepts the ``unknown_records`` of ``information``: devices and keys that others added, and that are yours."""
        _native.accept_records(self._inner)

    def rotation(self) -> Rotation:
        """How far the re-sealing under new keys is, after keys were removed or replaced."""
        return Rotation(**_native.rotation(self._inner))

    def space(self) -> Space:
        """How full the disk, or the quota, is."""
        return Space(*_native.space(self._inner))

    def sync(self) -> None:
        """Everything done so far is durable on return. Flush open files with buffers before."""
        _native.sync(self._inner)

    def check(self) -> List[str]:
        """Compares the tables of the vault with one another; gives what does not agree, a sentence each."""
        return _native.check(self._inner)

    def verify(
        self,
        *,
        deep: bool = False,
        resume: bool = False,
        progress: Optional[Progress] = None,
    ) -> VerifyReport:
        """Reads everything in the vault folder and names what is not as it was written or waits for a decision, while others use it.

        ``progress(bytes, bytes_total)`` hears how far it is, and stops it by returning ``False``: with ``resume`` a later one goes on there.
        """
        return VerifyReport._of(_native.verify(self._inner, deep=deep, resume=resume, progress=progress))

    def backup(self, target: Union[str, os.PathLike[str]], progress: Optional[Progress] = None) -> int:
        """Makes ``target`` a copy of the vault folder while others use the vault; gives how many bytes were copied.

        A later backup into the same folder copies only what is new.
        """
        return _native.backup(self._inner, target, progress)

    # ---- files

    def write_bytes(self, path: AnyPath, data: Any) -> int:
        """Makes or empties a file and writes ``data``. Not atomic: ``replace_content`` is."""
        data = buffer(data)  # Before the file is emptied: what cannot be written shall not cost what is there.
        with self.open(path, "wb", 0) as file:
            return file.pwrite(data, 0)

    def write_text(
        self, path: AnyPath, text: str, encoding: str = "utf-8", errors: Optional[str] = None, newline: Optional[str] = None
    ) -> int:
        """The same with text."""
        if not isinstance(text, str):
            raise TypeError(f"text must be str, not {type(text).__name__}")
        with self.open(path, "w", -1, encoding, errors, newline) as file:
            return file.write(text)

    def replace_content(self, path: AnyPath, data: Any, *, durable: bool = True) -> None:
        """Makes a file with ``data``, or puts it in the place of all that the file holds, at once.

        Every reader, and whoever opens the vault after a power cut, finds all of the old content or all of the new. The file keeps its
        mode, its owner and its other names. ``data``: bytes, or text, which is written as UTF-8.
        """
        data = data.encode() if isinstance(data, str) else buffer(data)
        _native.replace(self._inner, encode(path, self), data, durable)

    def unnamed_file(self, directory: AnyPath = "/", permissions: int = 0o600) -> RawFile:
        """A new file without a name, to read and write; gone when it is closed, unless ``name_file`` gives it one."""
        name = encode(directory, self)
        native = _native.open_file(self._inner, name, ["unnamed"], permissions)
        return RawFile(self, native, None, "rb+")

    def name_file(self, file: Any, path: AnyPath) -> None:
        """Gives an open file a further name; an unnamed one its first."""
        raw: Any = getattr(file, "buffer", file)
        raw = getattr(raw, "raw", raw)
        if not isinstance(raw, RawFile):
            raise TypeError("name_file() takes a file that a vault opened")
        raw._inner.name(self._inner, encode(path, self))

    def truncate(self, path: AnyPath, length: int) -> None:
        """Cuts a file, or extends it by a hole, to ``length`` bytes."""
        if length < 0:
            raise OSError(22, "a negative size", decode(encode(path, self)))
        _native.set_attributes(self._inner, encode(path, self), True, size=length)

    # ---- names

    def mkdir(self, path: AnyPath, mode: int = 0o755) -> None:
        """Makes a directory. No umask is applied."""
        _native.make_directory(self._inner, encode(path, self), mode)

    def makedirs(self, path: AnyPath, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory and all that are missing on the way to it."""
        name = encode(path, self)
        if exist_ok:
            _native.make_directories(self._inner, name, mode)
            return
        try:
            _native.make_directory(self._inner, name, mode)
        except FileNotFoundError:
            above = name.rstrip(b"/").rpartition(b"/")[0]
            if not above:
                raise
            _native.make_directories(self._inner, above, mode)
            _native.make_directory(self._inner, name, mode)

    def mknod(self, path: AnyPath, mode: int = 0o100644, device: int = 0) -> None:
        """Makes a file, a pipe, a socket or a device, as ``os.mknod``."""
        _native.make_node(self._inner, encode(path, self), mode, device)

    def remove(self, path: AnyPath) -> None:
        """Removes the name of anything but a directory."""
        _native.remove_file(self._inner, encode(path, self))

    unlink = remove

    def rmdir(self, path: AnyPath) -> None:
        """Removes an empty directory."""
        _native.remove_directory(self._inner, encode(path, self))

    def rmtree(self, path: AnyPath) -> None:
        """Removes a directory and all below it; symlinks are removed, not followed."""
        _native.remove_tree(self._inner, encode(path, self))

    def rename(self, source: AnyPath, target: AnyPath, *, how: str = "replace") -> None:
        """Moves a name, atomically. What has the new name is replaced, as POSIX says.

        ``how="no_replace"`` refuses instead, ``"exchange"`` swaps the two.
        """
        _native.rename(self._inner, encode(source, self), encode(target, self), how)

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Moves a name, atomically; what has the new name is replaced."""
        self.rename(source, target)

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Gives the node at ``source`` the further name ``target``."""
        _native.link(self._inner, encode(source, self), encode(target, self))

    def symlink(self, source: AnyPath, target: AnyPath, target_is_directory: bool = False) -> None:
        """Makes a symbolic link at ``target`` that points to ``source``, which need not exist; arguments as those of ``os.symlink``."""
        _native.make_symlink(self._inner, encode(source, self), encode(target, self))

    # ---- attributes

    def chmod(self, path: AnyPath, mode: int, *, follow_symlinks: bool = True) -> None:
        """Changes the low 12 bits of the mode."""
        _native.set_attributes(self._inner, encode(path, self), follow_symlinks, mode=mode)

    def chown(self, path: AnyPath, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Changes owner and group; -1 leaves one as it is."""
        changes = {name: value for name, value in (("uid", uid), ("gid", gid)) if value != -1}
        _native.set_attributes(self._inner, encode(path, self), follow_symlinks, **changes)

    def utime(
        self,
        path: AnyPath,
        times: Optional[Tuple[float, float]] = None,
        *,
        ns: Optional[Tuple[Optional[int], Optional[int]]] = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Changes the times of access and modification, as ``os.utime``: to now without ``times`` and ``ns``.

        In ``ns``, ``None`` leaves one as it is.
        """
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if ns is None:
            now = time.time_ns()
            ns = (now, now) if times is None else (_nanoseconds(times[0]), _nanoseconds(times[1]))
        _native.set_attributes(self._inner, encode(path, self), follow_symlinks, atime=ns[0], mtime=ns[1])

    def setxattr(self, path: AnyPath, attribute: Any, value: Any, flags: int = 0, *, follow_symlinks: bool = True) -> None:
        """Sets an extended attribute; ``flags``: 0, ``os.XATTR_CREATE`` or ``os.XATTR_REPLACE``."""
        if flags not in (0, 1, 2):
            raise OSError(22, "flags are 0, os.XATTR_CREATE or os.XATTR_REPLACE")
        how = ("set", "create", "replace")[flags]
        _native.set_xattr(self._inner, encode(path, self), encode(attribute), buffer(value), how, follow_symlinks)

    def removexattr(self, path: AnyPath, attribute: Any, *, follow_symlinks: bool = True) -> None:
        """Removes an extended attribute."""
        _native.remove_xattr(self._inner, encode(path, self), encode(attribute), follow_symlinks)

    # ---- transactions

    def transaction(self, *, durable: bool = False) -> Transaction:
        """Begins a transaction: in a ``with``, its changes happen at the end, all of them, or none if an exception leaves the block.

        ``ChangedError`` if anything that it read is another by then: begin again.
        """
        return Transaction(self, _native.begin(self._inner), durable)

    # ---- snapshots

    def take_snapshot(
        self, message: str = "", tags: Tuple[str, ...] = (), *, only_if_changed: bool = False
    ) -> Optional[SnapshotInfo]:
        """Takes a snapshot of everything; ``None`` if nothing changed and ``only_if_changed``. Flush open files before."""
        taken = _native.take_snapshot(self._inner, message, list(tags), only_if_changed)
        return None if taken is None else SnapshotInfo._of(taken)

    def snapshots(self, selector: Optional[str] = None) -> List[SnapshotInfo]:
        """The snapshots that ``selector`` means, or all, oldest first."""
        return [SnapshotInfo._of(one) for one in _native.select_snapshots(self._inner, selector, False)]

    def snapshot(self) -> Snapshot:
        """The state of now, to be read in as many calls as it takes while others write. Close it, or use it in a ``with``."""
        return Snapshot(self, _native.read_snapshot(self._inner, None))

    def at(self, selector: str) -> Snapshot:
        """An earlier state, to be read: a tag ``t:…``, a date ``d:…``, or the beginning of an id."""
        return Snapshot(self, _native.read_snapshot(self._inner, selector))

    def remove_snapshot(self, selector: str) -> None:
        """Removes the one snapshot that ``selector`` means."""
        _native.remove_snapshot(self._inner, selector)

    def restore(self, selector: str, path: AnyPath = "/", to: Optional[AnyPath] = None) -> int:
        """Brings back what a snapshot had at ``path``, there or at ``to``; gives how many nodes. What is there is replaced in one step."""
        name = encode(path, self)
        return _native.restore(self._inner, selector, name, name if to is None else encode(to, self))[0]

    def differences(
        self, before: str, after: Optional[str] = None, path: AnyPath = "/"
    ) -> List[Tuple[Any, Optional[int], Optional[int]]]:
        """What differs at and below ``path`` between two snapshots, or between one and now.

        Each a path and the ``st_mode`` of what was there before and after; ``None`` for nothing.
        """
        found = _native.differences(self._inner, before, after, encode(path, self))
        return [(like(path, name), old, new) for name, old, new in found]

    def usage(self) -> Usage:
        """What the stored content is for: files of now, snapshots, nothing."""
        return Usage(**_native.usage(self._inner))

    def retention(self) -> Retention:
        """The rule by which ``thin`` goes: the shared rule, or the default one if none was set.

        Where a rule was set on this device, it keeps what either of both keeps.
        """
        return Retention(**_native.retention(self._inner))

    def shared_retention(self) -> Optional[Retention]:
        """The rule that was set last, on whichever device of a vault with remotes, as far as this device has synced; ``None`` for none."""
        found = _native.shared_retention(self._inner)
        return None if found is None else Retention(**found)

    def set_retention(self, rule: Retention) -> None:
        """Sets the rule for snapshots, also for the other devices; durable on return. One that keeps nothing is refused.

        Nothing goes before ``thin`` is called or a schedule takes the next snapshot.
        """
        _native.set_retention(self._inner, **asdict(rule))

    def thin(self) -> List[SnapshotInfo]:
        """Removes the snapshots that the rule of ``retention`` lets go; gives them."""
        return [SnapshotInfo._of(one) for one in _native.thin(self._inner)]

    def erase(self, path: AnyPath, *, trial: bool = False) -> Erased:
        """Takes the content of what was at ``path`` out of every snapshot, for good; gives how much that is.

        Nothing may be at ``path`` now. With ``trial`` nothing is done.
        """
        return Erased(**_native.erase(self._inner, encode(path, self), trial))

    # ---- remotes

    def remotes(self) -> List[Remote]:
        """The remotes of the vault, in the order in which they were added."""
        return [Remote(**remote) for remote in _native.remotes(self._inner)]

    def remote_status(self, name: str) -> RemoteStatus:
        """What waits for a remote, and which devices published there, as this device knows it; asks no remote.

        Everything done so far is durable on return. Takes time in proportion to what changed since the last push.
        """
        return RemoteStatus._of(_native.remote_status(self._inner, name))

    def add_remote(self, name: str, url: str, *, keep: bool = False) -> None:
        """Adds a remote: ``folder:/path``, ``s3://bucket/prefix`` … ``keep``: this device removes nothing there."""
        _native.add_remote(self._inner, name, url, keep)

    def remove_remote(self, name: str) -> None:
        """Forgets a remote. What is there stays there."""
        _native.remove_remote(self._inner, name)

    def limit_remotes(self, *, up: Optional[int] = None, down: Optional[int] = None) -> None:
        """From now on uses remotes at most so fast, in bytes per second."""
        _native.limit_remotes(self._inner, up, down)

    def push(self, name: str, progress: Optional[Progress] = None) -> PushReport:
        """Brings a remote what it lacks, and publishes it. ``progress`` as that of ``verify``."""
        return PushReport(**_native.push(self._inner, name, progress))

    def pull(self, name: str, progress: Optional[Progress] = None) -> PullReport:
        """Brings here what other devices published, and joins it."""
        return PullReport._of(_native.pull(self._inner, name, progress))

    def sync_with(self, name: str, progress: Optional[Progress] = None) -> SyncReport:
        """Pulls, then pushes, until this device and the remote have the same."""
        return SyncReport._of(_native.sync_with(self._inner, name, progress))

    def check_remote(self, name: str, *, deep: bool = False, progress: Optional[Progress] = None) -> List[str]:
        """What is missing at a remote or not as it was written, a line each; with ``deep`` every byte is read."""
        return _native.check_remote(self._inner, name, deep, progress)

    def keep_in_sync(
        self, every: float = 30.0, told: Optional[Callable[[Dict[str, Any]], Any]] = None
    ) -> ContinuousSync:
        """From now on syncs with all remotes by itself, asking them every ``every`` seconds at least.

        ``told`` hears of each event, as a dictionary, from a thread of its own. Close what this gives, or use it in a ``with``. What
        ``told`` raises goes to ``sys.unraisablehook``, and the sync goes on.
        """
        return ContinuousSync(self, _native.keep_in_sync(self._inner, every, told))

    def invite(self, name: str) -> Invitation:
        """Offers a new device, which has no key of the vault, to join through the remote of that name: by a code."""
        return Invitation(self, _native.invite(self._inner, name))

    def prune_remote(
        self, name: str, *, grace: float = 7 * 24 * 60 * 60, progress: Optional[Progress] = None
    ) -> PruneReport:
        """Removes from a remote what nothing has referred to for ``grace`` seconds. First it pushes.

        With less than a week, a device that is reading there now may have to begin again.
        """
        return PruneReport(**_native.prune_remote(self._inner, name, grace, progress))

    def unused_at_remote(self, name: str) -> PruneReport:
        """What ``prune_remote`` may remove sooner or later, as what waits. Nothing is removed."""
        return PruneReport(**_native.unused_at_remote(self._inner, name))

    # ---- content that only remotes have

    def evict(self, path: Optional[AnyPath] = None, progress: Optional[Progress] = None) -> EvictReport:
        """Removes content from this disk that remotes have: of files at or below ``path``, or of all. What is read later comes back."""
        where = None if path is None else encode(path, self)
        return EvictReport._of(_native.evict(self._inner, where, progress))

    def bring_back(self, path: Optional[AnyPath] = None, progress: Optional[Progress] = None) -> BringBackReport:
        """Brings evicted content back: of files at or below ``path``, or all."""
        where = None if path is None else encode(path, self)
        return BringBackReport(**_native.bring_back(self._inner, where, progress))

    def pin(self, path: AnyPath, progress: Optional[Progress] = None) -> BringBackReport:
        """Brings the content of what is at ``path`` here, with all below a directory, and keeps it here: ``evict`` leaves it."""
        return BringBackReport(**_native.pin(self._inner, encode(path, self), progress))

    def unpin(self, path: AnyPath) -> bool:
        """Lets ``evict`` take the content of what is at ``path`` again; gives whether it was pinned."""
        return _native.unpin(self._inner, encode(path, self))

    def pins(self) -> List[str]:
        """The paths of what is pinned."""
        return [decode(path) for path in _native.pins(self._inner)]

    def keep_at_most(self) -> Optional[int]:
        """How many bytes of segments this device keeps at most; ``None`` if it keeps all that comes."""
        return _native.keep_at_most(self._inner)

    def set_keep_at_most(self, bytes: Optional[int]) -> None:
        """Limits the bytes of segments that this device keeps, or ends that with ``None``; durable on return.

        Only this copy of the vault knows of it. Every sync then evicts what was least recently read, down to nine tenths of the limit, as far
        as its remote shows that it has it. What is pinned, was not pushed or was just read stays.
        """
        _native.set_keep_at_most(self._inner, bytes)

    def evict_to_limit(self, progress: Optional[Progress] = None) -> EvictReport:
        """Evicts at once what a sync would evict for the limit of ``keep_at_most``; nothing if there is none.

        What stayed is not counted: ``kept`` and ``pinned`` of the report are 0.
        """
        return EvictReport._of(_native.evict_to_limit(self._inner, progress))

    def conflicts(self) -> List[Conflict]:
        """All conflict copies in the vault, in the order of their paths."""
        return [Conflict._of(conflict) for conflict in _native.conflicts(self._inner)]

    def settle_conflict(self, path: AnyPath, keep: str) -> Any:
        """Ends a conflict: ``mine`` (the copy), ``theirs`` or ``both`` stay. Gives the path that the content has then."""
        return like(path, _native.settle_conflict(self._inner, encode(path, self), keep))


def _nanoseconds(seconds: float) -> int:
    return int(seconds) * 1_000_000_000 + round((seconds - int(seconds)) * 1_000_000_000)


_open_vaults: weakref.WeakSet[Vault] = weakref.WeakSet()


def _owns(vault: Vault) -> bool:
    try:
        return vault.is_owner
    except Exception:
        return False  # it is closed


def _close_at_exit() -> None:
    # Before modules and threads go: buffers are written, and the vault is left in order. Clients before owners, which wait for them.
    for vault in sorted(_open_vaults, key=_owns):
        try:
            vault.close()
        except Exception:
            print(f"strongroom: closing {vault!r} at the end of the program failed:", file=sys.stderr)
            traceback.print_exc()
    _native.wait_for_calls()


atexit.register(_close_at_exit)
