"""Reports about a whole vault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, NamedTuple, Optional, Tuple

from ._names import decode


class Space(NamedTuple):
    """How full a vault is."""

    #: Of the disk, or the quota if that is less.
    total_bytes: int
    #: What a writer can still use.
    free_bytes: int
    #: Nodes in the vault.
    nodes: int


class Usage(NamedTuple):
    """What stored content is for, in sealed bytes."""

    #: What files name now, whether or not snapshots name it too.
    live_bytes: int
    #: What only snapshots hold.
    kept_bytes: int
    #: What nothing names any more; it comes back in the background.
    waste_bytes: int


class Erased(NamedTuple):
    """What ``erase`` took out of snapshots, or would."""

    #: Files whose content it was, over all snapshots.
    files: int
    #: Sealed bytes that are gone.
    bytes: int
    #: Snapshots that had something at the path.
    snapshots: int
    #: Sealed bytes that stay, because other files have the same content.
    shared_bytes: int
    #: Files of the vault folder that still hold some of it, because other content in them is damaged.
    segments_left: int


@dataclass(frozen=True)
class Retention:
    """Which snapshots stay: of each of the last so many periods in which there is one, the newest.

    It is about snapshots that a schedule took, or a command as a precaution, and that have no tag; all others stay.
    """

    #: Keeps all.
    EVERYTHING: ClassVar[Retention]

    #: The last ones, whenever they were taken; with 2**32 - 1, all stay.
    last: int = 0
    hourly: int = 0
    #: Days, in UTC as all of these.
    daily: int = 0
    #: Weeks, which begin on Monday.
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    #: Whether it is also about snapshots that have neither message nor tag.
    unnamed: bool = False


Retention.EVERYTHING = Retention(last=2**32 - 1)


@dataclass(frozen=True)
class Information:
    """What a vault is."""

    #: What tells this vault from any other; printed when it was made.
    fingerprint: str
    #: The algorithms, by name.
    suite: str
    #: How often the header has changed.
    generation: int
    #: The newest epoch of keys.
    epoch: int
    #: The process that has the vault open.
    owner_pid: int
    #: Whether that process opened it for reading only.
    read_only: bool
    compression: str
    #: Sealed bytes of content that is only at remotes.
    away_bytes: int
    #: Changes of devices and keys that nobody here made or accepted, a line each.
    unknown_records: Tuple[str, ...]

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> Information:
        return cls(**{**found, "unknown_records": tuple(found["unknown_records"])})


@dataclass(frozen=True)
class Rotation:
    """How far a change of keys is."""

    #: Whether what earlier keys sealed is being re-sealed.
    is_running: bool
    newest_epoch: int
    #: The oldest epoch whose keys are still there.
    oldest_epoch: int
    #: Sealed bytes that need keys of earlier epochs.
    bytes_left: int
    #: What keeps it from continuing at this moment.
    trouble: Optional[str]


class Damage(NamedTuple):
    """What a path lost."""

    path: str
    what: str
    #: Whether the living state lost it, not only a snapshot.
    now: bool


@dataclass(frozen=True)
class VerifyReport:
    """What a verification found."""

    #: Whether everything that was looked at is as it was written, and no device or key waits for a decision.
    sound: bool
    #: Whether something is not as it was written. A device or key that nobody here accepted is no damage; ``problems`` names it.
    is_damaged: bool
    #: Whether it reached the end; else a later one can go on.
    finished: bool
    bytes: int
    blocks: int
    #: Files of the vault folder that are not as they were written, tables that do not agree, and what waits for a decision: a sentence each.
    problems: Tuple[str, ...]
    damaged: Tuple[Damage, ...]

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> VerifyReport:
        damaged = tuple(Damage(decode(path), what, now) for path, what, now in found["damaged"])
        return cls(**{**found, "problems": tuple(found["problems"]), "damaged": damaged})
