#!/usr/bin/env python3
"""Shows from a profile of the whole machine how the time of one row was spent.

    tools/profile.py cut PERF_DATA SPANS_JSON ROW INTO     a row: INTO/ROW.folded, .txt, .json
    tools/profile.py stacks PROGRAM SPANS_JSON ROW INTO    the same from stacks of the server, if perf is not allowed
    tools/profile.py table INTO                            all rows of INTO as a table

For each part it shows how much of the row's time a core was busy with it. A sample counts for the first part that its stack
names, from the innermost function outwards:

    client     programs that use the mount, in their own code
    kernel     the kernel, called by these programs: paths, page cache, the kernel's half of FUSE
    transport  the server between the kernel and the engine: /dev/fuse, the adapter, waking up and staying awake
    engine     names, overlays, extents, commits
    SQLite     the database, without its pages
    pages      sealing and opening the database's pages (SQLCipher)
    sealing    sealing, opening and naming blocks
    disk       segments, and the file system beneath, called for them or for the database
    other      a stack that names none of these, in a thread that can do several

It also shows how much of the time the server was in a call that reads, writes or syncs a file ("in calls"), whichever part
worked meanwhile. Parts may overlap, so their sum may exceed the total time. If the sum is lower, no core worked for the rest:
a thread was being woken, or waited for the disk.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

PARTS = ["client", "kernel", "transport", "engine", "SQLite", "pages", "sealing", "disk", "other"]
# Which part the code of a crate is. A crate that is missing works for whoever called it.
CRATES = {
    "fuser": "transport",
    "strongroom_mount": "transport",
    "strongroom": "engine",
    "strongroom_filesystem": "engine",
    "strongroom_history": "engine",
    "strongroom_metadata": "SQLite",
    "rusqlite": "SQLite",
    "strongroom_crypto": "sealing",
    "blake3": "sealing",
    "ring": "sealing",
    "aws_lc_rs": "sealing",
    "graviola": "sealing",
    "aegis": "sealing",
    "strongroom_segments": "disk",
    "crc32fast": "disk",
}
C_FUNCTIONS = [
    (re.compile(r"^sqlcipher|^sqlite3Codec|codec_"), "pages"),
    (re.compile(r"^sqlite3|^vdbe|^btree|^pager|^wal[A-Z]"), "SQLite"),
    # OpenSSL's assembler has no stack to follow; SQLCipher uses these, blocks are sealed in another mode.
    (re.compile(r"^sha512_block|^sha_?1_block|^aesni_cbc|^aes_cbc|^vaes_cbc"), "pages"),
    (re.compile(r"^_?blake3_|gcm|^aes_hw|poly1305|^aegis"), "sealing"),
]
# Whose stack names no part, as that of a copy in the C library: workers seal and open, event loops take and give content.
THREADS = [(re.compile(r"^strongroom-\d"), "sealing"), (re.compile(r"^fuser-\d"), "engine")]
# What the kernel does for the server.
TRANSPORT = re.compile(r"^fuse_|poll")
DISK = re.compile(
    r"^(ext4|jbd2|blk|bio|submit_bio|iomap|virtblk|virtio|vfs_fsync|btrfs|xfs|nvme|shmem)_?"
    r"|writeback|pread64|pwrite64|fdatasync|fallocate"
)
# Programs that the rows run, as the kernel cuts their names.
CLIENTS = ["strongroom-benc", "strongroom", "cp", "dd", "git", "rm", "tar"]
KERNEL_THREADS = re.compile(r"^(kworker|jbd2|ksoftirqd|kswapd|kcompactd|irq|migration|rcu|kthread|writeback|loop|nvme|ext4)")
ASLEEP = ["epoll_wait", "poll", "ppoll", "syscall", "__futex_abstimed_wait_common"]
TOP = 25
# Samples per second and core, as profile.sh asks for them.
RATE = 997


def plain(name):
    """A function without what only tells one build from another."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"\[[0-9a-f]{8,}\]", "", name)
    return re.sub(r"\+0x[0-9a-f]+$", "", name)


def crate_of(name):
    found = re.match(r"[<&*(\s]*(?:mut |dyn |impl )*([A-Za-z_][A-Za-z0-9_]*)::", name)
    return found.group(1) if found else None


def demangled(names):
    """Names of Rust's newer form, which perf leaves as they are, by their readable ones."""
    mangled = sorted(name for name in names if name.startswith("_R"))
    if not mangled:
        return {}
    try:
        text = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return {}
    return dict(zip(mangled, text.splitlines()))


class Sample:
    """One moment of one core: who ran, and its stack from the innermost function outwards."""

    def __init__(self, comm, pid, at):
        self.comm, self.pid, self.at = comm, pid, at
        self.frames = []  # (function, whether it is the kernel's)

    def is_foreign(self, server):
        return self.pid not in (0, server) and self.comm not in CLIENTS and not KERNEL_THREADS.match(self.comm)

    def part(self, server):
        if self.pid == 0 or self.is_foreign(server):
            return None
        in_kernel = bool(self.frames) and self.frames[0][1]
        kernel = [name for name, inside in self.frames if inside]
        if self.pid != server:
            serves_disk = KERNEL_THREADS.match(self.comm) and any(DISK.search(name) for name in kernel)
            return "disk" if serves_disk else "kernel" if in_kernel else "client"
        # What a fault or an interrupt met belongs to whoever ran.
        interrupted = any("page_fault" in name or "sysvec" in name for name in kernel)
        if in_kernel and not interrupted:
            for pattern, part in [(TRANSPORT, "transport"), (DISK, "disk")]:
                if any(pattern.search(name) for name in kernel):
                    return part
        for name, inside in self.frames:
            part = None if inside else user_part(name)
            if part:
                return part
        if in_kernel:
            return "kernel"
        return next((part for pattern, part in THREADS if pattern.search(self.comm)), "other")


def user_part(name):
    crate = crate_of(name)
    if crate:
        return CRATES.get(crate)
    for pattern, part in C_FUNCTIONS:
        if pattern.search(name):
            return part
    return None


def samples_of(lines):
    """What `perf script` printed, sample by sample."""
    head = re.compile(r"^(.*?)\s+(-?\d+)/(-?\d+)\s+(\d+)\.(\d{9}):")
    frame = re.compile(r"^\s+[0-9a-f]+ (.*) \((.*)\)$")
    sample = None
    for line in lines:
        if not line.strip():
            if sample:
                yield sample
            sample = None
            continue
        found = head.match(line)
        if found:
            comm, pid, _, seconds, nanos = found.groups()
            sample = Sample(comm.strip(), int(pid), int(seconds) * 10**9 + int(nanos))
            continue
        found = frame.match(line.rstrip())
        if found and sample:
            name, where = found.groups()
            sample.frames.append((plain(name), where.startswith("[") and "kernel" in where or where.endswith(".ko")))
    if sample:
        yield sample


def script(data, window, fields):
    start, end = (f"{ns // 10**9}.{ns % 10**9:09}" for ns in window)
    command = ["perf", "script", "-i", data, "--ns", "--no-inline", "-F", fields, "--time", f"{start},{end}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
    yield from process.stdout
    process.wait()


def disk_calls(data, window, server):
    """When the server was inside a call that reads, writes or syncs a file: joined stretches, in order."""
    head = re.compile(r"^(.*?)\s+(\d+)/(\d+)\s+(\d+)\.(\d{9}):\s+\S*?:?sys_(enter|exit)_(\w+)")
    begun, stretches = {}, []
    for line in script(data, window, "comm,pid,tid,time,event,trace"):
        found = head.match(line)
        if not found or int(found.group(2)) != server:
            continue
        thread, at = found.group(3), int(found.group(4)) * 10**9 + int(found.group(5))
        if found.group(6) == "enter":
            begun[thread] = at
        elif thread in begun:
            stretches.append((begun.pop(thread), at))
    joined = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def windows_of(spans_file, row):
    """When the row was measured, in nanoseconds of the clock that only rises."""
    spans = json.loads(Path(spans_file).read_text())["rows"].get(row, [])
    if not spans:
        sys.exit(f"profile: {row} is not measured in one stretch of time; profile the row that it belongs to")
    return [(span["start_ns"], span["end_ns"]) for span in spans]


def cut(data, spans_file, row, into):
    windows, server = windows_of(spans_file, row), json.loads(Path(spans_file).read_text())["server"]
    calls = Path(data).with_suffix(".calls")
    samples, stretches = [], []
    for window in windows:
        samples += samples_of(script(data, window, "comm,pid,tid,time,ip,sym,dso"))
        stretches += disk_calls(calls, window, server) if calls.exists() else []
    seconds = sum(end - start for start, end in windows) / 1e9
    # Of each core a sample is taken at every tick, except of one that sleeps.
    ticks = max(len(samples) / os.cpu_count(), seconds * RATE)
    write(row, into, samples, server, stretches, seconds, ticks)


def write(row, into, samples, server, stretches, seconds, ticks):
    names = demangled({name for sample in samples for name, _ in sample.frames})
    parts, own, folded, foreign = Counter(), Counter(), Counter(), 0
    for sample in samples:
        sample.frames = [(plain(names.get(name, name)), kernel) for name, kernel in sample.frames]
        part = sample.part(server)
        foreign += sample.is_foreign(server)
        if part is None:
            continue
        parts[part] += 1
        leaf = sample.frames[0][0] if sample.frames else "?"
        own[(part, leaf)] += 1
        who = "strongroom" if sample.pid == server else sample.comm
        outwards = [name + ("_[k]" if kernel else "") for name, kernel in sample.frames]
        folded[";".join([who] + [name.replace(";", ":") for name in reversed(outwards)])] += 1
    busy = sum(parts.values())
    if busy == 0:
        sys.exit("profile: no samples; is the row over too soon?")
    shares = {part: parts[part] / ticks for part in PARTS}
    in_calls = sum(end - start for start, end in stretches) / 1e9 / seconds
    into = Path(into)
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{row}.folded").write_text("".join(f"{stack} {count}\n" for stack, count in sorted(folded.items())))
    (into / f"{row}.json").write_text(json.dumps({"row": row, "seconds": seconds, "samples": len(samples), "shares": shares, "in_calls": in_calls}, indent=1) + "\n")
    text = [f"{row}: {seconds:.2f} s, {len(samples)} samples of all cores", ""]
    text += [f"{shares[part]:7.1%}  {part}" for part in PARTS]
    text += ["", f"{in_calls:7.1%}  in calls of the server that read, write or sync a file"]
    text += [f"{foreign / ticks:7.1%}  programs that have nothing to do with the row: best 0"]
    text += ["", f"The {TOP} functions with the most time of their own, of the time in which a core worked:", ""]
    text += [f"{count / busy:7.1%}  {part:9}  {name}" for (part, name), count in own.most_common(TOP)]
    text += ["", "And with what they call, the server alone:", ""]
    text += [f"{count / busy:7.1%}  {name}" for name, count in inclusive(samples, server).most_common(2 * TOP)]
    (into / f"{row}.txt").write_text("\n".join(text) + "\n")
    print("\n".join(text[: len(PARTS) + 5]))


def inclusive(samples, server):
    counts = Counter()
    for sample in samples:
        if sample.pid == server:
            ours = {name for name, kernel in sample.frames if not kernel and (crate_of(name) in CRATES or user_part(name))}
            system = {name for name, kernel in sample.frames if kernel and name.startswith("__x64_sys_")}
            counts.update(ours | system)
    return counts


def stacks(program, spans_file, row, into):
    """Stacks of the server's threads, taken again and again while it runs, by `eu-stack`: on the clock, not on the processor."""
    frame = re.compile(r"^#\d+\s+0x[0-9a-f]+(?: - \d+)? (.*)$")
    taken, rounds, server = [], [], None
    while server is None or Path(f"/proc/{server}/exe").exists():
        server = server or server_of(Path(program).resolve())
        if server is None:
            time.sleep(0.02)
            continue
        text = subprocess.run(["eu-stack", "-p", str(server)], capture_output=True, text=True).stdout
        rounds.append(time.monotonic_ns())
        for block in text.split("TID ")[1:]:
            sample = Sample("strongroom", server, rounds[-1])
            sample.frames = [(plain(found.group(1)), False) for found in map(frame.match, block.splitlines()) if found]
            # A thread that sleeps until there is work is no part of the time.
            if not any(name in ASLEEP for name, _ in sample.frames[:3]):
                taken.append(sample)
        time.sleep(0.02)
    windows = windows_of(spans_file, row)
    within = lambda at: any(start <= at <= end for start, end in windows)
    samples = [sample for sample in taken if within(sample.at)]
    write(row, into, samples, server, [], sum(end - start for start, end in windows) / 1e9, sum(map(within, rounds)))


def server_of(program):
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "exe").resolve() == program and b"\0mount\0" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return None


def table(into):
    rows = [json.loads(path.read_text()) for path in sorted(Path(into).glob("*.json"))]
    print("| row | seconds | " + " | ".join(PARTS) + " | in calls |")
    print("|---|--:|" + "--:|" * (len(PARTS) + 1))
    for row in rows:
        cells = " | ".join(f"{row['shares'][part]:.0%}" for part in PARTS)
        print(f"| [`{row['row']}`]({row['row']}.svg) | {row['seconds']:.2f} | {cells} | {row['in_calls']:.0%} |")


def main():
    words = sys.argv[1:]
    jobs = {"cut": (cut, 4), "stacks": (stacks, 4), "table": (table, 1)}
    job, count = jobs.get(words[0] if words else "", (None, 0))
    if job is None or len(words) != count + 1:
        sys.exit(__doc__)
    job(*words[1:])


if __name__ == "__main__":
    main()
