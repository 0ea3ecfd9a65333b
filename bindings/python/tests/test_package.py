"""The package agrees with its documents and types."""

import ast
import dataclasses
import importlib.metadata
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import strongroom
from strongroom import _errors, _native

TOP = pathlib.Path(__file__).parents[1]
README = (TOP / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_readme_runs(tmp_path):
    """One program of all blocks, in their order, as a reader would type them. Those in `sh` are run by `readme_commands.py`."""
    languages = set(re.findall(r"^```(\w+)$", README, re.MULTILINE))
    assert languages == {"python", "sh"} and README.count("```") == 2 * len(blocks("python") + blocks("sh"))
    python = blocks("python")
    assert len(python) > 8
    program = tmp_path / "readme.py"
    program.write_text("\n".join(python))
    ended = subprocess.run([sys.executable, "-X", "dev", str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr, ended.stderr


def test_the_readme_names_functions_that_are_there():
    section = README.split("The functions of `os` that are there: ")[1].split("A path is text")[0]
    names = re.findall(r"`(\w+)`", section)
    assert len(names) > 20
    assert [name for name in names if name != "os" and not hasattr(strongroom.Vault, name)] == []


def test_the_readme_lists_all_exceptions():
    table = README.split("| Exception |")[1].split("\n\n")[0]
    listed = set(re.findall(r"`(\w+Error)`", table))
    assert listed == set(_errors.__all__)


def test_every_exception_is_an_oserror_that_is_exported():
    for name in _errors.__all__:
        exception = getattr(strongroom, name)
        assert issubclass(exception, OSError) and exception.__doc__
        made = _errors.make(name, 5, "why", [b"/a\xff", b"/b"])
        assert type(made) is exception and made.errno == 5 and made.filename == "/a\udcff" and made.filename2 == "/b"
    assert type(_errors.make("OSError", 2, "why", [])) is FileNotFoundError
    assert type(_errors.make("anything else", 13, "why", [])) is PermissionError


def test_everything_that_is_exported_has_a_docstring_and_is_there():
    assert len(set(strongroom.__all__)) == len(strongroom.__all__) > 30
    missing = []
    for name in strongroom.__all__:
        value = getattr(strongroom, name)
        if not inspect.getdoc(value):
            missing.append(name)
        if inspect.isclass(value):
            for member, found in vars(value).items():
                is_public = not member.startswith("_") and (inspect.isfunction(found) or isinstance(found, property))
                if is_public and not (found.__doc__ or "").strip():
                    missing.append(f"{name}.{member}")
    assert missing == []


def stub():
    tree = ast.parse((TOP / "strongroom" / "_native.pyi").read_text())
    return [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]


def names_of(arguments):
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in every if argument.arg != "self"]


def signature_of(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_types_of_the_native_module_are_those_that_it_has():
    public = {name for name in dir(_native) if not name.startswith("_")}
    assert public == {node.name for node in stub() if not node.name.startswith("_")}
    for node in stub():
        value = getattr(_native, node.name)
        assert value.__doc__, node.name
        if isinstance(node, ast.FunctionDef):
            assert signature_of(value) == names_of(node.args), node.name
            continue
        members = {name for name in vars(value) if not name.startswith("_")}
        assert members == {member.name for member in node.body}, node.name
        for member in node.body:
            found = getattr(value, member.name)
            assert found.__doc__, f"{node.name}.{member.name}"
            if callable(found):
                assert signature_of(found) == names_of(member.args), f"{node.name}.{member.name}"


def test_the_package_is_typed_and_has_its_version():
    assert (pathlib.Path(strongroom.__file__).parent / "py.typed").exists()
    workspace = (TOP.parents[1] / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.*?)"', workspace, re.MULTILINE).group(1)
    assert strongroom.__version__ == version == importlib.metadata.version("strongroom")


def test_reports_are_values(vault):
    information = vault.information()
    assert dataclasses.is_dataclass(information) and information.read_only is False
    with pytest.raises(dataclasses.FrozenInstanceError):
        information.epoch = 5
    assert information.suite == "AES-256-GCM and BLAKE3"


def test_what_the_answer_of_a_listener_raises_comes_out(vault):
    class Odd:
        def __bool__(self):
            raise ZeroDivisionError

    vault.write_bytes("/a", b"x" * 100_000)
    vault.sync()
    with pytest.raises(ZeroDivisionError):
        vault.verify(progress=lambda done, total: Odd())
