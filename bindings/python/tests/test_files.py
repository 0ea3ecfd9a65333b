"""Files of a vault behave as Python's own: the same program runs on the disk and on a vault, and every outcome is compared."""

import builtins
import io
import os

import pytest

import strongroom


@pytest.fixture
def vault(empty_vault):
    return empty_vault


class Both:
    """Opens a file on the disk and in a vault, and does the same with both."""

    def __init__(self, disk, vault):
        self.disk = disk
        self.vault = vault

    def same(self, act):
        """What ``act(open)`` came to, which is the same twice; ``open`` takes a path below the root."""

        def on_disk(path, *args, **options):
            if options.get("encoding") is None and "b" not in (args[0] if args else "r"):
                options["encoding"] = "utf-8"
            return builtins.open(self.disk / path.lstrip("/"), *args, **options)

        expected, found = outcome(act, on_disk), outcome(act, self.vault.open)
        assert found == expected
        return found


def outcome(act, opener):
    """What a program gives, or the kind of its exception."""
    try:
        return "gave", act(opener)
    except OSError as error:
        kind = io.UnsupportedOperation if isinstance(error, io.UnsupportedOperation) else type(error)
        return "raised", kind.__name__, error.errno
    except Exception as error:
        return "raised", type(error).__name__


@pytest.fixture
def both(disk, vault):
    return Both(disk, vault)


TEXT = "first line\nsecond line\r\nthird, with ü and 漢\n" * 3
MODES = ["r", "w", "a", "x", "r+", "w+", "a+", "x+"]


@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
@pytest.mark.parametrize("kind", ["", "b"], ids=["text", "binary"])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_reads_writes_and_refuses_as_on_the_disk(both, mode, kind, there):
    data = TEXT if kind == "" else TEXT.encode()

    def act(opener):
        if there:
            with opener("/file", "w" + kind) as file:
                file.write(data)
        seen = []
        with opener("/file", mode + kind) as file:
            seen.append((file.tell(), file.readable(), file.writable(), file.seekable()))
            for step in (
                lambda: file.read(7),
                lambda: file.write(data[:5]),
                lambda: file.tell() if kind else None,
                lambda: file.seek(3),
                lambda: file.readline(),
                lambda: file.seek(0, 2),
                lambda: file.write(data),
                lambda: file.seek(0),
                lambda: file.read(),
                lambda: file.truncate(9),
            ):
                seen.append(outcome(lambda _, step=step: step(), None))
        with opener("/file", "rb") as file:
            seen.append(file.read())
        return seen

    both.same(act)


@pytest.mark.parametrize(
    "mode", ["", "rw", "rr", "b", "t", "+", "r++", "rbt", "U", "rU", "wa", "z", "br", "bw+", "tr", "+r", "+bw"]
)
def test_a_mode_that_is_none_is_refused_and_letters_come_in_any_order(both, mode):
    def act(opener):
        opener("/file", "w").close()
        with opener("/file", mode) as file:
            return file.readable(), file.writable()

    both.same(act)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "rb", "encoding": "utf-8"},
        {"mode": "rb", "errors": "strict"},
        {"mode": "rb", "newline": ""},
        {"mode": "r", "buffering": 0},
        {"mode": "r", "newline": "x"},
        {"mode": "r", "encoding": "no-such-encoding"},
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(both, options):
    options = dict(options)
    mode = options.pop("mode")

    def act(opener):
        opener("/file", "w").close()
        opener("/file", mode, **options).close()

    kind = both.same(act)
    assert kind[0] == "raised"


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"], ids=repr)
def test_ends_of_lines_are_translated_as_on_the_disk(both, newline):
    def act(opener):
        with opener("/file", "w", newline=newline) as file:
            file.write(TEXT)
        with opener("/file", "rb") as file:
            raw = file.read()
        with opener("/file", "r", newline=newline) as file:
            return raw, list(file)

    both.same(act)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1", "ascii"])
@pytest.mark.parametrize("errors", ["strict", "ignore", "backslashreplace"])
def test_encodings_and_their_errors_are_those_of_the_disk(both, encoding, errors):
    def act(opener):
        with opener("/file", "w", encoding=encoding, errors=errors) as file:
            file.write(TEXT)
        with opener("/file", "r", encoding=encoding, errors=errors) as file:
            return file.read()

    both.same(act)


def test_text_is_utf_8_unless_something_else_is_asked_for(vault):
    with vault.open("/file", "w") as file:
        assert file.encoding == "utf-8"
        file.write("ü")
    assert vault.read_bytes("/file") == "ü".encode()


@pytest.mark.parametrize("buffering", [-1, 0, 2, 16, 4096])
def test_the_kinds_of_objects_are_those_of_the_disk(both, buffering):
    def act(opener):
        kinds = []
        for mode in ("wb", "rb", "r+b", "ab"):
            with opener("/file", mode, buffering) as file:
                kinds.append("raw" if isinstance(file, io.RawIOBase) else type(file).__name__)
                kinds.append(file.mode)
                file.seek(0)
        return kinds

    both.same(act)


def test_line_buffering_writes_each_line_at_its_end(both):
    def act(opener):
        with opener("/file", "w", 1) as file, opener("/file", "rb") as reader:
            file.write("half")
            before = reader.read()
            file.write(" line\nmore")
            return before, reader.read()

    both.same(act)


def test_seeks_and_positions_are_those_of_the_disk(both):
    def act(opener):
        seen = []
        with opener("/file", "w+b", 0) as file:
            file.write(b"0123456789")
            for offset, whence in [(3, 0), (-2, 1), (-4, 2), (5, 2), (-1, 0), (-100, 1), (-100, 2), (2, 9), (1, 0)]:
                seen.append(outcome(lambda _, o=offset, w=whence: file.seek(o, w), None))
                seen.append(file.tell())
            seen.append(file.read(4))
            file.seek(20)
            file.write(b"far")
            file.seek(0)
            seen.append(file.read())
        return seen

    both.same(act)


@pytest.mark.parametrize(
    "size", [0, 3, 10, 100, -1, None, 2**63 - 1, 2**70, "x", 1.5], ids=str
)
def test_truncation_is_that_of_the_disk(both, size):
    def act(opener):
        with opener("/file", "w+b", 0) as file:
            file.write(b"0123456789")
            file.seek(4)
            given = outcome(lambda _: file.truncate(size), None)
            file.seek(0)
            return given, file.read(50)

    if size == 2**63 - 1:
        # How large a file may be, each file system says for itself.
        assert outcome(act, both.vault.open)[1][0][2] == 27  # EFBIG
        return
    both.same(act)


def test_readinto_fills_what_is_given(both):
    def act(opener):
        with opener("/file", "wb") as file:
            file.write(bytes(range(100)))
        seen = []
        for buffering in (0, -1):
            with opener("/file", "rb", buffering) as file:
                small, large = bytearray(10), bytearray(200)
                seen += [file.readinto(small), small, file.readinto(large), large, file.readinto(bytearray(5))]
                seen.append(outcome(lambda _: file.readinto(b"immutable"), None))
                file.seek(0)
                import array

                words = array.array("H", [0] * 8)
                seen += [file.readinto(words), words.tobytes()]
        return seen

    both.same(act)


def test_everything_that_holds_bytes_is_written(both):
    import array

    def act(opener):
        seen = []
        for buffering in (0, -1):
            with opener("/file", "w+b", buffering) as file:
                for data in (b"a", bytearray(b"b"), memoryview(b"cde")[::1], array.array("H", [1, 2])):
                    seen.append(file.write(data))
                for data in ("text", 5, None):
                    seen.append(outcome(lambda _, data=data: file.write(data), None))
                file.seek(0)
                seen.append(file.read())
        return seen

    both.same(act)


def test_a_file_larger_than_a_transfer_comes_back_whole(vault):
    content = os.urandom(1 << 20) * 3 + b"rest"
    with vault.open("/file", "wb") as file:
        assert file.write(content) == len(content)
    with vault.open("/file", "rb") as file:
        assert file.read() == content
    with vault.open("/file", "rb", 0) as file:
        assert file.readall() == content
        file.seek(0)
        assert len(file.read(1 << 22)) == 1 << 20, "one transfer"
        assert file.pread(len(content) + 5, 0) == content
        target = bytearray(len(content))
    with vault.open("/file", "rb") as file:
        assert file.readinto(target) == len(content) and target == content
    with vault.open("/file", "wb", 0) as file:
        assert file.write(bytearray(content)) == 1 << 20, "one transfer"


def test_lines_and_iteration_are_those_of_the_disk(both):
    def act(opener):
        with opener("/file", "w") as file:
            file.writelines(["one\n", "two\n", "three"])
        with opener("/file", "r") as file:
            first = file.readline()
            rest = list(file)
        with opener("/file", "rb") as file:
            return first, rest, file.readlines(), outcome(lambda _: next(file), None)

    both.same(act)


@pytest.mark.parametrize("mode", ["r", "w", "rb", "wb", "r+b", "rb0"])
def test_a_closed_file_is_closed_as_on_the_disk(both, mode):
    buffering = 0 if mode.endswith("0") else -1
    mode = mode.rstrip("0")

    def act(opener):
        opener("/file", "w").close()
        file = opener("/file", mode, buffering)
        file.close()
        file.close()
        calls = ["read", "readline", "tell", "flush", "readable", "writable", "seekable", "isatty", "fileno", "truncate"]
        seen = [outcome(lambda _, call=call: getattr(file, call)(), None) for call in calls]
        seen.append(outcome(lambda _: file.write("x" if "b" not in mode else b"x"), None))
        seen.append(outcome(lambda _: file.seek(0), None))
        seen.append(outcome(lambda _: file.__enter__(), None))
        seen.append(outcome(lambda _: next(file), None))
        return file.closed, [one if one[1] != "UnsupportedOperation" else ("raised", "ValueError") for one in seen]

    both.same(act)


@pytest.mark.parametrize("path", ["/none/file", "/file/below", "/directory", "/n" * 200 + "/" + "n" * 256])
@pytest.mark.parametrize("mode", ["r", "w", "x", "a"])
def test_paths_that_lead_nowhere_fail_as_on_the_disk(both, path, mode):
    (both.disk / "directory").mkdir()
    both.vault.mkdir("/directory")

    def act(opener):
        opener("/file", "w").close()
        opener(path, mode).close()

    kind = both.same(act)
    assert kind[0] == "raised"


def test_an_error_names_the_file_and_the_reason(vault):
    with pytest.raises(FileNotFoundError) as error:
        vault.open("/none")
    assert error.value.filename == "/none" and error.value.errno == 2
    vault.mkdir("/d")
    with pytest.raises(FileExistsError) as error:
        vault.mkdir("/d")
    assert "/d" in str(error.value)
    vault.write_bytes("/a", b"")
    with pytest.raises(NotADirectoryError) as error:
        vault.rename("/a", "/b/")
    assert (error.value.filename, error.value.filename2) == ("/a", "/b/")


def test_exclusive_creation_makes_a_file_once(both):
    def act(opener):
        opener("/file", "x").close()
        opener("/file", "x").close()

    assert both.same(act) == ("raised", "FileExistsError", 17)


def test_appending_files_do_not_overwrite_one_another(both):
    def act(opener):
        with opener("/file", "ab", 0) as one, opener("/file", "ab", 0) as other:
            for count in range(3):
                one.write(b"1%d" % count)
                other.write(b"2%d" % count)
        with opener("/file", "rb") as file:
            return file.read()

    both.same(act)


def test_a_file_has_no_descriptor_and_says_so(vault):
    with vault.open("/file", "w") as file, pytest.raises(io.UnsupportedOperation, match="descriptor"):
        file.fileno()


def test_standard_library_formats_work_on_files_of_a_vault(vault):
    import csv
    import gzip
    import json
    import pickle
    import shutil
    import sqlite3
    import tarfile
    import zipfile

    with vault.open("/a.json", "w") as file:
        json.dump({"ü": [1, 2]}, file)
    with vault.open("/a.json") as file:
        assert json.load(file) == {"ü": [1, 2]}
    with vault.open("/a.csv", "w", newline="") as file:
        csv.writer(file).writerows([["x", "a\nb"], [1, 2]])
    with vault.open("/a.csv", newline="") as file:
        assert list(csv.reader(file)) == [["x", "a\nb"], ["1", "2"]]
    with vault.open("/a.pickle", "wb") as file:
        pickle.dump({1, 2}, file)
    with vault.open("/a.pickle", "rb") as file:
        assert pickle.load(file) == {1, 2}
    with vault.open("/a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inside", "content")
    with vault.open("/a.zip", "r+b") as file, zipfile.ZipFile(file, "a") as archive:
        archive.writestr("second", "more")
    with vault.open("/a.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inside") == b"content" and archive.read("second") == b"more"
    with vault.open("/a.tar", "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        archive.add(__file__, "this")
    with vault.open("/a.tar", "rb") as file, tarfile.open(fileobj=file) as archive:
        assert archive.getnames() == ["this"]
    with vault.open("/a.gz", "wb") as file, gzip.open(file, "wt") as text:
        text.write("zipped")
    with vault.open("/a.gz", "rb") as file, gzip.open(file, "rt") as text:
        assert text.read() == "zipped"
    with vault.open("/a.gz", "rb") as source, vault.open("/copy.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    assert vault.read_bytes("/copy.gz") == vault.read_bytes("/a.gz")
    with pytest.raises(TypeError):
        sqlite3.connect(vault.path("/a.db"))  # a path of a vault is not taken for one of the disk


def test_the_builtin_open_refuses_a_path_of_a_vault(vault):
    with pytest.raises(TypeError):
        builtins.open(vault.path("/secret"), "w")


def test_an_open_file_cannot_be_pickled(vault):
    import pickle

    with vault.open("/file", "wb", 0) as file, pytest.raises(TypeError, match="pickled"):
        pickle.dumps(file)
    with pytest.raises(TypeError, match="folder"):
        pickle.dumps(vault)


def test_an_unnamed_file_gets_a_name_or_goes(vault):
    with vault.unnamed_file("/") as file:
        file.write(b"draft")
        assert vault.listdir() == []
        vault.name_file(file, "/named")
    with vault.unnamed_file("/") as file:
        file.write(b"gone")
    assert vault.listdir() == ["named"] and vault.read_bytes("/named") == b"draft"
    with vault.open("/named", "r+") as text:
        vault.name_file(text, "/further")
    assert vault.stat("/named").st_nlink == 2
    with pytest.raises(TypeError):
        vault.name_file(io.BytesIO(), "/x")


def test_locks_hold_between_open_files(vault):
    with vault.open("/lock", "wb", 0) as one, vault.open("/lock", "r+b") as other:
        one.lock()
        with pytest.raises(strongroom.LockedError) as error:
            other.raw.lock(blocking=False)
        assert isinstance(error.value, BlockingIOError) and error.value.errno == 11
        one.unlock()
        other.raw.lock(shared=True)


def test_what_cannot_be_written_empties_no_file(vault):
    vault.write_bytes("/a", b"kept")
    for write, wrong in (
        (vault.write_bytes, "text"),
        (vault.write_bytes, 5),
        (vault.write_text, b"bytes"),
        (vault.write_text, None),
    ):
        with pytest.raises(TypeError):
            write("/a", wrong)
        assert vault.read_bytes("/a") == b"kept"
