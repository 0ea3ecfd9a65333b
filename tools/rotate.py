#!/usr/bin/env python3
"""Rotates the keys of a large vault under load, kills the rotating process again and again, and checks what remains.

    tools/rotate.py [GIB] [KILLS] [SEED]        defaults: 1 GiB, 5 kills, seed from the clock (printed)

The vault holds files of random bytes; a third of them is in a snapshot only. `strongroom key rotate` runs while a writer and a reader
use the mount, and kill -9 comes at moments spread over the rotation. In the end everything must be sealed under the newest keys, the
header must have no other keys, every checksum must be as before, and everything acknowledged to the writer as durable must exist.
"""

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from kill import BINARY, Vault, run

FILE_BYTES = 16 << 20
PATIENCE_S = 900


def strongroom(vault, *args):
    return run(BINARY, *args, "--passphrase-file", vault.passphrase).stdout


def rotation(vault):
    """How far it is, asked of the process that has the vault open."""
    return json.loads(run(BINARY, "key", "rotate", vault.vault, "--status", "--json").stdout)


def fill(vault, gib, seed):
    """Files of random bytes and one snapshot; gives their checksums by the path from the mount."""
    sums = {}
    rng = random.Random(seed)
    for number in range(max(3, int(gib * (1 << 30)) // FILE_BYTES)):
        content = rng.randbytes(FILE_BYTES)
        path = vault.mount / f"file{number}"
        path.write_bytes(content)
        sums[path.name] = hashlib.sha256(content).hexdigest()
    strongroom(vault, "snapshot", "create", vault.vault, "--tag", "all")
    kept = {f".history/t:all/{name}": of for name, of in sums.items()}
    for number in range(0, len(sums), 3):
        (vault.mount / f"file{number}").unlink()
        del sums[f"file{number}"]
    run(BINARY, "sync", vault.vault)
    return sums | kept


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Load:
    """A writer that notes what is durable, and a reader that compares."""

    def __init__(self, vault, sums, first):
        self.vault, self.sums, self.first = vault, sums, first
        self.durable, self.wrong, self.read = {}, [], 0
        self.stopping = False
        self.threads = [threading.Thread(target=work) for work in (self.write, self.compare)]
        for thread in self.threads:
            thread.start()

    def write(self):
        number = self.first
        try:
            while not self.stopping:
                content = random.Random(number).randbytes(200_000)
                path = self.vault.mount / f"new{number}"
                with open(path, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self.durable[path.name] = hashlib.sha256(content).hexdigest()
                number += 1
        except OSError:
            pass  # killed below it

    def compare(self):
        names = list(self.sums)
        try:
            while not self.stopping:
                name = random.choice(names)
                if checksum(self.vault.mount / name) != self.sums[name]:
                    self.wrong.append(name)
                self.read += 1
        except OSError:
            pass

    def end(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        if self.wrong:
            raise SystemExit(f"wrong bytes in {self.wrong}")


def epochs_of_segments(vault):
    found = {}
    for path in (vault.vault / "segments").glob("*/*"):
        with open(path, "rb") as file:
            epoch = struct.unpack_from("<I", file.read(32), 28)[0]
        found[epoch] = found.get(epoch, 0) + 1
    return found


def judge(vault, sums):
    header = json.loads((vault.vault / "vault.json").read_text())
    granted = sorted({grant["epoch"] for grant in header["grants"]})
    if len(granted) != 1:
        raise SystemExit(f"the header has keys of the epochs {granted}")
    segments = epochs_of_segments(vault)
    if set(segments) - set(granted):
        raise SystemExit(f"segments by epoch: {segments}; keys: {granted}")
    records = {path.suffix for path in (vault.vault / "revisions").iterdir()}
    if records != {f".{granted[0]}"}:
        raise SystemExit(f"records of revisions: {records}")
    for name, wanted in sums.items():
        if checksum(vault.mount / name) != wanted:
            raise SystemExit(f"{name} has other bytes")
    print(f"all {sum(segments.values())} segments and all records under epoch {granted[0]}, no other keys; {len(sums)} checksums equal")


def main():
    gib = float(sys.argv[1]) if len(sys.argv) > 1 else 1
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
    print(f"{gib} GiB, {kills} kills, seed {seed}")
    random.seed(seed)
    with tempfile.TemporaryDirectory(prefix="strongroom-rotate.") as folder:
        # What is seen of the vaults is remembered here, and not of this user.
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        vault = Vault(Path(folder))
        vault.start()
        try:
            rotate_under_load(vault, gib, kills, seed)
        finally:
            if vault.daemon.poll() is None:
                vault.kill()
            if os.path.ismount(vault.mount):
                subprocess.run(["umount", "--lazy", vault.mount], check=False)


def rotate_under_load(vault, gib, kills, seed):
    sums = fill(vault, gib, seed)
    ids = run(BINARY, "log", vault.vault, "--json").stdout
    began = time.monotonic()
    strongroom(vault, "key", "rotate", vault.vault)
    whole = rotation(vault)["bytes_left"]
    print(f"{whole >> 20} MiB to be re-sealed")
    for number in range(kills):
        load = Load(vault, sums, number * 1_000_000)
        # Spread over the work, and a little beside.
        left = whole * (kills - number) // (kills + 1) - random.randrange(1 << 20)
        while (state := rotation(vault))["running"] and state["bytes_left"] > left:
            time.sleep(0.005)
        vault.kill()
        load.end()
        vault.start()  # takes the dead mount away
        sums |= load.durable
        state_after = rotation(vault)
        print(
            f"killed at {state['bytes_left'] >> 20} MiB left; {len(load.durable)} files were written and {load.read} compared; "
            f"goes on at {state_after['bytes_left'] >> 20} MiB"
        )
        if state["running"] and not state_after["running"] and state_after["oldest_epoch"] != state_after["newest_epoch"]:
            raise SystemExit(f"the rotation was forgotten: {state_after}")
    load = Load(vault, sums, kills * 1_000_000)
    while (state := rotation(vault))["running"]:
        if state["trouble"] or time.monotonic() - began > PATIENCE_S:
            raise SystemExit(f"it does not end: {state}")
        time.sleep(0.05)
    load.end()
    sums |= load.durable
    print(f"ended {time.monotonic() - began:.1f} s after it began, {kills} kills and mounts included")
    judge(vault, sums)
    if run(BINARY, "log", vault.vault, "--json").stdout != ids:
        raise SystemExit("the snapshots are not what they were")
    vault.stop()
    print(strongroom(vault, "verify", "--structure", vault.vault).strip())


if __name__ == "__main__":
    main()
