#!/usr/bin/env python3
"""Writes spec/vectors/block/*.json: sealed blocks and records, some correct, the others with exactly one fault each.

A separate implementation of spec/2-block.md, slow and simple: BLAKE3 from blake3_slow.py, AEGIS-256 from aegis_slow.py,
AES-GCM and ChaCha20-Poly1305 from the Python package `cryptography`. The package `blake3` only cross-checks blake3_slow.py.
It gives the same files on every run, and removes all other files from the folder.

    python3 -m venv VENV && VENV/bin/pip install -r tools/vectors/requirements.txt
    VENV/bin/python tools/vectors/generate.py
"""

import json
import pathlib

import blake3 as blake3_package
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from aegis_slow import AEGIS256
from blake3_slow import blake3, derive_key

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "block"
CHUNK, TAG, BLOCK_MAX = 4 * 1024, 16, 64 * 1024
LABEL, FORMAT = b"strongroom\0\0", 1
BLOCK_SEALING = "strongroom format 1 2026-11-21 block sealing"
RECORD_NAMING = "strongroom format 1 2026-11-21 record naming"
AEADS = {1: AESGCM, 2: ChaCha20Poly1305, 3: AEGIS256}
NONCE_LENGTHS = {1: 12, 2: 12, 3: 32}
SUITES = ((1, "aes"), (2, "chacha"), (3, "aegis"))
DATA, BATCH_INDEX, REPLICA_KEY, COMPRESSED_DATA, COMPRESSED_TREE_NODE = 1, 4, 9, 11, 12
NO_SALT = bytes(32)

ID_KEY = bytes(range(0x40, 0x60))
EPOCH_KEYS = {0: bytes(range(0x80, 0xA0)), 5: bytes(range(0xA0, 0xC0))}
COMPARTMENT = bytes(range(0x10, 0x20))
SALT = bytes(range(0xE0, 0x100))


def pattern(length):
    """Content that a reader can make anew from its length: byte i is i mod 251."""
    return bytes(index % 251 for index in range(length))


def name(kind, clear, salt=NO_SALT, compartment=COMPARTMENT, id_key=ID_KEY, form=FORMAT, label=LABEL):
    context = label + form.to_bytes(2, "little") + kind.to_bytes(2, "little") + compartment + salt
    assert len(context) == 64
    return blake3(context + clear, key=id_key)


def record_name(kind, clear, epoch=5):
    return name(kind, clear, SALT, id_key=derive_key(RECORD_NAMING, EPOCH_KEYS[epoch]))


def key_and_base(suite, epoch_key, block_id):
    block_key = derive_key(BLOCK_SEALING, epoch_key)
    stream = blake3(suite.to_bytes(2, "little") + block_id, 32 + NONCE_LENGTHS[suite], key=block_key)
    return stream[:32], stream[32:]


def cut(clear):
    return [clear[at:at + CHUNK] for at in range(0, len(clear), CHUNK)] or [b""]


def seal(suite, epoch, block_id, clear, last_flag=True, aad=b"", number=lambda index: index):
    """The sealed chunks; the last three arguments exist to make faults."""
    key, base = key_and_base(suite, EPOCH_KEYS[epoch], block_id)
    chunks, sealed = cut(clear), b""
    for index, chunk in enumerate(chunks):
        flag = 1 if last_flag and index == len(chunks) - 1 else 0
        mask = number(index).to_bytes(NONCE_LENGTHS[suite] - 1, "little") + bytes([flag])
        nonce = bytes(left ^ right for left, right in zip(base, mask))
        sealed += AEADS[suite](key).encrypt(nonce, chunk, aad)
    return sealed


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


FILES = {}


def vector(file, spec, why, expect, operation, suite, kind, epoch, compartment=COMPARTMENT, keys=EPOCH_KEYS, **rest):
    assert file not in FILES, file
    FILES[file] = {
        "spec": spec, "why": why, "expect": expect, "operation": operation, "suite": suite, "kind": kind,
        "compartment": compartment.hex(), "id_key": ID_KEY.hex(),
        "epochs": [{"epoch": number, "key": key.hex()} for number, key in sorted(keys.items())],
        "epoch": epoch,
    } | {key: value.hex() if isinstance(value, bytes) else value for key, value in rest.items()}


def right_blocks():
    """Blocks that open. Long ones give a pattern's length and the hash of the sealed bytes."""
    for suite, label in SUITES:
        for length in (0, 1, 100):
            clear = pattern(length)
            block_id = name(DATA, clear)
            vector(f"ok-{label}-{length}", "2.1", f"{length} bytes, suite {suite}", "ok", "block", suite, DATA, 5,
                   clear=clear, id=block_id, clear_len=length, sealed=seal(suite, 5, block_id, clear))
        for length in (CHUNK - 1, CHUNK, CHUNK + 1, BLOCK_MAX):
            clear = pattern(length)
            block_id = name(DATA, clear)
            sealed = seal(suite, 5, block_id, clear)
            vector(f"ok-{label}-{length}", "2.16", f"{length} bytes, suite {suite}", "ok", "block", suite, DATA, 5,
                   clear_pattern=length, id=block_id, clear_len=length, sealed_blake3=blake3(sealed))
    clear = b"an older epoch"
    block_id = name(DATA, clear)
    vector("ok-older-epoch", "2.13", "not the newest epoch: opens, and is not sealed anew", "ok", "open", 1, DATA, 0,
           clear=clear, id=block_id, clear_len=len(clear), sealed=seal(1, 0, block_id, clear))


def right_records():
    for suite, label in SUITES:
        for kind, clear in ((BATCH_INDEX, b"an index"), (REPLICA_KEY, bytes(80)), (BATCH_INDEX, b"")):
            block_id = record_name(kind, clear)
            record = SALT + block_id + seal(suite, 5, block_id, clear)
            vector(f"ok-record-{label}-{kind}-{len(clear)}", "2.24", f"a record of {len(clear)} bytes, suite {suite}",
                   "ok", "record", suite, kind, 5, clear=clear, salt=SALT, record=record)


def faulty_blocks():
    clear = pattern(100)
    block_id = name(DATA, clear)
    sealed = seal(1, 5, block_id, clear)

    def fault(file, spec, why, expect="tampered", suite=1, kind=DATA, epoch=5, **changes):
        fields = {"id": block_id, "clear_len": 100, "sealed": sealed} | changes
        vector(file, spec, why, expect, "open", suite, kind, epoch, **fields)

    def named(file, why, **changes):
        """Sealed honestly, but under a name computed differently."""
        wrong = name(**({"kind": DATA, "clear": clear} | changes))
        fault(file, "2.6", why, id=wrong, sealed=seal(1, 5, wrong, clear))

    fault("ciphertext-bit", "2.21", "one bit of the ciphertext is flipped", sealed=flip(sealed, 3))
    fault("tag-bit", "2.21", "one bit of the tag is flipped", sealed=flip(sealed, len(sealed) - 1))
    fault("name-bit", "2.22", "one bit of the name is flipped", id=flip(block_id, 0))
    fault("short-by-one", "2.20", "the last byte is missing", "wrong-length", sealed=sealed[:-1])
    fault("long-by-one", "2.20", "one byte too many", "wrong-length", sealed=sealed + b"\0")
    fault("no-bytes", "2.20", "nothing where a block should be", "wrong-length", sealed=b"")
    fault("too-long", "2.1", "a length that no block has", "too-long", clear_len=BLOCK_MAX + 1)
    fault("length-changed", "2.20", "length and bytes agree, and are not what was sealed", clear_len=99, sealed=sealed[1:])
    fault("unknown-epoch", "2.13", "no key for the epoch", "unknown-epoch", epoch=6)
    fault("other-epoch", "2.13", "sealed under epoch 5, said to be of epoch 0", epoch=0)
    fault("other-suite", "2.12", "sealed by suite 1, opened as suite 2", suite=2)
    fault("other-suite-3", "2.12", "sealed by suite 1, opened as suite 3", suite=3)
    fault("other-kind", "2.4", "a block of data is no batch index", kind=BATCH_INDEX)
    fault("other-compartment", "2.5", "sealed in another compartment", compartment=bytes(16))
    fault("aad", "2.18", "associated data that must be empty is not", sealed=seal(1, 5, block_id, clear, aad=b"x"))
    fault("no-last-flag", "2.17", "the last chunk lacks the flag", sealed=seal(1, 5, block_id, clear, last_flag=False))
    fault("number-from-one", "2.17", "chunks counted from 1", sealed=seal(1, 5, block_id, clear, number=lambda i: i + 1))
    named("name-other-label", "a name made with another label", label=b"Strongroom\0\0")
    named("name-other-format", "a name made with another format", form=0)
    named("name-big-endian", "a name whose kind was written big-endian", kind=0x0100)
    named("name-salted", "a block's salt is zero", salt=SALT)
    named("name-other-key", "a name made with another id key", id_key=bytes(32))
    named("name-of-other-content", "sealed under the name of another content", clear=pattern(99))


def faulty_aegis_blocks():
    """What only a nonce of 32 bytes can be wrong in, and that its tags are checked."""
    clear = pattern(100)
    block_id = name(DATA, clear)
    sealed = seal(3, 5, block_id, clear)

    def fault(file, spec, why, sealed):
        vector(file, spec, why, "tampered", "open", 3, DATA, 5, id=block_id, clear_len=100, sealed=sealed)

    key, base = key_and_base(3, EPOCH_KEYS[5], block_id)
    short_mask = bytes(11) + b"\1" + bytes(20)
    nonce = bytes(left ^ right for left, right in zip(base, short_mask))
    fault("aegis-ciphertext-bit", "2.21", "one bit of the ciphertext is flipped", flip(sealed, 3))
    fault("aegis-tag-bit", "2.21", "one bit of the tag is flipped", flip(sealed, len(sealed) - 1))
    fault("aegis-no-last-flag", "2.17", "the last chunk lacks the flag", seal(3, 5, block_id, clear, last_flag=False))
    fault("aegis-flag-in-byte-12", "2.17", "the flag stands where a nonce of 12 bytes has it",
          AEGIS256(key).encrypt(nonce, clear, b""))
    short_base = base[:12] + bytes(20)
    nonce = short_base[:31] + b"\1"
    fault("aegis-short-base", "2.12", "a base of 12 bytes, filled with zeros", AEGIS256(key).encrypt(nonce, clear, b""))


RAW, RUN = 0, 1


def frame(blocks, said=None, magic=b"\x28\xb5\x2f\xfd", dictionary=None):
    """A frame of RFC 8878 that needs no compressor: `blocks` are (RAW, bytes) or (RUN, byte, count).

    `said`: the length of the content in the head, if not the right one; 0 for none, and a window of 64 KiB in its place.
    """
    length = sum(len(block[1]) if block[0] == RAW else block[2] for block in blocks)
    said = length if said is None else said
    numbered = 0 if dictionary is None else 1
    head = bytes([(0xA0 if said else 0) | numbered])
    head += b"" if said else bytes([6 << 3])
    head += b"" if dictionary is None else bytes([dictionary])
    head += said.to_bytes(4, "little") if said else b""
    body = b""
    for index, block in enumerate(blocks):
        size = len(block[1]) if block[0] == RAW else block[2]
        last = index == len(blocks) - 1
        body += (last | block[0] << 1 | size << 3).to_bytes(3, "little") + block[1]
    return magic + head + body


def compressed_blocks():
    """Frames that are honestly sealed under their names: right ones, and such that a reader refuses all the same."""
    run = (RUN, b"a", 1000)

    def compressed(file, spec, why, stored, expect="tampered", kind=COMPRESSED_DATA, **rest):
        block_id = name(kind, stored)
        vector(file, spec, why, expect, "open", 1, kind, 5, id=block_id, clear_len=len(stored),
               sealed=seal(1, 5, block_id, stored), **rest)

    for kind in (COMPRESSED_DATA, COMPRESSED_TREE_NODE):
        compressed(f"ok-compressed-{kind}", "2.29", f"a run of 1000 bytes, kind {kind}", frame([run]), "ok", kind,
                   clear=b"a" * 1000)
    compressed("ok-compressed-two-parts", "2.29", "a frame of two of its blocks", frame([(RAW, b"head "), run]), "ok",
               clear=b"head " + b"a" * 1000)
    compressed("compressed-no-frame", "2.31", "content that is no frame", b"a" * 1000)
    compressed("compressed-nothing", "2.31", "no bytes in place of a frame", b"")
    compressed("compressed-cut", "2.31", "a frame that is cut", frame([run])[:-1])
    compressed("compressed-byte-behind", "2.31", "a byte behind the frame", frame([run]) + b"\0")
    compressed("compressed-two-frames", "2.31", "two frames", frame([run]) + frame([run]))
    compressed("compressed-skippable", "2.31", "a frame to be skipped in front",
               b"\x50\x2a\x4d\x18\x01\0\0\0\0" + frame([run]))
    compressed("compressed-no-length", "2.31", "a frame that does not say its length", frame([run], said=0))
    compressed("compressed-says-less", "2.31", "a frame with more content than it says", frame([run], said=999))
    compressed("compressed-says-more", "2.31", "a frame with less content than it says", frame([run], said=1001))
    compressed("compressed-too-long", "2.31", "a frame of more than a block holds",
               frame([(RUN, b"a", BLOCK_MAX), (RUN, b"a", 1)]))
    compressed("compressed-dictionary", "2.31", "a frame that asks for a dictionary", frame([run], dictionary=9))
    honest = frame([run])
    block_id = name(COMPRESSED_DATA, honest)
    vector("compressed-said-plain", "2.4", "a compressed block is none that is not", "tampered", "open", 1, DATA, 5,
           id=block_id, clear_len=len(honest), sealed=seal(1, 5, block_id, honest))


def faulty_chunks():
    """Faults that need more than one chunk: each chunk is right by itself. Built by the reader from the pattern."""
    length = 2 * CHUNK + 100
    clear = pattern(length)
    block_id = name(DATA, clear)
    sealed = seal(1, 5, block_id, clear)
    size = CHUNK + TAG
    one, two, three = sealed[:size], sealed[size:2 * size], sealed[2 * size:]
    for file, why, order, clear_len, expect in (
        ("chunks-swapped", "the first two chunks changed places", [1, 0, 2], length, "tampered"),
        ("chunk-repeated", "the first chunk stands where the second belongs", [0, 0, 2], length, "tampered"),
        ("chunk-dropped", "the second chunk is missing, the length adjusted", [0, 2], CHUNK + 100, "tampered"),
        ("cut-after-chunk", "the last chunk is missing, the length adjusted", [0, 1], 2 * CHUNK, "tampered"),
        ("cut-length-kept", "the last chunk is missing, the length kept", [0, 1], length, "wrong-length"),
    ):
        arranged = b"".join((one, two, three)[at] for at in order)
        vector(file, "2.17", why, expect, "arranged", 1, DATA, 5, clear_pattern=length, id=block_id,
               clear_len=clear_len, chunks=order, sealed_blake3=blake3(arranged))


def faulty_records():
    clear = b"an index"
    block_id = record_name(BATCH_INDEX, clear)
    record = SALT + block_id + seal(1, 5, block_id, clear)

    def fault(file, why, record, expect="tampered", kind=BATCH_INDEX, epoch=5, spec="2.26"):
        vector(file, spec, why, expect, "open_record", 1, kind, epoch, record=record)

    fault("record-salt-bit", "one bit of the salt is flipped", flip(record, 0))
    fault("record-name-bit", "one bit of the name is flipped", flip(record, 32))
    fault("record-sealed-bit", "one bit of the sealed bytes is flipped", flip(record, 64))
    fault("record-tag-bit", "one bit of the tag is flipped", flip(record, len(record) - 1))
    fault("record-short-by-one", "the last byte is missing", record[:-1])
    fault("record-head-only", "salt and name, and no chunk", record[:64])
    fault("record-empty", "no byte at all", b"")
    fault("record-other-kind", "a batch index is no replica key", record, kind=REPLICA_KEY)
    fault("record-unknown-epoch", "no key for the epoch", record, "unknown-epoch", epoch=6, spec="2.13")
    for file, why, key in (
        ("record-name-other-key", "sealed honestly under a name that another key made", bytes(32)),
        ("record-name-other-epoch", "sealed honestly under a name of another epoch's key", derive_key(RECORD_NAMING, EPOCH_KEYS[0])),
    ):
        forged = name(BATCH_INDEX, clear, SALT, id_key=key)
        fault(file, why, SALT + forged + seal(1, 5, forged, clear))
    earlier = name(BATCH_INDEX, clear, SALT)
    vector("ok-record-named-by-the-id-key", "2.34", "a record of an earlier version", "ok", "open_record", 1, BATCH_INDEX, 5,
           clear=clear, record=SALT + earlier + seal(1, 5, earlier, clear))


def check_blake3():
    """Both implementations agree over every shape of the tree that the vectors meet."""
    for length in (0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 3072, 5000, 16384, 65536 + 64):
        data = pattern(length)
        assert blake3(data) == blake3_package.blake3(data).digest(), length
        assert blake3(data, 100, key=ID_KEY) == blake3_package.blake3(data, key=ID_KEY).digest(100), length
        expected = blake3_package.blake3(data, derive_key_context="context").digest()
        assert derive_key("context", data) == expected, length


def known_hashes():
    """Known answers for BLAKE3 alone, in the three modes, over the pattern."""
    cases = [{
        "length": length,
        "hash": blake3(pattern(length)).hex(),
        "keyed_xof_44": blake3(pattern(length), 44, key=ID_KEY).hex(),
        "derived": derive_key(BLOCK_SEALING, pattern(length)).hex(),
    } for length in (0, 1, 64, 65, 1024, 1025, 4097, 65600)]
    FILES["blake3"] = {
        "spec": "2.11", "why": "BLAKE3 in the three modes in use, over pattern content", "expect": "ok",
        "operation": "blake3", "key": ID_KEY.hex(), "context": BLOCK_SEALING, "cases": cases,
    }


def main():
    check_blake3()
    known_hashes()
    right_blocks()
    right_records()
    faulty_blocks()
    faulty_aegis_blocks()
    compressed_blocks()
    faulty_chunks()
    faulty_records()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        if old.stem not in FILES:
            old.unlink()
    for file, content in FILES.items():
        (FOLDER / f"{file}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(FILES)} vectors in {FOLDER.relative_to(FOLDER.parents[2])}")


if __name__ == "__main__":
    main()
