#!/usr/bin/env python3
"""Kills the daemon of a mounted vault again and again with kill -9 while four programs write, and checks what remains.

    tools/kill.py [ROUNDS] [SEED]        defaults: 50 rounds, seed from the clock (printed)

Each round writes to the mount all at once: a copied tree (each file and its directory fsynced), a git repository, an SQLite database
with one row per transaction, and a log appended with fsync. The daemon is killed at a random moment, and the vault is mounted again.
Everything whose fsync or commit had returned must exist. `strongroom verify` must find nothing, also with `--structure` and with
`--deep`, and while keys rotate.
"""

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
RECORD = 4096


def run(*args, **options):
    return subprocess.run(args, check=True, capture_output=True, text=True, **options)


class Vault:
    def __init__(self, folder):
        self.folder = folder
        self.vault = folder / "vault"
        self.mount = folder / "mount"
        self.passphrase = folder / "passphrase"
        self.mount.mkdir()
        self.passphrase.write_text("kill rounds")
        run(BINARY, "init", self.vault, "--passphrase-file", self.passphrase)
        self.daemon = None

    def start(self, *options):
        """Serves the mount in the foreground of a child, so that the pid to kill is known."""
        args = [BINARY, "mount", "-f", *options, self.vault, self.mount, "--passphrase-file", self.passphrase]
        self.log = open(self.folder / "daemon.log", "w+")
        self.daemon = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=self.log, text=True)
        deadline = time.monotonic() + 60
        while not self.is_served():
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                ended = "it runs" if self.daemon.returncode is None else f"it ended with {self.daemon.returncode}"
                raise SystemExit(f"the mount did not start ({ended}): {self.said()}")
            time.sleep(0.02)

    def is_served(self):
        # Of a dead mount the kernel still knows the root's attributes, but a question to the daemon fails.
        try:
            os.statvfs(self.mount)
        except OSError:
            return False
        return os.path.ismount(self.mount)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def stop(self):
        run(BINARY, "umount", self.mount)
        self.daemon.wait()


class Writers:
    """Four writers; each notes what was acknowledged as durable, outside the vault."""

    def __init__(self, mount, round_number, seed):
        self.base = mount / f"round{round_number}"
        self.base.mkdir()
        self.random = random.Random(seed)
        self.files = {}
        self.rows = 0
        self.records = 0
        self.errors = []
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.tree, self.git, self.sqlite, self.log)]
        sync_directory(mount)

    def guard(self, work):
        try:
            work()
        except (OSError, sqlite3.Error, subprocess.SubprocessError):
            pass  # the daemon was killed
        except Exception as error:  # anything else is a fault of this script or of the vault
            self.errors.append(f"{work.__name__}: {error!r}")

    def tree(self):
        folder = self.base / "tree"
        folder.mkdir()
        sync_directory(self.base)
        number = 0
        while True:
            size = self.random.choice([0, 10, 5000, 70000, 300000])
            content = self.random.randbytes(size)
            path = folder / f"file{number}"
            temporary = folder / "new"
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
            sync_directory(folder)
            self.files[path] = hashlib.sha256(content).digest()
            number += 1

    def git(self):
        folder = self.base / "git"
        run("git", "init", "-q", folder)
        number = 0
        while True:
            (folder / f"text{number}").write_text(f"{number}\n" * 200)
            run("git", "-C", folder, "add", "-A")
            run("git", "-C", folder, "-c", "user.name=k", "-c", "user.email=k@example.org", "commit", "-qm", str(number))
            number += 1

    def sqlite(self):
        database = sqlite3.connect(self.base / "rows.db", isolation_level=None)
        if self.random.random() < 0.5:
            database.execute("PRAGMA journal_mode=WAL")
        # FULL does not sync the directory after the journal is unlinked, so the last transaction may roll back on any
        # file system; EXTRA makes each commit durable in both journal modes.
        database.execute("PRAGMA synchronous=EXTRA")
        database.execute("CREATE TABLE rows(number INTEGER PRIMARY KEY, content BLOB)")
        sync_directory(self.base)
        while True:
            database.execute("INSERT INTO rows VALUES (?, randomblob(200))", (self.rows + 1,))
            # SQLite takes a directory that cannot be opened any more, after it removed the journal, for one that needs no fsync:
            # a row whose last moment met the kill may count as committed. Whoever answers here was there all the time.
            os.statvfs(self.base)
            self.rows += 1

    def log(self):
        handle = os.open(self.base / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        sync_directory(self.base)
        while True:
            os.write(handle, record(self.records))
            os.fdatasync(handle)
            self.records += 1

    def check(self):
        problems = list(self.errors)
        for path, digest in self.files.items():
            if not path.exists():
                problems.append(f"{path} was fsynced and is gone")
            elif hashlib.sha256(path.read_bytes()).digest() != digest:
                problems.append(f"{path} was fsynced and differs")
        if self.rows:
            database = sqlite3.connect(self.base / "rows.db")
            verdict = database.execute("PRAGMA integrity_check").fetchone()[0]
            count = database.execute("SELECT count(*) FROM rows").fetchone()[0]
            database.close()
            if verdict != "ok" or count < self.rows:
                problems.append(f"SQLite: {verdict}, {count} rows of {self.rows} committed")
        if self.records:
            content = (self.base / "log").read_bytes()
            expected = b"".join(record(number) for number in range(self.records))
            if content[: len(expected)] != expected:
                problems.append(f"the log lost some of its {self.records} records")
        return problems


def record(number):
    return (f"{number:020}" * (RECORD // 20 + 1)).encode()[:RECORD]


def sync_directory(path):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    print(f"seed {seed}")
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="strongroom-kill-"))
    # What is seen of the vaults is remembered here, and not of this user.
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    vault = Vault(folder)
    totals = [0, 0, 0]
    try:
        for number in range(rounds):
            vault.start()
            writers = Writers(vault.mount, number, chance.random())
            for thread in writers.threads:
                thread.start()
            time.sleep(chance.uniform(0.3, 2.5))
            vault.kill()
            for thread in writers.threads:
                thread.join(60)
                if thread.is_alive():
                    raise SystemExit(f"round {number}: a writer hangs after the kill")
            vault.start()
            try:
                problems = writers.check()
            except OSError as error:
                raise SystemExit(f"round {number}: {error}; the daemon: {vault.daemon.poll()} {vault.said()}")
            structure = ["verify", "--structure"]
            # The vault is sound, so whatever is told is a false alarm. Keys rotate beside the second and third.
            for words in (structure, ["key", "rotate"], ["verify", "-q"], ["verify", "-q", "--deep"], structure):
                secret = ["--passphrase-file", vault.passphrase] if words[0] == "key" else []
                report = subprocess.run([BINARY, *words, vault.vault, *secret], capture_output=True, text=True)
                if report.returncode != 0:
                    problems.append(" ".join(words) + ": " + report.stdout + report.stderr)
            if problems:
                raise SystemExit(f"round {number}:\n" + "\n".join(problems))
            for index, count in enumerate((len(writers.files), writers.rows, writers.records)):
                totals[index] += count
            shutil.rmtree(writers.base)
            vault.stop()
            print(f"round {number + 1}: {len(writers.files)} files, {writers.rows} rows, {writers.records} records acknowledged, all there", flush=True)
        print(f"{rounds} kills, {totals[0]} files, {totals[1]} rows, {totals[2]} records acknowledged as durable, 0 lost")
    finally:
        if vault.daemon and vault.daemon.poll() is None:
            vault.daemon.kill()
            vault.daemon.wait()
        subprocess.run(["umount", "-l", vault.mount], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
