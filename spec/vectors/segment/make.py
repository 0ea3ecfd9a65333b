#!/usr/bin/env python3
"""Writes the vectors of this folder from spec/3-segment.md alone. Shares no code with the implementation.

Each vector is a text file: `# ` the claim, then
    len N            bytes of the file; all are zero except
    at OFFSET HEX    these
    expect WORDS     finished | open | torn REASON | error REASON
    batches N        whole batches, and
    end N            the end of the last of them (both absent after an error)
"""
import os
import struct
import zlib

ID = bytes(range(0xA0, 0xB0))
EPOCH, SUITE = 7, 1
HERE = os.path.dirname(os.path.abspath(__file__))


def record(fields):
    body = fields.ljust(60, b"\0")
    return body + struct.pack("<I", zlib.crc32(body))


def header(version=0, suite=SUITE, magic=b"SRsegmnt", spare=b""):
    return record(magic + ID + struct.pack("<HHI", version, suite, EPOCH) + spare)


def chain(rec):
    return struct.unpack("<I", rec[60:])[0]


def pad(data):
    return data + bytes(-len(data) % 4096)


def batch(number, previous, blocks, index, count=1, segment=ID, blocks_len=None, index_len=None, spare=b"", filler=b""):
    payload = blocks + index
    rec = record(
        b"SRbatch\0"
        + segment
        + struct.pack(
            "<IIIIII",
            number,
            count,
            len(blocks) if blocks_len is None else blocks_len,
            len(index) if index_len is None else index_len,
            zlib.crc32(payload),
            previous,
        )
        + spare
    )
    return rec, pad(rec + payload + filler)


def ending(offset, previous, batches, contents, crc=None, length=None, filler=b"", suite=SUITE):
    footer = record(
        b"SRfooter"
        + ID
        + struct.pack("<HHI", 0, suite, EPOCH)
        + struct.pack(
            "<IIIII",
            offset,
            len(contents) if length is None else length,
            zlib.crc32(contents) if crc is None else crc,
            batches,
            previous,
        )
    )
    body = contents + filler
    return body + bytes(-(len(body) + 64) % 4096) + footer


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def write(name, claim, data, expect, batches=None, end=None):
    lines = ["# " + claim, "len %d" % len(data)]
    for sector in range(0, len(data), 32):
        row = data[sector : sector + 32]
        if any(row):
            lines.append("at %d %s" % (sector, row.hex()))
    lines.append("expect " + expect)
    if batches is not None:
        lines += ["batches %d" % batches, "end %d" % end]
    with open(os.path.join(HERE, name + ".txt"), "w") as out:
        out.write("\n".join(lines) + "\n")


h = pad(header())
hc = chain(header())
r1, b1 = batch(0, hc, bytes([0x11] * 26), b"first index")
r2, b2 = batch(1, chain(r1), bytes([0x22] * 26) + bytes([0x33] * 16), b"second index", count=2)
two = h + b1 + b2
CONTENTS = b"sealed table of contents"
e = ending(len(two), chain(r2), 2, CONTENTS)

write("whole-empty", "A header and no batch yet.", h, "open", 0, 4096)
write("whole-open", "Two batches, and room set aside behind them.", two + bytes(8192), "open", 2, 12288)
write("whole-finished", "Two batches, a table of contents and a footer.", two + e, "finished", 2, 12288)
write("whole-finished-no-contents", "A table of contents may have no bytes.", two + ending(len(two), chain(r2), 2, b""), "finished", 2, 12288)

write("header-short", "A file ends inside its first sector.", h[:4095], "error TooShort")
write("header-magic", "Another magic.", pad(header(magic=b"SRsegmnT")), "error Magic")
write("header-checksum", "One bit of the epoch is other.", flip(h, 28), "error Checksum")
write("header-version", "A version to come.", pad(header(version=2)), "error Version(2)")
write("header-suite", "A suite that no build knows.", pad(header(suite=99)), "error Suite(99)")
write("header-spare", "A spare byte of the header is used.", pad(header(spare=b"\1")), "error NotZero")
write("header-padding", "A byte of the padding behind the header is used.", flip(h, 4000), "error NotZero")

third = lambda **changes: two + batch(**{"number": 2, "previous": chain(r2), "blocks": bytes([0x44] * 26), "index": b"third", **changes})[1]
write("batch-magic", "The third batch begins like something else.", flip(third(), 12288), "torn Magic", 2, 12288)
write("batch-checksum", "One bit of its header is other.", flip(third(), 12288 + 30), "torn Checksum", 2, 12288)
write("batch-payload", "One bit of its blocks is other.", flip(third(), 12288 + 70), "torn Checksum", 2, 12288)
write("batch-index", "One bit of its index is other.", flip(third(), 12288 + 64 + 26), "torn Checksum", 2, 12288)
write("batch-padding", "A byte of its padding is used.", third(filler=b"x"), "torn NotZero", 2, 12288)
write("batch-spare", "A spare byte of its header is used.", third(spare=b"\1"), "torn NotZero", 2, 12288)
write("batch-short", "The file ends one byte before it does.", third()[:-1], "torn TooShort", 2, 12288)
write("batch-number", "It has the number of the batch before.", third(number=1), "torn OutOfPlace", 2, 12288)
write("batch-previous", "It was written behind another second batch.", third(previous=chain(r1)), "torn OutOfPlace", 2, 12288)
write("batch-segment", "It belongs to another file.", third(segment=bytes(16)), "torn OutOfPlace", 2, 12288)
write("batch-length", "Its blocks would reach beyond the longest segment.", third(blocks_len=0xFFFFFFFF), "torn Length", 2, 12288)
write("batch-index-length", "Its index would reach beyond the longest segment.", third(index_len=0xFFFFFFC0), "torn Length", 2, 12288)
write("batch-first", "The first batch is torn; a whole one behind it does not count.", h + flip(b1, 66) + b2, "torn Checksum", 0, 4096)

write("footer-checksum", "One bit of the footer is other.", flip(two + e, len(two + e) - 30), "torn Magic", 2, 12288)
write("footer-contents", "One bit of the table of contents is other.", flip(two + e, 12288), "torn Magic", 2, 12288)
write("footer-padding", "A byte between contents and footer is used.", two + ending(len(two), chain(r2), 2, CONTENTS, filler=b"x"), "torn Magic", 2, 12288)
write("footer-batches", "The footer counts three batches.", two + ending(len(two), chain(r2), 3, CONTENTS), "torn Magic", 2, 12288)
write("footer-previous", "The footer follows another batch.", two + ending(len(two), chain(r1), 2, CONTENTS), "torn Magic", 2, 12288)
write("footer-offset", "The footer says that the contents begin a sector earlier.", two + ending(len(b1) + 4096, chain(r2), 2, CONTENTS), "torn Magic", 2, 12288)
write("footer-length", "The footer says that the contents are longer than the file.", two + ending(len(two), chain(r2), 2, CONTENTS, length=5000), "torn Magic", 2, 12288)
write("footer-suite", "The footer names another suite than the header.", two + ending(len(two), chain(r2), 2, CONTENTS, suite=2), "torn Magic", 2, 12288)
write("footer-not-last", "A sector of zeros follows the footer.", two + e + bytes(4096), "torn Magic", 2, 12288)


# ---- version 1: lengths in sectors, no zeros behind what is sealed; here any bytes stand for sealed ones.


def sealed(count, seed):
    out, state = bytearray(), seed
    while len(out) < count:
        state = zlib.crc32(struct.pack("<I", state))
        out += struct.pack("<I", state)
    return bytes(out[:count])


def batch1(number, previous, sectors, said=None, segment=ID, spare=b"", magic=b"SRbatch\1"):
    payload = sealed(sectors * 4096 - 64, number + 1)
    rec = record(
        magic
        + segment
        + struct.pack("<IIII", number, sectors if said is None else said, zlib.crc32(payload), previous)
        + spare
    )
    return rec, rec + payload


def ending1(offset, previous, batches, sectors, said=None, version=1):
    contents = sealed(sectors * 4096 - 64, 99)
    footer = record(
        b"SRfooter"
        + ID
        + struct.pack("<HHI", version, SUITE, EPOCH)
        + struct.pack("<IIIII", offset, sectors if said is None else said, zlib.crc32(contents), batches, previous)
    )
    return contents + footer


h1 = pad(header(version=1))
v1, c1 = batch1(0, chain(header(version=1)), 1)
v2, c2 = batch1(1, chain(v1), 2)
both = h1 + c1 + c2
end1 = ending1(len(both), chain(v2), 2, 1)
next1 = lambda **changes: both + batch1(**{"number": 2, "previous": chain(v2), "sectors": 1, **changes})[1]

write("v1-whole-empty", "Version 1: a header and no batch yet.", h1, "open", 0, 4096)
write("v1-whole-open", "Version 1: two batches, and room set aside behind them.", both + bytes(8192), "open", 2, 16384)
write("v1-whole-finished", "Version 1: two batches, a table of contents and a footer.", both + end1, "finished", 2, 16384)
write("v1-batch-payload", "One bit of the last byte of a batch is other.", flip(next1(), 20479), "torn Checksum", 2, 16384)
write("v1-batch-zero", "A batch of no sectors.", next1(said=0), "torn Length", 2, 16384)
write("v1-batch-length", "A batch that would reach beyond the longest segment.", next1(said=4097), "torn Length", 2, 16384)
write("v1-batch-no-room", "A batch behind which the longest segment has no sector for contents and footer.", next1(said=4092), "torn Length", 2, 16384)
write("v1-batch-room", "A batch that leaves that one sector; here the file ends before it does.", next1(said=4091), "torn TooShort", 2, 16384)
write("v1-batch-overflow", "The most sectors that the field can say.", next1(said=0xFFFFFFFF), "torn Length", 2, 16384)
write("v1-batch-short", "The file ends one byte before the batch does.", next1()[:-1], "torn TooShort", 2, 16384)
write("v1-batch-spare", "A spare byte of the header of a batch is used.", next1(spare=b"\1"), "torn NotZero", 2, 16384)
write("v1-batch-of-version-0", "A batch of version 0 in a file of version 1.", both + batch(2, chain(v2), bytes([0x44] * 26), b"third")[1], "torn OutOfPlace", 2, 16384)
write("v0-batch-of-version-1", "A batch of version 1 in a file of version 0.", two + batch1(2, chain(r2), 1)[1], "torn OutOfPlace", 2, 12288)
write("v1-footer-length", "The footer says more sectors than there are.", both + ending1(len(both), chain(v2), 2, 1, said=2), "torn Magic", 2, 16384)
write("v1-footer-zero", "The footer says no sector.", both + ending1(len(both), chain(v2), 2, 1, said=0), "torn Magic", 2, 16384)
write("v1-footer-version", "The footer says version 0.", both + ending1(len(both), chain(v2), 2, 1, version=0), "torn Magic", 2, 16384)
