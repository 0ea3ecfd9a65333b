#!/usr/bin/env python3
"""Kills with kill -9 one of five programs that use one vault at once, its owner among them, and checks that nothing acknowledged is lost.

    tools/bindings_kill.py [SECONDS] [SEED] [--self-test]        defaults: 300 s, seed from the clock (printed)

The programs: one in C, one in Python, one in Java, each with its library built and installed as a user does; one on a mount; one that runs
commands. A kill comes every ten seconds (six in all in a run of less than a minute): two of three hit the process that owns the vault, the
third one of the others in turn. A killed program is started again at once; a killed mount after the next kill, so that a program owns the
vault meanwhile.

Each program writes into a directory of its own, in bursts:

    f-…         a file that is written under another name, synced, renamed and synced again; up to 20 KB, some of them 1 MiB; some are removed
    log-…       records, each appended and synced (not by commands)
    state-…     1,000 bytes that are replaced at once

What a file must hold follows from its name, byte for byte, so that each program can judge the files of all. It notes in a journal outside
of the vault what it begins, and what it was told is durable; each error; and each file that it read, and whether that was right. An error
must be one of ALLOWED, which names the reason; then the program opens what it needs again, and continues. In the end all of them stop, the
vault is opened again, verified and copied out, and the copy is compared with the journals.

With --self-test the copy is compared once more, after acknowledged files were removed, exchanged, brought back, cut by one record, and set to an
earlier content, a file was put there that nobody wrote, and an error, a wrong read and a missing file were invented: the comparison must name
each of these and nothing else.

Exits with 1 if something acknowledged is lost, a byte is wrong, an error is not allowed, a program hangs or ends by itself, or the run proves
nothing. Needs FUSE, a C compiler, pkg-config, Python with venv, a JDK and Maven; BINDINGS=c,python leaves a language out.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kill import BINARY, ROOT, run

sys.path.insert(0, str(ROOT / "bindings/python/tests_long"))

from kill_worker import MOUNT_GONE, PROGRAMS, RECORD_BYTES, STATE_BYTES, content, is_right, number_of_state, records

LANGUAGES = ("c", "python", "java")
EVERY_S = 10
# A run of that length kills each program at least once.
SECONDS = 300
KILLS_OF_SHORT_RUN = 6
# The owner is waited for 10 s at most, and a greeting of a new one takes as long as the opening of the vault.
PATIENCE_S = 60
VAULT_BUSY = 7  # the exit code of a mount that did not get the vault

GONE = "the owner was killed: what it was asked last may or may not be done, and what was not synced may be lost (docs/guide/library.md)"
BUSY = "a process has the vault, and does not answer within its time (README of each binding)"
STALE = "a file that lost its last name, or whose creation was not synced, went with the killed owner (docs/guide/library.md)"
UNMOUNTED = "the process of the mount was killed: what the kernel says of every file below such a mount"
UNREAD = "the same, for a page that was just being read; a program on a mount that still answers may not end"

# Every error that a program may meet, as it names it, and why.
ALLOWED = {
    "c": {"103 -": GONE, "16 -": BUSY, "116 -": STALE},
    "python": {"103 OwnerGoneError": GONE, "16 VaultInUseError": BUSY, "116 OSError": STALE},
    "java": {"103 OWNER_GONE": GONE, "16 IN_USE": BUSY, "116 SYSTEM": STALE},
    "mount": {"107 ENOTCONN": UNMOUNTED, "103 ECONNABORTED": UNMOUNTED, "5 EIO": UNREAD},
    "command": {"1 owner-gone": GONE, "7 -": BUSY, "1 stale": STALE},
}


class Failed(Exception):
    """The run cannot go on."""


# ---- the journals, and what the vault must hold for them


class File:
    """What the journals say of one path: the change that was acknowledged last, and the one that was begun last."""

    def __init__(self):
        self.begun, self.done = None, None

    def was_removed(self):
        return self.begun is not None and self.begun[0] == "remove"

    def must_exist(self):
        return self.done is not None and not self.was_removed()

    def must_be_gone(self):
        return self.done is not None and self.done[0] == "remove"


class Journals:
    """Everything that the programs noted."""

    def __init__(self, folder):
        self.files = {}  # by their paths
        self.acknowledged, self.read = Counter(), Counter()
        self.errors = Counter()
        self.undocumented, self.wrong, self.missing = [], [], []
        self.again = 0
        for path in sorted(folder.iterdir()):
            program = path.name.partition(".")[0]
            # Of a line that is not whole nothing was said.
            for line in path.read_text(errors="replace").split("\n")[:-1]:
                self.take(program, line)
        for place in self.missing:
            file = self.files.get(place, File())
            if not file.was_removed() and file.done is not None:
                self.wrong.append(f"{place} was acknowledged and not removed, and a program did not find it")

    def take(self, program, line):
        word, *words = line.split(" ")
        if word in ("begin", "done"):
            what, name, *number = words
            file = self.files.setdefault(f"{program}/{name}", File())
            change = (what, *map(int, number))
            file.begun = change
            if word == "done":
                file.done = change
                self.acknowledged[program] += 1
        elif word == "error":
            error = " ".join(words[2:4])
            if error in ALLOWED[program]:
                self.errors[f"{program} {error}"] += 1
            else:
                self.undocumented.append(f"{program}: {' '.join(words)}")
        elif word == "read":
            self.read[program] += 1
        elif word == "again":
            self.again += 1
        elif word == "missing":
            self.missing.append(words[0])
        else:
            self.wrong.append(f"{program} read {' '.join(words)}")


class Comparison:
    """What a copy of the vault has, beside what the journals say."""

    def __init__(self, journals, copy):
        self.lost, self.wrong = [], list(journals.wrong)
        self.undocumented = journals.undocumented
        self.compared = 0
        there = {str(path.relative_to(copy)): path for path in copy.rglob("*") if path.is_file()}
        for place, file in journals.files.items():
            self.compare(place, file, there.get(place))
        for place in there.keys() - journals.files.keys():
            name = place.rpartition("/")[2]
            # What a killed program was writing, and a command before it gives the name.
            if not name.startswith(("t-", ".strongroom-")):
                self.wrong.append(f"{place} was never written")

    def compare(self, place, file, path):
        if path is None:
            if file.must_exist():
                self.lost.append(f"{place} was acknowledged and is gone")
            return
        self.compared += 1
        if file.must_be_gone():
            self.lost.append(f"{place} was removed, that was acknowledged, and it is there")
        writer, name = place.split("/")
        found = path.read_bytes()
        if not is_right(writer, name, found):
            self.wrong.append(f"{place} has other bytes than were written: {len(found)} of them")
        elif name.startswith("log-"):
            self.compare_log(place, file, found)
        elif name.startswith("state-"):
            self.compare_state(place, file, found)

    def compare_log(self, place, file, found):
        least = 0 if file.done is None else file.done[1] + 1
        count, part = divmod(len(found), RECORD_BYTES)
        if count < least:
            self.lost.append(f"{place} has {count} records, and {least} were acknowledged")
        elif part or count > file.begun[1] + 1:
            self.wrong.append(f"{place} has {len(found)} bytes, and {file.begun[1] + 1} records of {RECORD_BYTES} were begun")

    def compare_state(self, place, file, found):
        number = number_of_state(found)
        expected = {change[1] for change in (file.begun, file.done) if change}
        if number not in expected:
            self.lost.append(f"{place} has its content {number}, and expected is one of {sorted(expected)}")

    def is_clean(self):
        return not (self.lost or self.wrong or self.undocumented)


# ---- the programs


class Program:
    """A process that is killed together with those that it started."""

    def __init__(self, command, said):
        self.said = said
        with open(said, "w") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
            )
        self.pid = self.process.pid

    def is_running(self):
        return self.process.poll() is None

    def ended(self):
        text = self.said.read_text(errors="replace")[-2000:]
        return f"ended with {self.process.returncode}: {text}"

    def kill(self):
        if self.is_running():
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, what):
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{what}: it hangs for {PATIENCE_S} s") from None


class Programs:
    def __init__(self, place, seed):
        self.place, self.seed = place, seed
        self.key, self.vault, self.mount = place / "key", place / "vault", place / "mount"
        self.journal, self.said, self.stop_file = place / "journal", place / "said", place / "stop"
        for folder in (self.mount, self.journal, self.said, place / "tmp"):
            folder.mkdir()
        wanted = os.environ.get("BINDINGS", ",".join(LANGUAGES)).split(",")
        self.languages = [language for language in LANGUAGES if language in wanted]
        self.commands = {}  # how each program is started
        self.running = {}  # the programs that run, by name; on the mount only while there is one
        self.daemon = None  # the process of the mount
        self.is_served = False
        self.incarnations = Counter()
        self.progress = {}  # when each program was last told that something is durable, and the length of its journal then
        self.refused = 0

    # ---- built, installed, begun

    def install(self):
        scripts = {
            "c": ("bindings_c.sh", "install", self.compile_c),
            "python": ("bindings_python.sh", "wheel", self.install_python),
            "java": ("bindings_java.sh", "build", self.compile_java),
        }
        for language in self.languages:
            script, what, then = scripts[language]
            print(f"building and installing: {language}", flush=True)
            environment = {**os.environ, "PREFIX": str(self.place / "installed"), "DESTDIR": ""}
            subprocess.run([ROOT / "tools" / script, what], check=True, cwd=ROOT, env=environment)
            self.commands[language] = then()
        worker = ROOT / "bindings/python/tests_long/kill_worker.py"
        for door, at in (("mount", self.mount), ("command", self.vault)):
            self.commands[door] = [sys.executable, worker, door, at]

    def compile_c(self):
        for name, folder in (("PKG_CONFIG_PATH", "installed/lib/pkgconfig"), ("LD_LIBRARY_PATH", "installed/lib")):
            others = [os.environ[name]] if os.environ.get(name) else []
            os.environ[name] = ":".join([str(self.place / folder), *others])
        flags = run("pkg-config", "--cflags", "--libs", "strongroom").stdout.split()
        program, source = self.place / "kill_worker", ROOT / "bindings/c/tests/kill_worker.c"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", program, source, *flags], check=True)
        return [program, self.vault]

    def install_python(self):
        interpreter = self.place / "venv/bin/python"
        wheel = newest(ROOT / "target/wheels", "strongroom-*.whl")
        subprocess.run([os.environ.get("PYTHON", "python3"), "-m", "venv", self.place / "venv"], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
        return [interpreter, ROOT / "bindings/python/tests_long/kill_worker.py", "python", self.vault]

    def compile_java(self):
        tools = f"{os.environ['JAVA_HOME']}/bin/" if os.environ.get("JAVA_HOME") else ""
        jar, classes = newest(ROOT / "target/java", "strongroom-[0-9]*.jar"), self.place / "classes"
        classes.mkdir()
        source = ROOT / "bindings/java/tests_long/KillWorker.java"
        subprocess.run([f"{tools}javac", "--release", "11", "-cp", jar, "-d", classes, source], check=True)
        # The library is unpacked there: what a kill leaves goes with the place.
        temporary = f"-Djava.io.tmpdir={self.place / 'tmp'}"
        return [f"{tools}java", "-Xmx256m", temporary, "-cp", f"{jar}:{classes}", "KillWorker", self.vault]

    def begin(self):
        # What is noted of vaults that were seen, and of the machine, is of this run.
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = str(self.place / name.lower())
        os.environ.update(TMPDIR=str(self.place / "tmp"), STRONGROOM=BINARY)
        self.strongroom("init", self.vault)
        for name in PROGRAMS:
            self.strongroom("mkdir", f"{self.vault}:/{name}")
        self.start_mount()
        begun = time.monotonic()
        while not self.is_served:
            self.look_after()
            if time.monotonic() - begun > PATIENCE_S:
                raise Failed("the first mount does not come")
            time.sleep(0.05)
        for name in (*self.languages, "command"):
            self.start(name)

    def strongroom(self, *words):
        return self.command(*words, "--key-file", self.key)

    def command(self, *words):
        words = [str(word) for word in words]
        done = subprocess.run([BINARY, *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"strongroom {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    # ---- started, watched, killed

    def start(self, name):
        self.incarnations[name] += 1
        number = self.incarnations[name]
        journal = self.journal / f"{name}.{number:04}"
        seed = self.seed * 1_000_000 + number * 10 + PROGRAMS.index(name)
        command = [*self.commands[name], self.key, journal, name, number, seed, self.stop_file]
        self.running[name] = Program(command, self.said / f"{name}.{number:04}")
        self.progress[name] = (time.monotonic(), 0)

    def start_mount(self):
        self.incarnations["daemon"] += 1
        command = [BINARY, "mount", "-f", self.vault, self.mount, "--key-file", self.key]
        self.daemon = Program(command, self.said / f"daemon.{self.incarnations['daemon']:04}")
        self.is_served = False

    def look_after(self):
        """Notices who ended by itself, who hangs, and that the mount has come."""
        self.look_after_mount()
        for name, program in self.running.items():
            if not program.is_running():
                raise Failed(f"{name} was not killed, and {program.ended()}")
            self.look_at_progress(name)

    def look_at_progress(self, name):
        since, length = self.progress[name]
        journal = self.journal / f"{name}.{self.incarnations[name]:04}"
        if journal.exists() and journal.stat().st_size > length:
            with open(journal, "rb") as lines:
                lines.seek(length)
                new = lines.read()
            if b"done " in new:
                self.progress[name] = (time.monotonic(), length + len(new))
                return
        if time.monotonic() - since > PATIENCE_S:
            raise Failed(f"{name} was not told for {PATIENCE_S} s that anything is durable")

    def look_after_mount(self):
        if self.daemon is None:
            return
        if not self.daemon.is_running():
            if self.is_served or self.daemon.process.returncode != VAULT_BUSY:
                raise Failed(f"the mount was not killed, and {self.daemon.ended()}")
            # The programs have used the vault all the time that it waited.
            self.refused += 1
            self.start_mount()
        elif not self.is_served and self.answers():
            self.is_served = True
            self.start("mount")

    def is_mounted(self):
        """By the table of the kernel, which also has a mount whose process was killed."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return any(line.split()[4] == str(self.mount) for line in lines)

    def answers(self):
        try:
            os.statvfs(self.mount)
        except OSError:
            return False
        return self.is_mounted()

    def owner(self):
        """The name of the program whose process owns the vault now."""
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            asked = subprocess.run([BINARY, "info", str(self.vault), "--json"], capture_output=True, text=True)
            pid = json.loads(asked.stdout)["owner_pid"] if asked.returncode == 0 else None
            name = self.name_of(pid) if pid else None
            if name:
                return name
            self.look_after()
            time.sleep(0.05)
        raise Failed(f"nobody has owned the vault for {PATIENCE_S} s")

    def name_of(self, pid):
        """A command is in the group of the program that runs it."""
        try:
            group = os.getpgid(pid)
        except ProcessLookupError:
            return None
        programs = {**self.running, "mount": self.daemon}
        return next((name for name, program in programs.items() if program and program.pid == group), None)

    def kill(self, name):
        self.look_after()
        if name == "mount":
            self.kill_mount()
        else:
            self.running.pop(name).kill()
            self.start(name)

    def kill_mount(self):
        self.daemon.kill()
        self.daemon = None
        program = self.running.pop("mount", None)
        if program and program.wait("the program on the killed mount") != MOUNT_GONE:
            raise Failed(f"the program on the killed mount {program.ended()}")
        self.unmount_lazily()
        if self.is_mounted():
            raise Failed("the mount of a killed process cannot be unmounted")
        if any(self.mount.iterdir()):
            raise Failed("something was written below the mount, to the disk")

    def unmount_lazily(self):
        if self.is_mounted():
            # It says that nobody can know whether all is durable.
            subprocess.run([BINARY, "umount", "--lazy", str(self.mount)], capture_output=True)

    # ---- ended

    def stop(self):
        """Has all of them close the vault; nobody has it open then."""
        self.stop_file.touch()
        for name, program in self.running.items():
            if program.wait(f"{name}, which is to stop") != 0:
                raise Failed(f"{name} was to stop, and {program.ended()}")
        self.running.clear()
        begun = time.monotonic()
        while self.daemon and not self.is_served:
            if not self.daemon.is_running() and self.daemon.process.returncode == VAULT_BUSY:
                self.daemon = None
            elif self.answers():
                self.is_served = True
            elif not self.daemon.is_running() or time.monotonic() - begun > PATIENCE_S:
                raise Failed(f"the last mount does not come: {self.daemon.said.read_text(errors='replace')}")
            time.sleep(0.05)
        if self.daemon:
            self.command("umount", self.mount)
            if self.daemon.wait("the mount that was unmounted") != 0:
                raise Failed(f"the mount was unmounted, and {self.daemon.ended()}")
            self.daemon = None
        owner = json.loads(self.command("info", self.vault, "--json"))["owner"]
        if owner != "none":
            raise Failed(f"all have closed the vault, and it is open in {owner}")

    def end_at_once(self):
        """Leaves no process and no mount behind, whatever happened."""
        # The process of the mount first: nobody can be killed who waits for it.
        for program in [self.daemon, *self.running.values()]:
            if program:
                program.kill()
        self.unmount_lazily()
        if self.is_mounted():
            subprocess.run(["umount", "-l", str(self.mount)], capture_output=True)


def newest(folder, pattern):
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


# ---- the run


class Run:
    def __init__(self, place, seconds, seed):
        self.seconds = seconds
        self.every = EVERY_S if seconds >= 60 else seconds / (KILLS_OF_SHORT_RUN + 1)
        self.programs = Programs(place, seed)
        self.killed, self.owners_killed = Counter(), Counter()
        self.copies = 0

    def play(self):
        programs = self.programs
        turns = itertools.cycle((*programs.languages, "command"))
        begun = time.monotonic()
        next_kill = self.every
        while (now := time.monotonic() - begun) < self.seconds:
            programs.look_after()
            if now >= next_kill and self.seconds - now > self.every / 2:
                owner = programs.owner()
                name = next(turns) if self.killed.total() % 3 == 2 else owner
                self.kill(name, owner, now)
                next_kill = time.monotonic() - begun + self.every
            time.sleep(0.1)

    def kill(self, name, owner, now):
        programs = self.programs
        was_away = programs.daemon is None
        programs.kill(name)
        self.killed[name] += 1
        self.owners_killed[name] += name == owner
        if was_away:
            programs.start_mount()
        words = "the owner" if name == owner else f"beside the owner, {owner}"
        print(f"{now:4.0f} s: killed {name}, {words}", flush=True)

    def copy(self):
        """Everything that the vault holds, as files."""
        self.copies += 1
        copy = self.programs.place / f"copy{self.copies}"
        self.programs.strongroom("get", "-q", f"{self.programs.vault}:/", copy)
        return copy

    def judge(self):
        """Verifies the vault, compares it with the journals, and says what was found."""
        self.programs.strongroom("verify", "--structure", self.programs.vault)
        self.programs.strongroom("verify", "-q", "--deep", self.programs.vault)
        journals = Journals(self.programs.journal)
        comparison = Comparison(journals, self.copy())
        self.tell(journals, comparison)
        return journals, comparison

    def tell(self, journals, comparison):
        programs = (*self.programs.languages, "mount", "command")
        shown = lambda counts: ", ".join(f"{name} {counts[name]:,}" for name in programs)
        print("the vault was opened again; the check of its structure and verify --deep found nothing")
        print(f"acknowledged records: {shown(journals.acknowledged)}; {journals.acknowledged.total():,} in all")
        print(f"files read by programs and found right: {shown(journals.read)}; read again on the mount while they grew: {journals.again}")
        print(f"kills: {shown(self.killed)}; {self.killed.total()} in all")
        print(f"of them kills of the owner: {shown(self.owners_killed)}; {self.owners_killed.total()} in all")
        print(f"mounts that did not get the vault within their time, and were begun again: {self.programs.refused}")
        print(f"errors that are documented, by program, number and kind: {journals.errors.total()}")
        for error, count in sorted(journals.errors.items()):
            program, _, kind = error.partition(" ")
            print(f"    {error}: {count}, {ALLOWED[program][kind]}")
        print(f"files in the end: {comparison.compared:,}, verified and compared with what was acknowledged")
        for what, found in (
            ("lost", comparison.lost),
            ("errors that are not documented", comparison.undocumented),
            ("wrong bytes", comparison.wrong),
        ):
            print(f"{what}: {len(found)} (must be 0)")
            for line in found[:20]:
                print(f"    {line}")

    def check_worth(self, journals):
        """A run in which nothing happened proves nothing."""
        programs = (*self.programs.languages, "mount", "command")
        idle = [name for name in programs if not journals.acknowledged[name] or not journals.read[name]]
        if idle:
            raise Failed(f"these programs have not both written and read: {', '.join(idle)}")
        if not self.owners_killed.total():
            raise Failed("no owner was killed")
        spared = [name for name in programs if not self.killed[name]]
        if spared and self.seconds >= SECONDS:
            raise Failed(f"these programs were never killed: {', '.join(spared)}")

    def put(self, place, data):
        local = self.programs.place / "other"
        local.write_bytes(data)
        self.programs.strongroom("put", "-q", local, f"{self.programs.vault}:/{place}")

    def test_comparison(self):
        """Does to the vault and to a journal each thing that the comparison looks for: it must name all of it, and nothing else."""
        files = sorted(Journals(self.programs.journal).files.items())
        of_kind = lambda kind: [(place, file) for place, file in files if f"/{kind}-" in place]
        standing = [place for place, file in of_kind("f") if file.must_exist()]
        gone = [place for place, file in of_kind("f") if file.must_be_gone()]
        logs = [(place, file.done[1]) for place, file in of_kind("log") if file.must_exist()]
        states = [place for place, file in of_kind("state") if file.must_exist() and file.done[1] > 0]
        if len(standing) < 3 or not (gone and logs and states):
            raise Failed("there are not enough acknowledged files of each kind for the self-test")
        removed, missed, exchanged, strange = standing[0], standing[1], standing[-1], "command/f-9999-000001-64"
        back, (cut, last), old = gone[0], logs[0], states[0]
        self.programs.strongroom("rm", f"{self.programs.vault}:/{removed}")
        self.put(back, content(*parts_of(back)))
        # One acknowledged record less than there was, and a content that was acknowledged earlier than the last one.
        self.put(cut, records(*parts_of(cut), last))
        self.put(old, content(*parts_of(old)[:2], 0, STATE_BYTES))
        self.put(exchanged, content("nobody", 1, 1, STATE_BYTES))
        self.put(strange, content(*parts_of(strange)))
        with open(self.programs.journal / "command.9999", "w") as journal:
            journal.write("error new f-invented 5 - an error that was invented\n")
            journal.write(f"missing {missed}\nwrong {missed} of 5 bytes\n")
        comparison = Comparison(Journals(self.programs.journal), self.copy())
        first_words = lambda lines: sorted(line.split(" ")[0] for line in lines)
        expected = (sorted([removed, back, cut, old]), sorted([missed, "command", exchanged, strange]), ["command:"])
        found = (comparison.lost, comparison.wrong, comparison.undocumented)
        if tuple(map(first_words, found)) != expected:
            raise Failed(f"self-test: the comparison found {found}, and was to find {expected}")
        print("self-test: the comparison named each of nine things that were done to the vault and to a journal, and nothing else")


def parts_of(place):
    """Who wrote a file, and the numbers in its name."""
    writer, name = place.split("/")
    return writer, *map(int, name.split("-")[1:])


def parse():
    parser = argparse.ArgumentParser(usage="tools/bindings_kill.py [SECONDS] [SEED] [--self-test]", description=__doc__.splitlines()[0])
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    parser.add_argument("seed", nargs="?", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--self-test", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse()
    print(f"seed {arguments.seed}", flush=True)
    # So that no program is left behind then either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    place = Path(tempfile.mkdtemp(prefix="strongroom-bindings-kill.")).resolve()
    try:
        one = Run(place, arguments.seconds, arguments.seed)
        try:
            one.programs.install()
            one.programs.begin()
            one.play()
            one.programs.stop()
        finally:
            one.programs.end_at_once()
        journals, comparison = one.judge()
        one.check_worth(journals)
        if not comparison.is_clean():
            raise Failed("see above")
        if arguments.self_test:
            one.test_comparison()
    except BaseException as error:
        print(f"what is there stays for a look: {place}", file=sys.stderr)
        if isinstance(error, Failed):
            raise SystemExit(f"failed: {error}") from error
        raise
    shutil.rmtree(place)
    print(f"{one.killed.total()} kills, {journals.acknowledged.total():,} records acknowledged as durable, 0 lost")


if __name__ == "__main__":
    main()
