"""One of the programs that use a vault at once, and are killed, in `tools/bindings_kill.py`: that says what they write and what they note.

    kill_worker.py DOOR PLACE KEY_FILE JOURNAL NAME INCARNATION SEED STOP

DOOR is how it uses the vault: `python` by the package, with the vault folder as PLACE; `mount` through the mount PLACE; `command` by the
command line, whose program the environment variable STRONGROOM names. It writes into the directory NAME of the vault, and reads those of all
programs, until the file STOP exists.
"""

import contextlib
import errno
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
HEAD_BYTES = 64
RECORD_BYTES = 200
STATE_BYTES = 1000
SMALL_BYTES_MAX = 20_000
RECORDS_MAX = 500
RECORDS_OF_SERIAL = 1_000_000
OWN_MAX = 200
BURST_MAX = 16
PAUSE_S = (0.05, 0.25)
SETTLE_S = 0.5
PROGRAMS = ("c", "python", "java", "mount", "command")

#: How a program ends whose mount was killed.
MOUNT_GONE = 3

# ---- content: a function of who wrote it, in which incarnation, as which of its contents, and of its size


def _table():
    state, mask, words = 88172645463325252, (1 << 64) - 1, []
    for _ in range(2 * MIB // 8):
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        words.append(state)
    return struct.pack(f"<{len(words)}Q", *words)


_TABLE = _table()


def content(writer, incarnation, number, size):
    start = (incarnation * 7919 + number * 104729) % MIB
    head = f"{writer} {incarnation} {number} {size}".ljust(HEAD_BYTES - 1) + "\n"
    return head.encode() + _TABLE[start : start + size - HEAD_BYTES]


def records(writer, incarnation, serial, count):
    """The first `count` records of a log."""
    first = serial * RECORDS_OF_SERIAL
    return b"".join(content(writer, incarnation, number, RECORD_BYTES) for number in range(first, first + count))


def number_of_state(found):
    """Which of its contents a state holds, as the content says; -1 if it says nothing."""
    words = found[:HEAD_BYTES].split()
    return int(words[2]) if len(words) == 4 and words[2].isdigit() else -1


def is_right(writer, name, found):
    """Whether a file holds what its name says. Of a log that grows meanwhile, it is the beginning."""
    kind, *numbers = name.split("-")
    incarnation, number, *size = map(int, numbers)
    if kind == "f":
        return found == content(writer, incarnation, number, *size)
    if kind == "log":
        return found == records(writer, incarnation, number, -(-len(found) // RECORD_BYTES))[: len(found)]
    return found == content(writer, incarnation, number_of_state(found), STATE_BYTES)


def is_finished(name):
    return name.startswith(("f-", "log-", "state-"))


# ---- doors: the ways to the vault


class Library:
    """The Python package."""

    appends = True
    is_patient = True
    errors = (OSError, ValueError)

    def __init__(self, place, key):
        import strongroom

        self.package, self.place, self.key = strongroom, place, key
        self.vault = self.log = None

    def open(self):
        self.vault = self.package.Vault(self.place, key_file=self.key)

    def close(self):
        vault, self.vault = self.vault, None
        if vault is not None:
            vault.close()

    def is_client(self):
        return self.vault is not None and not self.vault.is_owner

    def make(self, temporary, path, data):
        with self.vault.open(temporary, "wb", 0) as file:
            file.pwrite(data, 0)
            file.sync()
        self.vault.rename(temporary, path)
        self.vault.sync()

    def remove(self, path):
        self.vault.remove(path)
        self.vault.sync()

    def append(self, path, data):
        if self.log is None:
            self.log = self.vault.open(path, "ab", 0)
        self.log.pwrite(data, 0)
        self.log.sync()

    def close_log(self):
        log, self.log = self.log, None
        if log is not None:
            log.close()

    def replace(self, _temporary, path, data):
        self.vault.replace_content(path, data, durable=True)

    def names(self, path):
        return self.vault.listdir(path)

    def read(self, path):
        return self.vault.read_bytes(path)

    def kind(self, error):
        return getattr(error, "errno", None) or 0, type(error).__name__


class Mount:
    """A mount, with the calls of the operating system."""

    appends = True
    is_patient = False
    errors = (OSError,)

    def __init__(self, place, _key):
        self.place, self.log = place, None

    def open(self):
        pass

    def close(self):
        pass

    def is_client(self):
        return False

    def make(self, temporary, path, data):
        with opened(self.place + temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as file:
            write_all(file, data)
            os.fsync(file)
        os.rename(self.place + temporary, self.place + path)
        self.sync_directory(path)

    def remove(self, path):
        os.unlink(self.place + path)
        self.sync_directory(path)

    def append(self, path, data):
        if self.log is None:
            self.log = os.open(self.place + path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            self.sync_directory(path)
        write_all(self.log, data)
        os.fsync(self.log)

    def close_log(self):
        log, self.log = self.log, None
        if log is not None:
            os.close(log)

    def replace(self, temporary, path, data):
        self.make(temporary, path, data)

    def names(self, path):
        return os.listdir(self.place + path)

    def read(self, path):
        return Path(self.place + path).read_bytes()

    def sync_directory(self, path):
        with opened(os.path.dirname(self.place + path), os.O_RDONLY | os.O_DIRECTORY) as directory:
            os.fsync(directory)

    def kind(self, error):
        return error.errno or 0, errno.errorcode.get(error.errno, "-")


class CommandFailed(Exception):
    """A command ended with an exit code that is not 0."""

    def __init__(self, code, said):
        super().__init__(said)
        self.code = code


class Command:
    """The command line: a process for each thing that is done."""

    appends = False
    is_patient = True
    errors = (CommandFailed, FileNotFoundError)

    #: What the messages of these errors say: other errors have the same exit code.
    GONE = "the process that had the vault open has ended"
    STALE = "the file no longer exists"
    NOT_FOUND = 3

    def __init__(self, place, key):
        self.place, self.key = place, key
        self.local = os.path.join(tempfile.mkdtemp(), "content")

    def run(self, *words):
        command = [os.environ["STRONGROOM"], *words, "--key-file", self.key]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            raise CommandFailed(done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout

    def at(self, path):
        return f"{self.place}:{path}"

    def open(self):
        pass

    def close(self):
        pass

    def is_client(self):
        return False

    def make(self, _temporary, path, data):
        Path(self.local).write_bytes(data)
        self.run("put", "-q", self.local, self.at(path))

    def remove(self, path):
        self.run("rm", self.at(path))

    def append(self, path, data):
        raise NotImplementedError

    def close_log(self):
        pass

    def replace(self, temporary, path, data):
        self.make(temporary, path, data)

    def names(self, path):
        return self.run("ls", self.at(path)).decode().splitlines()

    def read(self, path):
        try:
            return self.run("cat", self.at(path))
        except CommandFailed as error:
            if error.code == self.NOT_FOUND:
                raise FileNotFoundError(errno.ENOENT, str(error)) from error
            raise

    def kind(self, error):
        if not isinstance(error, CommandFailed):
            return self.NOT_FOUND, "-"
        said = str(error)
        return error.code, "owner-gone" if self.GONE in said else "stale" if self.STALE in said else "-"


DOORS = {"python": Library, "mount": Mount, "command": Command}


@contextlib.contextmanager
def opened(path, flags):
    handle = os.open(path, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def write_all(handle, data):
    while data:
        data = data[os.write(handle, data) :]


# ---- the program


class Worker:
    def __init__(self, door, journal, name, incarnation, seed, stop):
        self.door, self.name, self.incarnation, self.stop = door, name, incarnation, stop
        self.journal = os.open(journal, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.random = random.Random(seed)
        # Of the log and of the state that are written now; a new one begins after each error.
        self.serial, self.records, self.counter = 1, 0, 0
        self.own = []  # its files that are there
        self.is_open = False
        self.doing = ("open", "vault")  # what an error is about

    def note(self, *words):
        """Writes a line into the journal, in one call."""
        line = " ".join(str(word) for word in words).replace("\n", " ") + "\n"
        os.write(self.journal, line.encode())

    def begin(self, *words):
        self.doing = words
        self.note("begin", *words)

    def done(self):
        self.note("done", *self.doing)

    def failed(self, error):
        self.note("error", *self.doing[:2], *self.door.kind(error), error)
        if not self.door.is_patient:
            sys.exit(MOUNT_GONE)

    def is_to_stop(self):
        return os.path.exists(self.stop)

    def path(self, name):
        return f"/{self.name}/{name}"

    def next(self):
        self.counter += 1
        return self.counter - 1

    # ---- opening and closing

    def open(self):
        while not self.is_open and not self.is_to_stop():
            self.doing = ("open", "vault")
            try:
                self.door.open()
                self.is_open = True
            except self.door.errors as error:
                self.failed(error)
                time.sleep(0.1)

    def close(self):
        self.is_open = False
        self.doing = ("close", "vault")
        try:
            self.door.close()
        except self.door.errors as error:
            self.failed(error)

    def close_log(self):
        self.doing = ("close", "log")
        try:
            self.door.close_log()
        except self.door.errors as error:
            self.failed(error)

    def reopen_as_client(self):
        """An owner does not: closing waits for those who use the vault through it."""
        if self.door.is_client():
            self.close()
            self.open()

    # ---- what it does

    def make_file(self, size):
        number = self.next()
        name = f"f-{self.incarnation:04}-{number:06}-{size}"
        temporary = self.path(f"t-{self.incarnation:04}-{number:06}")
        self.begin("new", name)
        self.door.make(temporary, self.path(name), content(self.name, self.incarnation, number, size))
        self.done()
        self.own.append(name)

    def remove_file(self):
        # After an error nobody knows whether it is there: it is left alone.
        name = self.own.pop(self.random.randrange(len(self.own)))
        self.begin("remove", name)
        self.door.remove(self.path(name))
        self.done()

    def append_record(self):
        name = f"log-{self.incarnation:04}-{self.serial:04}"
        number = self.serial * RECORDS_OF_SERIAL + self.records
        self.begin("append", name, self.records)
        self.door.append(self.path(name), content(self.name, self.incarnation, number, RECORD_BYTES))
        self.done()
        self.records += 1
        if self.records == RECORDS_MAX:
            self.close_log()
            self.serial += 1
            self.records = 0

    def replace_state(self):
        number = self.next()
        name = f"state-{self.incarnation:04}-{self.serial:04}"
        temporary = self.path(f"t-{self.incarnation:04}-{number:06}")
        self.begin("replace", name, number)
        self.door.replace(temporary, self.path(name), content(self.name, self.incarnation, number, STATE_BYTES))
        self.done()

    def names_of(self, writer):
        self.doing = ("list", writer)
        return self.door.names(f"/{writer}")

    def read_file(self):
        writer = self.random.choice(PROGRAMS)
        names = [name for name in self.names_of(writer) if is_finished(name)]
        if not names:
            return
        name = self.random.choice(names)
        place = f"{writer}/{name}"
        self.doing = ("read", place)
        try:
            found = self.door.read(f"/{place}")
            if isinstance(self.door, Mount) and name.startswith("log-") and not is_right(writer, name, found):
                # The kernel copies the pages of a file that grows one by one, as on every file system. What stays wrong is wrong.
                self.note("again", place)
                time.sleep(0.05)
                found = self.door.read(f"/{place}")
        except FileNotFoundError:
            self.note("missing", place)
            return
        self.note("read" if is_right(writer, name, found) else "wrong", place, f"of {len(found)} bytes")

    def do_one(self):
        chance = self.random.randrange(100)
        if chance < 35 and self.door.appends:
            self.append_record()
        elif 35 <= chance < 45:
            self.replace_state()
        elif 45 <= chance < 60:
            self.read_file()
        elif len(self.own) == OWN_MAX or (60 <= chance < 75 and self.own):
            self.remove_file()
        else:
            self.make_file(MIB if chance >= 97 else HEAD_BYTES + self.random.randrange(SMALL_BYTES_MAX))

    # ---- its life

    def adopt(self):
        # What the one before asked last is carried out by then, so that no file goes that was seen.
        time.sleep(SETTLE_S)
        try:
            self.own = [name for name in self.names_of(self.name) if name.startswith("f-")][:OWN_MAX]
        except self.door.errors as error:
            self.failed(error)

    def work(self):
        for _ in range(1 + self.random.randrange(BURST_MAX)):
            if self.is_to_stop():
                break
            try:
                self.do_one()
            except self.door.errors as error:
                self.failed(error)
                self.serial += 1
                self.records = 0
                self.close_log()
                self.reopen_as_client()
                break
        # With a file open, no owner can leave the vault to a mount.
        self.close_log()
        if self.random.randrange(20) == 0:
            self.reopen_as_client()

    def live(self):
        self.open()
        if self.is_open:
            self.adopt()
        while self.is_open and not self.is_to_stop():
            self.work()
            time.sleep(self.random.uniform(*PAUSE_S))
        self.close_log()
        self.close()


def main():
    door, place, key, journal, name, incarnation, seed, stop = sys.argv[1:]
    Worker(DOORS[door](place, key), journal, name, int(incarnation), int(seed), stop).live()


if __name__ == "__main__":
    main()
