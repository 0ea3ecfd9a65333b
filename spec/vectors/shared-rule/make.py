#!/usr/bin/env python3
"""Writes the vectors of this folder from spec/6-history.md, [6.10.4] and [6.10.6], alone. Shares no code with the implementation.

Each vector is a text file: `# ` the claim, then
    bytes HEX        a value of the attribute
    rule NUMBERS     the seven numbers of its rule; absent if the bytes must be refused
or, of a merge,
    mine HEX, theirs HEX, joined HEX
or, of a rule that a device sets,
    before HEX       the value that is there; absent if there is none
    device HEX, set NUMBERS, after HEX
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
# Last, hours, days, weeks, months, years, and which ones it is about: all different, so that none stands for another.
DAYS = (1, 2, 3, 4, 5, 6, 0)
UNNAMED = (0, 24, 30, 0, 12, 0, 1)
ALL = (2**32 - 1, 0, 0, 0, 0, 0, 0)


def rule(numbers):
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def value(change, device, numbers, version=1):
    return bytes([version]) + change.to_bytes(8, "little") + device + rule(numbers)


def text(what):
    return what.hex() if isinstance(what, bytes) else " ".join(map(str, what))


def save(name, claim, **fields):
    with open(os.path.join(HERE, name + ".txt"), "w", encoding="utf-8") as out:
        out.write(f"# {claim}\n")
        for key, what in fields.items():
            out.write(f"{key} {text(what)}\n")


good = value(0x0102030405060708, ONE, DAYS)
save("good", "A rule in which every number is another one.", bytes=good, rule=DAYS)
save("good-unnamed", "A rule about unnamed revisions too.", bytes=value(1, ONE, UNNAMED), rule=UNNAMED)
save("good-all", "A rule by which all stay.", bytes=value(1, ONE, ALL), rule=ALL)
save("good-highest-number", "The highest number of a change.", bytes=value(2**64 - 1, TWO, DAYS), rule=DAYS)
save("format-0", "A format that never was.", bytes=value(1, ONE, DAYS, 0))
save("format-2", "A format that is not known.", bytes=value(1, ONE, DAYS, 2))
save("about-2", "Neither scheduled ones only nor unnamed ones too.", bytes=value(1, ONE, DAYS[:6] + (2,)))
save("keeps-none", "A rule by which nothing stays.", bytes=value(1, ONE, (0,) * 7))
save("keeps-none-unnamed", "A rule by which nothing stays, about unnamed ones too.", bytes=value(1, ONE, (0,) * 6 + (1,)))
save("device-short", "A device of 31 bytes.", bytes=value(1, ONE[:31], DAYS))
save("without-rule", "A value that ends behind the device.", bytes=good[:41])
save("six-numbers", "A rule of six numbers.", bytes=good[:-4])
save("eight-numbers", "A rule of eight numbers.", bytes=good + bytes(4))
save("cut", "The last byte is missing.", bytes=good[:-1])
save("byte-behind", "A byte behind the end.", bytes=good + b"\0")
save("empty", "No bytes.", bytes=b"")

# The number of a change is compared before the device, and the device before the rule. Only the number is compared as a number.
low, high = value(255, TWO, ALL), value(256, ONE, DAYS)
save("joined-mine-later", "Mine has the higher number.", mine=high, theirs=low, joined=high)
save("joined-theirs-later", "Theirs has the higher number.", mine=low, theirs=high, joined=high)
low, high = value(7, ONE, ALL), value(7, TWO, DAYS)
save("joined-mine-greater-device", "Of one number, mine is of the greater device.", mine=high, theirs=low, joined=high)
save("joined-theirs-greater-device", "Of one number, theirs is of the greater device.", mine=low, theirs=high, joined=high)
low, high = value(7, ONE, (1, 9, 9, 9, 9, 9, 0)), value(7, ONE, (2, 0, 0, 0, 0, 0, 0))
save("joined-mine-greater-rule", "Of one number and device, mine has the greater rule.", mine=high, theirs=low, joined=high)
save("joined-theirs-greater-rule", "Of one number and device, theirs has the greater rule.", mine=low, theirs=high, joined=high)
low, high = value(7, ONE, (256, 0, 0, 0, 0, 0, 0)), value(7, ONE, (1, 0, 0, 0, 0, 0, 0))
save("joined-rules-as-bytes", "Rules are compared as bytes: 1 is greater than 256.", mine=low, theirs=high, joined=high)
save("joined-rules-as-bytes-mine", "The same with the sides exchanged.", mine=high, theirs=low, joined=high)
unknown = value(1, ONE, DAYS, 2)
save("joined-mine-unreadable", "Where mine cannot be read, theirs counts.", mine=unknown, theirs=value(1, ONE, DAYS), joined=value(1, ONE, DAYS))
save("joined-theirs-unreadable", "Where theirs cannot be read, it counts all the same.", mine=good, theirs=unknown, joined=unknown)

save("set-first", "The first rule has the number 1.", device=ONE, set=DAYS, after=value(1, ONE, DAYS))
save("set-next", "The next rule has a number that is greater by one.", before=value(255, TWO, ALL), device=ONE, set=UNNAMED, after=value(256, ONE, UNNAMED))
