#!/usr/bin/env python3
"""Creates, rewrites, changes and removes files in a vault without snapshots, and measures from outside how much space it wastes.

    tools/churn.py [MINUTES] [SEED]        defaults: 60 minutes, seed from the clock (printed)

The vault holds 60 to 80 MB in files of random bytes, and about 20 MB a second are written. Five times a second the disk space of the
files below `segments` is compared with the size of the live content: [5.12] of spec/5-crash-contract.md allows half of the live size
plus 64 MiB as waste. Prints the worst sample of each minute and of the run. Fails if a sample was above that, or if a file differs
in the end.
"""

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from kill import BINARY, Vault, run

LIVE_MIN, LIVE_MAX = 60_000_000, 80_000_000
BYTES_A_SECOND = 20_000_000
FILE_BYTES = (900, 20_000, 150_000, 900_000, 5_000_000)
ALLOWED_MORE = 64 << 20
SAMPLE_S = 0.2


class Churn:
    """The writer, which alone knows what lives."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.lens, self.live, self.written = {}, 0, 0
        self.made, self.failed, self.stopping = 0, None, False
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        try:
            while not self.stopping:
                self.step()
                # A steady rate, not a deadline: the writer rests for what it is ahead.
                ahead = self.written / BYTES_A_SECOND - (time.monotonic() - self.began)
                if ahead > 0:
                    time.sleep(ahead)
        except OSError as error:
            self.failed = error

    def step(self):
        full, empty = self.live > LIVE_MAX, self.live < LIVE_MIN
        what = "remove" if full else "make" if empty else self.random.choice(["make", "rewrite", "change", "append", "remove"])
        if what == "make" or not self.lens:
            self.made += 1
            self.write(f"{self.made % 16}/{self.made}", "wb", 0, self.random.choice(FILE_BYTES))
            return
        name = self.random.choice(list(self.lens))
        len_ = self.lens[name]
        if what == "remove":
            self.live -= self.lens.pop(name)
            (self.folder / name).unlink()
        elif what == "rewrite":
            self.write(name, "wb", 0, self.random.choice(FILE_BYTES))
        elif what == "change":
            self.write(name, "r+b", self.random.randrange(len_), min(len_, self.random.choice(FILE_BYTES)))
        elif what == "append":
            self.write(name, "r+b", len_, self.random.choice(FILE_BYTES[:3]))

    def write(self, name, mode, offset, count):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        if mode == "wb":
            self.live -= self.lens.pop(name, 0)
        with open(path, mode) as file:
            file.seek(offset)
            file.write(self.random.randbytes(count))
            if self.random.random() < 0.02:
                os.fsync(file.fileno())
        before = self.lens.get(name, 0)
        self.lens[name] = max(before, offset + count)
        self.live += self.lens[name] - before
        self.written += count

    def sums(self):
        """Ends the writer; gives the checksum of each file that lives."""
        self.stopping = True
        self.thread.join()
        if self.failed:
            raise SystemExit(f"the writer failed: {self.failed}")
        return {name: checksum(self.folder / name, len_) for name, len_ in self.lens.items()}


def checksum(path, len_):
    content = path.read_bytes()
    if len(content) != len_:
        raise SystemExit(f"{path.name} has {len(content)} bytes and not {len_}")
    return hashlib.sha256(content).digest()


def segment_bytes(vault):
    """What the segments take on the disk at one moment, as `du` counts it: counted again if one comes or goes meanwhile."""
    segments = lambda: sorted((vault.vault / "segments").glob("*/*"))
    while True:
        before = segments()
        try:
            taken = sum(path.stat().st_blocks * 512 for path in before)
        except FileNotFoundError:
            continue  # reclaimed meanwhile
        if segments() == before:
            return taken


class Sample:
    def __init__(self, vault, churn, began):
        self.at = time.monotonic() - began
        before = churn.live
        self.taken = segment_bytes(vault)
        self.live = min(before, churn.live)
        self.waste = max(self.taken - self.live, 0)
        self.allowed = self.live // 2 + ALLOWED_MORE

    def share(self):
        return self.waste / self.allowed

    def __str__(self):
        mb = [f"{number / 1e6:.1f} MB" for number in (self.taken, self.live, self.waste, self.allowed)]
        return f"{mb[0]} taken, {mb[1]} live, {mb[2]} waste of {mb[3]} allowed ({100 * self.share():.0f} %), after {self.at:.0f} s"


def watch(vault, churn, minutes):
    """Every sample until the time is over; gives the worst and their count."""
    began = time.monotonic()
    worst, worst_of_minute, count, minute = None, None, 0, 1
    while (at := time.monotonic() - began) < 60 * minutes and not churn.failed:
        sample = Sample(vault, churn, began)
        count += 1
        worst = max(worst or sample, sample, key=Sample.share)
        worst_of_minute = max(worst_of_minute or sample, sample, key=Sample.share)
        if at >= 60 * minute:
            print(f"minute {minute}: {worst_of_minute}; {churn.written / at / 1e6:.1f} MB/s", flush=True)
            minute, worst_of_minute = minute + 1, None
        time.sleep(SAMPLE_S)
    return worst, count


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    print(f"{minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="strongroom-churn.") as folder:
        # What is seen of the vaults is remembered here, and not of this user.
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        vault = Vault(Path(folder))
        vault.start("-o", "snapshot=off")
        try:
            churn = Churn(vault.mount, seed)
            worst, count = watch(vault, churn, minutes)
            sums = churn.sums()
            print(f"{churn.written / 1e9:.1f} GB written in {churn.made} files and changes of them; {count} samples; the worst: {worst}")
            vault.stop()
            vault.start("-o", "snapshot=off")
            if differing := [name for name, of in sums.items() if checksum(vault.mount / name, churn.lens[name]) != of]:
                raise SystemExit(f"after mounting again these differ: {differing}")
            print(f"{len(sums)} files equal after mounting again")
            run(BINARY, "verify", "-q", vault.vault)
            vault.stop()
            if worst.share() > 1:
                raise SystemExit("the bound of waste was exceeded")
        finally:
            if vault.daemon.poll() is None:
                vault.kill()
            if os.path.ismount(vault.mount):
                subprocess.run(["umount", "--lazy", vault.mount], check=False)


if __name__ == "__main__":
    main()
