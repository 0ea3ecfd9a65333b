"""Attributes of a node, as the ``os.stat_result`` that Python programs know."""

from __future__ import annotations

from typing import Tuple

from ._native import _BLOCK_BYTES as BLOCK_BYTES
from ._native import stat_result

__all__ = ["BLOCK_BYTES", "Stat", "created_ns", "stat_result"]

#: The order in which the native module gives it; see ``attributes.rs``.
Stat = Tuple[int, int, int, int, int, int, int, int, int, int, int, int]


def created_ns(stat: Stat) -> int:
    """When the node was made, in nanoseconds since 1970."""
    return stat[9]
