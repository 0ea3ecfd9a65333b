"""The package behaves as the conformance table of all languages says."""

import errno
import pathlib

import pytest

import table

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

TABLE = tomllib.loads((pathlib.Path(__file__).parents[2] / "conformance.toml").read_text())
CASES = TABLE["case"]
#: The least that the table must hold, so that it does not get empty unnoticed.
CASES_MIN = 250


def test_the_table_is_the_one_that_is_known():
    assert TABLE["format"] == 1
    skipped = sum("python" in case.get("skip", {}) for case in CASES)
    print(f"{len(CASES) - skipped} of {len(CASES)} cases")
    assert len(CASES) >= CASES_MIN
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_case(case, request, tmp_path):
    if "python" in case.get("skip", {}):
        pytest.skip(case["skip"]["python"])
    main = request.getfixturevalue("empty_vault") if case.get("begin", "vault") == "vault" else None
    machine = table.Machine(main, tmp_path, TABLE["key_files"])
    try:
        for index, step in enumerate(case["steps"]):
            where = f"step {index}, {step['op']}"
            try:
                given = machine.step(step)
            except Exception as error:
                found = table.number(error)
                if "errno" not in step or found != getattr(errno, step["errno"]):
                    name = errno.errorcode.get(found, found)
                    raise AssertionError(f"{where}: {name} instead of {step.get('errno', 'success')}") from error
                continue
            assert "errno" not in step, f"{where}: success instead of {step['errno']}"
            if "is" in step:
                assert machine.is_right(step, given), f"{where}: {given!r} instead of {step['is']!r}"
    finally:
        machine.end()
