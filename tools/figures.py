#!/usr/bin/env python3
"""First figures: one run on a mounted vault and on the plain file system beneath it, alternating, medians of ROUNDS.

    tools/figures.py [ROUNDS] [--json FILE]        default: 3 rounds; root, because caches are dropped

Times are shown, never judged here. Every write row ends with fsync or sync inside the timed part.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
BIG_MIB = int(os.environ.get("FIGURES_BIG_MIB", "1024"))
SMALL_FILES = int(os.environ.get("FIGURES_FILES", "10000"))
MIB = 1 << 20


def drop_caches():
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def timed(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def sync_all(folder, vault):
    """sync(2) does not reach a FUSE daemon, so the vault is synced by its own command."""
    if vault:
        subprocess.run([BINARY, "sync", vault], check=True, capture_output=True)
    else:
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        subprocess.run(["sync", "-f", folder], check=True)


def write_big(path, blocks):
    with open(path, "wb", buffering=0) as file:
        for number in range(BIG_MIB):
            file.write(blocks[number % len(blocks)])
            # Each MiB differs, so that nothing is stored once only.
        os.fsync(file.fileno())


def read_all(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def create_small(folder, content):
    for number in range(SMALL_FILES):
        directory = folder / f"d{number // 100}"
        if number % 100 == 0:
            directory.mkdir()
        with open(directory / f"f{number}", "wb", buffering=0) as file:
            file.write(number.to_bytes(8, "big") + content)


def read_small(folder):
    for number in range(SMALL_FILES):
        with open(folder / f"d{number // 100}" / f"f{number}", "rb", buffering=0) as file:
            file.read()


def list_all(folder):
    for entry in os.scandir(folder):
        for inner in os.scandir(entry.path):
            inner.stat(follow_symlinks=False)


def one_round(folder, vault):
    figures = {}
    blocks = [os.urandom(MIB) for _ in range(64)]

    def unique():
        # 64 random MiB repeated would be stored once: give each MiB its own first bytes in every 4 KiB.
        for number in range(BIG_MIB):
            block = bytearray(blocks[number % 64])
            stamp = os.urandom(16)
            for at in range(0, MIB, 65536):
                block[at : at + 16] = stamp
            yield bytes(block)

    prepared = list(unique())
    big = folder / "big"
    figures["sequential write + fsync, MB/s"] = BIG_MIB * MIB / 1e6 / timed(lambda: write_big(big, prepared))
    del prepared
    drop_caches()
    figures["sequential read cold, MB/s"] = BIG_MIB * MIB / 1e6 / timed(lambda: read_all(big))
    figures["sequential read warm, MB/s"] = BIG_MIB * MIB / 1e6 / timed(lambda: read_all(big))
    big.unlink()
    content = os.urandom(5000 - 8)
    small, copy = folder / "small", folder / "copy"
    small.mkdir()
    figures["create 5 KB files + sync, files/s"] = SMALL_FILES / timed(
        lambda: (create_small(small, content), sync_all(folder, vault))
    )
    figures["cp -r of them + sync, files/s"] = SMALL_FILES / timed(
        lambda: (subprocess.run(["cp", "-r", small, copy], check=True), sync_all(folder, vault))
    )
    drop_caches()
    figures["walk + lstat cold, entries/s"] = SMALL_FILES / timed(lambda: list_all(small))
    figures["walk + lstat warm, entries/s"] = SMALL_FILES / timed(lambda: list_all(small))
    drop_caches()
    figures["read them cold, files/s"] = SMALL_FILES / timed(lambda: read_small(small))
    figures["rm -r + sync, files/s"] = SMALL_FILES / timed(
        lambda: (subprocess.run(["rm", "-r", small], check=True), sync_all(folder, vault))
    )
    shutil.rmtree(copy)
    return figures


def main():
    arguments = sys.argv[1:]
    output = None
    if "--json" in arguments:
        at = arguments.index("--json")
        output = arguments[at + 1]
        del arguments[at : at + 2]
    rounds = int(arguments[0]) if arguments else 3
    work = Path(tempfile.mkdtemp(prefix="figures-", dir=os.environ.get("FIGURES_DIR", str(ROOT / "target"))))
    vault, mount, plain = work / "vault", work / "mount", work / "plain"
    mount.mkdir()
    plain.mkdir()
    (work / "passphrase").write_text("figures")
    secret = ["--passphrase-file", work / "passphrase"]
    subprocess.run([BINARY, "init", vault, *secret], check=True, capture_output=True)
    subprocess.run([BINARY, "mount", vault, mount, *secret], check=True)
    runs = {"plain": [], "strongroom": []}
    try:
        for number in range(rounds):
            for name, folder, which in (("plain", plain, None), ("strongroom", mount, vault)):
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
                runs[name].append(one_round(folder, which))
    finally:
        subprocess.run([BINARY, "umount", mount], check=False)
        shutil.rmtree(work, ignore_errors=True)
    print(f"| workload | plain | strongroom | ratio | spread of strongroom |\n|---|--:|--:|--:|---|")
    for row in runs["plain"][0]:
        plain_values = [run[row] for run in runs["plain"]]
        values = [run[row] for run in runs["strongroom"]]
        plain_median, median = statistics.median(plain_values), statistics.median(values)
        print(f"| {row} | {plain_median:,.0f} | {median:,.0f} | {median / plain_median:.2f} | {min(values):,.0f} to {max(values):,.0f} |")
    if output:
        Path(output).write_text(json.dumps({"cores": os.cpu_count(), "kernel": os.uname().release, "runs": runs}, indent=1))


if __name__ == "__main__":
    main()
