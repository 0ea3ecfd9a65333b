"""Converts paths of callers into the bytes that a vault uses, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from ._path import VaultPath

    #: What names a place in a vault.
    AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", VaultPath]
else:
    AnyPath = Any


def encode(path: AnyPath, tree: Any = None) -> bytes:
    """The bytes of ``path``; text is UTF-8, and what is none there comes back as it was (``surrogateescape``).

    ``tree``: the vault or snapshot that is asked. A ``VaultPath`` of another one is refused: it means another file.
    """
    if isinstance(path, str):
        return path.encode("utf-8", "surrogateescape")
    if isinstance(path, bytes):
        return path
    given: Any = path
    inside = getattr(given, "path_in_vault", None)
    if inside is not None:
        if tree is not None and given.vault is not tree:
            raise ValueError(f"{given!r} is a path of another vault or snapshot; give str(path) to mean the same path here")
        return encode(inside)
    try:
        return encode(os.fspath(given))
    except TypeError:
        kind = type(path).__name__
        raise TypeError(f"a path in a vault is str, bytes, os.PathLike or VaultPath, not {kind}") from None


def decode(name: bytes) -> str:
    """The text of ``name``; ``encode`` gives the same bytes again."""
    return name.decode("utf-8", "surrogateescape")


def like(path: AnyPath, name: bytes) -> Any:
    """``name`` as bytes if ``path`` is bytes, else as text."""
    return name if isinstance(path, bytes) else decode(name)


def join(directory: bytes, name: bytes) -> bytes:
    """``name`` below ``directory``."""
    return directory + name if directory.endswith(b"/") else directory + b"/" + name


def buffer(data: Any) -> bytes:
    """``data`` as bytes: itself if it is that, else a copy of what a bytes-like object holds."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        raise TypeError("a bytes-like object is required, not 'str'")
    return memoryview(data).tobytes()
