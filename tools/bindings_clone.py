#!/usr/bin/env python3
"""Follows the READMEs of the libraries for C, Python and Java line by line in a fresh clone, as a new user does.

    tools/bindings_clone.py

Clones what is committed into a folder below TMPDIR, runs `make bindings` there, and then the commands and programs of each README. The README
of C runs in one shell, with the real `make`, in the clone, and with an empty home directory; those of Python and Java run by the scripts that `make
bindings-test` uses too. It builds everything for release, and downloads what the READMEs say. BINDINGS=c,python leaves a language out.

Exits with 1 if a command fails.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a user does not have, and what would build or install elsewhere than the READMEs say.
UNWANTED = ("BUILT", "DESTDIR", "PREFIX", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")


def run(checkout, environment, *command):
    done = subprocess.run(list(map(str, command)), cwd=checkout, env=environment)
    if done.returncode != 0:
        sys.exit(f"bindings_clone: {command[0]} failed, see above")


def c(checkout, place, environment):
    commands = ["set -euo pipefail"]
    text = (checkout / "bindings/c/README.md").read_text()
    for kind, block in re.findall(r"^```([^\n]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        language, _, name = kind.partition(" ")
        if language == "c":
            (checkout / name).write_text(block)
        else:
            commands.append(block)
    # Rust is where it was.
    home = Path.home()
    kept = {"CARGO_HOME": str(home / ".cargo"), "RUSTUP_HOME": str(home / ".rustup"), **environment}
    kept["PATH"] = f"{kept['CARGO_HOME']}/bin:{kept['PATH']}"
    # As for a user who never had a vault.
    for name in ("STATE", "CONFIG", "CACHE"):
        kept.pop(f"XDG_{name}_HOME")
    kept.update(HOME=str(place), SOURCE=str(checkout))
    run(checkout, kept, "bash", "-c", "\n".join(commands))


def python(checkout, place, environment):
    interpreter = environment.get("PYTHON") or "python3"
    run(checkout, environment, interpreter, checkout / "bindings/python/tests_long/readme_commands.py", place)


def java(checkout, place, environment):
    run(checkout, environment, checkout / "bindings/java/tests_long/readme.sh", place)


READMES = {"c": c, "python": python, "java": java}


def main():
    wanted = (os.environ.get("BINDINGS") or ",".join(READMES)).split(",")
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    with tempfile.TemporaryDirectory(prefix="strongroom-bindings-clone.") as folder:
        place = Path(folder).resolve()
        # What is noted of vaults that were seen is of this run.
        for name in ("STATE", "CONFIG", "CACHE"):
            environment[f"XDG_{name}_HOME"] = str(place / name.lower())
            (place / name.lower()).mkdir()
        checkout = place / "checkout"
        run(ROOT, environment, "git", "clone", "--quiet", ROOT, checkout)
        run(checkout, environment, "make", "bindings", f"PREFIX={place}/prefix")
        for language, follow in READMES.items():
            if language in wanted:
                own = place / language
                own.mkdir()
                follow(checkout, own, environment)
                print(f"bindings_clone: the README of {language} works in a fresh clone", flush=True)


if __name__ == "__main__":
    main()
