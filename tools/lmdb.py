#!/usr/bin/env python3
"""Copies an LMDB database on the mount while a transaction writes to it through mapped memory (`MDB_WRITEMAP`).

    tools/lmdb.py [ROUNDS]        default: 1,000, half of them with `-o writeback`

In each round a process commits a transaction without any sync, begins another and continues to write. `cp`, `cp --reflink=auto`,
`cp --sparse=always` and `tar -S` copy the file in turn. The copy must open with exactly the committed content. Then the writer aborts
its transaction. In the last round of each mount, SIGTERM ends the mount while the memory is mapped: nothing may be missing when the
vault is opened again. The writer is a separate process and starts no other: that would make the kernel send its unsent pages.
"""

import ctypes
import ctypes.util
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
COPIERS = [
    "cp live copy",
    "cp --reflink=auto live copy",
    "cp --sparse=always live copy",
    "tar -S -cf - live | tar -C out -xf - && mv out/live copy",
]
MAP_BYTES = 32 << 20
KEYS = 400
CHANGED = 40  # keys of one transaction
NOSUBDIR, NOSYNC, RDONLY, WRITEMAP, NOLOCK = 0x4000, 0x10000, 0x20000, 0x80000, 0x400000
CREATE = 0x40000
NEXT, NOT_FOUND = 8, -30798


class Value(ctypes.Structure):
    _fields_ = [("len", ctypes.c_size_t), ("data", ctypes.c_void_p)]

    @classmethod
    def of(cls, content):
        value = cls(len(content), ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p))
        value.content = content  # as long as the pointer is used
        return value

    def read(self):
        return ctypes.string_at(self.data, self.len)


def library():
    name = ctypes.util.find_library("lmdb")
    if name is None:
        sys.exit("LMDB is missing. On Debian or Ubuntu type: sudo apt-get install liblmdb0")
    return ctypes.CDLL(name)


LMDB = library()


def call(name, *arguments):
    result = getattr(LMDB, name)(*arguments)
    if result not in (0, NOT_FOUND):
        LMDB.mdb_strerror.restype = ctypes.c_char_p
        raise OSError(f"{name}: {LMDB.mdb_strerror(result).decode()}")
    return result


class Database:
    def __init__(self, path, flags):
        self.env = ctypes.c_void_p()
        call("mdb_env_create", ctypes.byref(self.env))
        call("mdb_env_set_mapsize", self.env, ctypes.c_size_t(MAP_BYTES))
        call("mdb_env_open", self.env, os.fsencode(path), ctypes.c_uint(flags | NOSUBDIR), 0o600)

    def begin(self, flags=0):
        transaction, self.table = ctypes.c_void_p(), ctypes.c_uint()
        call("mdb_txn_begin", self.env, None, ctypes.c_uint(flags), ctypes.byref(transaction))
        open_flags = 0 if flags & RDONLY else CREATE
        call("mdb_dbi_open", transaction, None, ctypes.c_uint(open_flags), ctypes.byref(self.table))
        return transaction

    def put(self, transaction, key, content):
        key, content = Value.of(key), Value.of(content)
        call("mdb_put", transaction, self.table, ctypes.byref(key), ctypes.byref(content), 0)

    def all(self):
        transaction, cursor, found = self.begin(RDONLY), ctypes.c_void_p(), {}
        call("mdb_cursor_open", transaction, self.table, ctypes.byref(cursor))
        key, content = Value(), Value()
        while call("mdb_cursor_get", cursor, ctypes.byref(key), ctypes.byref(content), NEXT) == 0:
            found[key.read()] = content.read()
        LMDB.mdb_cursor_close(cursor)
        LMDB.mdb_txn_abort(transaction)
        return found


def changes(round_):
    """The rows of one transaction: 40 of 400 keys, with up to 12,000 bytes each."""
    rows = {}
    for place in range(CHANGED):
        digest = hashlib.sha256(b"%d %d" % (round_, place)).digest()
        key = b"key %03d" % (int.from_bytes(digest[:2], "big") % KEYS)
        rows[key] = digest * (1 + digest[2] * 375 // 255)
    return rows


def write(path, commands, answers):
    """The process that has the database in its memory. Gives up what it began when the next command comes."""
    database = Database(path, WRITEMAP | NOSYNC)
    transaction = None
    while command := commands.readline():
        if transaction is not None:
            LMDB.mdb_txn_abort(transaction)
        transaction = database.begin()
        round_ = int(command)
        for key, content in changes(round_).items():
            database.put(transaction, key, content)
        call("mdb_txn_commit", transaction)
        transaction = database.begin()
        for key, content in changes(-round_ - 1).items():
            database.put(transaction, key, content)
        answers.write("begun\n")
        answers.flush()


def start_writer(path):
    (command_in, command_out), (answer_in, answer_out) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(command_out), os.close(answer_in)
        try:
            write(path, os.fdopen(command_in), os.fdopen(answer_out, "w"))
        except OSError as error:
            print(error, file=sys.stderr)
        os._exit(0)
    os.close(command_in), os.close(answer_out)
    return pid, os.fdopen(command_out, "w"), os.fdopen(answer_in)


def has(path, expected):
    """Asks in a process of its own: LMDB may abort where it finds something else than it wrote."""
    pid = os.fork()
    if pid == 0:
        is_wrong = True
        try:
            is_wrong = Database(path, RDONLY | NOLOCK).all() != expected
        except OSError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
        os._exit(is_wrong)
    return os.waitpid(pid, 0)[1] == 0


def run_mount(folder, options, rounds):
    """Gives how many copies had not exactly what was committed."""
    vault, mount, key, elsewhere = (folder / name for name in ("vault", "mnt", "key", "elsewhere"))
    for each in (mount, elsewhere):
        each.mkdir()
    subprocess.run([BINARY, "init", vault, "--key-file", key], check=True, capture_output=True)
    start = [BINARY, "mount", "-f", *options, vault, mount, "--key-file", key]
    daemon = subprocess.Popen(start, stdout=subprocess.DEVNULL)
    while not os.path.ismount(mount):
        if daemon.poll() is not None:
            raise SystemExit("the mount did not start")
        time.sleep(0.02)
    (mount / "out").mkdir()
    writer, commands, answers = start_writer(mount / "live")
    expected, wrong = {}, 0
    try:
        for round_ in range(rounds):
            commands.write(f"{round_}\n")
            commands.flush()
            if answers.readline() != "begun\n":
                raise SystemExit("the writer ended")
            expected.update(changes(round_))
            copier = COPIERS[round_ % len(COPIERS)]
            subprocess.run(["sh", "-c", copier], cwd=mount, check=True, stderr=subprocess.DEVNULL)
            shutil.move(mount / "copy", elsewhere / "copy")
            wrong += not has(elsewhere / "copy", expected)
        daemon.terminate()
        daemon.wait(timeout=120)
    finally:
        commands.close()
        os.waitpid(writer, 0)
        daemon.kill()
        subprocess.run(["umount", "-i", "-l", mount], capture_output=True)
    copy = elsewhere / "after"
    subprocess.run([BINARY, "get", "--key-file", key, f"{vault}:/live", copy], check=True, capture_output=True)
    wrong += not has(copy, expected)
    return wrong


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    wrong = 0
    for options in ([], ["-o", "writeback"]):
        with tempfile.TemporaryDirectory(prefix="strongroom-lmdb.") as folder:
            os.environ["XDG_STATE_HOME"] = f"{folder}/state"
            found = run_mount(Path(folder), options, (rounds + 1) // 2)
        name = " ".join(options) or "default"
        print(f"{name}: {(rounds + 1) // 2} rounds, {found} copies with something else than what was committed")
        wrong += found
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
