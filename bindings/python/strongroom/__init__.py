"""An end-to-end encrypted file system in one folder, for Python programs.

>>> import strongroom
>>> vault = strongroom.Vault.create("vault", passphrase="correct horse")     # doctest: +SKIP
>>> with vault.open("/hello.txt", "w") as file:                              # doctest: +SKIP
...     file.write("hello")

``Vault`` creates and opens vaults. Files are Python's own file objects, functions have the names of ``os``, ``VaultPath`` works like
``pathlib.Path``, and errors are ``OSError`` with ``errno``. ``strongroom.fsspec`` is a file system for pandas and others.
"""

import importlib.metadata

from ._errors import (
    ChangedError,
    DamagedError,
    LockedError,
    LockLostError,
    NoSuchSnapshotError,
    NotAVaultError,
    OwnerGoneError,
    RemoteError,
    StoppedError,
    UntrustedVaultError,
    VaultError,
    VaultExistsError,
    VaultInUseError,
    WrongSecretError,
)
from ._files import RawFile
from ._history import Snapshot, SnapshotInfo
from ._keys import Keys, Slot, clone, key_slots, write_key_file
from ._pairing import Candidate, Invitation, NewDevice
from ._path import VaultPath
from ._sync import (
    BringBackReport,
    Conflict,
    ContinuousSync,
    DevicePublication,
    EvictReport,
    PruneReport,
    PullReport,
    PushReport,
    Remote,
    RemoteStatus,
    SyncReport,
)
from ._transaction import Transaction
from ._tree import DirEntry
from ._vault import Vault
from ._whole import Damage, Erased, Information, Retention, Rotation, Space, Usage, VerifyReport

__version__ = importlib.metadata.version("strongroom")

__all__ = [
    "BringBackReport",
    "Candidate",
    "ChangedError",
    "Conflict",
    "ContinuousSync",
    "Damage",
    "DamagedError",
    "DevicePublication",
    "DirEntry",
    "Erased",
    "EvictReport",
    "Information",
    "Invitation",
    "Keys",
    "LockLostError",
    "LockedError",
    "NewDevice",
    "NoSuchSnapshotError",
    "NotAVaultError",
    "OwnerGoneError",
    "PruneReport",
    "PullReport",
    "PushReport",
    "RawFile",
    "Remote",
    "RemoteError",
    "RemoteStatus",
    "Retention",
    "Rotation",
    "Slot",
    "Snapshot",
    "SnapshotInfo",
    "Space",
    "StoppedError",
    "SyncReport",
    "Transaction",
    "UntrustedVaultError",
    "Usage",
    "Vault",
    "VaultError",
    "VaultExistsError",
    "VaultInUseError",
    "VaultPath",
    "VerifyReport",
    "WrongSecretError",
    "clone",
    "key_slots",
    "write_key_file",
]
