#!/usr/bin/env python3
"""Measures each figure with a small and a tenfold workload: does the cost per item grow, and does memory stay bounded?

    tools/scale.py [--quick] [--only PART,…] [--into FOLDER]

    file        one file of 1 and of 10 GiB: written, read, read and written at random, read again
    directory   10,000 and 100,000 entries: created, listed, looked up at random, renamed, removed
    open        100 and 1,000 files held open at once, written and read in turn
    clients     6 and 64 processes at once, each with its own files

Prints as Markdown the cost per item of both workloads, their ratio, and the daemon's peak memory with the bound that
docs/guide/performance.md promises. The small workload runs before and after the large one; its figure is the mean of the two. Data that is
read is compared with the data written. Exits with 1 if a byte is wrong or memory is above the bound; times never decide.

--quick runs a tenth. --into writes README.md and figures.json into FOLDER. Needs root, to drop the kernel's caches, and for `file`
12 GiB on the disk of target/. For a directory of 1,000,000 files use tools/million.py.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill import BINARY, ROOT, Vault, run

MIB = 1 << 20
PAGE = 4096
SMALL_FILE_BYTES = 5000
FILE_PART_GIB = 12
OTHER_PARTS_GIB = 2
PATIENCE_S = 60


class Wrong(Exception):
    """What was read is not what was written."""


class Clock:
    """Adds up the time of calls. Making and comparing content stays outside."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, work, *args):
        start = time.perf_counter()
        result = work(*args)
        self.seconds += time.perf_counter() - start
        return result


# Content is random bytes under stamps: no two pages of a vault are alike, and each can be told again from its numbers.
POOL = random.Random(1).randbytes(4 * MIB)


def stamped(number, version, size):
    start = number * PAGE % (len(POOL) - MIB)
    return struct.pack("<QQ", number, version) + POOL[start + 16 : start + size]


def page_of(number, version=0):
    return stamped(number, version, PAGE)


def mib_of(number, rewritten=()):
    """256 pages; those in `rewritten` in version 1."""
    return b"".join(page_of(page, page in rewritten) for page in range(number * MIB // PAGE, (number + 1) * MIB // PAGE))


def small_file(client, number):
    return stamped(number, client, SMALL_FILE_BYTES)


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what} is not what was written")


@contextlib.contextmanager
def opened(path, flags):
    handle = os.open(path, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def forget(vault):
    """Makes all durable and the kernel's caches empty."""
    run(BINARY, "sync", vault.vault)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


# The parts. Each works on a vault of its own and gives (what, item, items, seconds) for each of its figures.


def one_file(vault, mib, operations):
    path = vault.mount / "file"
    chance = random.Random(2)
    pages = mib * MIB // PAGE
    written = Clock()
    with opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as handle:
        for number in range(mib):
            same(written(os.write, handle, mib_of(number)), MIB, "the length of a write")
        written(os.fsync, handle)
    figures = [("written in sequence, fsync", "MiB", mib, written.seconds)]
    figures.append(("read in sequence, cold", "MiB", mib, read_whole(vault, path, mib)))

    forget(vault)
    read = Clock()
    with opened(path, os.O_RDONLY) as handle:
        for page in chance.sample(range(pages), operations):
            same(read(os.pread, handle, PAGE, page * PAGE), page_of(page), f"page {page}")
    figures.append(("4 KiB read at random, cold", "read", operations, read.seconds))

    rewritten = set(chance.sample(range(pages), operations))
    written = Clock()
    with opened(path, os.O_WRONLY) as handle:
        for page in rewritten:
            same(written(os.pwrite, handle, page_of(page, 1), page * PAGE), PAGE, "the length of a write")
        written(os.fsync, handle)
    figures.append(("4 KiB written at random, fsync", "write", operations, written.seconds))
    seconds = read_whole(vault, path, mib, rewritten)
    figures.append(("read in sequence after that, cold", "MiB", mib, seconds))
    return figures


def read_whole(vault, path, mib, rewritten=()):
    """Seconds of reading, all of it compared."""
    forget(vault)
    clock, buffer = Clock(), bytearray(MIB)
    with opened(path, os.O_RDONLY) as handle:
        for number in range(mib):
            same(clock(os.preadv, handle, [buffer], number * MIB), MIB, "the length of a read")
            same(buffer, mib_of(number, rewritten), f"MiB {number}")
    return clock.seconds


def directory(vault, entries, names):
    folder = vault.mount / "directory"
    folder.mkdir()
    old = [f"file{number:07}" for number in range(entries)]
    new = [f"name{number:07}" for number in range(entries)]
    chance = random.Random(3)
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as base:

        def each(work, over):
            for name in over:
                work(name)
            # Of a directory this covers all that was done before it.
            os.fsync(base)

        def create(name):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=base))

        def stat_all():
            with os.scandir(folder) as found:
                return [(entry.name, entry.stat(follow_symlinks=False).st_size) for entry in found]

        def look_up(over):
            for name in over:
                os.stat(name, dir_fd=base)

        clocks = {}
        clock = clocks.setdefault("created, fsync", Clock())
        clock(each, create, old)
        forget(vault)
        clock = clocks.setdefault("listed with stat, cold", Clock())
        same(sorted(clock(stat_all)), [(name, 0) for name in old], "the list")
        chosen = chance.choices(old, k=names)
        forget(vault)
        found = clocks.setdefault("looked up at random, cold", Clock())
        found(look_up, chosen)
        clock = clocks.setdefault("renamed, fsync", Clock())
        clock(each, lambda name: os.rename(name, f"name{name[4:]}", src_dir_fd=base, dst_dir_fd=base), old)
        forget(vault)
        same(sorted(stat_all()), [(name, 0) for name in new], "the list of the new names")
        clock = clocks.setdefault("removed, fsync", Clock())
        clock(each, lambda name: os.unlink(name, dir_fd=base), new)
        same(stat_all(), [], "the list of none")
    return [(what, "entry", names if clock is found else entries, clock.seconds) for what, clock in clocks.items()]


def open_files(vault, files, rounds):
    written, synced, read = Clock(), Clock(), Clock()
    with contextlib.ExitStack() as stack:
        opening = lambda number: opened(vault.mount / f"open{number}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        handles = [stack.enter_context(opening(number)) for number in range(files)]
        for turn in range(rounds):
            for number, handle in enumerate(handles):
                page = page_of(number * rounds + turn)
                same(written(os.pwrite, handle, page, turn * PAGE), PAGE, "the length of a write")
        for handle in handles:
            synced(os.fsync, handle)
        forget(vault)
        for turn in range(rounds):
            for number, handle in enumerate(handles):
                found = read(os.pread, handle, PAGE, turn * PAGE)
                same(found, page_of(number * rounds + turn), f"page {turn} of file {number}")
        for number, handle in enumerate(handles):
            same(os.fstat(handle).st_size, rounds * PAGE, f"the length of file {number}")
    return [
        # Together: what was not drained while it was written is left to the fsyncs.
        ("4 KiB written to each in turn, fsync of each", "write", files * rounds, written.seconds + synced.seconds),
        ("of that the fsync", "file", files, synced.seconds),
        ("4 KiB read of each in turn, cold", "read", files * rounds, read.seconds),
    ]


def create_files(folder, client, files):
    folder.mkdir()
    for number in range(files):
        with open(folder / f"file{number}", "wb", buffering=0) as file:
            same(file.write(small_file(client, number)), SMALL_FILE_BYTES, "the length of a write")
            if number % 10 == 9:
                os.fsync(file.fileno())


def read_files(folder, client, files):
    for number in range(files):
        same((folder / f"file{number}").read_bytes(), small_file(client, number), f"file {number} of client {client}")


def remove_files(folder, client, files):
    for number in range(files):
        (folder / f"file{number}").unlink()
    folder.rmdir()


def clients(vault, count, files):
    figures = []
    for what, work in (("created, every tenth fsynced", create_files), ("read, cold", read_files), ("removed", remove_files)):
        forget(vault)
        figures.append((f"files of 5 KB {what}", "file", count * files, together(vault, work, count, files)))
    same(os.listdir(vault.mount), [], "the list of none")
    return figures


def together(vault, work, count, files):
    """Seconds from when all `count` processes begin until the last has done its work."""
    context = multiprocessing.get_context("fork")
    begin, ends = context.Barrier(count + 1), context.Array("d", count)

    def client(number):
        # Whoever started them ends them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        begin.wait(PATIENCE_S)
        try:
            work(vault.mount / f"client{number}", number, files)
        except (Wrong, OSError) as error:
            sys.exit(f"client {number}: {error}")
        ends[number] = time.monotonic()

    processes = [context.Process(target=client, args=(number,), daemon=True) for number in range(count)]
    try:
        for process in processes:
            process.start()
        begin.wait(PATIENCE_S)
        start = time.monotonic()
        for process in processes:
            process.join()
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()
    if any(process.exitcode for process in processes):
        raise Wrong("a client did not get what it wrote, or could not work: see above")
    return max(ends) - start


# What is done, what of it grows, and how much in words.
PARTS = {
    "file": (one_file, {"mib": 1024, "operations": 5000}, {"mib": 10240, "operations": 50_000}, "{mib:,} MiB"),
    "directory": (directory, {"entries": 10_000, "names": 10_000}, {"entries": 100_000, "names": 10_000}, "{entries:,} entries"),
    "open": (open_files, {"files": 100, "rounds": 20}, {"files": 1000, "rounds": 20}, "{files:,} files open"),
    "clients": (clients, {"count": 6, "files": 500}, {"count": 64, "files": 500}, "{count} clients"),
}
QUICK = {"mib", "operations", "entries", "names", "files"}


def tenth(sizes):
    return {name: value // 10 if name in QUICK else value for name, value in sizes.items()}


# The runs.


@contextlib.contextmanager
def mounted(work):
    """A new vault on a mount of its own; nothing of it is left, however it ends."""
    vault = Vault(Path(tempfile.mkdtemp(dir=work)))
    try:
        vault.start()
        yield vault
        vault.stop()
    finally:
        if vault.daemon and vault.daemon.poll() is None:
            vault.daemon.terminate()
            try:
                vault.daemon.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                vault.kill()
        # There is none any more, unless it was killed.
        subprocess.run(["umount", "--lazy", vault.mount], check=False, capture_output=True)
        shutil.rmtree(vault.folder)


def forget_peak(vault):
    """Unlocking takes memory on purpose; the peak is to be that of the work."""
    Path(f"/proc/{vault.daemon.pid}/clear_refs").write_text("5\n")


def peak_mib(vault):
    status = Path(f"/proc/{vault.daemon.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


def promised_mib():
    """What docs/guide/performance.md promises of memory."""
    return int(re.search(r"stayed under (\d+) MiB", (ROOT / "docs/guide/performance.md").read_text())[1])


def measure(work, name, sizes):
    part, *_, words = PARTS[name]
    print(f"{name}: {words.format(**sizes)}", file=sys.stderr, flush=True)
    with mounted(work) as vault:
        forget_peak(vault)
        figures = part(vault, **sizes)
        return figures, peak_mib(vault)


def compare(work, name, quick):
    """The small one, the large one, and the small one again, so that a machine that drifts shows in the spread."""
    _, small, large, words = PARTS[name]
    if quick:
        small, large = tenth(small), tenth(large)
    before = measure(work, name, small)
    at_large = measure(work, name, large)
    at_small = [before, measure(work, name, small)]
    rows = []
    for index, (what, item, items, seconds) in enumerate(at_large[0]):
        each = [1e6 * figures[index][3] / figures[index][2] for figures, _ in at_small]
        rows.append(
            {
                "part": name,
                "what": what,
                "item": item,
                "small": {"items": at_small[0][0][index][2], "microseconds_per_item": each},
                "large": {"items": items, "microseconds_per_item": 1e6 * seconds / items},
                "ratio": 1e6 * seconds / items / (sum(each) / len(each)),
            }
        )
    memory = {
        "part": name,
        "small": words.format(**small),
        "large": words.format(**large),
        "small_peak_mib": [peak for _, peak in at_small],
        "large_peak_mib": at_large[1],
    }
    return rows, memory


def machine():
    """In words that name no particular one."""
    processor = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = int(re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / MIB
    name = processor[1] if processor else platform.machine()
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} processors ({name}), {memory:.0f} GiB of memory, Linux {kernel}"


def digits(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def row_line(row):
    each, at_large = row["small"]["microseconds_per_item"], row["large"]["microseconds_per_item"]
    at_small = sum(each) / len(each)
    cells = [row["part"], row["what"], row["item"], f"{row['small']['items']:,}"]
    cells += [f"{digits(at_small)} ({digits(min(each))} to {digits(max(each))})", digits(1e6 / at_small)]
    cells += [f"{row['large']['items']:,}", digits(at_large), digits(1e6 / at_large), f"{row['ratio']:.2f}"]
    return f"| {' | '.join(cells)} |"


def memory_line(memory, promised):
    peaks = memory["small_peak_mib"]
    cells = [memory["part"], memory["small"], f"{max(peaks):.0f} MiB"]
    cells += [memory["large"], f"{memory['large_peak_mib']:.0f} MiB", f"{promised} MiB"]
    return f"| {' | '.join(cells)} |"


def markdown(report):
    quick = "\n**Quick:** a tenth of the work; not to be compared with figures of a full run.\n" if report["quick"] else ""
    rows = "\n".join(row_line(row) for row in report["rows"])
    memory = "\n".join(memory_line(one, report["promised_mib"]) for one in report["memory"])
    return f"""# Ten times the work, {report["day"]}

`tools/scale.py`; {report["machine"]}; {report["version"]}.
{quick}
Time per item, at one time and at ten times the work. The small one ran before and after the large one: the mean, and both in
parentheses. A ratio above 1 is what an item costs more when there are ten times as many. All that was read was compared.

| part | what | an item | items | µs an item | items a second | items | µs an item | items a second | ratio |
|---|---|---|--:|--:|--:|--:|--:|--:|--:|
{rows}

Peak memory of the daemon during the work, beside what docs/guide/performance.md promises.

| part | small | peak | large | peak | promised |
|---|---|--:|---|--:|--:|
{memory}
"""


def parsed():
    head, _, foot = __doc__.partition("\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=head, epilog=foot, formatter_class=form, usage="%(prog)s [--quick] [--only PART,…] [--into FOLDER]")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--only", metavar="PART,…", default=",".join(PARTS), help="these parts")
    parser.add_argument("--into", metavar="FOLDER", type=Path, help="where README.md and figures.json are written")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    for name in arguments.only:
        if name not in PARTS:
            parser.error(f"no part {name!r}; there are {', '.join(PARTS)}")
    return arguments


def refuse_what_cannot_run(arguments):
    if os.geteuid() != 0:
        sys.exit("scale: run it as root: it drops the kernel's caches")
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"scale: there is no program {BINARY}: `make build` makes it")
    wanted = (FILE_PART_GIB if "file" in arguments.only else OTHER_PARTS_GIB) / (10 if arguments.quick else 1)
    free = shutil.disk_usage(ROOT / "target").free / 2**30
    if free < wanted:
        sys.exit(f"scale: {wanted:.1f} GiB must be free on the disk of target/, and {free:.1f} GiB are: free some, or leave `file` out by --only")


def allow_open_files(count):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))


def main():
    arguments = parsed()
    refuse_what_cannot_run(arguments)
    # As Ctrl-C does: everything is cleaned up on the way out.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit("scale: ended by a signal"))
    allow_open_files(4096)
    report = {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "version": run(BINARY, "--version").stdout.strip(),
        "quick": arguments.quick,
        "promised_mib": promised_mib(),
        "rows": [],
        "memory": [],
    }
    with tempfile.TemporaryDirectory(prefix="scale-", dir=ROOT / "target") as work:
        # What is seen of the vaults is remembered here, and not of this user.
        os.environ["XDG_STATE_HOME"] = f"{work}/state"
        for name in arguments.only:
            rows, memory = compare(work, name, arguments.quick)
            report["rows"] += rows
            report["memory"].append(memory)
    print(markdown(report), end="")
    if arguments.into:
        arguments.into.mkdir(parents=True, exist_ok=True)
        (arguments.into / "README.md").write_text(markdown(report))
        (arguments.into / "figures.json").write_text(json.dumps(report, indent=1) + "\n")
    above = [one["part"] for one in report["memory"] if max(one["small_peak_mib"] + [one["large_peak_mib"]]) > report["promised_mib"]]
    if above:
        sys.exit(f"scale: memory was above {report['promised_mib']} MiB in {', '.join(above)}")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"scale: {wrong}")
    except KeyboardInterrupt:
        sys.exit("scale: interrupted; nothing is left mounted")
