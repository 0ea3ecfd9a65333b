"""Measures what calls cost in Python, on a vault and on the plain file system. The head of measure.rs says how all of these programs are
used, and what they print.

    measure.py vault|plain FOLDER calls|whole|files NUMBER ROUNDS
"""

import ctypes
import json
import os
import sys
import time

import strongroom

PAGE_BYTES = 4096
MIB = 1 << 20
PAGES = 256
MIBS = 16
SMALL_READS_PER_LARGE = 50
FILE_BYTES = 5000
STAMP_BYTES = 8


class Wrong(Exception):
    """What was read is not what was written."""


def stamp(number):
    return number.to_bytes(STAMP_BYTES, "little")


def check(content, number):
    if not content.startswith(stamp(number)):
        raise Wrong(f"page or file {number} is not what was written")


def exactly(found, wanted):
    if found != wanted:
        raise Wrong(f"{found} bytes where there are {wanted}")


class OnVault:
    """A vault, and its file."""

    def __init__(self, folder):
        self.vault = strongroom.Vault(folder, key_file=f"{folder}.key", exclusive=True, remember=False)
        self.content = "/content"
        self.file = self.vault.open(self.content, "rb", 0)
        self.pread = self.file.pread
        self.open, self.stat, self.sync = self.vault.open, self.vault.stat, self.vault.sync
        self.mkdir, self.rmdir, self.remove = self.vault.mkdir, self.vault.rmdir, self.vault.remove

    def path(self, name):
        return "/" + name

    def small_read(self):
        pread = self.file.pread

        def call(number):
            if len(pread(PAGE_BYTES, number % PAGES * PAGE_BYTES)) != PAGE_BYTES:
                raise Wrong("a read was short")

        return call

    def large_read(self):
        pread = self.file.pread

        def call(number):
            if len(pread(MIB, number % MIBS * MIB)) != MIB:
                raise Wrong("a read was short")

        return call

    def close(self):
        self.file.close()
        self.vault.close()


class OnDisk:
    """A folder of the plain file system, and its file."""

    def __init__(self, folder):
        self.folder = folder
        self.content = self.path("content")
        self.descriptor = os.open(self.content, os.O_RDONLY)
        self.open, self.stat, self.mkdir, self.rmdir, self.remove = open, os.stat, os.mkdir, os.rmdir, os.remove

    def path(self, name):
        return f"{self.folder}/{name}"

    def pread(self, size, offset):
        return os.pread(self.descriptor, size, offset)

    # As the same functions of a vault, with one argument more: what Python needs for the call itself is equal.

    def small_read(self):
        pread, descriptor = os.pread, self.descriptor

        def call(number):
            if len(pread(descriptor, PAGE_BYTES, number % PAGES * PAGE_BYTES)) != PAGE_BYTES:
                raise Wrong("a read was short")

        return call

    def large_read(self):
        pread, descriptor = os.pread, self.descriptor

        def call(number):
            if len(pread(descriptor, MIB, number % MIBS * MIB)) != MIB:
                raise Wrong("a read was short")

        return call

    def sync(self):
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(folder) != 0:
                raise OSError(ctypes.get_errno(), "syncing the file system")
        finally:
            os.close(folder)

    def close(self):
        os.close(self.descriptor)


def timed(rounds, count, call):
    """Nanoseconds of one of ``count`` calls in each round, after a round that warms up."""
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter_ns()
        for number in range(count):
            call(number)
        taken.append((time.perf_counter_ns() - start) / count)
    return taken[1:]


def calls(place, count, rounds):
    for number in range(MIBS * MIB // PAGE_BYTES):
        check(place.pread(PAGE_BYTES, number * PAGE_BYTES), number)
    stat, path = place.stat, place.content
    return {
        "read_4k": timed(rounds, count, place.small_read()),
        "read_1m": timed(rounds, count // SMALL_READS_PER_LARGE, place.large_read()),
        "stat": timed(rounds, count, lambda _: stat(path)),
    }


def whole(place, size, rounds):
    def call(_):
        with place.open(place.content, "rb") as file:
            content = file.read()
        exactly(len(content), size)
        check(content, 0)
        check(content[-PAGE_BYTES:], size // PAGE_BYTES - 1)

    return {"whole": timed(rounds, 1, call)}


def files(place, count, rounds):
    folder = place.path("files")
    paths = [f"{folder}/{number:06}" for number in range(count)]
    rest = b"x" * (FILE_BYTES - STAMP_BYTES)
    figures = {"written": [], "read": [], "removed": []}
    for _ in range(rounds):
        place.mkdir(folder)
        start = time.perf_counter_ns()
        for number, path in enumerate(paths):
            with place.open(path, "wb") as file:
                file.write(stamp(number) + rest)
        place.sync()
        figures["written"].append(time.perf_counter_ns() - start)

        start = time.perf_counter_ns()
        for number, path in enumerate(paths):
            with place.open(path, "rb") as file:
                found = file.read()
            exactly(len(found), FILE_BYTES)
            check(found, number)
        figures["read"].append(time.perf_counter_ns() - start)

        start = time.perf_counter_ns()
        for path in paths:
            place.remove(path)
        place.rmdir(folder)
        place.sync()
        figures["removed"].append(time.perf_counter_ns() - start)
    return figures


PARTS = {"calls": calls, "whole": whole, "files": files}


def main():
    kind, folder, part, number, rounds = sys.argv[1:]
    place = OnVault(folder) if kind == "vault" else OnDisk(folder)
    figures = PARTS[part](place, int(number), int(rounds))
    place.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
