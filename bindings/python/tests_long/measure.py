"""Measures calls and streams of bytes on a vault, and the same on a file of the disk; prints one line for each.

    python measure.py FOLDER [MIB]        # FOLDER: an empty folder on the measured disk
"""

import os
import pathlib
import sys
import time

import strongroom

ROUNDS = 7


def per_call(call, count):
    """Microseconds of one call: the best of some rounds, so that what else runs does not count."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - begin) / count)
    return best * 1e6


def main():
    place = pathlib.Path(sys.argv[1])
    mib = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    strongroom.write_key_file(place / "key")
    content = os.urandom(1 << 20)
    with strongroom.Vault.create(place / "vault", key_file=place / "key", remember=False) as vault:
        disk = str(place / "file")
        with open(disk, "wb") as on_disk, vault.open("/file", "wb") as in_vault:
            for _ in range(mib):
                on_disk.write(content)
                in_vault.write(content)
        vault.sync()
        raw_disk, raw_vault = open(disk, "rb", 0), vault.open("/file", "rb", 0)
        descriptor = raw_disk.fileno()
        rows = [
            ("stat", lambda: os.stat(disk), lambda: vault.stat("/file"), 5_000),
            ("open and close", lambda: open(disk, "rb", 0).close(), lambda: vault.open("/file", "rb", 0).close(), 1_000),
            ("pread 4 KiB", lambda: os.pread(descriptor, 4096, 8192), lambda: raw_vault.pread(4096, 8192), 5_000),
            ("pread 1 MiB", lambda: os.pread(descriptor, 1 << 20, 0), lambda: raw_vault.pread(1 << 20, 0), 50),
        ]
        for name, on_disk, in_vault, count in rows:
            print(f"{name:<16} disk {per_call(on_disk, count):9.2f} µs   vault {per_call(in_vault, count):9.2f} µs")
        for name, opener in (("disk", lambda: open(disk, "rb")), ("vault", lambda: vault.open("/file", "rb"))):
            best = float("inf")
            for _ in range(3):
                begin = time.perf_counter()
                with opener() as file:
                    assert len(file.read()) == mib << 20
                best = min(best, time.perf_counter() - begin)
            print(f"open().read() of {mib} MiB, {name:<6} {mib / best:8.0f} MiB/s")
        raw_disk.close(), raw_vault.close()


main()
