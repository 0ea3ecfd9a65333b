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
import subprocess
import tempfile
import time
from pathlib import Path

from object_store import ObjectStore, Relay

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
PATIENCE_S = 300
CANARY = "a sentence that must not be found at the store"


class Demo:
    def __init__(self, place):
        self.place = place
        self.key, self.other_key = place / "key", place / "other-key"
        self.mounts, self.server = [], None
        self.environment = {
            **os.environ,
            **ObjectStore.CREDENTIALS,
            "XDG_STATE_HOME": str(place / "state"),
            "XDG_CONFIG_HOME": str(place / "config"),
        }

    def say(self, text):
        print(text, flush=True)

    def run(self, *args, **options):
        command = [BINARY, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=self.place, **options)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    def serve(self):
        self.server = ObjectStore(self.place, say=self.say)
        self.server.create_bucket("bucket")
        self.relay = Relay(self.server.port)
        self.url = f"s3://bucket/vault?endpoint=http://127.0.0.1:{self.relay.own_port}&region=us-east-1"

    def mount(self, vault, key, at):
        at.mkdir()
        self.run("mount", "--sync", vault, at, "--key-file", key)
        self.mounts.append(at)

    def umount(self, at):
        self.run("umount", at)
        self.mounts.remove(at)

    def pair(self):
        """Lets the second device in: what two people do at two machines."""
        command = [BINARY, "device", "add", "one", "--json", "--key-file", str(self.key)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        old = subprocess.Popen(command, env=self.environment, cwd=self.place, **pipes)
        code = json.loads(old.stdout.readline())["code"]
        command = [BINARY, "clone", "--pair", self.url, "two", "--json", "--name", "laptop", "--key-file", str(self.other_key)]
        new = subprocess.Popen(command, env=self.environment, cwd=self.place, **pipes)
        new.stdin.write(code + "\n")
        new.stdin.close()
        seen = json.loads(new.stdout.readline())["fingerprint"]
        asks = json.loads(old.stdout.readline())
        if asks["fingerprint"] != seen:
            raise SystemExit("the two devices show different fingerprints")
        old.stdin.write("yes\n")
        old.stdin.close()
        old.stdout.read()
        new.stdout.read()
        if old.wait() or new.wait():
            raise SystemExit("the devices did not pair")
        return code, seen

    def clean(self):
        for at in list(self.mounts):
            subprocess.run([BINARY, "umount", str(at)], env=self.environment, capture_output=True)
        if self.server:
            self.server.stop()


def until(what, holds):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"after {PATIENCE_S} s still not: {what}")
        time.sleep(0.1)
    return time.monotonic() - begun


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


def same(one, two):
    """Names and sizes only, and not while they change: a whole comparison reads everything."""
    try:
        names = [sorted((str(path.relative_to(at)), path.stat().st_size) for path in at.rglob("*") if path.is_file()) for at in (one, two)]
    except FileNotFoundError:
        return False
    return names[0] == names[1]


def play(demo):
    place, mib = demo.place, int(os.environ.get("MIB", "1024"))
    demo.serve()
    demo.say("a vault, with a source tree and a large file, goes to the store")
    created = demo.run("init", "--key-file", demo.key, "one")
    code = re.search(r"([A-Z0-9]+-){4,}[A-Z0-9]+", created)[0]
    (place / "code").write_text(code + "\n")
    shutil.copytree(ROOT / "crates", place / "source")
    (place / "source" / "canary.txt").write_text(CANARY)
    with open(place / "large", "wb") as file:
        for number in range(mib):
            file.write(random.Random(number).randbytes(1 << 20))
    demo.run("put", "-q", place / "source", place / "large", "one:/", "--key-file", demo.key)
    demo.run("remote", "add", "one", "cloud", demo.url, "--key-file", demo.key)
    begun = time.monotonic()
    demo.run("push", "-q", "one", "--key-file", demo.key)
    demo.say(f"  pushed in {time.monotonic() - begun:.0f} s")
    pairing, fingerprint = demo.pair()
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


def main():
    place = Path(tempfile.mkdtemp(prefix="strongroom-sync-demo."))
    demo = Demo(place)
    try:
        play(demo)
        demo.say("done")
    finally:
        demo.clean()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
