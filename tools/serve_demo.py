#!/usr/bin/env python3
"""A demo of a server for several devices: an account, two devices that notify each other, a third that pairs, kill -9, a quota, deposits in the inbox, and what the server sees.

    tools/serve_demo.py         run as root (it mounts); MIB=n for another size of the large file

The server runs on this machine, with TLS and the certificate that it signs itself. Everything is compared.
"""

import filecmp
import json
import os
import shutil
import subprocess
import time

from server_process import Server
from sync_demo import ROOT, Demo, fill, perform, same, tree, until

PROGRAM = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/release/strongroom-server"))
ACCOUNT, QUOTA = "anna", "20G"
MIB = 1 << 20
# Who hears of nothing asks every five minutes: what comes sooner was heard of.
HEARD_S = 60
STILL_S = 5
NO_SPACE, REFUSED = 6, 8
# Deposits are looked for every 30 s; devices that take one in at the same time settle at the next look.
LOOKED_S = 300
CANARY = "a sentence that must not be found at the server"
# In a line of fewer characters there is little that is found nowhere else; of fewer than those in a name, too.
LINE_LEN_MIN, LINE_LEN_MAX, NAME_LEN_MIN = 40, 200, 8
DEPOSIT_LEN_MAX = 1 << 30
# Of the demo alone: no program has them.
NAMES = ("recording-of-the-summer", "from-one-to-two", "letter-of-the-demo", "of-the-depositor")
PIECE_LEN = 4 * MIB


class ServeDemo(Demo):
    def serve(self):
        self.server = Server(self.place, PROGRAM, "--metrics", "127.0.0.1:0")
        self.token = self.server.add_account(ACCOUNT, "--bytes", QUOTA)
        self.url = self.server.url_of(f"{ACCOUNT}/photos", self.token)

    def is_still(self):
        """Whether the server answers nothing for some seconds."""
        before = self.server.number("strongroom_requests_total")
        time.sleep(STILL_S)
        return self.server.number("strongroom_requests_total") == before

    def devices_wait(self, count):
        """Until so many devices wait at the server, and nobody asks it anything."""
        until(f"{count} devices wait at the server", lambda: self.server.number("strongroom_followers") == count and self.is_still())

    def hears(self, at, name, others):
        """What is written at one device comes to the others without their asking; gives the seconds until the last has it."""
        text = f"written for {name}\n"
        (at / name).write_text(text)

        def all_have():
            return all((other / name).exists() and (other / name).read_text() == text for other in others)

        return until(f"{name} is on all devices", all_have, HEARD_S, 0.01)

    def clean(self):
        try:
            super().clean()
        finally:
            # Where a graceful end fails, too.
            if self.server:
                self.server.kill()


def equal(*places):
    """The tree that all have."""
    trees = [tree(at) for at in places]
    if any(one != trees[0] for one in trees):
        raise SystemExit("the devices have different contents")
    return trees[0]


def have(places, *names):
    return all((at / name).exists() for at in places for name in names)


def play(demo):
    place, mib = demo.place, int(os.environ.get("MIB", "256"))
    one, two, three = place / "at-one", place / "at-two", place / "at-three"
    begin(demo, mib)
    notify(demo, one, two)
    pair(demo, one, two, three)
    kill(demo, max(mib // 2, 32), one, two, three)
    fill_quota(demo, one, two, three)
    deposit(demo, one, two, three)
    end(demo, one, two, three)
    search(demo)


def begin(demo, mib):
    demo.serve()
    place, server = demo.place, demo.server
    demo.say(f"a server listens at {server.url}, with a certificate that it signed itself; devices know it by the fingerprint {server.fingerprint}")
    demo.say(f"the account {ACCOUNT} is made, for {QUOTA}; a vault with a source tree and a file of {mib} MiB goes there")
    demo.run("init", "--key-file", demo.key, "one")
    # Not the source of the server: a line of that can be in its database or log.
    shutil.copytree(ROOT / "crates", place / "source", ignore=shutil.ignore_patterns("server", "target"))
    (place / "source/canary-of-the-demo.txt").write_text(CANARY + "\n")
    fill(place / "recording-of-the-summer.raw", mib)
    with open(place / "recording-of-the-summer.raw", "ab") as file:
        file.write(f"\n{CANARY}\n".encode())
    demo.run("put", "-q", place / "source", place / "recording-of-the-summer.raw", "one:/", "--key-file", demo.key)
    demo.run("remote", "add", "one", "home", demo.url, "--key-file", demo.key)
    begun = time.monotonic()
    demo.run("push", "-q", "one", "--key-file", demo.key)
    demo.say(f"  pushed in {time.monotonic() - begun:.1f} s")
    demo.run("clone", "-q", demo.url, "two", "--key-file", demo.key)
    demo.say("  a second device cloned it with the key file")


def notify(demo, one, two):
    demo.say("both are mounted and kept in sync; edits, renames and removals cross in both directions")
    demo.mount("one", demo.key, one)
    demo.mount("two", demo.key, two)
    equal(one, two)
    demo.devices_wait(2)
    demo.say(f"  both wait for news, and the server was asked nothing for {STILL_S} s")
    took = demo.hears(one, "from-one-to-two.txt", [two]), demo.hears(two, "from-two-to-one.txt", [one])
    demo.say(f"  the server notified the other device: a file of the first was there after {took[0]:.2f} s, one of the second after {took[1]:.2f} s")
    os.rename(one / "source/access", one / "source/doors")
    shutil.rmtree(two / "source/verify")
    with open(two / "source/canary-of-the-demo.txt", "a") as file:
        file.write("and one more\n")

    def crossed():
        return (two / "source/doors").exists() and not (one / "source/verify").exists() and same(one, two)

    took = until("both have the same", crossed)
    count = len(equal(one, two))
    demo.say(f"  the same on both after {took:.1f} s: {count} files and directories, every checksum equal")


def pair(demo, one, two, three):
    demo.say("a third device has the URL of the vault, and no key")
    demo.devices_wait(2)
    code, fingerprint = demo.pair("one", "three", "laptop")
    demo.say(f"  it came in by the code {code} while the others were mounted; both sides showed the fingerprint {fingerprint}")
    demo.mount("three", demo.other_key, three)
    until("all have the same", lambda: same(one, two, three))
    equal(one, two, three)
    demo.devices_wait(3)
    took = demo.hears(three, "from-three-to-all.txt", [one, two])
    demo.say(f"  what it wrote was on both others after {took:.2f} s")
    equal(one, two, three)


def kill(demo, mib, one, two, three):
    demo.say(f"the server is killed with -9 while a file of {mib} MiB goes up; devices write while it is away; it comes back")
    server = demo.server
    demo.devices_wait(3)
    before = server.used_bytes(ACCOUNT)
    received = server.number("strongroom_received_bytes_total")
    # Further random bytes than those of the first file.
    fill(one / "second-recording.raw", mib, 1 << 20)

    def goes_up():
        return server.number("strongroom_uploads") > 0 or server.number("strongroom_received_bytes_total") > received

    until("the file goes up", goes_up, pause_s=0.005)
    server.kill()
    arrived = (server.used_bytes(ACCOUNT) - before) / MIB
    demo.say(f"  killed: {arrived:.0f} MiB had arrived whole")
    (one / "letter-of-the-demo.txt").write_text("from one\n")
    (two / "letter-of-the-demo.txt").write_text("from two\n")
    (three / "only-at-three.txt").write_text("3\n")
    os.remove(one / "from-two-to-one.txt")
    (two / "from-two-to-one.txt").write_text("changed while it was removed\n")
    known = server.url, server.fingerprint
    server.start()
    if (server.url, server.fingerprint) != known:
        raise SystemExit("the server came back as another one")

    def joined():
        there = have((one, two, three), "second-recording.raw", "only-at-three.txt", "from-two-to-one.txt")
        return there and len(list(three.glob("letter-of-the-demo*.txt"))) == 2 and same(one, two, three)

    took = until("all have the same again", joined)
    equal(one, two, three)
    letters = {path.read_text(): path.name for path in three.glob("letter-of-the-demo*.txt")}
    if set(letters) != {"from one\n", "from two\n"}:
        raise SystemExit(f"of the two letters there is {letters}")
    if (three / "from-two-to-one.txt").read_text() != "changed while it was removed\n":
        raise SystemExit("the change of a file that was removed elsewhere is gone")
    demo.say(f"  the same on all three after {took:.1f} s, every checksum equal; the file that two wrote is there twice: {', '.join(sorted(letters.values()))}")


def fill_quota(demo, one, two, three):
    demo.say("the operator leaves the account 1 MiB; a device writes 8 MiB")
    server = demo.server
    demo.devices_wait(3)
    server.administer("account", "quota", server.folder, ACCOUNT, "--bytes", server.used_bytes(ACCOUNT) + MIB)
    fill(one / "too-much.raw", 8, 1 << 21)
    said = None

    def refused():
        nonlocal said
        done = demo.attempt("sync", "-q", "one", "--key-file", demo.key)
        if done.returncode == 0:
            raise SystemExit("the server took more than the quota")
        said = done.stderr.strip()
        # It may be busy with the mount's own sync.
        return done.returncode == NO_SPACE

    until("the quota is reported", refused)
    if "no space left" not in said or demo.token in said:
        raise SystemExit(f"the quota is not said in plain words: {said}")
    demo.say("  `strongroom sync` says:")
    for line in said.splitlines():
        # Beside it may be that a device was added.
        if "no space left" in line:
            demo.say(f"    {line}")
    if (two / "too-much.raw").exists() or (three / "too-much.raw").exists():
        raise SystemExit("a file crossed for which the account had no space")
    (two / "small.txt").write_text("there is space for this\n")
    until("what is small still crosses", lambda: (three / "small.txt").exists())
    server.administer("account", "quota", server.folder, ACCOUNT, "--bytes", QUOTA)
    took = until("all have the same", lambda: have((one, two, three), "too-much.raw", "small.txt") and same(one, two, three))
    equal(one, two, three)
    demo.say(f"  small files still crossed; with {QUOTA} again the rest did after {took:.0f} s, every checksum equal")


def deposit(demo, one, two, three):
    demo.say("somebody who has an address of the inbox, and nothing else, deposits two files; each device looks for deposits every 30 s")
    said = demo.attempt("inbox", "add", "-q", "one", "scanner", "--key-file", demo.key)
    if said.returncode != 0:
        raise SystemExit(f"inbox add ended with {said.returncode}: {said.stderr}")
    demo.address = said.stdout.strip().splitlines()[-1]
    sent = demo.place / "sent"
    sent.mkdir()
    (sent / "letter-of-the-depositor.txt").write_text(CANARY + "\n")
    fill(sent / "scan-of-the-depositor.raw", 16, 1 << 22)
    # Run again, as after an answer that was lost.
    for _ in range(2):
        demo.run("deposit", "-q", demo.address, *sorted(sent.iterdir()), "--id", "demo", "--from", "the scanner")

    def came():
        places = [at / "Inbox" for at in (one, two, three)]
        return all(place.is_dir() and same(place, sent) for place in places) and same(one, two, three)

    took = until("the deposits are in /Inbox on all devices, each once", came, LOOKED_S)
    equal(one, two, three)
    demo.say(f"  on all three after {took:.0f} s, each once")

    def gone():
        listed = demo.attempt("inbox", "list", "one", "--json", "--key-file", demo.key)
        return listed.returncode == 0 and json.loads(listed.stdout)["deposits"] == []

    until("the deposits are gone from the server", gone, LOOKED_S)
    largest = demo.place / "largest-that-may-be.raw"
    with open(largest, "wb") as file:
        file.truncate(DEPOSIT_LEN_MAX)
    demo.run("deposit", "-q", demo.address, largest)
    copies = [at / "Inbox" / largest.name for at in (one, two, three)]
    took = until("the largest deposit is on all devices", lambda: all(copy.exists() for copy in copies), LOOKED_S)
    if not all(filecmp.cmp(copy, largest, shallow=False) for copy in copies):
        raise SystemExit("the largest deposit came with other content")
    demo.say(f"  one of {DEPOSIT_LEN_MAX // MIB} MiB, the most that there may be, was on all three after {took:.0f} s")
    until("the largest deposit is gone from the server", gone, LOOKED_S)
    # Else each comparison from here on reads it.
    os.remove(copies[0])
    until("the largest deposit is removed on all devices", lambda: not any(copy.exists() for copy in copies))
    demo.run("inbox", "remove", "one", "scanner", "--key-file", demo.key)
    refused = demo.attempt("deposit", "-q", demo.address, sent / "letter-of-the-depositor.txt")
    if refused.returncode != REFUSED or demo.address in refused.stderr:
        raise SystemExit(f"a withdrawn address is not refused in plain words: {refused.returncode} {refused.stderr}")
    demo.say(f"  the address was withdrawn; `strongroom deposit` says: {refused.stderr.strip().splitlines()[-1]}")
    until("all have the same", lambda: same(one, two, three))


def end(demo, one, two, three):
    demo.say("all are unmounted; vaults and server are checked")
    last = equal(one, two, three)
    for at in (one, two, three):
        demo.umount(at)
    vaults = (("one", demo.key), ("two", demo.key), ("three", demo.other_key))
    for vault, key in vaults:
        demo.run("device", "accept", vault, "--key-file", key)
        demo.run("sync", "-q", vault, "--key-file", key)
    for vault, key in vaults:
        # What another one pushed last.
        demo.run("sync", "-q", vault, "--key-file", key)
        demo.run("verify", "-q", "--deep", vault, "--key-file", key)
    demo.run("remote", "check", "-q", "--deep", "one", "--key-file", demo.key)
    search_memory(demo)
    if code := demo.server.stop():
        raise SystemExit(f"the server ended with {code}")
    demo.say(f"  {len(last)} files and directories; the server: {demo.server.administer('check', demo.server.folder).splitlines()[0]}")


def search_memory(demo):
    """Looks for names and a line of the vault in the memory of the server while it runs."""
    folder = str(demo.server.folder)
    words = [word.encode() for word in (folder, CANARY, *NAMES)]
    seen, looked_at = set(), 0
    for data in memory(demo.server.process.pid):
        looked_at += len(data)
        seen |= {word for word in words if word in data}
    # It has that one from its command line.
    if words[0] not in seen:
        raise SystemExit("the search of memory does not find what is there")
    if shown := seen - {words[0]}:
        raise SystemExit(f"the memory of the server has {shown}")
    demo.say(f"  the memory of the server ({looked_at // MIB} MiB) has no name and no line of the vault")


def memory(pid):
    """All that a process can read of its memory, in pieces that overlap by the longest word."""
    for line in open(f"/proc/{pid}/maps"):
        at, rights, *_ = line.split()
        start, end = (int(part, 16) for part in at.split("-"))
        if "r" not in rights or line.rstrip().endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")):
            continue
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            for begin in range(start, end, PIECE_LEN):
                try:
                    yield os.pread(file.fileno(), min(PIECE_LEN + LINE_LEN_MAX, end - begin), begin)
                except OSError:
                    # It was given back meanwhile, or is no memory.
                    break


def search(demo):
    """Looks in the folder of the server and in its log for names and lines of the vault, and for the token."""
    names, lines = set(NAMES), {CANARY}
    for path in (demo.place / "source").rglob("*"):
        if not path.is_file():
            continue
        if "." in path.name and len(path.name) >= NAME_LEN_MIN:
            names.add(path.name)
        line = max(path.read_bytes().split(b"\n"), key=len).strip()[:LINE_LEN_MAX].decode("ascii", "replace")
        if len(line) >= LINE_LEN_MIN and line.isascii() and line.isprintable():
            lines.add(line)
    words = demo.place / "words"
    tokens = {demo.token, demo.address.split("/")[2].split("@")[0]}
    words.write_text("".join(f"{word}\n" for word in sorted(names | lines | tokens)))

    def found(*places):
        # What grep finds is `FILE:WORD`; it ends with 1 if that is nothing.
        command = ["grep", "-raoHF", "-m", "1", "-f", str(words), *map(str, places)]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C"})
        if done.returncode > 1:
            raise SystemExit(f"grep ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="replace").splitlines()

    if not found(demo.place / "source"):
        raise SystemExit("the search finds nothing where everything is")
    seen = found(demo.server.folder, demo.server.log)
    if seen:
        raise SystemExit(f"the server shows {seen[0]}".replace(demo.token, "TOKEN"))
    files = [path for path in demo.server.folder.rglob("*") if path.is_file()]
    for path in files:
        for word in names:
            if word in str(path.relative_to(demo.server.folder)):
                raise SystemExit(f"the server shows {word!r} as the name of a file")
    size = sum(path.stat().st_size for path in files) // MIB
    demo.say(f"  {len(names)} names and {len(lines)} lines of the vault were looked for in the {len(files)} files of the server ({size} MiB) and in its log: none is there, nor is a token")


if __name__ == "__main__":
    perform(ServeDemo, play, "serve-demo")
