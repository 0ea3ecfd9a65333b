"""Other processes beside this one, which own the vault, are killed, or are started by it; and signals in the middle of calls."""

import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

import strongroom

#: Writers beside an owner that is killed, and what each of them writes before and after.
WRITERS = 4
WRITES = 20

#: So often in a row a write may say that the owner has gone; an owner that follows it takes moments.
FAILURES_MAX = 1000

OWNER = """
import sys, strongroom
with strongroom.Vault(sys.argv[1], key_file=sys.argv[2], remember=False) as vault:
    vault.write_text("/a", "durable")
    vault.sync()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def owner(program, key_file):
    """A process that owns the vault of ``program``; it ends with its input."""
    arguments = [sys.executable, "-c", OWNER, str(program.folder), str(key_file)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_vault_of_another_process_is_used_through_it_and_not_owned(program, key_file, owner):
    with pytest.raises(strongroom.VaultInUseError) as error:
        strongroom.Vault(program.folder, key_file=key_file, exclusive=True, remember=False)
    assert error.value.errno == 16
    with strongroom.Vault(program.folder, key_file=key_file, remember=False) as vault:
        assert not vault.is_owner and vault.read_text("/a") == "durable"
    owner.stdin.close()
    assert owner.wait() == 0
    owner.stdin = None
    with strongroom.Vault(program.folder, key_file=key_file, exclusive=True, remember=False) as vault:
        assert vault.is_owner


def test_an_owner_that_dies_in_the_middle_of_calls_loses_nothing_durable(program, key_file, owner):
    """Goal: calls of many threads say that the owner has gone, or nothing, and what was acknowledged is there. Method: each thread replaces
    its file by the next number until that is acknowledged; the last such number is there, or the one after it."""
    acknowledged = [0] * WRITERS
    done = threading.Semaphore(0)
    ends = threading.Event()
    odd = []

    def write(number):
        failures = 0
        try:
            while not ends.is_set():
                try:
                    vault.replace_content(f"/{number}", str(acknowledged[number] + 1))
                except strongroom.OwnerGoneError:
                    failures += 1
                    assert failures < FAILURES_MAX, "nobody follows the owner"
                    continue
                acknowledged[number] += 1
                failures = 0
                done.release()
        except BaseException as error:
            odd.append(error)

    def wait():
        """For as many writes as all threads make together."""
        while done.acquire(blocking=False):
            pass
        for _ in range(WRITERS * WRITES):
            while not done.acquire(timeout=0.1):
                assert odd == []

    with strongroom.Vault(program.folder, key_file=key_file, remember=False) as vault:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            wait()
            owner.kill()
            owner.wait()
            wait()
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        assert odd == []
        for number, last in enumerate(acknowledged):
            assert int(vault.read_text(f"/{number}")) in (last, last + 1)
        try:
            vault.sync()
        except strongroom.OwnerGoneError:
            pass  # that is said once
        assert vault.verify(deep=True).sound


def test_a_file_that_went_with_its_owner_is_stale_from_then_on(program, key_file, owner):
    """Goal: no other file takes its place. Method: the name goes while the file is open, then its owner, then the name is another's."""
    with strongroom.Vault(program.folder, key_file=key_file, remember=False) as vault:
        file = vault.open("/a", "rb", 0)
        vault.remove("/a")
        vault.sync()
        owner.kill()
        owner.wait()
        vault.write_text("/a", "another")
        for _ in range(2):
            with pytest.raises(OSError) as error:
                file.read(1)
            assert error.value.errno == errno.ESTALE and not isinstance(error.value, strongroom.VaultError)
        file.close()


def test_a_program_that_is_started_keeps_nothing_of_the_vault(program, key_file):
    """Goal: neither its lock nor its files. Method: the program gets all that may be inherited, and is still there when the vault is owned again."""
    vault = strongroom.Vault(program.folder, key_file=key_file, remember=False)
    file = vault.open("/f", "wb", 0)
    file.lock()
    file.write(b"x")
    started = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        vault.close()
        with strongroom.Vault(program.folder, key_file=key_file, exclusive=True, remember=False) as again:
            assert again.is_owner and started.poll() is None and again.read_bytes("/f") == b"x"
    finally:
        started.communicate()


def test_signals_interrupt_no_call(vault):
    """A handler of Python runs after the call; the system calls in it are interrupted all the same."""
    ticks = []
    before = signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        turn = 0
        while len(ticks) < 50 or turn < 50:
            content = bytes([turn % 256]) * 200_000
            vault.write_bytes("/a", content)
            assert vault.read_bytes("/a") == content
            vault.rename("/a", "/b")
            vault.rename("/b", "/a")
            vault.sync()
            turn += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert vault.check() == []


def test_a_folder_that_the_system_cannot_name_is_refused(tmp_path, key_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    endless = pathlib.Path(tmp_path, *["x" * 250] * 17)
    assert len(os.fsencode(endless)) > 4096
    for folder in (endless, "nul\0", ""):
        with pytest.raises((OSError, ValueError)):
            strongroom.Vault(folder, key_file=key_file, remember=False)
    for folder in (endless, "nul\0"):
        with pytest.raises((OSError, ValueError)):
            strongroom.Vault.create(folder, remember=False)
    assert os.listdir(tmp_path) == [key_file.name]


def test_a_file_of_another_vault_gets_no_name(vault, tmp_path):
    with strongroom.Vault.create(tmp_path / "other", remember=False) as other:
        with other.unnamed_file("/") as file, pytest.raises(OSError) as error:
            vault.name_file(file, "/b")
        assert error.value.errno == 22
    assert vault.listdir() == []
