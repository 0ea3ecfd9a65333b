"""A line of a known rate to a store, in separate network namespaces; measures the cost of commands over it."""

import ctypes
import hashlib
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from object_store import ObjectStore

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
NEAR, FAR = "10.213.0.1", "10.213.0.2"
PATIENCE_S = 600
KIB = 1 << 10
CLONE_NEWNET = 0x40000000


class Line:
    """A network namespace for this process and what it starts, one for the store, and the line between them."""

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):
            raise SystemExit(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}; run it as root")
        self.name, self.near, self.far = f"store{os.getpid()}", f"sr{os.getpid()}n", f"sr{os.getpid()}f"
        self.within = ["ip", "netns", "exec", self.name]
        self.ip("netns", "add", self.name)
        self.ip("link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.name)
        for within, device, address in (([], self.near, NEAR), (self.within, self.far, FAR)):
            self.ip("addr", "add", f"{address}/30", "dev", device, within=within)
            self.ip("link", "set", device, "up", within=within)
            self.ip("link", "set", "lo", "up", within=within)

    @staticmethod
    def ip(*command, within=()):
        subprocess.run([*within, "ip", *command], check=True)

    def limit(self, mbit):
        """Both ways; no limit for None."""
        for within, device in (([], self.near), (self.within, self.far)):
            subprocess.run([*within, "tc", "qdisc", "del", "dev", device, "root"], stderr=subprocess.DEVNULL)
            if mbit:
                limit = ["tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "50ms"]
                subprocess.run([*within, "tc", "qdisc", "add", "dev", device, "root", *limit], check=True)

    def bytes(self):
        """What has come and gone over it, with all headers."""
        counters = re.search(rf"{self.near}:\s*(.*)", Path("/proc/net/dev").read_text())[1].split()
        return int(counters[0]), int(counters[8])

    def remove(self):
        subprocess.run(["ip", "netns", "del", self.name])


class Cost:
    """What happens between two looks: seconds, requests by kind, bytes down and up, and MiB of memory where somebody measured."""

    def __init__(self, world):
        self.world = world
        self.before = (world.store.requests(), world.line.bytes(), time.monotonic())

    def end(self, memory_mib=None):
        took = time.monotonic() - self.before[2]
        kinds = self.world.store.requests() - self.before[0]
        down, up = (now - then for now, then in zip(self.world.line.bytes(), self.before[1]))
        return {"seconds": took, "requests": sum(kinds.values()), "kinds": dict(kinds), "down": down, "up": up, "memory_mib": memory_mib}


class World:
    def __init__(self, place, arguments):
        self.place, self.arguments = place, arguments
        # What is set for other stores is not for this one.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.environment = {**inherited, **ObjectStore.CREDENTIALS, "XDG_STATE_HOME": str(place / "state"), "XDG_CONFIG_HOME": str(place / "config"), "HOME": str(place)}
        self.store, self.line, self.mounts, self.buckets = None, None, [], 0
        self.figures, self.parts = {}, {}

    def serve(self):
        self.line = Line()
        self.store = ObjectStore(self.place, host=FAR, within=self.line.within)
        self.line.limit(self.arguments.rate)

    def bucket(self):
        self.buckets += 1
        name = f"bucket{self.buckets}"
        self.store.create_bucket(name)
        return name

    def url(self, bucket, host=FAR, port=None):
        return f"s3://{bucket}/v?endpoint=http://{host}:{port or self.store.port}&region=us-east-1"

    def run(self, *command, **options):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=self.environment, cwd=self.place, **options)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}{done.stdout[-1000:]}")
        return done.stdout + done.stderr

    def strongroom(self, *command):
        return self.run(BINARY, *command, "--key-file", self.place / "key")

    def init(self, vault):
        """A vault with a key of its own, which all later commands use."""
        (self.place / "key").unlink(missing_ok=True)
        self.strongroom("init", vault)

    def measured(self, *command):
        """The cost of one command."""
        with open(self.place / "output", "w+b") as log:
            cost = Cost(self)
            child = subprocess.Popen([*map(str, command)], env=self.environment, cwd=self.place, stdout=log, stderr=log)
            memory = 0
            # What the kernel says of a child that has ended counts the memory of this process, which it began as.
            while child.poll() is None:
                memory = max(memory, peak_mib(child.pid))
                time.sleep(0.005)
            cost = cost.end(memory)
            log.seek(0)
            if child.returncode:
                raise SystemExit(f"{' '.join(map(str, command))} ended with {child.returncode}: {log.read().decode()[-1000:]}")
        return cost

    def measured_strongroom(self, *command):
        return self.measured(BINARY, *command, "--key-file", self.place / "key")

    def mount(self, vault, at, *options):
        at.mkdir(exist_ok=True)
        self.strongroom("mount", *options, vault, at)
        self.mounts.append(at)

    def umount(self, at):
        self.run(BINARY, "umount", at)
        self.mounts.remove(at)

    def part(self, name, title, says, head, rows):
        rows = [list(map(str, row)) for row in rows]
        widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
        print(f"\n{title}\n", file=self.out())
        for row in (head, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), file=self.out(), flush=True)
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        self.parts[name] = f"## {title}\n\n{says}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|\n{table}\n"

    def out(self):
        return sys.stderr if self.arguments.json else sys.stdout

    def clean(self):
        for at in list(self.mounts):
            subprocess.run([BINARY, "umount", str(at)], env=self.environment, capture_output=True)
        if self.store:
            self.store.stop()
        if self.line:
            self.line.remove()


def status_mib(pid, name):
    try:
        found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) / KIB if found else 0
    except OSError:
        return 0


def peak_mib(pid):
    return status_mib(pid, "VmHWM")


def serves(at):
    """The process behind a mount."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(at).encode() in command.read_bytes().split(b"\0"):
                return int(command.parent.name)
        except OSError:
            continue
    raise SystemExit(f"nobody serves {at}")


def make(folder, count, size, seed):
    """Files by their paths below the folder, a thousand in a directory; their checksums."""
    source = random.Random(seed)
    made = {}
    for number in range(count):
        below = f"{number // 1000:04}"
        if number % 1000 == 0:
            (folder / below).mkdir(parents=True)
        content = source.randbytes(size)
        (folder / below / f"{number}.bin").write_bytes(content)
        made[f"{below}/{number}.bin"] = hashlib.blake2b(content, digest_size=16).digest()
    return made


def compare(made, folder, paths=None):
    for path in made if paths is None else paths:
        if hashlib.blake2b((folder / path).read_bytes(), digest_size=16).digest() != made[path]:
            raise SystemExit(f"{folder / path} is not what was written")


def until(what, holds, pause_s=0.02):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"after {PATIENCE_S} s still not: {what}")
        time.sleep(pause_s)
    return time.monotonic() - begun


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
