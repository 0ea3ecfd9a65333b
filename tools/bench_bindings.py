#!/usr/bin/env python3
"""Measures what the libraries for C, Python and Java cost, beside Rust and beside each language's own files.

    tools/bench_bindings.py [--quick] [--only PART,…] [--rounds N] [--mib N] [--files N] [--memory FOLDER] [--json] [--into FOLDER]

    calls    reads of 4 KiB and 1 MiB, and `stat`, over and over: on a vault and on the plain file system
    large    one file of 1 GiB, read whole (Rust, Python) and in pieces of 1 MiB (Rust, C, Java)
    files    10,000 files of 5,000 bytes written, read and removed: on a vault and on the plain file system
    size     the C library, stripped

The libraries are built by `make bindings`, for release, and used as a user installs them: C from a prefix, Python from a wheel in an
environment of its own, Java from the jar. The programs that measure are in tools/bindings. They run in turns, round by round, every second
round backwards, each on a vault of its own beside those of the others. Bounds, of the median of all rounds:

    C, a call              (C on a vault) / (Rust on a vault): at most 1.05
    Python, Java, a call   (Java on a vault − Rust on a vault) − (Java on plain files − Rust on plain files): at most 1 µs
    Python, 1 GiB          speed of `open().read()` against Rust that reads it into memory at once: at least 0.9
    Java, 1 GiB            speed of `FileChannel` against Rust that reads it in pieces: at least 0.9
    C, size                at most 15 MB

`calls` works in memory, in a folder below /dev/shm unless --memory names another one: a vault reads past the kernel's cache, so that on a
disk most of the time of a call would be the disk's. The other parts work below target/. BINDINGS=c,python leaves Java out.

--quick does little work; its figures are for a look. --into writes README.md and figures.json into FOLDER; --json prints the figures. Exits
with 1 if a bound is missed or a byte is wrong.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scale import machine

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tools/bindings"
NAMES = {"rust": "Rust", "c": "C", "python": "Python", "java": "Java"}
KINDS = {"vault": "vault", "plain": "plain files"}
CALLS = {"read_4k": "4 KiB read", "read_1m": "1 MiB read", "stat": "`stat`"}
# Shown, without a bound.
DIRECT = {"read_4k_direct": "4 KiB read, direct buffer", "read_1m_direct": "1 MiB read, direct buffer"}
WAYS = {"whole": ["rust", "python"], "pieces": ["rust", "c", "java"]}
DONE = ("written", "read", "removed")
MIB, GIB = 1 << 20, 1 << 30
# What measure.rs reads in `calls`.
CALLS_FILE_BYTES = 16 * MIB
MEMORY_GIB = 1
FILES_GIB = 2

C_RATIO_MAX = 1.05
EXTRA_US_MAX = 1.0
SPEED_RATIO_MIN = 0.9
C_LIBRARY_MB_MAX = 15

# What would build other libraries than a release has, or build them elsewhere.
UNWANTED = ("BUILT", "DESTDIR", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")


def note(text):
    print(text, file=sys.stderr, flush=True)


# Building.


class Builder:
    """Builds and installs everything into `place`, and knows how each program is started."""

    def __init__(self, place, languages):
        self.place, self.languages = place, languages
        self.commands = {}
        kept = {name: value for name, value in os.environ.items() if name not in UNWANTED and not name.startswith("CARGO_PROFILE_")}
        kept["PATH"] = f"{ROOT}/.tools/bin:{Path.home()}/.cargo/bin:{kept['PATH']}"
        self.environment = kept

    def call(self, *command, **more):
        """Shows what the command says where progress is shown."""
        done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=sys.stderr, env={**self.environment, **more})
        if done.returncode != 0:
            sys.exit(f"bench_bindings: {command[0]} failed, see above")

    def said(self, *command, **more):
        done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**self.environment, **more})
        if done.returncode != 0:
            sys.exit(f"bench_bindings: {command[0]} failed, see above")
        return done.stdout.strip()

    def tool(self, name):
        """A program of the JDK that the bindings are built with."""
        home = self.environment.get("JAVA_HOME")
        return f"{home}/bin/{name}" if home else name

    @property
    def cc(self):
        return self.environment.get("CC") or "cc"

    @property
    def c_library(self):
        return (self.place / "prefix/lib/libstrongroom.so").resolve()

    def wheel(self):
        wheels = (ROOT / "target/wheels").glob("strongroom-*.whl")
        return max(wheels, key=lambda path: path.stat().st_mtime)

    def jar(self):
        return ROOT / f"target/java/strongroom-{version()}.jar"

    def build(self):
        note("building the libraries and the programs that measure")
        if others := [name for name in self.languages if name != "rust"]:
            self.call("make", "--no-print-directory", "bindings", f"BINDINGS={','.join(others)}", f"PREFIX={self.place}/prefix")
        for language in self.languages:
            getattr(self, language)()

    def rust(self):
        self.call("cargo", "build", "--release", "--locked", "-p", "strongroom-table", "--example", "measure")
        self.commands["rust"] = [ROOT / "target/release/examples/measure"]

    def c(self):
        program, libraries = self.place / "measure", self.place / "prefix/lib"
        flags = shlex.split(self.said("pkg-config", "--cflags", "--libs", "strongroom", PKG_CONFIG_PATH=f"{libraries}/pkgconfig"))
        self.call(*shlex.split(self.cc), "-O2", "-Wall", "-Wextra", "-o", program, SOURCES / "measure.c", *flags, f"-Wl,-rpath,{libraries}")
        self.commands["c"] = [program]

    def python(self):
        environment = self.place / "python"
        self.call(self.environment.get("PYTHON") or "python3", "-m", "venv", environment)
        self.call(environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", self.wheel())
        self.commands["python"] = [environment / "bin/python", "-I", SOURCES / "measure.py"]

    def java(self):
        classes = self.place / "java"
        self.call(self.tool("javac"), "-cp", self.jar(), "-d", classes, SOURCES / "Measure.java")
        self.commands["java"] = [self.tool("java"), "-cp", f"{self.jar()}:{classes}", "Measure"]

    def versions(self):
        compilers = {"rust": ["rustc"], "c": shlex.split(self.cc)}
        asked = (compilers.get(language) or self.commands[language][:1] for language in self.languages)
        return [self.said(*program, "--version").splitlines()[0] for program in asked]

    def sizes_mb(self):
        """Of what a user gets. The library is stripped once more, whatever its build has left in it."""
        stripped = self.place / "stripped.so"
        self.call("strip", "-o", stripped, self.c_library)
        sizes = {"libstrongroom.so, stripped": stripped.stat().st_size}
        if "python" in self.languages:
            sizes["the wheel"] = self.wheel().stat().st_size
        if "java" in self.languages:
            sizes["the jar"] = self.jar().stat().st_size
        return {what: size / 1e6 for what, size in sizes.items()}


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


# Running in turns.


class Programs:
    """Runs the programs that measure."""

    def __init__(self, builder):
        self.commands = builder.commands
        # The providers of ciphers are chosen once, for all programs, and nothing of it is this user's.
        folders = {f"XDG_{kind}_HOME": builder.place / "user" / kind.lower() for kind in ("CACHE", "CONFIG", "STATE")}
        for folder in folders.values():
            folder.mkdir(parents=True)
        self.environment = {**builder.environment, **{name: str(folder) for name, folder in folders.items()}}

    def run(self, language, *words):
        command = [*self.commands[language], *words]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=self.environment)
        if done.returncode != 0:
            sys.exit(f"bench_bindings: the program in {NAMES[language]} failed at {words[2]} on {words[0]}, see above")
        return done.stdout

    def turns(self, name, base, programs, sizes):
        """Nanoseconds of each round by figure, language and kind of place. `programs`: languages, and the part that each does."""
        plain = base / "plain"
        vaults = {language: base / f"{language}-vault" for language, _ in programs}
        try:
            self.run("rust", "plain", plain, "make", sizes["bytes"])
            for vault in vaults.values():
                self.run("rust", "vault", vault, "make", sizes["bytes"])
            found = {}
            for turn in range(sizes["rounds"]):
                note(f"{name}: round {turn + 1} of {sizes['rounds']}")
                for kind in KINDS:
                    for language, part in programs if turn % 2 == 0 else programs[::-1]:
                        folder = vaults[language] if kind == "vault" else plain
                        said = self.run(language, kind, folder, part, sizes["count"], sizes["repeats"])
                        for figure, taken in json.loads(said).items():
                            of_figure = found.setdefault(figure, {}).setdefault(language, {})
                            of_figure.setdefault(kind, []).append(statistics.median(taken))
            return found
        finally:
            for folder in (plain, *vaults.values()):
                shutil.rmtree(folder, ignore_errors=True)


# Bounds.


def judged(what, values, limit, unit, at_most=True):
    measured = statistics.median(values)
    is_met = measured <= limit if at_most else measured >= limit
    return {"what": what, "limit": limit, "at_most": at_most, "unit": unit, "measured": measured, "values": values, "met": is_met}


def ratios(ones, others):
    return [one / other for one, other in zip(ones, others)]


def extra_us(of_figure, language):
    """What a call costs more than in Rust on a vault, less what it costs more on plain files; each round by itself."""
    one, rust = of_figure[language], of_figure["rust"]
    rounds = zip(one["vault"], rust["vault"], one["plain"], rust["plain"])
    return [((vault - rust_vault) - (plain - rust_plain)) / 1000 for vault, rust_vault, plain, rust_plain in rounds]


def bounds_of_calls(found):
    bounds = []
    for figure, name in CALLS.items():
        if "c" in found[figure]:
            times = ratios(found[figure]["c"]["vault"], found[figure]["rust"]["vault"])
            bounds.append(judged(f"C, {name}, against Rust", times, C_RATIO_MAX, "×"))
    for language in ("python", "java"):
        for figure, name in CALLS.items():
            if language in found[figure]:
                what = f"{NAMES[language]}, {name}, beyond its own file call"
                bounds.append(judged(what, extra_us(found[figure], language), EXTRA_US_MAX, " µs"))
    return bounds


def bounds_of_large(found, mib):
    bounds = []
    for figure, language, way in (("whole", "python", "`open().read()`"), ("pieces", "java", "`FileChannel`")):
        if language in found.get(figure, {}):
            speeds = ratios(found[figure]["rust"]["vault"], found[figure][language]["vault"])
            what = f"{NAMES[language]}, {mib:,} MiB by {way}, speed against Rust"
            bounds.append(judged(what, speeds, SPEED_RATIO_MIN, "×", at_most=False))
    return bounds


# Parts: each gives its figures, its bounds and its table.


def calls(programs, languages, place, memory, sizes):
    found = programs.turns("calls", memory, [(language, "calls") for language in languages], sizes)
    rows = []
    for figure, name in {**CALLS, **DIRECT}.items():
        of_figure = found.get(figure, {})
        for kind, where in KINDS.items() if of_figure else ():
            times = [f"{statistics.median(of_figure[language][kind]) / 1000:,.2f}" if language in of_figure else "" for language in languages]
            rows.append([name, where, *times])
    table = section("Calls, µs", ["call", "on", *(NAMES[language] for language in languages)], rows)
    return found, bounds_of_calls(found), table


def large(programs, languages, place, memory, sizes):
    turns = [(language, way) for way, able in WAYS.items() for language in able if language in languages]
    found = programs.turns("large", place, turns, sizes)
    mib = sizes["bytes"] // MIB
    rows = []
    for way, name in (("whole", "at once"), ("pieces", "in pieces of 1 MiB")):
        for language, taken in found[way].items():
            speeds = [f"{mib / (statistics.median(taken[kind]) / 1e9):,.0f}" for kind in KINDS]
            rows.append([name, NAMES[language], *speeds])
    table = section(f"One file of {mib:,} MiB, MiB/s", ["read", "in", *KINDS.values()], rows)
    return found, bounds_of_large(found, mib), table


def files(programs, languages, place, memory, sizes):
    found = programs.turns("files", place, [(language, "files") for language in languages], sizes)
    rows = []
    for done in DONE:
        for language in languages:
            taken = found[done][language]
            seconds = [statistics.median(taken[kind]) / 1e9 for kind in KINDS]
            speed = statistics.median(ratios(taken["plain"], taken["vault"]))
            rows.append([done, NAMES[language], *(f"{sizes['count'] / each:,.0f}" for each in seconds), f"{speed:.2f}×"])
    table = section(f"{sizes['count']:,} files of 5,000 bytes, files a second", ["", "in", *KINDS.values(), "vault against plain"], rows)
    return found, [], table


def size(builder):
    sizes = builder.sizes_mb()
    library = next(iter(sizes.values()))
    bounds = [judged("C, `libstrongroom.so` stripped", [library], C_LIBRARY_MB_MAX, " MB")]
    rows = [[what, f"{size_mb:.1f}"] for what, size_mb in sizes.items()]
    return sizes, bounds, section("Sizes, MB", ["", "MB"], rows)


PARTS = {"calls": calls, "large": large, "files": files, "size": size}


# The report.


def section(title, head, rows):
    border = ["---"] * 2 + ["--:"] * (len(head) - 2)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, border[: len(head)], *rows)]
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def bounds_table(bounds):
    rows = []
    for bound in bounds:
        show = lambda value: f"{value:.2f}{bound['unit']}"
        spread = f"{min(bound['values']):.2f} to {max(bound['values']):.2f}" if len(bound["values"]) > 1 else ""
        limit = f"{'at most' if bound['at_most'] else 'at least'} {bound['limit']:g}{bound['unit']}"
        rows.append([bound["what"], limit, show(bound["measured"]), spread, "yes" if bound["met"] else "**no**"])
    return section("Bounds", ["", "bound", "measured", "least and greatest", "met"], rows)


HOW = """Release builds, each library as a user installs it. The programs ran in turns, each on a vault of its own; figures are medians of the rounds. On plain files each language makes its own
call: `pread` and `stat` in Rust, C and Python; in Java `FileChannel.read`, as on the vault into a buffer on the heap (one outside, a direct one, is shown beside it), and `Files.readAttributes`.
Beyond its own file call: what a call on a vault takes more than in Rust, less what a call on plain files takes more than in Rust. Writing and removing files ends with a sync: of the
vault, or of the plain file system."""


def markdown(report):
    quick = "\n**Quick:** little work; not to be compared with figures of a full run.\n" if report["quick"] else ""
    left_out = "".join(f"\n{NAMES[name]} was left out.\n" for name in report["left_out"])
    parts = [bounds_table(report["bounds"])] if report["bounds"] else []
    parts += report["tables"]
    return f"""# What the bindings cost, {report["day"]}

`tools/bench_bindings.py`; {report["machine"]}; strongroom {report["version"]}; {"; ".join(report["tools"])}. Calls on {report["memory"]}, all else on {report["disk"]}.
{quick}{left_out}
{HOW}

{chr(10).join(parts)}"""


def file_system_of(folder):
    done = subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def save(report, into):
    into.mkdir(parents=True, exist_ok=True)
    (into / "README.md").write_text(markdown(report))
    kept = {name: value for name, value in report.items() if name != "tables"}
    (into / "figures.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


# The run.


def parsed():
    head, _, foot = __doc__.partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=head, epilog=foot, formatter_class=form)
    parser.add_argument("--quick", action="store_true", help="little work, for a look")
    parser.add_argument("--only", metavar="PART,…", type=lambda text: text.split(","), default=list(PARTS), help="these parts")
    parser.add_argument("--rounds", metavar="N", type=int, help="rounds of each part")
    parser.add_argument("--mib", metavar="N", type=int, help="the size of the large file")
    parser.add_argument("--files", metavar="N", type=int, help="how many small files")
    parser.add_argument("--memory", metavar="FOLDER", type=Path, default=Path("/dev/shm"), help="where calls are measured")
    parser.add_argument("--json", action="store_true", help="print the figures")
    parser.add_argument("--into", metavar="FOLDER", type=Path, help="where README.md and figures.json are written")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.only if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if any(number is not None and number < 1 for number in (arguments.rounds, arguments.mib, arguments.files)):
        parser.error("--rounds, --mib and --files are 1 or more")
    return arguments


def sizes_of(arguments):
    quick = arguments.quick
    mib = arguments.mib or (128 if quick else 1024)
    sizes = {
        "calls": {"bytes": CALLS_FILE_BYTES, "count": 2_000 if quick else 10_000, "repeats": 5 if quick else 20, "rounds": 2 if quick else 7},
        "large": {"bytes": mib * MIB, "count": mib * MIB, "repeats": 1 if quick else 2, "rounds": 1 if quick else 5},
        "files": {"bytes": MIB, "count": arguments.files or (1_000 if quick else 10_000), "repeats": 1, "rounds": 1 if quick else 3},
    }
    for each in sizes.values():
        each["rounds"] = arguments.rounds or each["rounds"]
    return sizes


def languages_wanted():
    wanted = (os.environ.get("BINDINGS") or "c,python,java").split(",")
    return ["rust", *(name for name in ("c", "python", "java") if name in wanted)]


def refuse_what_cannot_run(arguments, languages, sizes):
    if "size" in arguments.only and "c" not in languages:
        sys.exit("bench_bindings: `size` is that of the C library, which BINDINGS leaves out: leave `size` out by --only")
    if not arguments.memory.is_dir():
        sys.exit(f"bench_bindings: there is no folder {arguments.memory}: name another one with --memory")
    free = shutil.disk_usage(arguments.memory).free / GIB
    if "calls" in arguments.only and free < MEMORY_GIB:
        sys.exit(f"bench_bindings: {MEMORY_GIB} GiB must be free in {arguments.memory}, and {free:.1f} GiB are: name another folder with --memory")
    wanted = FILES_GIB
    if "large" in arguments.only:
        wanted += 1.1 * (len(languages) + 1) * sizes["large"]["bytes"] / GIB
    free = shutil.disk_usage(ROOT / "target").free / GIB
    if free < wanted:
        sys.exit(f"bench_bindings: {wanted:.1f} GiB must be free on the disk of target/, and {free:.1f} GiB are: free some, or say --mib less")


def main():
    arguments = parsed()
    languages, sizes = languages_wanted(), sizes_of(arguments)
    (ROOT / "target").mkdir(exist_ok=True)
    refuse_what_cannot_run(arguments, languages, sizes)
    # As Ctrl-C does: everything is removed on the way out.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit("bench_bindings: ended by a signal"))
    report = {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "version": version(),
        "quick": arguments.quick,
        "left_out": [name for name in NAMES if name not in languages],
        "memory": file_system_of(arguments.memory),
        "disk": file_system_of(ROOT / "target"),
        "sizes": sizes,
        "figures": {},
        "bounds": [],
        "tables": [],
    }
    own = lambda folder: tempfile.TemporaryDirectory(prefix="bench-bindings.", dir=folder)
    with own(ROOT / "target") as place, own(arguments.memory) as memory:
        builder = Builder(Path(place), languages)
        builder.build()
        report["tools"] = builder.versions()
        programs = Programs(builder)
        for name, part in PARTS.items():
            if name not in arguments.only:
                continue
            done = size(builder) if name == "size" else part(programs, languages, Path(place), Path(memory), sizes[name])
            report["figures"][name], bounds, table = done
            report["bounds"] += bounds
            report["tables"].append(table)
    if arguments.json:
        print(json.dumps({name: value for name, value in report.items() if name != "tables"}, ensure_ascii=False))
    else:
        print(markdown(report), end="")
    if arguments.into:
        save(report, arguments.into)
    if missed := [bound["what"] for bound in report["bounds"] if not bound["met"]]:
        sys.exit(f"bench_bindings: missed: {'; '.join(missed)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("bench_bindings: interrupted")
