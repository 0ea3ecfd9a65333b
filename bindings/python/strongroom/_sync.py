"""Remotes, and reports of what a pull, push or sync transferred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from . import _native
from ._names import decode

if TYPE_CHECKING:
    import os

    from ._vault import Vault

#: Hears how far something is: bytes, and bytes in all. ``False`` stops it.
Progress = Callable[[int, int], Optional[bool]]


@dataclass(frozen=True)
class Remote:
    """A remote of a vault."""

    name: str
    #: Where it is, without credentials.
    url: str
    #: Publications that this vault made there or read.
    publications: int
    #: What people compare on two devices: where ``publications`` are equal and these differ, the remote has shown them different histories.
    #: Empty before the first publication.
    code: str
    #: Segments and snapshots that it has.
    objects: int
    #: Whether this device removes nothing there.
    keeps: bool


@dataclass(frozen=True)
class DevicePublication:
    """The newest publication of a device at a remote."""

    #: The id of the device.
    device: str
    #: What people call it.
    name: Optional[str]
    #: Whether it is the device that this copy of the vault acts as.
    is_this: bool
    number: int
    #: When it was made, in seconds since 1970, by the clock of that device.
    time_s: int


@dataclass(frozen=True)
class RemoteStatus:
    """What waits for a remote, and which devices published there, as this device knows it."""

    #: Whether a push would publish something: also a removal or another name, for which no file waits.
    is_waiting: bool
    #: Sealed bytes on this disk that the remote does not have, of all snapshots. Some of them may wait for the next change.
    waiting_bytes: int
    #: Files, symlinks and special files that were made, changed or moved since the state that the remote has; ``None`` if that is not known.
    waiting_files: Optional[int]
    #: Sealed bytes of content that is not on this disk and that the remote has.
    away_bytes: int
    #: Those of them that no other remote has.
    alone_bytes: int
    #: When the remote answered last, in seconds since 1970; ``None`` if that is not known.
    contact_s: Optional[int]
    #: The newest publication of each device, newest first.
    newest: Tuple[DevicePublication, ...]

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> RemoteStatus:
        return cls(**{**found, "newest": tuple(DevicePublication(**one) for one in found["newest"])})


@dataclass(frozen=True)
class PushReport:
    """What a push did."""

    #: Objects that went up, and their bytes.
    objects: int
    bytes: int
    #: Publications that were made; 0: there was nothing new.
    publications: int


@dataclass(frozen=True)
class PullReport:
    """What a pull did."""

    #: Objects that came down, and their bytes.
    objects: int
    bytes: int
    #: Publications that were taken in; 0: there was nothing new.
    publications: int
    #: Names that came, went or mean another file now.
    names: int
    #: Files, directories and others that are new or were changed.
    nodes: int
    #: Names that were given because both sides changed one thing, and the first thousand of them.
    conflicts: int
    conflict_paths: Tuple[str, ...]
    #: Texts that have the lines of both sides now, and the first thousand of them.
    merged: int
    merged_paths: Tuple[str, ...]
    #: Sealed bytes of content that another device erased, and that were erased here, too.
    erased_bytes: int
    #: Sealed bytes that stay, because a file here has that content now, or another file has it in a snapshot.
    unerased_bytes: int
    #: Why such content was not erased, a line each; it is tried again later.
    erase_problems: Tuple[str, ...]
    #: Deposits that came into `/Inbox`, and the first thousand of them.
    received: int
    received_paths: Tuple[str, ...]
    #: Deposits that did not come, with the reason.
    deposit_problems: Tuple[str, ...]

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> PullReport:
        paths = {name: tuple(map(decode, found[name])) for name in ("conflict_paths", "merged_paths", "received_paths")}
        problems = {name: tuple(found[name]) for name in ("erase_problems", "deposit_problems")}
        return cls(**{**found, **paths, **problems})


@dataclass(frozen=True)
class SyncReport:
    """What a sync did."""

    pulled: PullReport
    pushed: PushReport
    #: Segments that went from this disk for the limit of this device, and their bytes.
    evicted_segments: int
    evicted_bytes: int

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> SyncReport:
        parts = {"pulled": PullReport._of(found["pulled"]), "pushed": PushReport(**found["pushed"])}
        return cls(**{**found, **parts})


@dataclass(frozen=True)
class Conflict:
    """A conflict copy: what one device had where another had published something else."""

    path: str
    #: The first digits of the id of the device that made it.
    device: str
    #: When that device had it, in UTC.
    time: str
    #: The path that it was made of.
    beside: str
    #: Whether something still has that path.
    is_published: bool

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> Conflict:
        path, beside = decode(found["path"]), decode(found["beside"])
        if not beside.startswith("/"):
            beside = path.rpartition("/")[0] + "/" + beside
        return cls(path, found["device"], found["time"], beside, found["published"] is not None)


@dataclass(frozen=True)
class EvictReport:
    """What an eviction did."""

    #: Segments that went from this disk, and their bytes.
    segments: int
    bytes: int
    #: Segments that stayed, because no remote has shown that it has them, and their bytes.
    kept: int
    kept_bytes: int
    #: Segments that stayed, because content of something pinned lies in them, and their bytes.
    pinned: int
    pinned_bytes: int
    #: Why remotes were not asked, a line each.
    problems: Tuple[str, ...]
    #: Whether ``progress`` stopped it; what went stays away.
    is_stopped: bool

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> EvictReport:
        return cls(**{**found, "problems": tuple(found["problems"])})


@dataclass(frozen=True)
class BringBackReport:
    """What came back from remotes."""

    #: Segments that came, and their bytes.
    segments: int
    bytes: int
    #: Segments that no remote has any more, and their bytes: a verification names the files that this costs.
    lost: int
    lost_bytes: int
    #: Whether ``progress`` stopped it; what came stays.
    is_stopped: bool


@dataclass(frozen=True)
class PruneReport:
    """What was removed from a remote."""

    #: Objects that were removed, and their bytes.
    objects: int
    bytes: int
    #: Objects to which nothing refers any more, and which stay until the grace is over; and their bytes.
    waiting: int
    waiting_bytes: int
    #: Such objects that the remote itself keeps for some days, and their bytes.
    kept: int
    kept_bytes: int


class ContinuousSync:
    """A continuous sync, until it or its vault is closed.

    What hears of its events may close it too, and so may a ``progress`` function: then nothing is waited for there, and it ends when
    the first has returned, or before the call of the second returns.
    """

    def __init__(self, vault: Vault, native: _native.ContinuousSync) -> None:
        self._inner = native
        self._vault = vault
        # Not forgotten when nobody keeps it.
        vault._open[id(self)] = lambda: self

    def finish(self) -> None:
        """Ends it when what waits has gone to the remotes that work."""
        self._vault._lets_go(self)
        self._inner.close(True)

    def close(self) -> None:
        """Ends it at once. A second time does nothing."""
        self._vault._lets_go(self)
        self._inner.close(False)

    def __enter__(self) -> ContinuousSync:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()
