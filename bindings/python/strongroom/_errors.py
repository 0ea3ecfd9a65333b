"""Exceptions. Each is an ``OSError`` with ``errno``; errors that any file system has are Python's own subclasses of it."""

from __future__ import annotations

from typing import List, Type

__all__ = [
    "ChangedError",
    "DamagedError",
    "LockLostError",
    "LockedError",
    "NoSuchSnapshotError",
    "NotAVaultError",
    "OwnerGoneError",
    "RemoteError",
    "StoppedError",
    "UntrustedVaultError",
    "VaultError",
    "VaultExistsError",
    "VaultInUseError",
    "WrongSecretError",
]


class VaultError(OSError):
    """What only a vault says."""


class NotAVaultError(VaultError, FileNotFoundError):
    """The folder holds no vault."""


class VaultExistsError(VaultError, FileExistsError):
    """There is a vault already, or the folder holds other things."""


class WrongSecretError(VaultError, PermissionError):
    """No secret was given, or it opens no key slot."""


class UntrustedVaultError(VaultError):
    """The vault is older than what was seen of it, or another than the one that is meant."""


class VaultInUseError(VaultError):
    """Another process has the vault open, and it cannot be used through that one."""


class OwnerGoneError(VaultError, ConnectionAbortedError):
    """The process that had the vault open has gone: the last call may or may not have been carried out."""


class LockedError(VaultError, BlockingIOError):
    """Another open file holds a lock."""


class LockLostError(VaultError, ConnectionAbortedError):
    """The process that kept the lock has gone: others may have had it since."""


class ChangedError(VaultError):
    """What a transaction read was changed by somebody else: begin it again."""


class DamagedError(VaultError):
    """Stored bytes are missing or not as they were written. They are never read as content."""


class NoSuchSnapshotError(VaultError, FileNotFoundError):
    """The selector means no snapshot, or several."""


class RemoteError(VaultError):
    """Something is wrong with a remote."""


class StoppedError(VaultError):
    """The function that heard of the progress returned ``False``."""


def make(kind: str, number: int, message: str, paths: List[bytes]) -> OSError:
    """The exception of the class ``kind``; called by the native module."""
    found: Type[OSError] = globals().get(kind, OSError)
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    if len(names) == 2:
        return found(number, message, names[0], None, names[1])
    return found(number, message, *names)
