#!/usr/bin/env python3
"""Measures sync: requests, bytes, time and memory over a line of a known rate and delay, compared with other programs.

    tools/bench_sync.py [--quick] [--only PART,…] [--rate MBIT] [--rounds N] [--minutes N] [--json] [--into FOLDER]

    transfer    20 × 500 KB, 100 × 100 KB, 1000 × 10 KB, up and down: Strongroom, one plain object, rclone, rclone crypt, restic, syncthing
    change      pull with nothing new; one small file and ten files pushed and pulled: every request
    visible     time from fsync in one mount until the change is read in another, through the store and through a server, at two delays
    idle        a mount with --sync without changes, compared with one without a remote
    local       the same comparison for rows of the local bench, while their writes are uploaded
    large       100,000 files and 5 GiB: first push, clone with content and without, ten files changed, listed, evicted, read again; no rate limit
    million     the same with 1,000,000 files of 200 bytes; only if it is named
    busy        two mounts with 50 edits a minute each for ten minutes: they must end equal, without a conflict; memory

The store is an S3 server in a network namespace, behind `tc tbf`; a relay adds delays; strongroom-server runs beside this program. Everything runs in separate namespaces, so no
packet reaches a real network. Downloaded data is compared. --into writes README.md and figures.json into FOLDER, and keeps the results
of other parts there; --json prints the figures. --quick runs a tenth. Exits with 1 if a byte is wrong; times never decide.

Needs root, and ip and tc (`apt-get install iproute2`). Missing ones of curl, rclone, restic and syncthing are installed from the
distribution; a program that cannot be installed is left out, and named.
"""

import argparse
import datetime
import filecmp
import hashlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from object_store import ObjectStore, Relay
from scale import machine
from server_process import Server
from sync_line import BINARY, FAR, ROOT, Cost, World, compare, make, peak_mib, serves, status_mib, until, write
from sync_peers import CURL, TOOLS, Syncthing

SERVER = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/release/strongroom-server"))
SCENARIOS = {"20 × 500 KB": (20, 500_000), "100 × 100 KB": (100, 100_000), "1000 × 10 KB": (1000, 10_000)}
DELAYS_MS = (0, 50)
MIB, GIB = 1 << 20, 1 << 30


def transfer(world):
    there = [name for name, (_, program) in TOOLS.items() if program is None or shutil.which(program)]
    found = {name: {tool: {"up": [], "down": []} for tool in there} for name in SCENARIOS}
    number = 0
    for turn in range(world.arguments.rounds):
        for name, (count, size) in SCENARIOS.items():
            files = world.place / f"files{number}"
            made = make(files, count, size, number)
            for tool in there if turn % 2 == 0 else reversed(there):
                number += 1
                one = TOOLS[tool][0](world, files, number)
                found[name][tool]["up"].append(one.up())
                found[name][tool]["down"].append(one.down())
                one.check(made)
                for left in world.place.glob("*back"):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            if shutil.which("syncthing"):
                syncthing = Syncthing(world)
                try:
                    found[name].setdefault("syncthing", {"up": []})["up"].append(syncthing.carry(files, made))
                finally:
                    syncthing.stop()
            shutil.rmtree(files)
    world.figures["transfer"] = {"rate_mbit": world.arguments.rate, "found": found}
    rows = []
    for name, (count, size) in SCENARIOS.items():
        plain = found[name].get("one plain object")
        for tool, ways in found[name].items():
            row = [name, tool]
            for way in ("up", "down"):
                if way in ways:
                    row += cells(ways[way], plain and plain[way], way, count * size, tool)
            rows.append(row + [""] * (10 - len(row)))
    title = f"Three kinds of files, up and down, at {world.arguments.rate} Mbit/s"
    says = """Seconds, in brackets against one plain object with the same bytes; bytes over the line that way, with all headers, against the bytes of the files; requests; MiB of memory at most.
Bounds of the design: 1.3× the time, 1.02 of the bytes, 4 requests and one for each 16 MiB, and the three kinds within 1.2× of each other. Syncthing: from one device to the other, without a store."""
    world.part("transfer", title, says, ["files", "with", "up, s", "bytes", "requests", "MiB", "down, s", "bytes", "requests", "MiB"], rows)


def cells(costs, plain, way, size, tool):
    took = median(costs, "seconds")
    ratio = f" ({took / median(plain, 'seconds'):.2f}×)" if plain else ""
    requests = "" if tool == "syncthing" else f"{median(costs, 'requests'):.0f}"
    return [f"{took:.2f}{ratio}", f"{median(costs, way) / size:.3f}", requests, f"{median(costs, 'memory_mib'):.0f}"]


def median(costs, name):
    return statistics.median(one[name] for one in costs)


def kinds_of(cost):
    return ", ".join(f"{count} {kind}" for kind, count in sorted(cost["kinds"].items()))


def change(world):
    """Two devices, and every request of what is small."""
    vault, other = world.place / "changed-vault", world.place / "changed-clone"
    url = world.url(world.bucket())
    made = world.place / "change-files"
    make(made, 2000, 4096, 3)
    world.init(vault)
    world.strongroom("put", "-q", made, f"{vault}:/")
    world.strongroom("remote", "add", vault, "store", url)
    costs = {"first push of 2,000 files of 4 KiB": world.measured_strongroom("push", "-q", vault)}
    costs["clone of them"] = world.measured_strongroom("clone", "-q", url, other)
    for each in (other, vault, other):
        world.strongroom("sync", "-q", each)
    world.strongroom("device", "accept", vault)
    costs["`pull` with nothing new"] = world.measured_strongroom("pull", "-q", other)
    costs["`push` with nothing new"] = world.measured_strongroom("push", "-q", vault)
    costs["`sync` with nothing new"] = world.measured_strongroom("sync", "-q", vault)
    for what, count in (("one file", 1), ("ten files", 10)):
        for number in range(count):
            write(made / "0000" / f"{number}.bin", os.urandom(4096))
        world.strongroom("put", "-q", made, f"{vault}:/")
        costs[f"push of {what} of 4 KiB"] = world.measured_strongroom("push", "-q", vault)
        costs[f"pull of {what}"] = world.measured_strongroom("pull", "-q", other)
    seconds = 10 if world.arguments.quick else 60
    command = [BINARY, "sync", "--watch", "--every", "1s", "-q", str(vault), "--key-file", "key"]
    watching = subprocess.Popen(command, env=world.environment, cwd=world.place, stdout=subprocess.DEVNULL)
    time.sleep(5)
    cost = Cost(world)
    time.sleep(seconds)
    cost = cost.end(peak_mib(watching.pid))
    watching.terminate()
    watching.wait()
    costs[f"`sync --watch --every 1s` for {seconds} s"] = cost
    world.figures["change"] = costs
    rows = []
    for what, cost in costs.items():
        rows.append([what, f"{cost['seconds']:.2f}", cost["requests"], cost["up"], cost["down"], f"{cost['memory_mib']:.0f}", kinds_of(cost)])
    says = "Bounds of the design: 1 request and 1 KiB for a look with nothing new, 6 requests for a push of ten changed files. Bytes with all headers."
    world.part("change", "Small changes, every request", says, ["", "s", "requests", "bytes up", "bytes down", "MiB", "which"], rows)


def two_mounts(world, name, url):
    """A vault and a clone of it, mounted; the folders."""
    one, two = world.place / f"{name}-one", world.place / f"{name}-two"
    world.init(one)
    world.strongroom("remote", "add", one, "store", url)
    world.strongroom("sync", one)
    world.strongroom("clone", "-q", url, two)
    for each in (two, one):
        world.strongroom("sync", "-q", each)
    world.strongroom("device", "accept", one)
    at = [world.place / f"{name}-at-{number}" for number in (1, 2)]
    for vault, where in zip((one, two), at):
        world.mount(vault, where, "--sync")
    return at


def is_there(path, content):
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def percentile(ordered, hundredths):
    return ordered[min(len(ordered) - 1, len(ordered) * hundredths // 100)]


def visible(world):
    """Through the object store, and through a server of our own on this side of the line, each behind a relay that delays."""
    rows = []
    world.figures["visible"] = {}
    server = Server(world.place, SERVER)
    try:
        for delay in DELAYS_MS:
            for through in ("store", "server"):
                name = f"{through}{delay}"
                took = seen_in_another(world, name, visible_url(world, server, through, delay, name))
                world.figures["visible"][name] = took
                rows.append([THROUGH[through], f"{delay} ms", f"{percentile(took, 50):.2f}", f"{percentile(took, 99):.2f}", len(took)])
    finally:
        server.kill()
    says = "The object store does not notify, so it is asked once a second. The server notifies; the bounds of the design are for it: 0.5 s on loopback, 1 s at 50 ms."
    world.part("visible", "From `fsync` in one mount until it is read in another", says, ["through", "round trip", "p50, s", "p99, s", "files"], rows)


THROUGH = {"store": "S3 server, over the line", "server": "`strongroom-server`, on loopback"}


def visible_url(world, server, through, delay, name):
    """A vault of its own there, seen through a relay."""
    if through == "store":
        relay = Relay(world.store.port, FAR, delay / 2000)
        return world.url(world.bucket(), "127.0.0.1", relay.own_port)
    relay = Relay(server.port, "127.0.0.1", delay / 2000)
    return server.url_of(f"{name}/vault", server.add_account(name), relay.own_port)


def seen_in_another(world, name, url):
    """Seconds until each file is read in the other mount, in order of length."""
    at = two_mounts(world, f"visible-{name}", url)
    took = []
    for number in range(5 if world.arguments.quick else 50):
        content = os.urandom(4096)
        write(at[0] / f"file{number}", content)
        begun = time.monotonic()
        until("it is visible", lambda: is_there(at[1] / f"file{number}", content), 0.005)
        took.append(time.monotonic() - begun)
        time.sleep(random.random())
    for where in at:
        world.umount(where)
    return sorted(took)


class Many:
    """A vault of many files on two devices, at a line without a limit."""

    def __init__(self, world, name, count, size):
        self.world, self.count, self.size = world, count, size
        self.vault, self.other, self.at = (world.place / f"{name}-{what}" for what in ("vault", "clone", "at"))
        self.files = world.place / "many"
        self.bucket = world.bucket()
        self.url = world.url(self.bucket)
        self.costs = {}

    def note(self, what, cost):
        self.costs[what] = cost
        print(f"  {what}: {cost['seconds']:.1f} s", file=sys.stderr, flush=True)

    def run(self):
        world = self.world
        made = make(self.files, self.count, self.size, 7)
        world.init(self.vault)
        self.note("`put`, no remote yet", world.measured_strongroom("put", "-q", self.files, f"{self.vault}:/"))
        shutil.rmtree(self.files)
        world.strongroom("remote", "add", self.vault, "store", self.url)
        self.note("first push", world.measured_strongroom("push", "-q", self.vault))
        if shutil.which("curl"):
            self.plain()
        if "--on-demand" in world.run(BINARY, "clone", "--help"):
            on_demand = world.place / "on-demand"
            self.note("clone on demand", world.measured_strongroom("clone", "-q", "--on-demand", self.url, on_demand))
            self.listed(on_demand, "`ls -lR` of it, cold")
            some = random.Random(5).sample(list(made), 100)
            self.in_mount(on_demand, "100 files of it, here and there, read", lambda: compare(made, self.at / self.files.name, some))
            shutil.rmtree(on_demand)
        self.note("clone", world.measured_strongroom("clone", "-q", self.url, self.other))
        for each in (self.other, self.vault, self.other):
            world.strongroom("sync", "-q", each)
        world.strongroom("device", "accept", self.vault)
        self.change(made)
        self.listed(self.other, "`ls -lR` of the clone, cold")
        world.mount(self.other, self.at)
        compare(made, self.at / self.files.name)
        world.umount(self.at)
        self.away(made)
        for vault in (self.vault, self.other):
            shutil.rmtree(vault)
        return self.costs

    def plain(self):
        """The segments of the vault as they are, six at a time: the same bytes by the same store."""
        segments = sorted(path for path in (self.vault / "segments").rglob("*") if path.is_file())
        to, back = f"http://{FAR}:{self.world.store.port}/{self.bucket}/plain", self.world.place / "plain-back"
        back.mkdir()
        for what, line in (("up", 'upload-file = "{path}"\nurl = "{to}/{name}"'), ("down", 'output = "{back}/{name}"\nurl = "{to}/{name}"')):
            config = self.world.place / "curl"
            each = (line.format(path=path, to=to, back=back, name=path.name) for path in segments)
            config.write_text("\n".join(each))
            self.note(f"plain copy of its segments, {what}", self.world.measured(*CURL, "-Z", "--parallel-max", "6", "-K", config))
        for path in segments:
            if not filecmp.cmp(path, back / path.name, shallow=False):
                raise SystemExit(f"{path} differs in its plain copy")
            # What is not needed any more would take room at the store.
            subprocess.run([*CURL, "-X", "DELETE", f"{to}/{path.name}"], check=True)
        shutil.rmtree(back)

    def change(self, made):
        world = self.world
        for number in range(10):
            path = list(made)[number * (self.count // 10) + number]
            content = os.urandom(self.size)
            (self.files / path).parent.mkdir(parents=True, exist_ok=True)
            write(self.files / path, content)
            made[path] = hashlib.blake2b(content, digest_size=16).digest()
        self.note("10 files changed: `put`", world.measured_strongroom("put", "-q", self.files, f"{self.vault}:/"))
        shutil.rmtree(self.files)
        self.note("their push", world.measured_strongroom("push", "-q", self.vault))
        self.note("their pull", world.measured_strongroom("pull", "-q", self.other))

    def in_mount(self, vault, what, work):
        """What is done in a mount, the kernel's caches empty; memory is that of the process behind it."""
        self.world.mount(vault, self.at)
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        cost = Cost(self.world)
        work()
        self.note(what, cost.end(peak_mib(serves(self.at))))
        self.world.umount(self.at)

    def listed(self, vault, what):
        self.in_mount(vault, what, lambda: subprocess.run(["ls", "-lR", self.at], check=True, stdout=subprocess.DEVNULL))

    def away(self, made):
        """All content is let go; a hundred files are read, side by side and far from each other."""
        self.note("evict", self.world.measured_strongroom("evict", "-q", self.other))
        self.listed(self.other, "`ls -lR` of what is away, cold")
        paths = list(made)
        begun = self.count // 2
        near, far = paths[begun : begun + 100], random.Random(5).sample(paths, 100)
        for what, some in (("side by side", near), ("here and there", far)):
            self.in_mount(self.other, f"100 files away, {what}, read", lambda: compare(made, self.at / self.files.name, some))
            self.world.strongroom("evict", "-q", self.other)


def many(world, name, count, size):
    world.line.limit(None)
    try:
        costs = Many(world, name, count, size).run()
    finally:
        world.line.limit(world.arguments.rate)
    world.figures[name] = {"files": count, "bytes": count * size, "costs": costs}
    rows = []
    for what, cost in costs.items():
        rate = (cost["up"] + cost["down"]) / cost["seconds"] / 1e6
        rows.append([what, f"{cost['seconds']:.2f}", cost["requests"], f"{cost['up'] / MIB:.2f}", f"{cost['down'] / MIB:.2f}", f"{rate:.0f}" if rate >= 1 else "", f"{cost['memory_mib']:.0f}", kinds_of(cost) if cost["requests"] < 20 else ""])
    says = "The line has no limit; the store runs on the same processors. Memory is that of the command, or of the process behind the mount."
    title = f"{count:,} files of {size:,} bytes, {count * size / GIB:.1f} GiB"
    world.part(name, title, says, ["", "s", "requests", "MiB up", "MiB down", "MB/s", "MiB of memory", "which requests"], rows)


def large(world):
    count, total = (5000, GIB // 4) if world.arguments.quick else (100_000, 5 * GIB)
    many(world, "large", count, total // count)


def million(world):
    many(world, "million", 50_000 if world.arguments.quick else 1_000_000, 200)


class Busy:
    """One mount that is edited, seen from the other."""

    def __init__(self, here, there, seed, ends_at):
        self.here, self.there, self.seed, self.ends_at = here, there, seed, ends_at
        self.newest, self.waits, self.unseen, self.failures, self.watchers, self.edits, self.wrote_at = {}, [], [], [], [], 0, ends_at

    def edit(self):
        """New files and old ones by turns; nobody else writes these."""
        source = random.Random(self.seed)
        try:
            while time.monotonic() < self.ends_at:
                next_at = time.monotonic() + 60 / 50
                name, content = f"of-{self.seed}-{source.randrange(self.edits // 2 + 1)}", source.randbytes(source.randrange(100, 20_000))
                self.newest[name] = content
                write(self.here / name, content)
                self.wrote_at = time.monotonic()
                self.watchers.append(threading.Thread(target=self.watch, args=(name, content, self.wrote_at)))
                self.watchers[-1].start()
                self.edits += 1
                time.sleep(max(0, next_at - time.monotonic()))
        except OSError as error:
            self.failures.append(str(error))

    def watch(self, name, content, begun):
        """What is written again before anybody sees it never shows."""
        while self.newest[name] is content:
            if is_there(self.there / name, content):
                self.waits.append(time.monotonic() - begun)
                return
            if time.monotonic() - begun > 60:
                self.unseen.append(name)
                return
            time.sleep(0.02)


def busy(world):
    minutes = world.arguments.minutes or (0.5 if world.arguments.quick else 10)
    at = two_mounts(world, "busy", world.url(world.bucket()))
    cost = Cost(world)
    ends_at = time.monotonic() + minutes * 60
    sides = [Busy(here, there, seed, ends_at) for seed, (here, there) in enumerate((at, at[::-1]))]
    editors = [threading.Thread(target=side.edit) for side in sides]
    pids = [serves(where) for where in at]
    memory = []
    for one in editors:
        one.start()
    while time.monotonic() < ends_at:
        memory.append([status_mib(pid, "VmRSS") for pid in pids])
        time.sleep(min(5, max(0, ends_at - time.monotonic())))
    for one in editors:
        one.join()

    def contents(where):
        return {path.name: path.read_bytes() for path in where.iterdir()}

    def is_same():
        try:
            wanted = {**sides[0].newest, **sides[1].newest}
            return contents(at[0]) == wanted and contents(at[1]) == wanted
        except OSError:
            return False

    until("both are the same", is_same)
    converged = time.monotonic() - max(side.wrote_at for side in sides)
    for side in sides:
        for one in side.watchers:
            one.join()
    cost = cost.end(max(map(peak_mib, pids)))
    names = [path.name for where in at for path in where.iterdir() if "conflict" in path.name]
    failures = [*names, *(each for side in sides for each in side.failures + side.unseen)]
    for where in at:
        world.umount(where)
    waits, edits = sorted(wait for side in sides for wait in side.waits), sum(side.edits for side in sides)
    world.figures["busy"] = {"minutes": minutes, "edits": edits, "waits": waits, "converged_s": converged, "rss_mib": memory, "cost": cost, "failures": failures}
    if failures:
        raise SystemExit(f"conflicts that nobody made, files that did not show within a minute, or errors: {failures}")
    per_minute = [f"{max(memory[len(memory) * part // 10]):.0f}" for part in (1, 5, 9)]
    row = [edits, len(waits), f"{percentile(waits, 50):.2f}", f"{percentile(waits, 99):.2f}", f"{waits[-1]:.2f}", f"{converged:.1f}", 0, " ".join(per_minute), f"{cost['memory_mib']:.0f}", cost["requests"]]
    says = "Seconds from `fsync` here until the content is read there; edits that were written again before they showed are not counted. The same: all files on both, compared. Memory of the larger of the two processes after a tenth, the half and nine tenths of the time. Bounds of the design: the same within 5 s, no conflict, memory flat."
    head = ["edits", "seen", "p50, s", "p99, s", "longest, s", "the same after, s", "conflicts", "MiB on the way", "MiB at most", "requests"]
    world.part("busy", f"Two mounts with 50 edits a minute each, {minutes:g} minutes", says, head, [row])


def with_and_without(world, name):
    """Two vaults, each mounted; one has a remote and is kept in sync. Their folders, and where they are mounted."""
    vaults = {each: world.place / f"{name}-{each}" for each in ("without", "with")}
    at = {each: world.place / f"{name}-at-{each}" for each in vaults}
    for each, vault in vaults.items():
        world.init(vault)
        if each == "with":
            world.strongroom("remote", "add", vault, "store", world.url(world.bucket()))
        world.mount(vault, at[each], *(["--sync"] if each == "with" else []))
    return vaults, at


def compared(world, name, title, says, speeds):
    """A part of ratios of speeds; the first of each warms up."""
    world.figures[name] = speeds
    rows = []
    for row, found in speeds.items():
        ratios = sorted(one / other for one, other in zip(found["with"][1:], found["without"][1:]))
        rows.append([row, f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"])
    world.part(name, title, f"Speed with `mount --sync` against that without a remote, {len(found['with']) - 1} pairs in turns. {says}", ["row", "median", "least", "greatest"], rows)


def idle(world):
    """What is done while everything is at the store."""
    _, at = with_and_without(world, "idle")
    large, below = 64 * MIB, 2000
    for where in at.values():
        make(where / "many", below, 5000, 11)
        write(where / "large", os.urandom(large))

    def written(where):
        with open(where / "written", "wb", buffering=0) as file:
            for _ in range(256):
                file.write(os.urandom(8192))
            os.fsync(file.fileno())

    def read(where):
        (where / "large").read_bytes()

    def listed(where):
        for folder, _, names in os.walk(where / "many"):
            for one in names:
                os.lstat(os.path.join(folder, one))

    work = {"2 MiB in 8 KiB writes, fsync": written, "64 MiB read, cold": read, f"{below:,} files listed, `lstat`, cold": listed, "the same, warm": listed}
    speeds = {row: {name: [] for name in at} for row in work}
    for turn in range(3 * world.arguments.rounds):
        for row, each in work.items():
            for name in at if turn % 2 == 0 else reversed(at):
                # What was written before is at the store, and the next look at it is the only thing that it costs.
                until("everything is at the store", lambda: is_quiet(world), 0.3)
                if "cold" in row:
                    Path("/proc/sys/vm/drop_caches").write_text("3\n")
                begun = time.perf_counter()
                each(at[name])
                speeds[row][name].append(1 / (time.perf_counter() - begun))
    for where in at.values():
        world.umount(where)
    compared(world, "idle", "Rows beside a sync that has nothing to bring", "Bound of the design: 0.97.", speeds)


def is_quiet(world):
    """Whether nothing was put for a second and a half."""
    before = world.line.bytes()[1]
    time.sleep(1.5)
    return world.line.bytes()[1] - before < 8192


def local(world):
    """Rows of `strongroom bench` in two mounts by turns, each when what the row before it left is at the store."""
    world.line.limit(None)
    vaults, at = with_and_without(world, "local")
    speeds = {f"`{row}`": {name: [] for name in vaults} for row in LOCAL_ROWS}
    for turn in range(world.arguments.rounds + 2):
        for row in LOCAL_ROWS:
            for name in vaults if turn % 2 == 0 else reversed(vaults):
                world.run(BINARY, "sync", "-q", vaults[name])
                command = [BINARY, "bench", "--json", "--only", row, *(["--quick"] if world.arguments.quick else []), at[name]]
                said = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=world.environment, check=True).stdout
                one = json.loads(said)[0]
                speeds[f"`{row}`"][name].append(1 / one["median"] if one["unit"] == "s" else one["median"])
    for where in at.values():
        world.umount(where)
    world.line.limit(world.arguments.rate)
    says = "What the row writes is sealed, read again, and taken in by the store meanwhile, on the same processors: this is what syncing costs while it works."
    compared(world, "local", "Rows of the local bench beside a sync that brings what they write", says, speeds)


LOCAL_ROWS = ("write-8k", "append", "create", "walk-cold", "walk-warm", "read-files", "copy-dd")
PARTS = {"transfer": transfer, "change": change, "visible": visible, "idle": idle, "local": local, "large": large, "million": million, "busy": busy}


def install():
    missing = [name for name in ("curl", "rclone", "restic", "syncthing") if not shutil.which(name)]
    if missing:
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        except FileNotFoundError:
            pass
    for name in missing:
        if not shutil.which(name):
            print(f"no {name} here, so its figures are missing; to have them, type: apt-get update && apt-get install {name}", file=sys.stderr)


def save(world, into):
    """Adds to what earlier runs of other parts have written there."""
    into.mkdir(parents=True, exist_ok=True)
    path = into / "figures.json"
    saved = json.loads(path.read_text()) if path.exists() else {"figures": {}, "tables": {}}
    saved["figures"] |= world.figures
    saved["tables"] |= world.parts
    path.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n")
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True).stdout.strip()
    peers = {"rclone": "version", "restic": "version", "syncthing": "--version", "curl": "--version"}
    seen = [subprocess.run([name, ask], capture_output=True, text=True).stdout.splitlines()[0] for name, ask in peers.items() if shutil.which(name)]
    quick = "\n\n**Quick:** a tenth of the work; not to be compared with figures of a full run." if world.arguments.quick else ""
    beside = "; ".join(re.sub(r" on .*| \(.*|-DEV|-ds1.*", "", line) for line in seen)
    head = f"# What sync costs, {datetime.date.today()}\n\n`tools/bench_sync.py`; {machine()}; {version}. Beside it: {beside}.{quick}\n"
    (into / "README.md").write_text("\n".join([head, *(saved["tables"][name] for name in PARTS if name in saved["tables"])]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[name for name in PARTS if name != "million"])
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    install()
    ObjectStore.install(lambda text: print(text, file=sys.stderr))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    (ROOT / "target").mkdir(exist_ok=True)
    world = World(Path(tempfile.mkdtemp(prefix="bench-sync.", dir=ROOT / "target")), arguments)
    try:
        world.serve()
        for name in arguments.only:
            PARTS[name](world)
            if arguments.into:
                save(world, arguments.into)
    finally:
        world.clean()
        shutil.rmtree(world.place, ignore_errors=True)
    if arguments.json:
        print(json.dumps(world.figures, ensure_ascii=False))


if __name__ == "__main__":
    main()
