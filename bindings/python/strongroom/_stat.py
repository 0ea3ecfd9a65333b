"""Attributes of a node, as the ``os.stat_result`` that Python programs know."""

from __future__ import annotations

import os
from typing import Tuple

#: The order in which the native module gives it; see ``attributes.rs``.
Stat = Tuple[int, int, int, int, int, int, int, int, int, int, int, int]

_SECOND = 1_000_000_000
#: Content is stored in blocks of this size at most.
BLOCK_BYTES = 65536


def stat_result(stat: Stat) -> os.stat_result:
    """The same as ``os.stat_result``; ``st_dev`` is 0."""
    mode, inode, links, uid, gid, size, accessed, modified, changed, _created, blocks, device = stat
    shown = (mode, inode, 0, links, uid, gid, size, accessed // _SECOND, modified // _SECOND, changed // _SECOND)
    more = {
        "st_atime": _seconds(accessed),
        "st_mtime": _seconds(modified),
        "st_ctime": _seconds(changed),
        "st_atime_ns": accessed,
        "st_mtime_ns": modified,
        "st_ctime_ns": changed,
        "st_blksize": BLOCK_BYTES,
        "st_blocks": blocks,
        "st_rdev": device,
    }
    return os.stat_result(shown, more)


def _seconds(ns: int) -> float:
    # As CPython does it, so that equal times are equal floats.
    seconds, rest = divmod(ns, _SECOND)
    return seconds + 1e-9 * rest


def created_ns(stat: Stat) -> int:
    """When the node was made, in nanoseconds since 1970."""
    return stat[9]
