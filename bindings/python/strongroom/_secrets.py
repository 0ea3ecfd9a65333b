"""The secrets that open a vault, in the forms that callers pass them."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Tuple, Union

from ._errors import WrongSecretError

#: A passphrase: text, its UTF-8, or a function that asks for it and is called only when it is needed.
AnyPassphrase = Union[str, bytes, bytearray, Callable[[], Union[str, bytes]]]
#: The path of a file, or its content.
AnyFile = Union[str, bytes, "os.PathLike[str]"]

#: As the native module takes it: a kind, bytes, and the passphrase of a key that has one.
Given = Tuple[str, bytes, Optional[str]]

_HELP = "give one of passphrase, recovery_code, key_file, identity_file"


def passphrase_bytes(passphrase: AnyPassphrase) -> bytes:
    """The bytes of a passphrase; asks for it if it is a function."""
    value: Any = passphrase() if callable(passphrase) else passphrase
    if isinstance(value, str):
        return _encoded(value)
    # Not all that `bytes` takes: of a number it makes so many zeros, which anybody would guess.
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a passphrase is text or bytes, not {type(value).__name__}")


def _encoded(secret: str) -> bytes:
    """Its UTF-8. The exception that Python has for text which has none would hold the secret."""
    try:
        return secret.encode()
    except UnicodeEncodeError:
        pass
    raise ValueError("the secret has half of a surrogate pair, which UTF-8 cannot encode")


def content(file: AnyFile) -> bytes:
    """What a file of the disk holds; bytes are the content itself."""
    if isinstance(file, bytes):
        return file
    # Of a number `open` takes what that descriptor reads: of 0, standard input.
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"a file is its path, or bytes, not {type(file).__name__}")
    with open(file, "rb") as opened:
        return opened.read()


def source(
    passphrase: Optional[AnyPassphrase],
    recovery_code: Optional[str],
    key_file: Optional[AnyFile],
    identity_file: Optional[AnyFile],
    identity_passphrase: Optional[str],
) -> Callable[[], Given]:
    """A function that gives the one secret that is there; it raises if there is none."""
    given = [secret for secret in (passphrase, recovery_code, key_file, identity_file) if secret is not None]
    if len(given) > 1:
        raise TypeError("more than one secret; " + _HELP)

    def find() -> Given:
        if passphrase is not None:
            return "passphrase", passphrase_bytes(passphrase), None
        if recovery_code is not None:
            return "recovery_code", _encoded(recovery_code), None
        if key_file is not None:
            return "key_file", content(key_file), None
        if identity_file is not None:
            return "identity", content(identity_file), identity_passphrase
        raise WrongSecretError(13, "no process has the vault open, and no secret was given to open it; " + _HELP)

    return find


def new_keys(passphrase: Optional[AnyPassphrase], key_file: Optional[AnyFile], recipient: Optional[str]) -> List[Given]:
    """The keys that a new vault is made with."""
    keys: List[Given] = []
    if passphrase is not None:
        keys.append(("passphrase", passphrase_bytes(passphrase), None))
    if key_file is not None:
        keys.append(("key_file", content(key_file), None))
    if recipient is not None:
        keys.append(("recipient", recipient.encode(), None))
    return keys
