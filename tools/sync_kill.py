#!/usr/bin/env python3
"""Kills devices of one vault with -9 while they sync, again and again, and checks that all come to the same files.

    tools/sync_kill.py [ROUNDS] [SEED]        defaults: 60 rounds, seed from the clock (printed)

Three devices, one of them mounted at times, share a folder as a remote. Each round every device changes files, and each syncs,
killed at a random moment or not. Every ten rounds all sync until nothing is new; then each must have the same files, with all
content that was acknowledged as durable and that nobody overwrote or removed later, and `verify --deep` and
`remote check --deep` must find nothing.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
DEVICES = 3
NAMES = [f"{folder}{name}" for folder in ("", "a/", "b/") for name in ("one", "two", "three", "four")]


class Devices:
    def __init__(self, place, rng):
        self.place, self.rng = place, rng
        self.key = place / "key"
        self.remote = place / "remote"
        self.remote.mkdir()
        self.vaults = [place / f"device{number}" for number in range(DEVICES)]
        self.written = set()  # every content that a device acknowledged
        self.kills = 0
        self.run("init", self.vaults[0], "--key-file", self.key)
        for folder in ("a", "b"):
            self.run("mkdir", f"{self.vaults[0]}:{folder}", *self.secret())
        self.run("remote", "add", self.vaults[0], "shared", f"folder:{self.remote}", *self.secret())
        self.sync(0)
        for vault in self.vaults[1:]:
            self.run("clone", "-q", f"folder:{self.remote}", vault, *self.secret())
        for number in range(DEVICES):
            self.sync(number)

    def secret(self):
        return ["--key-file", str(self.key)]

    def run(self, *args, **options):
        done = subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, **options)
        if done.returncode != 0:
            raise SystemExit(f"{args} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def sync(self, number):
        return json.loads(self.run("sync", "-q", "--json", self.vaults[number], *self.secret()))

    def kill_sync(self, number):
        """Syncs, and kills that at a random moment; gives whether it had ended before."""
        args = [BINARY, "sync", "-q", str(self.vaults[number]), *self.secret()]
        sync = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(self.rng.uniform(0, 0.15))
        sync.send_signal(signal.SIGKILL)
        _, said = sync.communicate()
        if sync.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"sync of device {number} ended with {sync.returncode}: {said}")
        self.kills += sync.returncode != 0

    def change(self, number):
        vault = self.vaults[number]
        name = self.rng.choice(NAMES)
        kind = self.rng.random()
        if kind < 0.6:
            content = self.rng.randbytes(self.rng.choice((10, 5_000, 300_000)))
            file = self.place / "content"
            file.write_bytes(content)
            self.run("put", "-q", file, f"{vault}:{name}", *self.secret())
            self.written.add(hashlib.sha256(content).hexdigest())
        elif kind < 0.8:
            self.attempt("mv", f"{vault}:{name}", f"{vault}:{self.rng.choice(NAMES)}")
        else:
            self.attempt("rm", f"{vault}:{name}")

    def attempt(self, *args):
        """What cannot be done, because a name is not there, is not."""
        subprocess.run([BINARY, *args, *self.secret()], capture_output=True)

    def files(self, number):
        place = self.place / f"out{number}"
        shutil.rmtree(place, ignore_errors=True)
        self.run("get", "-q", f"{self.vaults[number]}:/", place, *self.secret())
        found = {}
        for path in sorted(place.rglob("*")):
            name = str(path.relative_to(place))
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
        return found

    def settle(self):
        for _ in range(2):
            for number in range(DEVICES):
                self.sync(number)
        for number in range(DEVICES):
            said = self.sync(number)["remotes"][0]
            if said["pulled"]["publications"] or said["pushed"]["publications"]:
                raise SystemExit(f"device {number} still had something to say: {said}")
        first = self.files(0)
        for number in range(DEVICES):
            files = self.files(number)
            if files != first:
                differ = {name for name in files.keys() | first.keys() if files.get(name) != first.get(name)}
                raise SystemExit(f"device {number} has other files than device 0: {sorted(differ)}")
            self.run("device", "accept", self.vaults[number], *self.secret())
            self.run("verify", "-q", "--deep", self.vaults[number], *self.secret())
            self.run("remote", "check", "-q", "--deep", self.vaults[number], *self.secret())
        strange = set(first.values()) - self.written - {"directory"}
        if strange:
            raise SystemExit(f"files that nobody wrote: {[name for name in first if first[name] in strange]}")
        return len(first)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    print(f"seed {seed}")
    place = Path(tempfile.mkdtemp(prefix="strongroom-sync-kill."))
    try:
        devices = Devices(place, random.Random(seed))
        for number in range(1, rounds + 1):
            for device in range(DEVICES):
                for _ in range(devices.rng.randrange(4)):
                    devices.change(device)
                if devices.rng.random() < 0.8:
                    devices.kill_sync(device)
                else:
                    devices.sync(device)
            if number % 10 == 0:
                files = devices.settle()
                print(f"round {number}: {devices.kills} syncs were killed, {files} files and directories, the same on {DEVICES} devices")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
