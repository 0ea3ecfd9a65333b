#!/usr/bin/env python3
"""Measures a server on this machine, with TLS, beside nginx with plain files and the disk beneath, in one run.

    tools/server_bench.py [--quick] [--only PART,…] [--rounds N] [--followers N] [--hold SECONDS] [--into FOLDER]

    start         how long a server that knows 1,000,000 objects takes until it serves, beside one that knows none
    small         objects of 1 KiB, put and got on 8 connections: requests a second, and how long one takes
    large         objects of 16 MiB, put and got on 4 connections: MiB a second
    publications  64 devices that publish in 64 vaults, and 64 in one vault, as fast as they can and at half of that; the disk beneath
    followers     10,000 devices that wait: memory for each, all still there after ten minutes, and all notified
    uploads       64 objects of 16 MiB sent at once: the most memory meanwhile, and that of nginx
    instances     1, 2 and 4 instances on one PostgreSQL and one S3 server, beside one: publications and objects of 1 KiB on 64 connections

The server and nginx take turns, `--rounds` times; figures are medians. Those who ask are processes on the same processors, in Python:
what they cost is in every figure, so the ratio counts. The server syncs what it is given to the disk before it answers; nginx does
not. The row `disk` is what one process reaches that writes a file of that size, syncs it and renames it. Nobody logs in: the vaults have
no header, so the token of the account is enough. Answers are compared with what was put. Exits with 1 if one is wrong; times never decide.

--quick takes a minute or two. --into writes README.md and figures.json into FOLDER. nginx comes from the distribution, and is left out if it
cannot. The million objects are rows of the database, written by this program, and have no files: a server that starts looks at no file of an object.
"""

import argparse
import contextlib
import datetime
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nginx_process
import postgres_process
from scale import machine
from server_load import Line, Wrong, load, percentile_ms
from server_process import Server
from server_test import Services

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("STRONGROOM", str(ROOT / "target/release/strongroom"))
PROGRAM = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/release/strongroom-server"))
KIB, MIB = 1 << 10, 1 << 20
SMALL, LARGE, PUBLICATION = 1 * KIB, 16 * MIB, 300
DEVICES = 64
# A second, of one account: here one does the work of many, and is counted all the same.
MANY_REQUESTS = "1000000"
# Files that a process has open beside its connections.
OTHER_FILES = 200


class Target:
    """Something that takes and gives objects; each run puts them in a place of its own, which goes with it."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name


class Ours(Target):
    def begin(self, run):
        self.account = f"a{run}"
        self.token = self.bench.server.add_account(self.account)
        self.port = self.bench.server.port

    def path(self, name):
        return f"/v1/vaults/{self.account}/v/objects/loose/{name}"

    def headers(self, body):
        return {"Authorization": f"Bearer {self.token}", "strongroom-blake3": self.bench.hashes[len(body)]}

    def end(self):
        self.bench.server.administer("account", "remove", self.bench.server.folder, self.account)


class Theirs(Target):
    def begin(self, run):
        self.folder, self.port = f"run{run}", self.bench.nginx.port

    def path(self, name):
        return f"/{self.folder}/{name}"

    def headers(self, body):
        return {}

    def end(self):
        shutil.rmtree(self.bench.nginx.files / self.folder, ignore_errors=True)


class Bench:
    def __init__(self, place, arguments):
        self.place, self.arguments = place, arguments
        self.server, self.nginx, self.runs = None, None, 0
        self.figures, self.tables = {}, {}
        self.nginx_program = nginx_process.find()
        if self.nginx_program is None:
            print("no nginx here, so its figures are missing; to have them, type: apt-get update && apt-get install nginx", file=sys.stderr)
        self.bodies = {size: random.Random(size).randbytes(size) for size in (SMALL, LARGE, PUBLICATION)}
        self.hashes = {size: self.blake3(body) for size, body in self.bodies.items()}

    def blake3(self, body):
        """By the program itself: Python has none."""
        vault, file = self.place / "vault", self.place / f"body{len(body)}"
        file.write_bytes(body)
        environment = {**os.environ, "XDG_STATE_HOME": str(self.place / "state"), "XDG_CONFIG_HOME": str(self.place / "config")}

        def strongroom(*command):
            done = subprocess.run([BINARY, *map(str, command), "--key-file", str(self.place / "key")], capture_output=True, text=True, env=environment)
            if done.returncode:
                raise SystemExit(f"strongroom {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")
            return done.stdout

        if not vault.exists():
            strongroom("init", vault)
        strongroom("put", "-q", file, f"{vault}:/")
        digest = strongroom("hash", "-q", f"{vault}:/{file.name}").split()[0]
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise SystemExit(f"`strongroom hash` gives {digest}")
        return digest

    @contextlib.contextmanager
    def serving(self, name):
        """A server that has done nothing yet."""
        place = self.place / name
        place.mkdir()
        self.server = Server(place, PROGRAM, "--metrics", "127.0.0.1:0", "--requests-per-second", MANY_REQUESTS)
        try:
            yield self.server
        finally:
            self.server.kill()
            shutil.rmtree(place)

    def targets(self):
        """While a server runs: nginx has its certificate."""
        if self.nginx is None and self.nginx_program:
            self.nginx = nginx_process.Nginx(self.place, self.nginx_program, self.server.folder / "tls")
        return [Ours(self, "strongroom"), *([Theirs(self, "nginx")] if self.nginx else [])]

    def part(self, name, title, says, head, rows):
        rows = [list(map(str, row)) for row in rows]
        widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
        print(f"\n{title}\n")
        for row in (head, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        self.tables[name] = f"## {title}\n\n{says}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|\n{table}\n"

    def clean(self):
        if self.nginx:
            self.nginx.stop()


def rate(done):
    return done["count"] / done["seconds"]


def summary(runs):
    """Of several runs of the same."""
    return {
        "per_second": statistics.median(map(rate, runs)),
        "p50_ms": statistics.median(percentile_ms(one["times"], 0.5) for one in runs),
        "p99_ms": statistics.median(percentile_ms(one["times"], 0.99) for one in runs),
    }


def puts_and_gets(bench, size, workers, **how):
    """Both targets by turns: what each process put is what it gets."""
    body, found = bench.bodies[size], {}
    targets = bench.targets()
    for turn in range(bench.arguments.rounds):
        for target in targets if turn % 2 == 0 else reversed(targets):
            bench.runs += 1
            target.begin(bench.runs)
            headers = target.headers(body)

            def put(number):
                line, count = Line(target.port), 0

                def one():
                    nonlocal count
                    line.expect(201, "PUT", target.path(f"{number}-{count}"), headers, body)
                    count += 1

                return one

            def get(number):
                line = Line(target.port)

                def one():
                    if line.expect(200, "GET", target.path(f"{number}-0"), headers) != body:
                        raise Wrong("what is got is not what was put")

                return one

            for name, work in (("put", put), ("get", get)):
                found.setdefault((target.name, name), []).append(load(workers, work, **how))
            target.end()
    return {key: summary(runs) for key, runs in found.items()}


def disk(bench, size, seconds):
    """What a process reaches that writes, syncs and renames a file of that size."""
    folder, body, times = bench.place / "disk", bench.bodies[size], []
    folder.mkdir()
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        with open(folder / "new", "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.rename(folder / "new", folder / str(len(times)))
        times.append(time.perf_counter() - start)
    done = {"count": len(times), "seconds": time.perf_counter() - begun, "times": sorted(times)}
    shutil.rmtree(folder)
    return summary([done])


def compared(bench, name, title, says, size, unit, factor, found):
    """A row for each of put and get: the server, nginx, the ratio; then the disk."""
    rows = []
    for what in ("put", "get"):
        ours, theirs = found["strongroom", what], found.get(("nginx", what))
        for who, one in (("strongroom", ours), ("nginx", theirs)):
            if one:
                ratio = f"{ours['per_second'] / theirs['per_second']:.2f}" if who == "strongroom" and theirs else ""
                rows.append([what, who, f"{one['per_second'] * factor:,.0f}", f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", ratio])
    beneath = disk(bench, size, 1 if bench.arguments.quick else 5)
    rows.append(["put", "disk", f"{beneath['per_second'] * factor:,.0f}", f"{beneath['p50_ms']:.2f}", f"{beneath['p99_ms']:.2f}", ""])
    bench.figures[name] = {"disk": beneath, **{f"{who} {what}": one for (who, what), one in found.items()}}
    bench.part(name, title, says, ["what", "who", unit, "p50, ms", "p99, ms", "of nginx"], rows)


def small(bench):
    with bench.serving("small"):
        found = puts_and_gets(bench, SMALL, 8, seconds=2 if bench.arguments.quick else 5)
        says = "The server syncs each object and its row in the database before it answers; nginx syncs nothing."
        compared(bench, "small", "Objects of 1 KiB on 8 connections", says, SMALL, "a second", 1, found)


def large(bench):
    with bench.serving("large"):
        found = puts_and_gets(bench, LARGE, 4, count=2 if bench.arguments.quick else 8)
        says = "The server compares what comes with its BLAKE3, and syncs it before it answers; nginx does neither."
        compared(bench, "large", "Objects of 16 MiB on 4 connections", says, LARGE, "MiB a second", LARGE / MIB, found)


def publications(bench):
    seconds = 3 if bench.arguments.quick else 20
    rows, figures = [], {}
    with bench.serving("publications") as server:
        for what, vaults in (("64 devices, each in a vault of its own", DEVICES), ("64 devices that race in one vault", 1)):
            free = None
            for pace in ("as fast as they can", "half as fast"):
                bench.runs += 1
                account = f"a{bench.runs}"
                token = server.add_account(account)
                publish = Publishing(bench, [(account, token, f"v{number}") for number in range(vaults)])
                done = load(DEVICES, publish, seconds=seconds, rate=free and free / 2)
                publish.check(done["count"])
                free = free or rate(done)
                one = figures[f"{what}, {pace}"] = summary([done])
                rows.append([what, pace, f"{one['per_second']:,.0f}", f"{one['p50_ms']:.1f}", f"{one['p99_ms']:.1f}"])
    beneath = figures["disk"] = disk(bench, PUBLICATION, 1 if bench.arguments.quick else 5)
    rows.append(["the disk: one process that writes, syncs and renames a file", "as fast as it can", f"{beneath['per_second']:,.0f}", f"{beneath['p50_ms']:.1f}", f"{beneath['p99_ms']:.1f}"])
    bench.figures["publications"] = figures
    says = "A device that is too late asks for the newest publication, and tries the next number: its time ends when its own is in. Each number was given once."
    bench.part("publications", "Publications of 300 bytes", says, ["what", "pace", "a second", "p50, ms", "p99, ms"], rows)


class Publishing:
    """What each device does; the numbers that it gives are counted afterwards. `places`: accounts, their tokens and vaults, by turns."""

    def __init__(self, bench, places, ports=None):
        self.ports, self.places, self.body = ports or [bench.server.port], places, bench.bodies[PUBLICATION]
        self.hash = bench.hashes[PUBLICATION]

    def headers(self, token):
        return {"Authorization": f"Bearer {token}", "strongroom-blake3": self.hash}

    def newest(self, line, place):
        account, token, vault = place
        return json.loads(line.expect(200, "GET", f"/v1/vaults/{account}/{vault}/publications?after=0&wait=0", self.headers(token)))["last"]

    def __call__(self, number):
        line, last = Line(self.ports[number % len(self.ports)]), 0
        place = account, token, vault = self.places[number % len(self.places)]

        def publish():
            nonlocal last
            while True:
                path = f"/v1/vaults/{account}/{vault}/objects/publications/{last + 1:016}"
                status, came = line.ask("PUT", path, self.headers(token), self.body)
                if status == 201:
                    last += 1
                    return
                # Another device was faster.
                if status != 409:
                    raise Wrong(f"a publication got {status}: {came[:200]!r}")
                last = self.newest(line, place)

        return publish

    def check(self, count):
        line = Line(self.ports[0])
        total = sum(self.newest(line, place) for place in self.places)
        if total != count:
            raise SystemExit(f"{count} publications were confirmed, and the server has {total}")


def memory_kib(processes, name="VmRSS"):
    return sum(int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{one}/status").read_text(), re.MULTILINE)[1]) for one in processes)


def followers(bench):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = bench.arguments.followers if hard == resource.RLIM_INFINITY else min(bench.arguments.followers, hard - OTHER_FILES)
    if count < bench.arguments.followers:
        print(f"the system allows {count} connections (ulimit -Hn)", file=sys.stderr)
    rows = []
    with bench.serving("followers") as server:
        token = server.add_account("anna")
        headers = {"Authorization": f"Bearer {token}", "strongroom-blake3": bench.hashes[PUBLICATION]}
        at = "/v1/vaults/anna/v"
        Line(server.port).expect(200, "GET", f"{at}/publications?after=0&wait=0", headers)
        before = memory_kib([server.process.pid])
        lines = []
        for _ in range(count):
            line = Line(server.port)
            line.send("GET", f"{at}/publications/events?after=0", headers)
            if (status := line.head()[0]) != 200:
                raise SystemExit(f"a follower got {status}")
            lines.append(line)
        time.sleep(bench.arguments.hold)
        if (there := server.number("strongroom_followers")) != count:
            raise SystemExit(f"of {count} followers {there:.0f} are left after {bench.arguments.hold} s")
        ours = (memory_kib([server.process.pid]) - before) / count
        begun = time.perf_counter()
        Line(server.port).expect(201, "PUT", f"{at}/objects/publications/{1:016}", headers, bench.bodies[PUBLICATION])
        for line in lines:
            while b'"last":1' not in line.rest:
                line.more()
        took = time.perf_counter() - begun
        rows.append(["strongroom", f"{count:,}", f"{ours:.1f}", f"{took:.2f}"])
        bench.figures["followers"] = {"count": count, "hold_s": bench.arguments.hold, "strongroom_kib": ours, "all_heard_s": took}
        for line in lines:
            line.socket.close()
        if len(bench.targets()) > 1:
            theirs = idle_at_nginx(bench, count)
            rows.append(["nginx, idle", f"{count:,}", f"{theirs:.1f}", ""])
            bench.figures["followers"]["nginx_kib"] = theirs
    says = f"Connections with TLS, held for {bench.arguments.hold:g} s; then something is published, and all of them get the event. Those of nginx have got a file, and wait for the next request."
    bench.part("followers", "Devices that wait", says, ["who", "connections", "KiB each", "until all have heard, s"], rows)


def idle_at_nginx(bench, count):
    nginx = bench.nginx
    (nginx.files / "one").write_bytes(bench.bodies[SMALL])
    Line(nginx.port).expect(200, "GET", "/one", {})
    before = memory_kib(nginx.processes())
    lines = []
    for _ in range(count):
        line = Line(nginx.port)
        line.expect(200, "GET", "/one", {})
        lines.append(line)
    used = (memory_kib(nginx.processes()) - before) / count
    for line in lines:
        line.socket.close()
    return used


def sent_at_once(processes, send):
    """64 objects of 16 MiB: the memory of these processes before, their most meanwhile, both in MiB, and MiB a second."""
    before = memory_kib(processes)
    for one in processes:
        # From here on the kernel counts another peak.
        Path(f"/proc/{one}/clear_refs").write_text("5")
    done = load(DEVICES, send, count=1)
    return {"before_mib": before / KIB, "peak_mib": memory_kib(processes, "VmHWM") / KIB, "mib_per_second": rate(done) * LARGE / MIB}


def uploads(bench):
    body, found = bench.bodies[LARGE], {}
    with bench.serving("uploads") as server:
        # An account sends 32 at a time.
        tokens = [server.add_account(name) for name in ("anna", "bert")]

        def send(number):
            line, account = Line(server.port), ("anna", "bert")[number % 2]
            headers = {"Authorization": f"Bearer {tokens[number % 2]}", "strongroom-blake3": bench.hashes[LARGE]}
            return lambda: line.expect(201, "PUT", f"/v1/vaults/{account}/v/objects/loose/{number}", headers, body)

        found["strongroom"] = sent_at_once([server.process.pid], send)
        if len(bench.targets()) > 1:
            nginx = bench.nginx

            def send_there(number):
                line = Line(nginx.port)
                return lambda: line.expect(201, "PUT", f"/uploads/{number}", {}, body)

            found["nginx"] = sent_at_once(nginx.processes(), send_there)
            shutil.rmtree(nginx.files / "uploads")
    bench.figures["uploads"] = found
    rows = [[who, *(f"{one[name]:,.0f}" for name in ("before_mib", "peak_mib", "mib_per_second"))] for who, one in found.items()]
    says = "The memory before, and at its highest. nginx compares and syncs nothing."
    bench.part("uploads", "64 objects of 16 MiB at once", says, ["who", "before, MiB", "peak, MiB", "MiB a second"], rows)


def start(bench):
    known, turns = (10_000, 3) if bench.arguments.quick else (1_000_000, 7)
    rows, figures = [], {}
    with bench.serving("start") as server:
        token, body = server.add_account("anna"), bench.bodies[SMALL]
        headers = {"Authorization": f"Bearer {token}", "strongroom-blake3": bench.hashes[SMALL]}
        path = "/v1/vaults/anna/v/objects/loose/one"
        Line(server.port).expect(201, "PUT", path, headers, body)
        for further in (0, known):
            if code := server.stop():
                raise SystemExit(f"the server ended with {code}")
            if further:
                make_known(server.folder / "server.db", further)
            times = []
            for turn in range(turns):
                if turn and (code := server.stop()):
                    raise SystemExit(f"the server ended with {code}")
                begun = time.perf_counter()
                server.start()
                if Line(server.port).expect(200, "GET", path, headers) != body:
                    raise Wrong("what is got is not what was put")
                times.append(time.perf_counter() - begun)
            count, memory = server.number("strongroom_objects"), memory_kib([server.process.pid]) / KIB
            if count != further + 1:
                raise SystemExit(f"the server knows {count:.0f} objects instead of {further + 1}")
            figures[f"{count:.0f} objects"] = {"seconds": statistics.median(times), "most_s": max(times), "memory_mib": memory}
            rows.append([f"{count:,.0f}", f"{statistics.median(times):.3f}", f"{max(times):.3f}", f"{memory:.0f}"])
    bench.figures["start"] = figures
    says = "From the start of the program until an object was got, over TLS. Its rows are in the database; a server that starts looks at no file of an object."
    bench.part("start", "A server that knows many objects starts", says, ["objects", "median, s", "longest, s", "memory, MiB"], rows)


def make_known(database, count):
    """Adds rows of so many objects to the one vault of a server that does not run. They have no files."""
    connection = sqlite3.connect(database)
    with connection:
        (vault,) = connection.execute("SELECT id FROM vault").fetchone()
        connection.execute(
            "INSERT INTO object (vault, name, file, len, created_s) WITH RECURSIVE number (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM number WHERE at < ?) "
            "SELECT ?, printf('segments/%064x', at), randomblob(16), 1024, 0 FROM number",
            (count, vault),
        )
        connection.execute("UPDATE account SET objects = objects + ?, bytes = bytes + ?", (count, count * 1024))
    connection.close()


def instances(bench):
    if not postgres_process.find():
        print("no PostgreSQL here, so the rows of several instances are missing; to have them, type: apt-get install postgresql", file=sys.stderr)
        return
    seconds = 3 if bench.arguments.quick else 20
    rows, figures = [], {}
    with bench.serving("certificate") as server:
        tls = bench.place / "tls"
        shutil.copytree(server.folder / "tls", tls)
    for count in (1, 2, 4):
        services = Services(durable=True)
        running = []
        try:
            settings = services.settings("bench", f"certificate = '{tls}/certificate.pem'\nkey = '{tls}/key.pem'\nrequests_per_second = {MANY_REQUESTS}\n")
            running = [Server(services.place, PROGRAM, settings=settings, name=f"instance{number}") for number in range(count)]
            ports = [instance.port for instance in running]
            for what, one in of_instances(bench, running[0], ports, seconds):
                figures[f"{what}, {count}"] = one
                ratio = one["per_second"] / figures[f"{what}, 1"]["per_second"]
                rows.append([what, count, f"{one['per_second']:,.0f}", f"{one['p50_ms']:.1f}", f"{one['p99_ms']:.1f}", f"{ratio:.2f}"])
            used = memory_kib([instance.process.pid for instance in running]) / count / KIB
            figures[f"memory, {count}"] = {"mib": used}
            rows.append(["memory of each, MiB", count, f"{used:.0f}", "", "", f"{used / figures['memory, 1']['mib']:.2f}"])
        finally:
            for instance in running:
                instance.kill()
            services.stop()
    bench.figures["instances"] = figures
    says = "All of it runs on this machine: the instances, PostgreSQL (which syncs each change), an S3 server that keeps files without syncing them, and those who ask. More instances on more machines share neither. Changes of one account wait for one another at any number of instances, so each device has an account of its own, except where all race in one vault."
    bench.part("instances", "Instances on PostgreSQL and S3, 64 connections", says, ["what", "instances", "a second", "p50, ms", "p99, ms", "of one instance"], rows)


def of_instances(bench, first, ports, seconds):
    """What 64 devices reach that are spread over the instances, by name."""
    tokens = {f"device{number}": first.add_account(f"device{number}") for number in range(DEVICES)}
    own = [(account, token, "v") for account, token in tokens.items()]
    for what, places in (("publications, an account each", own), ("publications, one vault", [(*own[0][:2], "shared")])):
        publish = Publishing(bench, places, ports)
        done = load(DEVICES, publish, seconds=seconds)
        publish.check(done["count"])
        yield what, summary([done])
    body = bench.bodies[SMALL]

    def headers(number):
        return {"Authorization": f"Bearer {tokens[f'device{number}']}", "strongroom-blake3": bench.hashes[SMALL]}

    def put(number):
        line, count = Line(ports[number % len(ports)]), 0

        def one():
            nonlocal count
            line.expect(201, "PUT", f"/v1/vaults/device{number}/v/objects/loose/{count}", headers(number), body)
            count += 1

        return one

    def get(number):
        # What another instance has put.
        line = Line(ports[(number + 1) % len(ports)])

        def one():
            if line.expect(200, "GET", f"/v1/vaults/device{number}/v/objects/loose/0", headers(number)) != body:
                raise Wrong("what is got is not what was put")

        return one

    for what, work in (("objects of 1 KiB, put", put), ("objects of 1 KiB, got", get)):
        yield what, summary([load(DEVICES, work, seconds=seconds)])


PARTS = {"start": start, "small": small, "large": large, "publications": publications, "followers": followers, "uploads": uploads, "instances": instances}


def save(bench, into):
    """Adds to what earlier runs of other parts have written there."""
    into.mkdir(parents=True, exist_ok=True)
    path = into / "figures.json"
    saved = json.loads(path.read_text()) if path.exists() else {"figures": {}, "tables": {}}
    saved["figures"] |= bench.figures
    saved["tables"] |= bench.tables
    path.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n")
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.strip()
    quick = "\n\n**Quick:** little work; not to be compared with figures of a full run." if bench.arguments.quick else ""
    head = f"# A server, {datetime.date.today()}\n\n`tools/server_bench.py`; {machine()}; {version}. It runs on this machine, with TLS, SQLite and a folder; those who ask run beside it.{quick}\n"
    (into / "README.md").write_text("\n".join([head, *(saved["tables"][name] for name in PARTS if name in saved["tables"])]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--followers", type=int)
    parser.add_argument("--hold", type=float)
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.followers = arguments.followers or (500 if arguments.quick else 10_000)
    arguments.hold = arguments.hold or (5 if arguments.quick else 600)
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (ROOT / "target").mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="server-bench.", dir=ROOT / "target"))
    bench = None
    try:
        bench = Bench(place, arguments)
        for name in arguments.only:
            PARTS[name](bench)
            if arguments.into:
                save(bench, arguments.into)
    except (Wrong, TimeoutError, ConnectionError) as wrong:
        raise SystemExit(f"{type(wrong).__name__}: {wrong}")
    finally:
        if bench:
            bench.clean()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
