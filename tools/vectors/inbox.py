"""Writes spec/vectors/inbox: an address of an inbox and deposits there, made from spec/12-inbox.md alone, and one file per fault.

The vault is that of spec/vectors/keys, whose keys keys.py makes; only functions of that file are used. The output is the same on every run.

    python tools/vectors/inbox.py

base.json holds the address: its document, its code, the token, the name of its object, and the id of a deposit with a text of the depositor.
Every other file is one case:
    spec      the sentence that it is about
    expect    ok, or what a reader says: format (the document), unreadable or unknown-epoch (envelope or piece)
    why       a description of the change
    document  of an address; null if the case is about a deposit
    deposit   the id of the deposit
    envelope  hexadecimal
    pieces    [number, hexadecimal] of each piece that is tried; expect is about the last
    info      name, sender, size, modified, run and content; of cases that are ok
"""
import json, pathlib

from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import keys
from keys import Principal, cbor, commitment, drawn, hpke_seal, raw, record
from keys import ML_KEM_768, X25519PrivateKey, hashlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "inbox"
DATE = "strongroom format 1 2026-11-27 "
SECTOR, CHUNK, TAG, ENVELOPE, PIECE = 4096, 4096, 16, 4096, 1 << 20
CLEAR = ENVELOPE - 4 - 16 - 1120 - TAG
DEPOSIT = 19


def derive(purpose, secret):
    return blake3(secret, derive_key_context=DATE + purpose).digest()


def zz(number):
    return number * 2 if number >= 0 else -number * 2 - 1


def kem_public(epoch_key, address):
    """The X-Wing public key of an address."""
    expanded = hashlib.shake_256(derive("inbox x-wing", epoch_key + address)).digest(96)
    lattice, _ = ML_KEM_768.key_derive(expanded[:64])
    return lattice + raw(X25519PrivateKey.from_private_bytes(expanded[64:]).public_key())


def document(vault, epoch, address, kem, number=1):
    return cbor([number, vault, epoch, address, kem])


def info_of(code, deposit, label="deposit"):
    return (DATE + label).encode() + code + deposit


def inside(said, behind=b"", length=None):
    """What is sealed in an envelope."""
    length = len(said) if length is None else length
    return (length.to_bytes(2, "little") + said + behind).ljust(CLEAR, b"\0")


def sealed_len(clear):
    return clear + TAG * max(1, -(-clear // CHUNK))


def padded(clear):
    """How long `clear` bytes are made so that a record of them fills whole sectors."""
    at = -(-(64 + sealed_len(clear)) // SECTOR) * SECTOR
    while True:
        for length in range(max(clear, at - 64 - TAG * (at // CHUNK + 1)), at):
            if 64 + sealed_len(length) == at:
                return length
        at += SECTOR


def sealed_record(key, kind, salt, clear):
    """A record of page 2 of any length, in suite 1 and compartment zero."""
    naming, sealing = keys.derive("record naming", key), keys.derive("block sealing", key)
    context = b"strongroom\0\0" + (1).to_bytes(2, "little") + kind.to_bytes(2, "little") + bytes(16) + salt
    identity = blake3(context + clear, key=naming).digest()
    secret = blake3((1).to_bytes(2, "little") + identity, key=sealing).digest(44)
    chunks = [clear[at:at + CHUNK] for at in range(0, len(clear), CHUNK)] or [b""]
    out = salt + identity
    for index, chunk in enumerate(chunks):
        mask = index.to_bytes(11, "little") + bytes([index == len(chunks) - 1])
        nonce = bytes(left ^ right for left, right in zip(secret[32:], mask))
        out += AESGCM(secret[:32]).encrypt(nonce, chunk, b"")
    return out


def piece(key, number, content, kind=DEPOSIT, pad=None, fill=b"\0"):
    clear = number.to_bytes(8, "little") + content
    return sealed_record(key, kind, drawn(f"inbox salt {number}", 32), clear.ljust(padded(len(clear)) if pad is None else pad, fill))


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1:]


def main():
    # The vault of spec/vectors/keys.
    device, person, paper = map(Principal, ["device", "person", "paper"])
    id_key, nonce = drawn("id key", 32), drawn("nonce", 32)
    epochs = [drawn("epoch 0", 32), drawn("epoch 1", 32)]
    begin = [3, 0, commitment(nonce, 0, epochs[0], id_key)]
    _, vault = record(0, nonce, device, [device.add(1), person.add(2), paper.add(2), begin])

    address, deposit = drawn("inbox address", 16), drawn("inbox deposit", 16)
    run, key = drawn("inbox run", 8), drawn("inbox content key", 32)
    kems = [kem_public(epoch_key, address) for epoch_key in epochs]
    made = document(vault, 1, address, kems[1])
    code = derive("inbox address", made)
    token = "sra-" + code.hex()
    name, sender, modified = "letter ä.txt".encode(), "a friend", 1_764_000_000_123_456_789
    content = b"a letter that nobody reads on its way"

    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()

    def write(file, value):
        (FOLDER / (file + ".json")).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    text = "message 17"
    write("base", {
        "vault": vault.hex(), "epoch": 1, "address": address.hex(), "document": made.hex(), "code": code.hex(), "token": token,
        "object": "addresses/" + blake3(token.encode()).hexdigest(),
        "text": text, "deposit_of_text": derive("deposit id", code + text.encode())[:16].hex(),
    })

    def case(file, spec, expect, why, document=None, envelope=None, pieces=(), info=None, of=deposit):
        write(file, {
            "spec": spec, "expect": expect, "why": why, "document": None if document is None else document.hex(),
            "deposit": of.hex(), "envelope": None if envelope is None else envelope.hex(),
            "pieces": [[number, sealed.hex()] for number, sealed in pieces], "info": info,
        })

    # Documents

    def of_document(file, spec, why, bytes_of_it):
        case(file, spec, "format", why, document=bytes_of_it)

    case("ok-document", "12.1.3", "ok", "as it was made", document=made)
    of_document("document-format-2", "12.1.3", "format 2", document(vault, 1, address, kems[1], 2))
    of_document("document-cut", "1.2.3", "the last byte is missing", made[:-1])
    of_document("document-byte-behind", "1.2.2", "a byte behind its end", made + b"\0")
    of_document("document-short-key", "12.1.3", "a public key without its last byte", document(vault, 1, address, kems[1][:-1]))
    of_document("document-epoch-too-high", "12.1.3", "an epoch of more than 32 bits", document(vault, 1 << 32, address, kems[1]))
    of_document("document-long-number", "1.2.1", "the format in a longer form", made.replace(b"\x85\x01", b"\x85\x18\x01", 1))

    # Envelopes

    def said(number=1, size=len(content), name=name, sender=sender.encode(), key=key, modified=zz(modified)):
        return cbor([number, run, key, name, sender, size, modified])

    def sealed(clear, kem=kems[1], info=info_of(code, deposit), aad=b"", epoch=1, address=address):
        return epoch.to_bytes(4, "little") + address + hpke_seal(kem, info, clear, "inbox", aad)

    def described(size, content):
        return {"name": name.hex(), "sender": sender, "size": size, "modified": modified, "run": run.hex(), "content": content.hex()}

    good = sealed(inside(said()))
    assert len(good) == ENVELOPE
    case("ok", "12.3.3", "ok", "as it was made", envelope=good, pieces=[(0, piece(key, 0, content))], info=described(len(content), content))
    case("ok-empty", "12.4.1", "ok", "without content", envelope=sealed(inside(said(size=0))), info=described(0, b""))
    two = bytes(range(250)) * 20
    case("ok-two-chunks", "12.4.1", "ok", "a piece of two chunks", envelope=sealed(inside(said(size=len(two)))),
         pieces=[(0, piece(key, 0, two))], info=described(len(two), two))
    case("ok-second-piece", "12.4.1", "ok", "the second piece of two", envelope=sealed(inside(said(size=PIECE + 3))),
         pieces=[(1, piece(key, 1, b"end"))], info=described(PIECE + 3, b"end"))
    old_code = derive("inbox address", document(vault, 0, address, kems[0]))
    case("ok-older-epoch", "12.1.5", "ok", "of an address of the epoch before", info=described(0, b""),
         envelope=sealed(inside(said(size=0)), kems[0], info_of(old_code, deposit), epoch=0))

    def of_envelope(file, spec, why, envelope, expect="unreadable", of=deposit):
        case(file, spec, expect, why, envelope=envelope, of=of)

    of_envelope("envelope-short", "12.3.1", "the last byte is missing", good[:-1])
    of_envelope("envelope-long", "12.3.1", "a byte behind it", good + b"\0")
    of_envelope("envelope-of-another-deposit", "12.3.2", "the same as another deposit", good, of=drawn("inbox other", 16))
    of_envelope("envelope-encapsulation", "12.3.2", "a bit of the encapsulation", flip(good, 1000))
    of_envelope("envelope-ciphertext", "12.3.2", "a bit of the ciphertext", flip(good, 2000))
    of_envelope("envelope-tag", "12.3.2", "a bit of the tag", flip(good, ENVELOPE - 1))
    of_envelope("envelope-address", "12.3.2", "it says another address", flip(good, 4))
    of_envelope("envelope-epoch-before", "12.3.2", "it says the epoch before", bytes(4) + good[4:])
    of_envelope("envelope-epoch-to-come", "12.6.7", "it says an epoch that has not begun", (2).to_bytes(4, "little") + good[4:], "unknown-epoch")
    of_envelope("envelope-of-another-vault", "12.3.2", "sealed with the code of an address of another vault",
                sealed(inside(said()), info=info_of(derive("inbox address", document(drawn("other vault", 32), 1, address, kems[1])), deposit)))
    of_envelope("envelope-label", "12.3.2", "sealed as a grant", sealed(inside(said()), info=info_of(code, deposit, "grant")))
    of_envelope("envelope-aad", "12.3.2", "sealed with associated data", sealed(inside(said()), aad=b"x"))
    of_envelope("inside-padding", "12.3.3", "a byte in the padding", sealed(inside(said(), b"\0x")))
    of_envelope("inside-length", "12.3.3", "a length beyond the end", sealed(inside(said(), length=CLEAR)))
    of_envelope("inside-byte-behind", "1.2.2", "a byte behind the array", sealed(inside(said() + b"\0")))
    of_envelope("inside-format-2", "12.3.3", "format 2", sealed(inside(said(number=2))))
    of_envelope("inside-long-name", "12.3.4", "a name of 1025 bytes", sealed(inside(said(name=bytes(1025)))))
    of_envelope("inside-long-sender", "12.3.4", "a sender of 129 bytes", sealed(inside(said(sender=b"s" * 129))))
    of_envelope("inside-sender-no-text", "12.3.4", "a sender that is not UTF-8", sealed(inside(said(sender=b"\xff"))))
    of_envelope("inside-too-large", "12.3.4", "a byte more than a deposit may have", sealed(inside(said(size=(1 << 30) + 1))))
    of_envelope("inside-short-key", "12.3.3", "a content key of 31 bytes", sealed(inside(said(key=key[:31]))))

    # Pieces

    def of_piece(file, why, sealed_piece, number=0, envelope=good):
        case(file, "12.4.1", "unreadable", why, envelope=envelope, pieces=[(number, sealed_piece)])

    right = piece(key, 0, content)
    of_piece("piece-number", "it says another number", piece(key, 1, content))
    of_piece("piece-beyond", "a piece behind the end of the content", piece(key, 1, content), 1)
    of_piece("piece-other-key", "sealed under another content key", piece(drawn("inbox other key", 32), 0, content))
    of_piece("piece-other-kind", "sealed as a message of a pairing", piece(key, 0, content, kind=17))
    of_piece("piece-bit", "a bit of it", flip(right, 3000))
    of_piece("piece-short", "the last byte is missing", right[:-1])
    of_piece("piece-empty", "no byte of it", b"")
    of_piece("piece-padding", "bytes that are not zero behind the content", piece(key, 0, content, fill=b"x"))
    of_piece("piece-no-padding", "not made up to a sector", piece(key, 0, content, pad=0))
    of_piece("piece-much-padding", "made up to two sectors", piece(key, 0, content, pad=padded(SECTOR)))
    of_piece("piece-of-less", "less content than the envelope says", piece(key, 0, two), envelope=sealed(inside(said(size=len(two) + SECTOR))))


if __name__ == "__main__":
    main()
