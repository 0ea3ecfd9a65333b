#!/usr/bin/env bash
# The Python package. test: the tests of `make test`. long: tests with pandas, pyarrow, zarr and DuckDB, of types, and of the wheel
# installed as its README says. wheel: builds the wheel in target/wheels.
# PYTHON chooses the interpreter; BINDINGS=c leaves Python out.
# A first run downloads the packages of requirements-test.txt, the first run of long those of requirements-long.txt too.
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:?test, long or wheel}"

case ",${BINDINGS:-c,python,java}," in
*,python,*) ;;
*)
    echo "bindings: python is not in BINDINGS=$BINDINGS, and is left out"
    exit 0
    ;;
esac

python="${PYTHON:-python3}"
if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "bindings: the Python package needs $python 3.9 or later with venv: apt-get install python3 python3-venv," >&2
    echo "          or set PYTHON to another one, or BINDINGS=c to leave Python out" >&2
    exit 1
fi

# An environment for each interpreter and list of packages; one that is there already needs no network.
prepare() { # requirements...
    local key
    key="$("$python" -VV | cat - "$@" | sha256sum | cut -c1-12)"
    venv="target/python/$key"
    if [ ! -e "$venv/ready" ]; then
        rm -rf "$venv"
        "$python" -m venv "$venv"
        local list=()
        for file in "$@"; do list+=(-r "$file"); done
        "$venv/bin/pip" install --quiet --disable-pip-version-check "${list[@]}" ||
            { echo "bindings: the packages of $* could not be installed; see above, or set BINDINGS=c to leave Python out" >&2; exit 1; }
        touch "$venv/ready"
    fi
}

# What a program notes of vaults that it saw, and where it finds their owners, is not that of the user.
apart() {
    mkdir -p target/user/{cache,config,state}
    XDG_CACHE_HOME="$PWD/target/user/cache" XDG_CONFIG_HOME="$PWD/target/user/config" XDG_STATE_HOME="$PWD/target/user/state" "$@"
}

# Into the environment, out of what `cargo test` of the workspace built, and with what only tests call.
develop() {
    VIRTUAL_ENV="$PWD/$venv" "$venv/bin/maturin" develop --quiet --locked --features as-in-workspace,panic-test --manifest-path bindings/python/Cargo.toml
}

folder=bindings/python
case "$what" in
test)
    prepare "$folder/requirements-test.txt"
    develop
    apart "$venv/bin/python" -m pytest -q -c "$folder/pyproject.toml" "$folder/tests"
    ;;
long)
    prepare "$folder/requirements-test.txt" "$folder/requirements-long.txt"
    develop
    apart "$venv/bin/python" -m pytest -q -c "$folder/pyproject.toml" "$folder/tests_long"
    "$venv/bin/mypy" --config-file "$folder/pyproject.toml" "$folder/strongroom"
    "$0" wheel
    # The README, by a new user: its commands, one after the other.
    place="$(mktemp -d)"
    trap 'rm -rf "$place"' EXIT
    "$python" "$folder/tests_long/readme_commands.py" "$place"
    ;;
wheel)
    prepare "$folder/requirements-test.txt"
    VIRTUAL_ENV="$PWD/$venv" "$venv/bin/maturin" build --release --strip --locked --out target/wheels --manifest-path "$folder/Cargo.toml"
    ;;
*)
    echo "test, long or wheel, not $what" >&2
    exit 1
    ;;
esac
