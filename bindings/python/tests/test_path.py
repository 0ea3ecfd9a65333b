"""``VaultPath`` gives the same results as ``pathlib.Path``: both get the same calls."""

import inspect
import pathlib

import pytest

import strongroom
from test_files import outcome


@pytest.fixture
def vault(empty_vault):
    return empty_vault


@pytest.fixture
def same(disk, vault):
    def show(value):
        if isinstance(value, strongroom.VaultPath):
            return str(value)
        if isinstance(value, pathlib.Path):
            return "/" + str(value.relative_to(disk)) if value != disk else "/"
        if isinstance(value, (list, tuple)):
            return [show(one) for one in value]
        return value

    def run(act):
        def shown(root):
            return show(act(root))

        expected, found = outcome(shown, disk), outcome(shown, vault.path("/"))
        assert found == expected
        return found

    return run


def test_parts_of_paths(vault):
    path = vault.path("/a/b") / "c.tar.gz"
    pure = pathlib.PurePosixPath("/a/b/c.tar.gz")
    assert str(path) == str(pure) and path.as_posix() == "/a/b/c.tar.gz" and bytes(path) == bytes(pure)
    for name in ("parts", "name", "stem", "suffix", "suffixes"):
        assert getattr(path, name) == getattr(pure, name), name
    assert str(path.parent) == str(pure.parent)
    assert [str(one) for one in path.parents] == [str(one) for one in pure.parents]
    assert str(path.with_name("d")) == str(pure.with_name("d"))
    assert str(path.with_suffix(".x")) == str(pure.with_suffix(".x"))
    assert str(path.with_stem("y")) == str(pure.with_stem("y"))
    assert str(path.relative_to("/a")) == "b/c.tar.gz" and path.is_relative_to(vault.path("/a"))
    assert path.match("*.gz") and not path.match("*.zip")
    assert path == vault.path("a", "b", "c.tar.gz") and len({path, vault.path("/a/b/c.tar.gz")}) == 1
    assert path != pure and vault.path("/a") < vault.path("/b")
    assert repr(path) == "VaultPath('/a/b/c.tar.gz')"
    assert str(path / "/elsewhere") == "/elsewhere"
    assert not hasattr(path, "__fspath__")


def test_files_are_written_and_read(same):
    def act(root):
        file = root / "file"
        seen = [file.write_text("ü\n", encoding="utf-8"), file.read_bytes(), file.write_bytes(b"abc"), file.read_text(encoding="utf-8")]
        with file.open("a", encoding="utf-8") as opened:
            opened.write("d")
        seen += [file.read_bytes(), file.stat().st_size, file.exists(), file.is_file(), file.is_dir(), file.is_symlink()]
        seen += [outcome(lambda _: (root / "none").read_text(), None), outcome(lambda _: root.read_bytes(), None)]
        return seen

    same(act)


def test_directories_are_made_and_listed(same):
    def act(root):
        (root / "a" / "b").mkdir(parents=True)
        seen = [
            outcome(lambda _: (root / "a" / "b").mkdir(), None),
            outcome(lambda _: (root / "a" / "b").mkdir(parents=True), None),
            outcome(lambda _: (root / "x" / "y").mkdir(), None),
        ]
        (root / "a" / "b").mkdir(exist_ok=True)
        (root / "file").touch()
        (root / "file").touch()
        seen += [
            outcome(lambda _: (root / "file").touch(exist_ok=False), None),
            outcome(lambda _: (root / "file").mkdir(exist_ok=True), None),
            sorted(root.iterdir(), key=str),
            outcome(lambda _: list((root / "file").iterdir()), None),
        ]
        (root / "a" / "b").rmdir()
        (root / "file").unlink()
        (root / "file").unlink(missing_ok=True)
        seen.append(outcome(lambda _: (root / "file").unlink(), None))
        return seen

    same(act)


def test_links_and_moves(same):
    def act(root):
        (root / "a").write_text("x")
        (root / "l").symlink_to("a")
        (root / "h").hardlink_to(root / "a")
        (root / "loop").symlink_to("loop")
        (root / "d").mkdir()
        (root / "to-d").symlink_to(root / "d")
        seen = [str((root / "l").readlink()), (root / "l").samefile(root / "h"), (root / "l").lstat().st_size]
        seen += [(root / "a").rename(root / "d" / "b"), (root / "h").replace(root / "a")]
        seen += [(root / "to-d" / ".." / "l").resolve(), (root / "to-d" / "b").resolve(), (root / "none" / "x").resolve()]
        seen.append(outcome(lambda _: (root / "none").resolve(strict=True), None))
        (root / "a").chmod(0o600)
        seen.append(oct((root / "a").stat().st_mode))
        return seen

    if not hasattr(pathlib.Path, "hardlink_to"):
        pytest.skip("Python before 3.10 has no hardlink_to to compare with")
    same(act)


@pytest.mark.parametrize(
    "pattern", ["*", "*.txt", "a/*", "**/*.txt", "*/*/*", "**/d", "[ab]", "?", "none/*", "a/b/c.txt", ".*", "a/../a/*"]
)
def test_patterns_find_what_pathlib_finds(same, pattern):
    def act(root):
        for path in ("a/b/c.txt", "a/x.txt", "top.txt", ".hidden", "b/d/e.txt"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        return sorted(str(path).rpartition("disk")[2].lstrip("/") for path in root.glob(pattern))

    same(act)


def test_rglob_and_walk(same):
    def act(root):
        for path in ("a/b/c.txt", "a/x.txt"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        found = sorted(path.name for path in root.rglob("*.txt"))
        if not hasattr(pathlib.Path, "walk"):  # before Python 3.12
            return found
        return found, [(path.name, dirs, names) for path, dirs, names in (root / "a").walk()]

    same(act)


def test_a_path_in_a_snapshot_is_read_and_not_changed(vault):
    vault.write_text("/a", "then")
    with vault.snapshot() as state:
        vault.write_text("/a", "now")
        path = state.path("/a")
        assert path.read_text() == "then" and vault.path("/a").read_text() == "now"
        for change in (path.unlink, lambda: path.write_text("x"), lambda: path.open("w"), lambda: path.mkdir()):
            with pytest.raises(OSError) as error:
                change()
            assert error.value.errno == 30


#: What the methods below take beside paths.
GIVEN = {
    "attribute": "user.x",
    "before": "t:none",
    "data": b"x",
    "gid": 1,
    "keep": "both",
    "length": 0,
    "mode": 0o600,
    "ns": (0, 0),
    "offset": 0,
    "selector": "t:none",
    "text": "x",
    "uid": 1,
    "value": b"x",
}


def calls_with(owner, path, **given):
    """Each public method of ``owner``, once for each of its parameters that is a path: ``path`` for that one, ``/a`` for the others."""
    for name, method in inspect.getmembers(owner, inspect.ismethod):
        parameters = inspect.signature(method).parameters.values()
        paths = [one.name for one in parameters if "AnyPath" in str(one.annotation) and one.kind != one.VAR_POSITIONAL]
        for wrong in paths if not name.startswith("_") else ():
            arguments = {one.name: {**GIVEN, **given}.get(one.name, "/a") for one in parameters if one.default is one.empty}
            yield f"{name}({wrong})", method, {**arguments, wrong: path}


def is_refused(method, arguments):
    with pytest.raises(ValueError, match="another vault or snapshot"):
        result = method(**arguments)
        if inspect.isgenerator(result):
            next(result)


def test_a_path_of_another_vault_or_snapshot_is_refused(vault, tmp_path):
    """Goal: no call reads or changes in one vault what is meant in another. Method: reflection lists the calls that take a path."""
    vault.write_bytes("/a", b"mine")
    with strongroom.Vault.create(tmp_path / "other", remember=False) as other, vault.snapshot() as then:
        other.write_bytes("/a", b"theirs")
        count = 0
        transaction = vault.transaction()
        with vault.unnamed_file() as file:
            for owner, path in (
                (vault, other.path("/a")),
                (vault, then.path("/a")),
                (then, vault.path("/a")),
                (transaction, other.path("/a")),
            ):
                for _, method, arguments in calls_with(owner, path, file=file):
                    is_refused(method, arguments)
                    count += 1
        transaction.rollback()
        assert count > 120
        mine, theirs = vault.path("/a"), other.path("/a")
        for refused in (
            lambda: vault.path(theirs),
            lambda: mine / theirs,
            lambda: mine.relative_to(theirs),
            lambda: mine.samefile(theirs),
            lambda: mine.rename(theirs),
            lambda: mine.symlink_to(theirs),
        ):
            is_refused(refused, {})
        assert not mine.is_relative_to(theirs) and mine.is_relative_to(vault.path("/"))
        assert vault.read_bytes(str(theirs)) == b"mine", "the same path may be meant"
        for one, content in ((vault, b"mine"), (other, b"theirs")):
            assert one.listdir() == ["a"] and one.read_bytes("/a") == content
