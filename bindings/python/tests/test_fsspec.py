"""The file system for fsspec passes fsspec's own suite, and its methods do what their docs say."""

import io
import pickle
import shutil

import fsspec
import pytest
from fsspec.tests import abstract

import strongroom
from strongroom.fsspec import StrongroomFileSystem


@pytest.fixture
def vault(empty_vault):
    return empty_vault


class Fixtures(abstract.AbstractFixtures):
    #: The suite skips some cases by itself where a file system has something not; this one has all of it.
    must_pass = True

    @pytest.fixture
    def fs(self, vault):
        return StrongroomFileSystem(vault=vault, auto_mkdir=True, skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self):
        return "/top"


# Every case of the suite passes; none is left out.
class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


def test_every_part_of_the_suite_is_run():
    """A later version of fsspec may have more."""
    parts = {name for name in vars(abstract) if name.startswith("Abstract") and name.endswith("Tests")}
    run = {base.__name__ for one in (TestCopy, TestGet, TestPut, TestOpen, TestPipe) for base in one.__mro__}
    assert len(parts) >= 5 and parts - run == set()


@pytest.fixture
def fs(vault):
    return StrongroomFileSystem(vault=vault, skip_instance_cache=True)


def test_a_file_is_not_copied_onto_itself(fs, vault):
    """Failed before: the file was empty then. Method: by each of its names."""
    vault.write_bytes("/a", b"content")
    vault.symlink("a", "/symlink")
    vault.link("/a", "/name")
    for source in ("/a", "/symlink", "/name"):
        for target in ("/a", "/symlink", "/name"):
            with pytest.raises(shutil.SameFileError):
                fs.cp_file(source, target)
            assert vault.read_bytes("/a") == b"content"
    vault.write_bytes("/longer", b"longer content")
    fs.cp_file("/a", "/longer")
    assert vault.read_bytes("/longer") == b"content"


def test_it_is_found_by_its_protocol():
    assert fsspec.get_filesystem_class("strongroom") is StrongroomFileSystem


def test_urls_of_all_forms_mean_the_same(fs):
    for url in ("strongroom:///a/b", "strongroom://a/b", "strongroom:/a/b", "/a/b", "a/b", "/a/b/"):
        assert fs._strip_protocol(url) == "/a/b", url
    assert fs._strip_protocol("strongroom://") == "/" and fs._parent("/a") == "/" and fs._parent("/") == "/"
    assert fs.unstrip_protocol("/a") == "strongroom:///a"


def test_files_are_read_and_written(fs, vault):
    fs.pipe("/a", b"0123456789")
    assert fs.cat("/a") == b"0123456789"
    assert fs.cat_file("/a", 2, 5) == b"234" and fs.cat_file("/a", -3) == b"789" and fs.cat_file("/a", 8, 100) == b"89"
    assert fs.cat_file("/a", 5, 2) == b"" and fs.head("/a", 2) == b"01" and fs.tail("/a", 2) == b"89"
    assert fs.cat_ranges(["/a", "/a"], [0, 5], [2, 7]) == [b"01", b"56"]
    with fs.open("/t", "w", encoding="utf-8") as file:
        file.write("ü")
    assert fs.read_text("/t", encoding="utf-8") == "ü" and fs.size("/t") == 2
    with fs.open("/a", "r+b") as file:
        file.seek(3)
        file.write(b"x")
    assert vault.read_bytes("/a") == b"012x456789"
    fs.cp_file("/a", "/b")
    assert vault.read_bytes("/b") == b"012x456789" and fs.checksum("/a") != fs.checksum("/b")
    with pytest.raises(FileNotFoundError):
        fs.cat("/none")
    with pytest.raises(FileNotFoundError):
        fs.open("/none/a", "wb")


def test_directories_and_names(fs, vault):
    fs.mkdir("/d/e")
    fs.makedirs("/d/e", exist_ok=True)
    for call in (lambda: fs.mkdir("/d"), lambda: fs.makedirs("/d")):
        with pytest.raises(FileExistsError):
            call()
    fs.touch("/d/a")
    vault.symlink("a", "/d/l")
    vault.symlink("nowhere", "/d/dangling")
    fs.link("/d/a", "/d/h")
    assert fs.ls("/d", detail=False) == ["/d/a", "/d/dangling", "/d/e", "/d/h", "/d/l"]
    kinds = {info["name"]: (info["type"], info["islink"], info["size"]) for info in fs.ls("/d")}
    assert kinds["/d/e"][0] == "directory" and kinds["/d/l"] == ("file", True, 0)
    assert kinds["/d/dangling"][:2] == ("other", True)
    assert fs.ls("/d/a", detail=False) == ["/d/a"] and fs.isdir("/d") and fs.isfile("/d/l") and fs.islink("/d/l")
    assert not fs.exists("/d/dangling/x") and fs.lexists("/d/dangling")
    assert fs.find("/d") == ["/d/a", "/d/dangling", "/d/h", "/d/l"] and fs.glob("/d/*") == fs.ls("/d", detail=False)
    assert fs.du("/d") == 0 and fs.info("/d/a")["nlink"] == 2
    assert fs.created("/d/a").tzinfo and fs.modified("/d/a") >= fs.created("/d/a")
    fs.mv("/d/a", "/d/e")
    assert fs.exists("/d/e/a")
    fs.mv("/d", "/moved")
    with pytest.raises(OSError):
        fs.rmdir("/moved")
    with pytest.raises(IsADirectoryError):
        fs.rm("/moved")
    fs.rm("/moved/l")
    fs.rm("/moved", recursive=True)
    assert fs.ls("/") == []
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")


def test_a_transaction_shows_its_files_at_its_end(fs, vault):
    vault.write_bytes("/old", b"old")
    with fs.transaction:
        with fs.open("/new", "wb") as file:
            file.write(b"new")
        with fs.open("/old", "ab") as file:
            file.write(b" and new")
        assert not fs.exists("/new") and fs.cat("/old") == b"old"
    assert fs.cat("/new") == b"new" and fs.cat("/old") == b"old and new"
    with pytest.raises(KeyError), fs.transaction:
        with fs.open("/never", "wb") as file:
            file.write(b"x")
        raise KeyError
    assert sorted(vault.listdir()) == ["new", "old"]
    longest = "\u6f22" * 85
    with fs.transaction, fs.open("/" + longest, "wb") as file:
        file.write(b"x")
    assert fs.cat("/" + longest) == b"x"


def test_what_one_transaction_writes_to_a_file_and_appends_to_it_is_all_there(fs, vault):
    vault.write_bytes("/log", b"old")
    with fs.transaction:
        for line in (b" one", b" two", b" three"):
            with fs.open("/log", "ab") as file:
                file.write(line)
        with fs.open("/new", "wb") as file:
            file.write(b"begun")
        with fs.open("/new", "ab") as file:
            file.write(b" and ended")
        assert fs.cat("/log") == b"old"
    assert fs.cat("/log") == b"old one two three" and fs.cat("/new") == b"begun and ended"
    with pytest.raises(KeyError), fs.transaction:
        for _ in range(2):
            with fs.open("/log", "ab") as file:
                file.write(b"x")
        raise KeyError
    assert sorted(vault.listdir()) == ["log", "new"] and fs.cat("/log") == b"old one two three"


def test_a_name_that_looks_like_a_pattern_is_removed_and_nothing_else(fs, vault):
    for name in ("/x[1].csv", "/x1.csv", "/y1.csv", "/y2.csv"):
        vault.write_bytes(name, b"x")
    fs.rm("/x[1].csv")
    assert sorted(vault.listdir()) == ["x1.csv", "y1.csv", "y2.csv"]
    fs.rm(["/y[12].csv"])
    assert vault.listdir() == ["x1.csv"]
    with pytest.raises(FileNotFoundError):
        fs.rm("/z")


def test_what_cannot_be_written_empties_no_file(fs, vault):
    vault.write_bytes("/a", b"kept")
    with pytest.raises(TypeError):
        fs.pipe_file("/a", "text")
    assert fs.cat("/a") == b"kept"


def test_a_folder_is_opened_by_storage_options(tmp_path, monkeypatch):
    folder = str(tmp_path / "v")
    strongroom.Vault.create(folder, passphrase="sesame-7391", remember=False).close()
    monkeypatch.setenv("VAULT_PASSPHRASE", "sesame-7391")
    options = {"folder": folder, "passphrase_env": "VAULT_PASSPHRASE"}
    with fsspec.open("strongroom:///a.txt", "w", **options) as file:
        file.write("x")
    fs = fsspec.filesystem("strongroom", **options)
    assert fs is fsspec.filesystem("strongroom", **options) and fs.cat("/a.txt") == b"x"
    assert fs.fsid.startswith("strongroom-")
    assert "sesame" not in repr(vars(fs)) + fs.to_json() + repr(pickle.dumps(fs))
    assert pickle.loads(pickle.dumps(fs)) is fs
    taken = fs.vault.take_snapshot("x")
    fs.pipe("/a.txt", b"newer")
    old = StrongroomFileSystem(vault=fs.vault, snapshot=taken.id, skip_instance_cache=True)
    assert old.cat("/a.txt") == b"x" and old.fsid == fs.fsid
    with pytest.raises(OSError):
        old.pipe("/a.txt", b"y")
    fs.close()
    again = fsspec.filesystem("strongroom", **options)
    assert again is not fs and again.cat("/a.txt") == b"newer"
    again.close()
    (tmp_path / "pass").write_text("sesame-7391\n")
    by_file = StrongroomFileSystem(folder, passphrase_file=str(tmp_path / "pass"), read_only=True)
    with pytest.raises(OSError):
        by_file.touch("/b")
    by_file.close()


def test_threads_share_one_opening_of_a_vault(tmp_path, key_file):
    from concurrent.futures import ThreadPoolExecutor

    folder = str(tmp_path / "v")
    strongroom.Vault.create(folder, key_file=key_file, remember=False).close()
    made = []

    def work(number):
        fs = fsspec.filesystem("strongroom", folder=folder, key_file=str(key_file))
        made.append(fs)
        fs.pipe(f"/{number}", b"x")
        return id(fs.vault)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(32)))) == 1
    different = {id(fs): fs for fs in made}
    assert len(made[0].ls("/")) == 32
    *others, last = different.values()
    for fs in others:
        fs.close()
    assert not last.vault.closed
    last.close()
    assert last.vault.closed


def test_secrets_themselves_are_refused(tmp_path):
    for name in ("passphrase", "recovery_code"):
        with pytest.raises(TypeError, match="passphrase_env"):
            StrongroomFileSystem(str(tmp_path), skip_instance_cache=True, **{name: "sesame"})
    with pytest.raises(TypeError, match="folder"):
        StrongroomFileSystem(skip_instance_cache=True)
    with pytest.raises(ValueError, match="NOT_SET_ANYWHERE"):
        folder = str(tmp_path / "v")
        strongroom.Vault.create(folder, passphrase="x", remember=False).close()
        StrongroomFileSystem(folder, passphrase_env="NOT_SET_ANYWHERE", skip_instance_cache=True)


def test_files_are_copied_between_a_vault_and_the_disk(fs, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"a" * 300_000)
    (tmp_path / "in" / "b").write_bytes(b"b")
    fs.put(str(tmp_path / "in"), "/", recursive=True)
    fs.get("/in", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "a").read_bytes() == b"a" * 300_000
    target = io.BytesIO()
    fs.get_file("/in/b", target)
    assert target.getvalue() == b"b"
