"""Pairing: a device of a vault lets a new one in, by a code that a person carries from one to the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native
from ._secrets import AnyFile, AnyPassphrase, source
from ._sync import Progress

if TYPE_CHECKING:
    from ._keys import Keys
    from ._vault import Vault


class Candidate:
    """A device that has the code and asks to be let in."""

    def __init__(self, native: _native.Candidate) -> None:
        self._inner = native

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self._inner.name

    @property
    def fingerprint(self) -> str:
        """What the new device shows too, if nobody sits between the two: let a person compare them."""
        return self._inner.fingerprint

    def __repr__(self) -> str:
        return f"<strongroom.Candidate {self.name!r} {self.fingerprint}>"


class Invitation:
    """The offer that a new device may join a vault: good for ten minutes and five tries of a code.

    Show ``code``, then ``look`` about once a second. Close it, or use it in a ``with``: the code is void then.
    """

    def __init__(self, vault: Vault, native: _native.Invitation) -> None:
        self._inner = native
        self._vault = vault
        vault._holds(self)

    @property
    def code(self) -> str:
        """What a person types on the new device."""
        return self._inner.code

    @property
    def tries_left(self) -> int:
        """How many wrong codes may still be tried; fewer than before mean that somebody tried one."""
        return self._inner.tries_left

    def look(self) -> Optional[Candidate]:
        """Looks once whether a device with the code asks. After an error of the remote it can look again.

        It fails with ``ETIMEDOUT`` or ``EACCES`` when the time or the tries are used up.
        """
        found = self._inner.look()
        return None if found is None else Candidate(found)

    def admit(self, keys: Keys, candidate: Candidate, progress: Optional[Progress] = None) -> None:
        """Makes the device a member of the vault, and publishes that; ``keys`` are those of the vault. The code is void then."""
        self._inner.admit(keys._inner, candidate._inner, progress)

    def refuse(self, candidate: Candidate) -> None:
        """Lets the device know that it is not let in. The code is void then."""
        self._inner.refuse(candidate._inner)

    def close(self) -> None:
        """Takes the offer back, if it did not end. A second time does nothing."""
        self._vault._lets_go(self)
        self._inner.close()

    def __enter__(self) -> Invitation:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class NewDevice:
    """This device, when it has no key of the vault at the remote ``url`` and asks another one to let it in.

    ``name``: what the other device shows. ``passphrase`` or ``key_file``: opens the vault here later; it becomes a key slot of its own.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        passphrase: Optional[AnyPassphrase] = None,
        key_file: Optional[AnyFile] = None,
    ) -> None:
        secret = source(passphrase, None, key_file, None, None)()
        self._inner = _native.new_device(url, secret, name)

    @property
    def fingerprint(self) -> str:
        """What the other device shows too: let a person compare them."""
        return self._inner.fingerprint

    def ask(self, code: str) -> None:
        """Asks the device that shows ``code`` to let this one in; up to five times, with another code. Then ``look`` about once a second."""
        self._inner.ask(code)

    def look(self) -> bool:
        """Looks once whether the other device has let this one in. After an error of the remote it can look again.

        It fails with ``EACCES`` if the code was another one (ask again) or the person said no.
        """
        return self._inner.look()

    def clone(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        on_demand: bool = False,
        fingerprint: Optional[str] = None,
        remember: bool = True,
        progress: Optional[Progress] = None,
    ) -> str:
        """Makes a vault in ``folder`` as the device that was let in; gives its fingerprint. Else as ``strongroom.clone``.

        Interrupted, ``strongroom.clone`` with the same secret goes on.
        """
        return self._inner.clone(
            folder, on_demand=on_demand, remember=remember, fingerprint=fingerprint, progress=progress
        )

    def close(self) -> None:
        """Gives up to join, or ends what has joined. A second time does nothing."""
        self._inner.close()

    def __enter__(self) -> NewDevice:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
