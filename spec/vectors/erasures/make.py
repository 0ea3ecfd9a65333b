#!/usr/bin/env python3
"""Writes the vectors of this folder from spec/6-history.md, 6.11, alone. Shares no code with the implementation.

Each vector is a text file: `# ` the claim, then
    bytes HEX        a value of the attribute
    entries N        how many entries it has; absent if the bytes must be refused
or, of a merge,
    mine HEX, theirs HEX, joined HEX
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def head(major, value):
    for bound, size in ((24, 0), (1 << 8, 1), (1 << 16, 2), (1 << 32, 4), (1 << 64, 8)):
        if value < bound:
            if size == 0:
                return bytes([major << 5 | value])
            return bytes([major << 5 | {1: 24, 2: 25, 4: 26, 8: 27}[size]]) + value.to_bytes(size, "big")
    raise ValueError(value)


def number(value):
    return head(0, value)


def string(value):
    return head(2, len(value)) + value


def array(items):
    return head(4, len(items)) + b"".join(items)


def entry(time, name, path, known):
    pairs = [array([string(device), number(sequence)]) for device, sequence in known]
    return array([number(time), number(name), string(path), array(pairs)])


def value(entries, version=1):
    return array([number(version), array(entries)])


ONE, TWO = bytes(range(8)), bytes(range(8, 16))
A = entry(1795000000, 2**64 - 1, b"/photos/1.jpg", [(ONE, 17), (TWO, 2**63)])
B = entry(1795000001, 5, "/Zürich".encode(), [(ONE, 18)])
C = entry(1795000001, 6, b"/c", [])


def save(name, claim, **fields):
    with open(os.path.join(HERE, name + ".txt"), "w", encoding="utf-8") as out:
        out.write(f"# {claim}\n")
        for key, what in fields.items():
            out.write(f"{key} {what.hex() if isinstance(what, bytes) else what}\n")


good = value([A, B, C])
save("good", "Three entries, sorted by time, then by id.", bytes=good, entries=3)
save("none", "No entry.", bytes=value([]), entries=0)
save("format-2", "A format that is not known.", bytes=value([A], 2))
save("unsorted", "Entries that are not sorted by time.", bytes=value([B, A]))
save("unsorted-ids", "Entries of one second that are not sorted by id.", bytes=value([C, B]))
save("twice", "One entry twice.", bytes=value([A, A]))
save("id-twice", "Two entries of one id.", bytes=value([B, entry(1795000002, 5, b"/other", [])]))
save("devices-unsorted", "Devices that are not sorted.", bytes=value([entry(1, 1, b"/a", [(TWO, 1), (ONE, 1)])]))
save("device-twice", "One device twice.", bytes=value([entry(1, 1, b"/a", [(ONE, 1), (ONE, 2)])]))
save("device-short", "A device of 7 bytes.", bytes=value([entry(1, 1, b"/a", [(ONE[:7], 1)])]))
save("long-path", "A path of more than 32 KiB.", bytes=value([entry(1, 1, b"/" + b"a" * 32768, [])]))
many = [(place.to_bytes(8, "big"), 1) for place in range(257)]
save("devices-257", "More devices than an entry may have.", bytes=value([entry(1, 1, b"/a", many)]))
save("long-number", "A number that is not in its shortest form.", bytes=value([A]).replace(b"\x82\x01", b"\x82\x18\x01", 1))
save("cut", "The last byte is missing.", bytes=good[:-1])
save("byte-behind", "A byte behind the end.", bytes=good + b"\0")
save("empty", "No bytes.", bytes=b"")
save("joined", "Both sides of a merge added an entry.", mine=value([A, C]), theirs=value([A, B]), joined=good)
full = [entry(number_, number_, b"/" + b"p" * 999, []) for number_ in range(100)]
# Newest first, as many as have 60,000 bytes together.
fitting = []
for one in reversed(full):
    if sum(map(len, fitting)) + len(one) > 60_000:
        break
    fitting.insert(0, one)
save("joined-full", "The oldest go where both sides have more than fits.", mine=value(full[:50]), theirs=value(full[50:]), joined=value(fitting))
save("joined-unreadable", "Where mine cannot be read, theirs counts.", mine=value([A], 2), theirs=value([B]), joined=value([B]))
