"""Snapshots: facts about them, and reading one."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Tuple

from . import _native
from ._tree import Tree

if TYPE_CHECKING:
    from ._vault import Vault


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot that is kept."""

    #: Its name: 64 hexadecimal digits. The beginning is a selector.
    id: str
    #: What it follows.
    parents: Tuple[str, ...]
    #: When it was taken, in nanoseconds since 1970.
    time_ns: int
    message: str
    tags: Tuple[str, ...]

    @property
    def time(self) -> datetime.datetime:
        """When it was taken, in UTC."""
        return datetime.datetime.fromtimestamp(self.time_ns / 1e9, datetime.timezone.utc)

    @classmethod
    def _of(cls, found: Dict[str, Any]) -> SnapshotInfo:
        return cls(**{**found, "parents": tuple(found["parents"]), "tags": tuple(found["tags"])})


class Snapshot(Tree):
    """One state of a vault, to be read by the same calls as the vault. Files that it opens stay of that state.

    A path in it goes without ``..``, and a symlink that leads out of it is refused.
    """

    _inner: _native.Snapshot

    def __init__(self, vault: Vault, native: _native.Snapshot) -> None:
        super().__init__()
        self._inner = native
        self._vault = vault
        vault._holds(self)

    @property
    def id(self) -> str:
        """Its name among the snapshots."""
        return self._inner.id

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._inner.closed

    def close(self) -> None:
        """Closes it; files that it opened stay open. A state that was taken to be read goes then."""
        if not self.closed:
            self._vault._lets_go(self)
            self._inner.close()

    def _holds(self, opened: Any) -> None:
        self._vault._holds(opened)

    def _lets_go(self, opened: Any) -> None:
        self._vault._lets_go(opened)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<strongroom.Snapshot {'closed' if self.closed else self.id[:12]}>"
