#!/usr/bin/env python3
"""Kills devices of one vault with kill -9 while they push, pull, clone, evict or prune, and checks that nothing is lost.

    tools/sync_kill.py [ROUNDS] [SEED]        defaults: 60 rounds, seed from the clock (printed)

Three devices share a folder as a remote. In each round every device changes files and runs a command for the remote; some of these
commands are killed at a random moment. There are two kinds of files: files that one device writes once and nobody changes again, and
files that all devices write, move and remove. Every ten rounds all devices sync until nothing is new. Then each must have the same files,
every file that was written once must have its content, and no file may have content that no device wrote. `verify --deep` and `remote
check --deep` must find nothing. After a prune the remote must have no unreferenced object. Some rounds later one device is abandoned
and cloned again from the remote; the clone may be killed too.
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
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
DEVICES = 3
NAMES = [f"{folder}{name}" for folder in ("", "a/", "b/") for name in ("one", "two", "three", "four")]
# What is run, and how often: a sync is both a pull and a push, with a merge between them.
COMMANDS = {
    "sync": 5,
    "push": 2,
    "pull": 2,
    "evict": 2,
    "evict --undo": 1,
    "remote prune --now": 1,
}


class Devices:
    def __init__(self, place, rng):
        self.place, self.rng = place, rng
        self.key = place / "key"
        self.remote = place / "remote"
        self.remote.mkdir()
        self.vaults = [place / f"device{number}" for number in range(DEVICES)]
        self.written = set()  # the hash of every content that a device acknowledged
        self.once = {}  # the files that were written once, with the hash of their content
        self.kills = Counter()
        self.times = {}  # how long each command took when it was not killed
        self.run("init", self.vaults[0], "--key-file", self.key)
        for folder in ("a", "b", "once"):
            self.run("mkdir", f"{self.vaults[0]}:{folder}", *self.secret())
        self.run("remote", "add", self.vaults[0], "origin", f"folder:{self.remote}", *self.secret())
        self.sync(0)
        for vault in self.vaults[1:]:
            self.run("clone", "-q", f"folder:{self.remote}", vault, *self.secret())
        for number in range(DEVICES):
            self.sync(number)

    def secret(self):
        return ["--key-file", str(self.key)]

    def run(self, *args, ends=(0,)):
        done = subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True)
        if done.returncode not in ends:
            raise SystemExit(f"{args} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def sync(self, number):
        return json.loads(self.run("sync", "-q", "--json", self.vaults[number], *self.secret()))

    def kill(self, command, *args, ends=(0,)):
        """Runs a command, and kills it at a random moment of the time that it takes; gives whether it had ended before."""
        usual = self.times.get(command, 0.6 if command.startswith("clone") else 0.15)
        begun = time.monotonic()
        process = subprocess.Popen(
            [BINARY, *command.split(), "-q", *map(str, args), *self.secret()],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        try:
            _, said = process.communicate(timeout=self.rng.uniform(0, 1.1 * usual))
            self.times[command] = 0.8 * usual + 0.2 * (time.monotonic() - begun)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            _, said = process.communicate()
            # On a busy machine it may take longer now than ever before, and has to end some time.
            self.times[command] = 1.02 * usual
        if process.returncode not in (*ends, -signal.SIGKILL):
            raise SystemExit(f"{command} {args} ended with {process.returncode}: {said}")
        was_killed = process.returncode == -signal.SIGKILL
        self.kills[command] += was_killed
        return not was_killed

    def work(self, number):
        command = self.rng.choices(list(COMMANDS), list(COMMANDS.values()))[0]
        # A push and a prune say so where another device was faster; eviction, where a remote has not shown everything.
        ends = {"push": (0, 9), "remote prune --now": (0, 9), "evict": (0, 15)}.get(command, (0,))
        if self.rng.random() < 0.85:
            self.kill(command, self.vaults[number], ends=ends)
        else:
            self.run(*command.split(), "-q", self.vaults[number], *self.secret(), ends=ends)

    def put(self, number, name):
        content = self.rng.randbytes(self.rng.choice((10, 5_000, 300_000)))
        file = self.place / "content"
        file.write_bytes(content)
        self.run("put", "-q", file, f"{self.vaults[number]}:{name}", *self.secret())
        digest = hashlib.sha256(content).hexdigest()
        self.written.add(digest)
        return digest

    def change(self, number):
        vault, kind = self.vaults[number], self.rng.random()
        name = self.rng.choice(NAMES)
        if kind < 0.3:
            name = f"once/{len(self.once)}"
            self.once[name] = self.put(number, name)
        elif kind < 0.7:
            self.put(number, name)
        elif kind < 0.85:
            self.attempt("mv", f"{vault}:{name}", f"{vault}:{self.rng.choice(NAMES)}")
        else:
            self.attempt("rm", f"{vault}:{name}")

    def attempt(self, *args):
        """What cannot be done, because a name is not there, is not."""
        subprocess.run([BINARY, *args, *self.secret()], capture_output=True)

    def clone_again(self, number):
        """Gives a device up that has nothing of its own, and clones it, which is killed until it comes through."""
        self.sync(number)
        shutil.rmtree(self.vaults[number])
        unfinished = self.vaults[number] / "init-unfinished"
        command = self.rng.choice(("clone", "clone --on-demand"))
        while not self.kill(command, f"folder:{self.remote}", self.vaults[number]):
            # Without the mark it is a whole vault, and another attempt would be refused.
            if self.vaults[number].exists() and any(self.vaults[number].iterdir()) and not unfinished.exists():
                break
        self.sync(number)

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
        lost = [name for name, digest in self.once.items() if first.get(name) != digest]
        if lost:
            raise SystemExit(f"files that were acknowledged and are lost: {lost}")
        self.check_remote()
        return len(first)

    def check_remote(self):
        """Nothing is left at the remote that a prune would not take."""
        for vault in self.vaults:
            # What is not here keeps what was retired from going.
            self.run("evict", "--undo", "-q", vault, *self.secret())
        # A device whose content came back may publish what it compacts then; the first one, which prunes, has to know of it.
        for number in (*range(DEVICES), 0):
            self.sync(number)
        for path in self.remote.rglob(".new-*"):
            # What a killed device was writing goes once it is a day old.
            os.utime(path, (1_000_000_000, 1_000_000_000))
        for _ in range(2):
            self.run("remote", "prune", "--now", "-q", self.vaults[0], *self.secret())
        looked_at = json.loads(self.run("remote", "check", "-q", "--json", self.vaults[0], *self.secret()))["objects"]
        # Of the headers it looks at the newest; the others stay for devices that are behind.
        kinds = ("segments", "revisions", "needs")
        there = [path for kind in kinds for path in (self.remote / kind).glob("*")]
        if len(there) + 1 != looked_at:
            raise SystemExit(f"the remote has {len(there)} objects, and something refers to {looked_at}")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    print(f"seed {seed}")
    place = Path(tempfile.mkdtemp(prefix="strongroom-sync-kill."))
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    try:
        devices = Devices(place, random.Random(seed))
        for number in range(1, rounds + 1):
            for device in range(DEVICES):
                for _ in range(devices.rng.randrange(4)):
                    devices.change(device)
                devices.work(device)
            if number % 10 == 0:
                files = devices.settle()
                print(f"round {number}: {files} files and directories, the same on {DEVICES} devices; killed: {dict(devices.kills)}", flush=True)
            if number % 20 == 0:
                devices.clone_again(devices.rng.randrange(DEVICES))
        print(f"{sum(devices.kills.values())} commands were killed, and nothing was lost")
    except BaseException:
        print(f"what is there stays for a look: {place}", file=sys.stderr)
        raise
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
