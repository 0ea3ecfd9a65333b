#!/usr/bin/env python3
"""Writes spec/vectors/algorithm/*.json: known answers of the bare algorithms, which every provider must give.

They are computed with the Python package `cryptography`, the standard library, blake3_slow.py and aegis_slow.py; Argon2id with
the package `argon2-cffi`. Content is a pattern that a reader can compute from its length.
"""

import hashlib
import json
import pathlib

from argon2.low_level import Type, hash_secret_raw
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aegis_slow import AEGIS256
from blake3_slow import blake3, derive_key

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "algorithm"
KEY = bytes(range(0x80, 0xA0))
NONCE = bytes(range(0x20, 0x40))
CONTEXT = "strongroom provider self-test"
LENGTHS = (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 511, 512, 1023, 1024, 1025,
           4095, 4096, 4097, 16383, 16384)
HASH_LENGTHS = LENGTHS + (2048, 2049, 3072, 65536, 65600)
FILES = {}


def pattern(length):
    """Byte i is i mod 251."""
    return bytes(index % 251 for index in range(length))


def known(algorithm, spec, why, cases, **rest):
    FILES[algorithm.lower()] = {"spec": spec, "why": why, "algorithm": algorithm} | rest | {"cases": cases}


def aeads():
    for algorithm, aead, nonce in (
        ("AES-256-GCM", AESGCM, NONCE[:12]),
        ("ChaCha20-Poly1305", ChaCha20Poly1305, NONCE[:12]),
        ("AEGIS-256", AEGIS256, NONCE),
    ):
        cases = []
        for length in LENGTHS:
            sealed = aead(KEY).encrypt(nonce, pattern(length), b"")
            cases.append({
                "length": length, "ciphertext_sha256": hashlib.sha256(sealed[:-16]).hexdigest(), "tag": sealed[-16:].hex(),
            })
        known(algorithm, "2.19", "the pattern sealed without associated data", cases, key=KEY.hex(), nonce=nonce.hex())


def hashes():
    cases = [{
        "length": length,
        "hash": blake3(pattern(length)).hex(),
        "keyed_xof_64": blake3(pattern(length), 64, key=KEY).hex(),
        "derived": derive_key(CONTEXT, pattern(length)).hex(),
    } for length in HASH_LENGTHS]
    known("BLAKE3", "2.11", "the pattern in the three modes in use", cases, key=KEY.hex(), context=CONTEXT)


def stretched():
    cases = [{
        "memory_kib": memory_kib, "passes": passes, "lanes": lanes,
        "out": hash_secret_raw(b"password", b"somesalt", passes, memory_kib, lanes, 32, Type.ID).hex(),
    } for memory_kib, passes, lanes in ((256, 2, 1), (256, 2, 2), (8, 1, 1), (1000, 3, 4), (65536, 3, 1))]
    known("Argon2id", "1.6.5", "`password` stretched with `somesalt`", cases)


def signatures():
    cases = []
    for length in (0, 1, 100, 1000):
        key = Ed25519PrivateKey.from_private_bytes(KEY)
        cases.append({"length": length, "signature": key.sign(pattern(length)).hex()})
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    known("Ed25519", "1.4.6", "the pattern signed", cases, seed=KEY.hex(), public_key=public.hex())


def main():
    aeads()
    hashes()
    stretched()
    signatures()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        if old.stem not in FILES:
            old.unlink()
    for file, content in FILES.items():
        (FOLDER / f"{file}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(FILES)} vectors in {FOLDER.relative_to(FOLDER.parents[2])}")


if __name__ == "__main__":
    main()
