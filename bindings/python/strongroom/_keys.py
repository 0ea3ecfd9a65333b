"""Key slots: the ways to unlock a vault."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

from . import _native
from ._secrets import AnyFile, AnyPassphrase, content, passphrase_bytes, source
from ._sync import Progress


@dataclass(frozen=True)
class Slot:
    """A key slot."""

    #: 16 hexadecimal digits.
    id: str
    #: ``passphrase``, ``recovery_code``, ``key_file``, ``age`` or ``ssh``.
    kind: str
    #: What the person called it; public.
    label: str
    #: When it was made, in seconds since 1970.
    created_s: int


def key_slots(folder: Union[str, os.PathLike[str]]) -> List[Slot]:
    """What everybody may know about the key slots of the vault in ``folder``: nothing proves it."""
    return [Slot(**slot) for slot in _native.key_slots(folder)]


def write_key_file(path: Union[str, os.PathLike[str]]) -> None:
    """Writes a new key file, which must not exist yet, for this user alone to read."""
    text = _native.new_key_file()
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w") as file:
        file.write(text + "\n")


class Keys:
    """The keys of a vault, unlocked by a secret as ``Vault`` takes it; others may use the vault meanwhile.

    Every change begins a new epoch of keys: what is stored from now on, nobody who was removed can open.
    """

    def __init__(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        passphrase: Optional[AnyPassphrase] = None,
        recovery_code: Optional[str] = None,
        key_file: Optional[AnyFile] = None,
        identity_file: Optional[AnyFile] = None,
        identity_passphrase: Optional[str] = None,
        fingerprint: Optional[str] = None,
        accept_older: bool = False,
        remember: bool = True,
    ) -> None:
        secret = source(passphrase, recovery_code, key_file, identity_file, identity_passphrase)()
        self._inner = _native.open_keys(
            folder, secret, remember=remember, fingerprint=fingerprint, accept_older=accept_older
        )

    def slots(self) -> List[Slot]:
        """The key slots, proved."""
        return [Slot(**slot) for slot in self._inner.slots()]

    def add_passphrase(self, passphrase: AnyPassphrase, label: str = "") -> None:
        """Adds a passphrase."""
        self._inner.add(label, ("passphrase", passphrase_bytes(passphrase), None))

    def add_key_file(self, key_file: AnyFile, label: str = "") -> None:
        """Adds a key file that ``write_key_file`` made."""
        self._inner.add(label, ("key_file", content(key_file), None))

    def add_recipient(self, recipient: str, label: str = "") -> None:
        """Adds an age or SSH public key."""
        self._inner.add(label, ("recipient", recipient.encode(), None))

    def add_recovery_code(self, label: str = "") -> str:
        """Adds a new recovery code and gives it: show it once."""
        code = _native.new_recovery_code()
        self._inner.add(label, ("recovery_code", code.encode(), None))
        return code

    def remove(self, slot: Union[str, Slot]) -> None:
        """Removes a key slot, by its id."""
        self._inner.remove(slot.id if isinstance(slot, Slot) else slot)

    def change_passphrase(self, slot: Union[str, Slot], passphrase: AnyPassphrase) -> None:
        """Replaces the passphrase of a slot."""
        id = slot.id if isinstance(slot, Slot) else slot
        self._inner.change_passphrase(id, ("passphrase", passphrase_bytes(passphrase), None))

    def rotate(self) -> None:
        """Begins a new epoch; the process that has the vault open re-seals what was stored before, in the background."""
        self._inner.rotate()

    def remove_device(self, id: str) -> None:
        """Removes a device of the vault, by its id or the beginning of it."""
        self._inner.remove_device(id)

    def close(self) -> None:
        """Wipes the keys. A second time does nothing."""
        self._inner.close()

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def clone(
    url: str,
    folder: Union[str, os.PathLike[str]],
    *,
    passphrase: Optional[AnyPassphrase] = None,
    recovery_code: Optional[str] = None,
    key_file: Optional[AnyFile] = None,
    identity_file: Optional[AnyFile] = None,
    identity_passphrase: Optional[str] = None,
    on_demand: bool = False,
    fingerprint: Optional[str] = None,
    remember: bool = True,
    progress: Optional[Progress] = None,
) -> str:
    """Makes a vault in ``folder``, new or empty, out of the remote at ``url``; gives its fingerprint.

    The remote is called ``origin`` there. ``on_demand``: the content of files stays at the remote until it is read. Interrupted at any
    moment, the same call goes on.
    """
    secret = source(passphrase, recovery_code, key_file, identity_file, identity_passphrase)()
    return _native.clone(
        url, folder, secret, on_demand=on_demand, remember=remember, fingerprint=fingerprint, progress=progress
    )
