"""The fixtures that tests share: a vault of their own, and the same calls on the disk for comparison."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import strongroom


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory):
    """What is remembered of vaults that were seen is of this run: another one has other vaults at the same paths."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    with strongroom.Vault.create(tmp_path_factory.mktemp("kept") / "vault", remember=False) as made:
        yield made


@pytest.fixture
def empty_vault(kept):
    """One vault for many tests, emptied before each: to make one takes longer than most of them."""
    with kept.scandir(b"/") as entries:
        for entry in list(entries):
            remove = kept.rmtree if entry.is_dir(follow_symlinks=False) else kept.remove
            remove(entry.path)
    for one in kept.snapshots():
        kept.remove_snapshot(one.id)
    return kept


@pytest.fixture(autouse=True)
def umask():
    """What the disk takes from the modes of new files, so that they are those of a vault."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "vault.key"
    strongroom.write_key_file(path)
    return path


@pytest.fixture
def vault(tmp_path, key_file):
    with strongroom.Vault.create(tmp_path / "vault", key_file=key_file, remember=False) as made:
        yield made


class Program:
    """Runs a Python program of its own, so that a crash of it is seen and nothing else is disturbed by it."""

    def __init__(self, folder, key_file):
        self.folder = folder
        self.key_file = key_file

    def __call__(self, text, *arguments, status=0):
        head = f"""
            import os, sys, strongroom
            FOLDER, KEY = {str(self.folder)!r}, {str(self.key_file)!r}
            def open_vault(**options):
                return strongroom.Vault(FOLDER, key_file=KEY, remember=False, **options)
        """
        program = textwrap.dedent(head) + textwrap.dedent(text)
        ended = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-X", "dev", "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONWARNINGS": ""},
        )
        assert ended.returncode == status, f"status {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended


@pytest.fixture
def program(tmp_path, key_file):
    """A program beside a vault that nobody has open."""
    folder = tmp_path / "vault"
    strongroom.Vault.create(folder, key_file=key_file, remember=False).close()
    return Program(folder, key_file)


@pytest.fixture
def disk(tmp_path):
    """A folder of the disk, to compare with."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return pathlib.Path(folder)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A case of a class that says ``must_pass`` fails if it is skipped, or expected to fail."""
    report = (yield).get_result()
    if report.skipped and getattr(getattr(item, "cls", None), "must_pass", False):
        report.outcome = "failed"
        report.longrepr = f"it may not be left out: {report.longrepr}"


def pytest_terminal_summary(terminalreporter):
    """Says how many cases of the table were right; of tests that pass nothing else is shown."""

    def count(outcome):
        reports = terminalreporter.stats.get(outcome, [])
        return sum("test_conformance.py::test_case[" in report.nodeid for report in reports)

    right, skipped, wrong = (count(outcome) for outcome in ("passed", "skipped", "failed"))
    if right + skipped + wrong:
        total = right + skipped + wrong
        terminalreporter.write_line(f"Python: {right} of {total} cases right, {skipped} skipped with a reason")
