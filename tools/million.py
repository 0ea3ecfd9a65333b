#!/usr/bin/env python3
"""One directory of 1,000,000 files on a mount: created, listed, looked up at random, kept in snapshots, renamed, removed.

    tools/million.py [COUNT]        default: 1000000; runs 10,000 first, to compare the cost per entry

Prints the time per entry of both runs, the cost of a snapshot after ten of the files changed, how fast it is listed and read, and the
daemon's peak memory.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))


def per_entry(count, work):
    start = time.monotonic()
    work()
    return (time.monotonic() - start) / count * 1e6


def written_bytes(daemon):
    """What the process has given to the disk to write since it began."""
    lines = Path(f"/proc/{daemon.pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes")).split()[1])


def drop_caches():
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def snapshot(vault, daemon, tag):
    """Seconds, with the start of the command, and bytes written."""
    before, start = written_bytes(daemon), time.monotonic()
    subprocess.run([BINARY, "snapshot", "create", vault, "--tag", tag], check=True, capture_output=True)
    return time.monotonic() - start, written_bytes(daemon) - before


def list_long(folder):
    start = time.monotonic()
    subprocess.run(["ls", "-l", folder], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def read_all(folder, numbers):
    start = time.monotonic()
    for number in numbers:
        (folder / f"file{number:07}").read_bytes()
    return (time.monotonic() - start) / len(numbers)


def history(vault, mount, daemon, folder, count):
    """A snapshot of all, and one after ten files changed, on a vault at rest; then the old state is listed and read."""
    chance = random.Random(2)
    numbers = [chance.randrange(count) for _ in range(1000)]
    for number in numbers:
        (folder / f"file{number:07}").write_bytes(random.randbytes(8192))
    seconds, written = snapshot(vault, daemon, f"all{count}")
    print(f"snapshot of all {count:,}: {seconds:.1f} s, {written / 2**20:.1f} MiB written")
    for round_number in range(3):
        for number in chance.sample(range(count), 10):
            (folder / f"file{number:07}").write_bytes(random.randbytes(8192))
        subprocess.run([BINARY, "sync", vault], check=True, capture_output=True)
        time.sleep(5)  # what runs in the background after a change has run
        seconds, written = snapshot(vault, daemon, f"ten{count}-{round_number}")
        print(f"snapshot after ten of them changed: {1000 * seconds:.0f} ms, {written / 1024:.0f} KiB written")
    old = mount / ".history" / f"t:all{count}" / folder.name
    times = {}
    for round_number in range(2):
        for name, place in (("now", folder), ("kept", old)):
            drop_caches()
            times.setdefault(f"ls -l, {name}", []).append(f"{list_long(place):.1f} s")
            drop_caches()
            times.setdefault(f"read, {name}", []).append(f"{1e6 * read_all(place, numbers):.0f} us a file")
    for name, each in times.items():
        print(f"{name}: {', '.join(each)}")


def steps(vault, mount, daemon, count):
    folder = mount / f"directory{count}"
    folder.mkdir()
    base = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def create():
        for number in range(count):
            os.close(os.open(f"file{number:07}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=base))

    def listing():
        assert sum(1 for _ in os.scandir(folder)) == count

    def look_up():
        chance = random.Random(1)
        for _ in range(count // 10):
            os.stat(f"file{chance.randrange(count):07}", dir_fd=base)

    def rename():
        os.rename(folder, mount / "renamed")
        os.rename(mount / "renamed", folder)

    def remove():
        for number in range(count):
            os.unlink(f"file{number:07}", dir_fd=base)

    figures = {"create": per_entry(count, create), "list": per_entry(count, listing)}
    Path("/proc/sys/vm/drop_caches").write_text("2\n")
    figures["look up"] = per_entry(count // 10, look_up)
    history(vault, mount, daemon, folder, count)
    figures["rename the directory (in all)"] = per_entry(1, rename)
    figures["remove"] = per_entry(count, remove)
    os.close(base)
    folder.rmdir()
    return figures


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    work = Path(tempfile.mkdtemp(prefix="million-", dir=os.environ.get("FIGURES_DIR", str(ROOT / "target"))))
    # What is seen of the vaults is remembered here, and not of this user.
    os.environ["XDG_STATE_HOME"] = str(work / "state")
    vault, mount = work / "vault", work / "mount"
    mount.mkdir()
    (work / "passphrase").write_text("million")
    secret = ["--passphrase-file", work / "passphrase"]
    subprocess.run([BINARY, "init", vault, *secret], check=True, capture_output=True)
    daemon = subprocess.Popen([BINARY, "mount", "-f", vault, mount, *secret])
    try:
        while not os.path.ismount(mount):
            time.sleep(0.05)
            assert daemon.poll() is None, "the mount did not start"
        small = steps(vault, mount, daemon, 10_000)
        large = steps(vault, mount, daemon, count)
        peak = next(line for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        print(f"microseconds per entry   10,000   {count:,}   ratio")
        for name, value in small.items():
            print(f"{name:32} {value:8.1f} {large[name]:8.1f} {large[name] / value:6.2f}")
        print(f"peak memory of the daemon: {int(peak.split()[1]) / 1024:.0f} MiB")
    finally:
        subprocess.run([BINARY, "umount", mount], check=False)
        daemon.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
