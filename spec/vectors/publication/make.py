#!/usr/bin/env python3
"""Writes the vectors of this folder from spec/11-sync.md, 11.2, alone. Shares no code with the implementation.

Each vector is a text file: `# ` the claim, then
    bytes HEX        what a sealed publication holds in clear: body, signature, zeros
    id HEX           the id of the publication; absent if the bytes must be refused
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../tools/vectors"))
from blake3_slow import derive_key  # noqa: E402

CONTEXT = "strongroom format 1 2026-11-23 publication id"


def head(major, value):
    for bound, size in ((24, 0), (1 << 8, 1), (1 << 16, 2), (1 << 32, 4), (1 << 64, 8)):
        if value < bound:
            if size == 0:
                return bytes([major << 5 | value])
            info = {1: 24, 2: 25, 4: 26, 8: 27}[size]
            return bytes([major << 5 | info]) + value.to_bytes(size, "big")
    raise ValueError(value)


def number(value):
    return head(0, value)


def string(value):
    return head(2, len(value)) + value


def array(items):
    return head(4, len(items)) + b"".join(items)


def zigzag(value):
    return value * 2 if value >= 0 else -value * 2 - 1


def fill(byte, count=32):
    return bytes([byte]) * count


GOOD = {
    "format": 1, "vault": fill(1), "remote": fill(2, 16), "number": 300, "link": fill(3), "device": fill(4), "sequence": 7, "base": 12,
    "time": -1000, "membership": fill(5), "header": (9, fill(6)), "head": fill(7),
    "revisions": [(fill(7), fill(15), 1), (fill(8), fill(16), 0)], "retired_revisions": [fill(9)],
    "segments": [(fill(10), fill(11, 16), 1 << 24, 1)], "retired_segments": [fill(12), fill(13)],
}


def body(**changes):
    f = {**GOOD, **changes}
    return array([
        number(f["format"]), string(f["vault"]), string(f["remote"]), number(f["number"]), string(f["link"]), string(f["device"]),
        number(f["sequence"]), number(f["base"]), number(zigzag(f["time"])), string(f["membership"]),
        array([number(f["header"][0]), string(f["header"][1]), string(f["head"])]),
        array([array([string(i), string(h), number(e)]) for i, h, e in f["revisions"]]),
        array([string(h) for h in f["retired_revisions"]]),
        array([array([string(h), string(i), number(n), number(e)]) for h, i, n, e in f["segments"]]),
        array([string(h) for h in f["retired_segments"]]),
    ])


def stored(encoded, signature=fill(14, 64), behind=b""):
    return array([string(encoded), string(signature)]) + behind


def write(name, claim, data, identity=None):
    with open(os.path.join(HERE, name + ".txt"), "w") as out:
        out.write(f"# {claim}\nbytes {data.hex()}\n")
        if identity:
            out.write(f"id {identity.hex()}\n")


def good(name, claim, encoded, behind=b""):
    write(name, claim, stored(encoded, behind=behind), derive_key(CONTEXT, encoded))


good("good", "A publication with something in each list.", body())
good("zeros-behind", "Zeros behind it hide its length.", body(), behind=bytes(1000))
good("empty", "The first of a remote, in the middle of a push.", body(
    number=1, base=1, sequence=1, link=fill(0), head=fill(0), time=0, revisions=[], retired_revisions=[], segments=[], retired_segments=[]))
write("byte-behind", "Anything but zeros behind it.", stored(body(), behind=b"\0\0\1"))
write("cut", "Its last byte is missing.", stored(body())[:-1])
write("format-2", "A format that does not exist yet.", stored(body(format=2)))
write("number-0", "Publications are numbered from 1.", stored(body(number=0, base=0)))
write("sequence-0", "So are those of a device.", stored(body(sequence=0)))
write("base-0", "A base before the first publication.", stored(body(base=0)))
write("base-behind", "A base behind itself.", stored(body(base=301)))
write("revisions-out-of-order", "Revisions are sorted by the hashes of their records.", stored(body(revisions=GOOD["revisions"][::-1])))
write("revision-twice", "Each once.", stored(body(revisions=[GOOD["revisions"][0]] * 2)))
write("segment-twice", "Each once.", stored(body(segments=GOOD["segments"] * 2)))
write("retired-out-of-order", "Retired segments are sorted.", stored(body(retired_segments=[fill(13), fill(12)])))
write("epoch-too-high", "An epoch has 32 bits.", stored(body(segments=[(fill(10), fill(11, 16), 1, 1 << 32)])))
write("short-signature", "A signature has 64 bytes.", stored(body(), signature=fill(14, 63)))
write("long-number", "A number that is not in its shortest form.", stored(body().replace(number(300), b"\x1a" + (300).to_bytes(4, "big"), 1)))
write("field-missing", "Fourteen fields.", stored(b"\x8e" + body()[1:-len(array([string(fill(12)), string(fill(13))]))]))
