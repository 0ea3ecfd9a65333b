#!/usr/bin/env python3
"""A demo of one vault on two devices with an object store: they are paired, mounted, disconnected, merged; one is lost and restored.

    tools/sync_demo.py          run as root (it mounts); MIB=n for another size of the large file

The store is an S3 server from the package `moto`, behind a relay that can be interrupted like a connection. Everything is compared.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from object_store import ObjectStore, Relay

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
PATIENCE_S = 300
# So long a mount may take to end: it waits for remotes.
UMOUNT_S = 120
CANARY = "a sentence that must not be found at the store"


class Demo:
    """Vaults in a place of their own, with mounts, and a server: what is left of them at the end is removed."""

    def __init__(self, place):
        self.place = place
        self.key, self.other_key = place / "key", place / "other-key"
        self.mounts, self.server, self.url = {}, None, None
        self.environment = {
            **os.environ,
            **ObjectStore.CREDENTIALS,
            "XDG_STATE_HOME": str(place / "state"),
            "XDG_CONFIG_HOME": str(place / "config"),
        }

    def say(self, text):
        print(text, flush=True)

    def attempt(self, *args, **options):
        """Runs a command, however it ends."""
        command = [BINARY, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=self.place, **options)

    def run(self, *args):
        done = self.attempt(*args)
        if done.returncode != 0:
            # A URL may have a token in it.
            command = " ".join(done.args).replace(self.url or "\0", "URL")
            raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    def mount(self, vault, key, at):
        at.mkdir()
        self.run("mount", "--sync", vault, at, "--key-file", key)
        self.mounts[at] = vault

    def umount(self, at):
        self.run("umount", at)
        del self.mounts[at]

    def pair(self, old, new, name):
        """Lets the vault `new` be made as a device of the vault `old`: what two people do at two machines."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": self.environment, "cwd": self.place}
        command = [BINARY, "device", "add", old, "--json", "--key-file", str(self.key)]
        adding = subprocess.Popen(command, **pipes)
        both = [adding]
        try:
            code = self.event(adding)["code"]
            command = [BINARY, "clone", "--pair", self.url, new, "--json", "--name", name, "--key-file", str(self.other_key)]
            cloning = subprocess.Popen(command, **pipes)
            both.append(cloning)
            cloning.stdin.write(code + "\n")
            cloning.stdin.close()
            seen = self.event(cloning)["fingerprint"]
            if self.event(adding)["fingerprint"] != seen:
                raise SystemExit("the two devices show different fingerprints")
            adding.stdin.write("yes\n")
            adding.stdin.close()
            adding.stdout.read()
            cloning.stdout.read()
            if adding.wait() or cloning.wait():
                raise SystemExit("the devices did not pair")
        finally:
            for one in both:
                one.kill()
                one.wait()
        return code, seen

    def event(self, process):
        """The next line that it prints. What went wrong it has said itself."""
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the devices did not pair")
        return json.loads(line)

    def clean(self):
        try:
            for at, vault in self.mounts.items():
                self.remove_mount(at, vault)
        finally:
            if self.server:
                self.server.stop()

    def remove_mount(self, at, vault):
        """Ends the process of a mount, if nothing else helps by its number."""
        try:
            if self.attempt("umount", at, timeout=UMOUNT_S).returncode == 0:
                return
        except subprocess.TimeoutExpired:
            pass
        owner = json.loads(self.attempt("info", vault, "--json").stdout or "{}").get("owner_pid")
        if owner:
            os.kill(owner, signal.SIGKILL)
        subprocess.run(["umount", "-l", str(at)], capture_output=True)


class StoreDemo(Demo):
    def serve(self):
        self.server = ObjectStore(self.place, say=self.say)
        self.server.create_bucket("bucket")
        self.relay = Relay(self.server.port)
        self.url = f"s3://bucket/vault?endpoint=http://127.0.0.1:{self.relay.own_port}&region=us-east-1"


def until(what, holds, patience_s=PATIENCE_S, pause_s=0.1):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience_s:
            raise SystemExit(f"after {patience_s} s still not: {what}")
        time.sleep(pause_s)
    return time.monotonic() - begun


def fill(path, mib, seed=0):
    """A file that nothing compresses."""
    with open(path, "wb") as file:
        for number in range(mib):
            file.write(random.Random(seed + number).randbytes(1 << 20))


def tree(folder):
    """Every path below a folder with the checksum of its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            with open(path, "rb") as file:
                found[name] = hashlib.file_digest(file, "blake2b").hexdigest()
        else:
            found[name] = "directory"
    return found


def same(*places):
    """Names and sizes only, and not while they change: a whole comparison reads everything."""
    try:
        names = [sorted((str(path.relative_to(at)), path.stat().st_size) for path in at.rglob("*") if path.is_file()) for at in places]
    except FileNotFoundError:
        return False
    return all(one == names[0] for one in names)


def perform(make, play, name):
    """Plays a demo in a new place, and removes it whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Path(tempfile.mkdtemp(prefix=f"strongroom-{name}."))
    demo = make(place)
    try:
        play(demo)
        demo.say("done")
    finally:
        demo.clean()
        shutil.rmtree(place, ignore_errors=True)


def play(demo):
    place, mib = demo.place, int(os.environ.get("MIB", "1024"))
    demo.serve()
    demo.say("a vault, with a source tree and a large file, goes to the store")
    created = demo.run("init", "--key-file", demo.key, "one")
    code = re.search(r"([A-Z0-9]+-){4,}[A-Z0-9]+", created)[0]
    (place / "code").write_text(code + "\n")
    shutil.copytree(ROOT / "crates", place / "source")
    (place / "source" / "canary.txt").write_text(CANARY)
    fill(place / "large", mib)
    demo.run("put", "-q", place / "source", place / "large", "one:/", "--key-file", demo.key)
    demo.run("remote", "add", "one", "cloud", demo.url, "--key-file", demo.key)
    begun = time.monotonic()
    demo.run("push", "-q", "one", "--key-file", demo.key)
    demo.say(f"  pushed in {time.monotonic() - begun:.0f} s")
    pairing, fingerprint = demo.pair("one", "two", "laptop")
    demo.say(f"  a second device came in by the code {pairing}; both showed the fingerprint {fingerprint}")
    one, two = place / "at-one", place / "at-two"
    demo.mount("one", demo.key, one)
    demo.mount("two", demo.other_key, two)
    if tree(one) != tree(two):
        raise SystemExit("the second device has other files")

    demo.say("both are mounted and kept in step; edits, renames and removals cross in both directions")
    (one / "from-one.txt").write_text("written on one\n")
    os.rename(one / "source/access", one / "source/doors")
    (two / "from-two.txt").write_text("written on two\n")
    shutil.rmtree(two / "source/verify")
    with open(two / "source/canary.txt", "a") as file:
        file.write(", and more")
    took = until("both have the same", lambda: same(one, two) and (one / "from-two.txt").exists() and (two / "from-one.txt").exists() and not (one / "source/verify").exists() and (two / "source/doors").exists())
    if tree(one) != tree(two):
        raise SystemExit("the devices have different contents")
    demo.say(f"  the same on both after {took:.1f} s")

    demo.say("the line is cut; both write the same file and different ones; it comes back")
    demo.relay.cut()
    (one / "letter.txt").write_text("from one\n")
    (two / "letter.txt").write_text("from two\n")
    (one / "only-one.txt").write_text("1\n")
    (two / "only-two.txt").write_text("2\n")
    os.remove(one / "from-two.txt")
    (two / "from-two.txt").write_text("changed while it was removed\n")
    for vault in (one, two):
        os.sync()
    demo.relay.mend()

    def joined():
        return same(one, two) and (one / "only-two.txt").exists() and (two / "only-one.txt").exists()

    took = until("both have the same again", joined)
    if tree(one) != tree(two):
        raise SystemExit("the devices have different contents")
    letters = {path.read_text() for path in one.glob("letter*.txt")}
    if letters != {"from one\n", "from two\n"}:
        raise SystemExit(f"of the two letters there is {letters}")
    if (one / "from-two.txt").read_text() != "changed while it was removed\n":
        raise SystemExit("the change of a file that was removed elsewhere is gone")
    names = sorted(path.name for path in one.glob("letter*.txt"))
    demo.say(f"  the same on both after {took:.1f} s; the file that both wrote is there twice: {', '.join(names)}")
    last = tree(one)
    demo.umount(one)
    demo.umount(two)

    demo.say("the first vault and both keys are deleted; only the recovery code is left")
    for name in ("one", "two"):
        shutil.rmtree(place / name)
    demo.key.unlink()
    demo.other_key.unlink()
    demo.run("clone", "-q", demo.url, "back", "--recovery-code", place / "code")
    (place / "files").mkdir()
    demo.run("get", "-q", "back:/", place / "files", "--recovery-code", place / "code")
    files = place / "files"
    while set(os.listdir(files)) != {name for name in last if "/" not in name} and len(os.listdir(files)) == 1:
        files = files / os.listdir(files)[0]
    if tree(files) != last:
        raise SystemExit("what came back is not what was there")
    demo.run("device", "accept", "back", "--recovery-code", place / "code")
    demo.run("verify", "-q", "--deep", "back", "--recovery-code", place / "code")
    demo.run("remote", "check", "-q", "--deep", "back", "--recovery-code", place / "code")
    demo.say(f"  everything is back: {len(last)} files and directories, every checksum equal")
    search(demo)


def search(demo):
    """Reads every object of the store and looks for names and contents of the vault."""
    words = [CANARY, "canary.txt", "Cargo.toml", "from-one", "letter", "main.rs"]
    objects = demo.server.objects("bucket")
    for name in objects:
        body = demo.server.read("bucket", name)
        for word in words:
            if word in name or word.encode() in body:
                raise SystemExit(f"the store shows {word!r} in {name}")
    demo.say(f"  the store has {len(objects)} objects, and none shows a name or a word of the vault")


if __name__ == "__main__":
    perform(StoreDemo, play, "sync-demo")
