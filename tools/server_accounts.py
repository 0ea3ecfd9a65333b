#!/usr/bin/env python3
"""Many accounts with three devices each, real vaults of the library, at two instances of a server: no error, how long pushes take, and memory.

    tools/server_accounts.py [--into FOLDER]      ACCOUNTS=n (1,000), SECONDS=n (600), THREADS=n (4)

First each account gets a vault with three devices, which takes longer than the rest. Then the devices get, write and push in turns, at both
instances. The memory of the instances is looked at all the time: after the first third it may grow by a fifth at most, and 16 MiB. PostgreSQL
and an S3 server are started and stopped here.
"""

import argparse
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from scale import machine
from server_process import Server
from server_test import Services, say

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/release/strongroom-server"))
LOAD = ROOT / "target/release/examples/accounts"
INSTANCES, DEVICES = 2, 3
LOOK_EVERY_S = 2
GROWTH, GROWTH_KIB = 1.2, 16 << 10


def memory_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise SystemExit(f"the process {pid} has ended")


class Memory(threading.Thread):
    """What the instances take, until `done` is set."""

    def __init__(self, instances):
        super().__init__(daemon=True)
        self.instances, self.done = instances, threading.Event()
        self.seen = [[] for _ in instances]

    def run(self):
        while not self.done.wait(LOOK_EVERY_S):
            for instance, seen in zip(self.instances, self.seen):
                seen.append(memory_kib(instance.process.pid))

    def figures(self):
        """For each instance the median of the second third, and of the last."""
        found = []
        for seen in self.seen:
            third = max(len(seen) // 3, 1)
            found.append((statistics.median(seen[third : 2 * third] or seen), statistics.median(seen[-third:])))
        return found


def urls(instances, number, token):
    """Of each device another instance."""
    return " ".join(instances[device % INSTANCES].url_of(f"a{number}/v", token) for device in range(DEVICES))


def play(services, accounts, seconds, threads):
    settings = services.settings("accounts", "no_tls = true\n")
    instances = [Server(services.place, PROGRAM, settings=settings, name=f"instance{number}") for number in range(INSTANCES)]
    try:
        say(f"{accounts} accounts")
        tokens = [instances[0].add_account(f"a{number}", "--bytes", "1G") for number in range(accounts)]
        folder = services.place / "devices"
        folder.mkdir()
        environment = {**os.environ, "XDG_STATE_HOME": str(services.place / "state"), "XDG_CONFIG_HOME": str(services.place / "config")}
        load = subprocess.Popen([LOAD, str(folder), str(seconds), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            begun = time.monotonic()
            load.stdin.write("".join(f"{urls(instances, number, token)}\n" for number, token in enumerate(tokens)))
            load.stdin.close()
            if load.stdout.readline() != "ready\n":
                raise SystemExit(f"the devices were not made: {load.wait()}")
            made_s = time.monotonic() - begun
            say(f"{accounts * DEVICES} devices made in {made_s:.0f} s; now they push for {seconds} s")
            memory = Memory(instances)
            memory.start()
            line = load.stdout.readline()
            memory.done.set()
            memory.join()
            if load.wait() != 0:
                raise SystemExit("a device got an error")
        finally:
            load.kill()
            load.wait()
        figures = {**json.loads(line), "devices": accounts * DEVICES, "made_s": made_s, "seconds": seconds, "memory_kib": memory.figures()}
        found = json.loads(instances[0].administer("check", settings, "--json"))
        if found["problem_count"]:
            raise SystemExit(f"the check found {found}")
        figures["objects"] = found["objects"]
        codes = [instance.stop() for instance in instances]
        if any(codes):
            raise SystemExit(f"the instances ended with {codes}")
        return figures
    finally:
        for instance in instances:
            instance.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    accounts, seconds, threads = (int(os.environ.get(name, default)) for name, default in (("ACCOUNTS", 1000), ("SECONDS", 600), ("THREADS", 4)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    services = Services(durable=True)
    try:
        figures = play(services, accounts, seconds, threads)
    finally:
        services.stop()
    shown = ", ".join(f"{before / 1024:.0f} MiB then {after / 1024:.0f} MiB" for before, after in figures["memory_kib"])
    text = f"{figures['accounts']} accounts with {DEVICES} devices each: {figures['pushes']} pushes in {seconds} s without an error; p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms; memory of the instances {shown}; {figures['objects']} objects"
    say(text)
    if arguments.into:
        arguments.into.mkdir(parents=True, exist_ok=True)
        (arguments.into / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
        (arguments.into / "README.md").write_text(f"# Accounts of a server, {datetime.date.today()}\n\n`tools/server_accounts.py`; {machine()}. Everything runs on this machine.\n\n{text}.\n")
    for before, after in figures["memory_kib"]:
        if after > before * GROWTH + GROWTH_KIB:
            raise SystemExit(f"the memory of an instance grew from {before} KiB to {after} KiB")


if __name__ == "__main__":
    main()
