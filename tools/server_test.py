#!/usr/bin/env python3
"""Tests of several instances of a server, with a real PostgreSQL and a real S3 server, which this starts and stops.

    tools/server_test.py                           all: the tests in Rust with 10,000 races, then 50 rounds of kills; ROUNDS=n, SEED=n, RACES=n
    tools/server_test.py faults                    the kills only, and a backup that is restored
    tools/server_test.py with COMMAND ARGUMENT...  runs a command, as `cargo test`, to which the environment says where both are

PostgreSQL is that of the distribution, and so is nginx before two instances; where PostgreSQL is not installed, `with` says so, and the command skips what needs it. With
STRONGROOM_TEST_SCALED=1, as in CI, that is an error. Rounds of kills: writers at two instances, and one of the instances, the database or the S3 server is killed with -9.
Then the server is backed up and restored, as docs/guide/server.md says.
"""

import collections
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import blake3_of
import nginx_process
import postgres_process
from object_store import DurableStore, ObjectStore
from server_process import Server

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/debug/strongroom-server"))
BUCKET = "objects"
WRITERS = 6
# So many confirmations come between two kills.
QUIET_COUNT = 12
PATIENCE_S = 300
ANSWER_S = 90
# None so short that two writers have the same bytes.
SEGMENT_LENS = (32, 700, 60_000, 400_000, 3_000_000)
AWAY = (ConnectionError, TimeoutError, http.client.HTTPException, OSError)


def say(text):
    print(text, flush=True)


class Services:
    """PostgreSQL and an S3 server, until `stop`. `durable`: as an operator would run them.

    `remotes`: also an S3 server that devices use without a server of ours. It refuses to create an object twice, as devices need it; the
    other one, which keeps files, may accept both of two that come at once.
    """

    def __init__(self, durable=False, remotes=False):
        # PostgreSQL may run as another user, who must be able to enter.
        self.place = Path(tempfile.mkdtemp(prefix="strongroom-server-test."))
        self.place.chmod(0o755)
        self.postgres, self.store, self.remotes = None, None, None
        try:
            self.postgres = postgres_process.Postgres(self.place, durable)
            self.store = DurableStore(self.place, say)
            self.store.create_bucket(BUCKET)
            if remotes:
                self.remotes = ObjectStore(self.place, say=say)
                self.remotes.create_bucket(BUCKET)
        except BaseException:
            self.stop()
            raise

    def environment(self):
        found = {"STRONGROOM_TEST_DATABASE": self.postgres.url(), "STRONGROOM_TEST_OBJECTS": self.store.url(BUCKET), "STRONGROOM_TEST_SCALED": "1"}
        if self.postgres.certificate:
            found["STRONGROOM_TEST_DATABASE_CA"] = str(self.postgres.certificate)
        # Where there is none, the tests with it say that they are skipped.
        if nginx := nginx_process.find():
            found["STRONGROOM_TEST_NGINX"] = nginx
        if self.remotes:
            found["STRONGROOM_TEST_S3"] = f"s3://demo:demo@{BUCKET}/?endpoint=http://127.0.0.1:{self.remotes.port}&region=us-east-1"
        return found

    def settings(self, name, further=""):
        """A file with the settings of instances that have a database of their own."""
        self.postgres.sql(f'CREATE DATABASE "{name}"')
        file = self.place / f"{name}.toml"
        file.write_text(f"database = '{self.postgres.url(name)}'\nobjects = '{self.store.url(BUCKET, name)}'\n{further}")
        file.chmod(0o600)
        return file

    def stop(self):
        for one in (self.remotes, self.store, self.postgres):
            if one:
                one.stop()
        shutil.rmtree(self.place, ignore_errors=True)


def run(command, environment=None):
    """Runs a command; gives its exit code."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(environment or {})})
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


class Writer(threading.Thread):
    """Creates segments, publications and deposits at whichever instance answers, and notes what was confirmed."""

    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number = world, number
        self.rng = random.Random(f"{world.seed} {number}")
        # Segments, and objects of deposits, that were confirmed and not removed since.
        self.segments, self.removed = {}, set()
        self.publications, self.wrong = {}, None

    def run(self):
        try:
            while not self.world.done.is_set():
                kind = self.rng.random()
                if kind < 0.4:
                    self.create_segment()
                elif kind < 0.5:
                    self.deposit()
                elif kind < 0.8:
                    self.publish()
                elif kind < 0.9:
                    self.read_one()
                else:
                    self.remove_one()
        except BaseException as wrong:
            self.wrong = f"writer {self.number}: {wrong!r}"
            self.world.done.set()

    def ask(self, method, name, body=b"", query="", token=None):
        """Asks until somebody answers; gives the status, the body, and whether an earlier attempt may have been carried out."""
        begun, attempts = time.monotonic(), 0
        while True:
            port = self.rng.choice(self.world.ports())
            if time.monotonic() - begun > PATIENCE_S:
                raise SystemExit(f"{method} {name} was not answered for {PATIENCE_S} s")
            try:
                status, came, head = self.ask_once(port, method, f"/v1/vaults/anna/v/{name}{query}", body, token or self.world.token)
            except AWAY:
                status, came, head = 0, b"", {}
            if status == 503 and ("retry-after" not in head or head.get("content-type") != "application/problem+json"):
                raise SystemExit(f"{method} {name} got 503 without a time to come again or a problem document: {head}")
            # Refused for now, or broken off.
            if status in (0, 408, 500, 502, 503):
                self.world.refusals[status] += 1
                attempts += 1
                time.sleep(0.05)
                continue
            return status, came, attempts > 0

    def ask_once(self, port, method, path, body, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
        try:
            headers = {"Authorization": f"Bearer {token}", "strongroom-blake3": blake3_of.hexdigest(body)}
            connection.request(method, path, body if method == "PUT" else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def confirm(self):
        self.world.confirmed.release()

    def create_segment(self):
        body = self.rng.randbytes(self.rng.choice(SEGMENT_LENS))
        name = f"segments/{blake3_of.hexdigest(body)}"
        status, came, is_again = self.ask("PUT", f"objects/{name}", body)
        if status == 201 or status == 409 and is_again:
            self.segments[name] = hashlib.sha256(body).digest()
            self.confirm()
        else:
            raise SystemExit(f"a segment got {status}: {came[:200]!r}")

    def deposit(self):
        """Up to two pieces, then the envelope, by an address. Too many of either in a time are refused, and what came before waits all the same."""
        deposit, run = self.rng.randbytes(16).hex(), self.rng.randbytes(8).hex()
        for number in range(self.rng.randrange(3)):
            self.create_deposited("pieces", f"{deposit}.{run}.{number:04}", self.rng.randbytes(self.rng.choice((4096, 300_000))))
        self.create_deposited("deposits", deposit, self.rng.randbytes(4096))

    def create_deposited(self, kind, name, body):
        status, came, is_again = self.ask("PUT", f"inbox/{name}", body, token=self.world.address)
        if status == 409 and is_again:
            status = 201
        if status not in (201, 429):
            raise SystemExit(f"{kind}/{name} got {status}: {came[:200]!r}")
        if status == 201:
            self.segments[f"{kind}/{name}"] = hashlib.sha256(body).digest()
            self.confirm()

    def newest(self):
        status, came, _ = self.ask("GET", "publications", query="?after=0&wait=0")
        if status != 200:
            raise SystemExit(f"the newest publication got {status}")
        return json.loads(came)["last"]

    def publish(self):
        number = self.newest() + 1
        name = f"objects/publications/{number:016}"
        body = f"{self.number} {self.rng.random()}".encode()
        status, came, is_again = self.ask("PUT", name, body)
        if status == 409 and is_again:
            # The answer may be lost, and not the publication.
            got, kept, _ = self.ask("GET", name)
            status = 201 if got == 200 and kept == body else 409
        if status == 201:
            self.publications[number] = body
            self.confirm()
        elif status != 409:
            raise SystemExit(f"a publication got {status}: {came[:200]!r}")

    def read_one(self):
        if self.segments:
            self.compare(self.rng.choice(list(self.segments)))

    def compare(self, name):
        status, came, _ = self.ask("GET", f"objects/{name}")
        if status != 200 or hashlib.sha256(came).digest() != self.segments[name]:
            raise SystemExit(f"{name} was confirmed, and is lost or another one: {status}")

    def remove_one(self):
        if len(self.segments) > 5:
            name = self.rng.choice(list(self.segments))
            status, came, _ = self.ask("DELETE", f"objects/{name}")
            if status != 204:
                raise SystemExit(f"a removal got {status}: {came[:200]!r}")
            del self.segments[name]
            self.removed.add(name)

    def check(self):
        for name in self.segments:
            self.compare(name)
        for name in self.removed - set(self.segments):
            if self.ask("GET", f"objects/{name}")[0] != 404:
                raise SystemExit(f"{name} was removed, and is there")


class Faults:
    def __init__(self, services, seed):
        self.services, self.seed, self.rng = services, seed, random.Random(seed)
        self.done, self.confirmed = threading.Event(), threading.Semaphore(0)
        self.refusals, self.kills = collections.Counter(), collections.Counter()
        self.settings = services.settings("faults", "no_tls = true\n")
        self.instances = [self.instance(number) for number in range(2)]
        self.token = self.instances[0].add_account("anna")
        # The token of an address of the inbox, whose object has its hash as its name. It is hashed before several threads want that.
        self.address = "sra-" + self.rng.randbytes(32).hex()
        self.address_object = f"objects/addresses/{blake3_of.hexdigest(self.address.encode())}"
        self.writers = [Writer(self, number) for number in range(WRITERS)]

    def instance(self, number):
        return Server(self.services.place, PROGRAM, settings=self.settings, name=f"instance{number}")

    def ports(self):
        return [instance.port for instance in self.instances]

    def wait_for(self, count):
        """Until so many more are confirmed."""
        begun = time.monotonic()
        while self.confirmed.acquire(blocking=False):
            pass
        for _ in range(count):
            while not self.confirmed.acquire(timeout=1):
                self.look(begun)

    def look(self, begun):
        wrong = [writer.wrong for writer in self.writers if writer.wrong]
        if wrong:
            raise SystemExit("; ".join(wrong))
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"nothing was confirmed for {PATIENCE_S} s")

    def round(self):
        victims = {"instance 0": self.instances[0], "instance 1": self.instances[1], "PostgreSQL": self.services.postgres, "S3": self.services.store}
        name = self.rng.choice(list(victims))
        self.wait_for(self.rng.randrange(1, QUIET_COUNT))
        # Anywhere within a request.
        time.sleep(self.rng.random() * 0.1)
        victims[name].kill()
        self.kills[name] += 1
        if name.startswith("instance"):
            # The other one serves everything meanwhile.
            self.wait_for(2)
        victims[name].start()

    def play(self, rounds):
        status, came, is_again = self.writers[0].ask("PUT", self.address_object, b"address")
        if status != 201 and not (status == 409 and is_again):
            raise SystemExit(f"the address of the inbox got {status}: {came[:200]!r}")
        for writer in self.writers:
            writer.start()
        for number in range(1, rounds + 1):
            self.round()
            if number % 10 == 0:
                confirmed = sum(len(writer.segments) + len(writer.publications) for writer in self.writers)
                say(f"round {number}: {confirmed} objects confirmed; killed: {dict(self.kills)}")
        self.wait_for(QUIET_COUNT)
        self.done.set()
        for writer in self.writers:
            # Longer than a request may take.
            writer.join(PATIENCE_S + ANSWER_S)
            if writer.is_alive():
                raise SystemExit(f"writer {writer.number} does not end")
        self.look(time.monotonic())
        self.check()

    def check(self):
        owners = collections.Counter(number for writer in self.writers for number in writer.publications)
        doubled = [number for number, count in owners.items() if count > 1]
        if doubled:
            raise SystemExit(f"publications that two writers have: {doubled}")
        for writer in self.writers:
            writer.check()
        reader = self.writers[0]
        last = reader.newest()
        bodies = {number: body for writer in self.writers for number, body in writer.publications.items()}
        seen = {}
        for number in range(1, last + 1):
            status, came, _ = reader.ask("GET", f"objects/publications/{number:016}")
            if status != 200 or bodies.get(number, came) != came:
                raise SystemExit(f"publication {number} of {last} is missing or another one: {status}")
            # Each attempt has bytes of its own, also one whose answer was lost.
            if came in seen:
                raise SystemExit(f"publications {seen[came]} and {number} are the same one")
            seen[came] = number
        if bodies and max(bodies) > last:
            raise SystemExit(f"publication {max(bodies)} was confirmed, and the last one is {last}")
        instance, begun, taken = self.instances[0], time.monotonic(), 0
        while True:
            # A removal that was cut off, or an upload, is noted, and its bytes go now.
            taken += json.loads(instance.administer("gc", self.settings, "--unfinished", "--json"))["files"]
            found = json.loads(instance.administer("check", self.settings, "--json"))
            files = [name for name in self.services.store.objects(BUCKET) if name.startswith("faults/")]
            if found["problem_count"]:
                raise SystemExit(f"the check found {found}")
            if found["garbage_files"] == 0 and len(files) == found["objects"]:
                break
            # An instance may still be removing what a request left.
            if time.monotonic() - begun > PATIENCE_S:
                raise SystemExit(f"after gc {len(files)} files are left: {found}")
        say(f"{sum(self.kills.values())} kills: {found['objects']} objects, {last} publications, nothing lost or doubled; gc took {taken} files; refused meanwhile: {dict(self.refusals)}")

    def restore(self):
        """A backup as the guide says it, during which an object is removed: a server on what is restored has everything, that object too."""
        services, writer, place = self.services, self.writers[0], self.services.place / "backup"
        place.mkdir()
        writer.create_segment()
        name, last = next(reversed(writer.segments)), writer.newest()
        dump, dumped, removed = place / "strongroom.dump", place / "dumped", place / "removed"
        stored, copy, programs = services.store.root / BUCKET, place / "objects", services.postgres.programs
        script = place / "backup.sh"
        script.write_text(
            f"""set -e
{programs}/pg_dump --no-unlogged-table-data --format=custom --file={dump} '{services.postgres.url("faults")}'
touch {dumped}
while [ ! -e {removed} ]; do sleep 0.05; done
cp -a {stored}/faults/objects {copy}
"""
        )
        backup = subprocess.Popen([PROGRAM, "during-backup", str(self.settings), "sh", str(script)])
        try:
            begun = time.monotonic()
            while not dumped.exists():
                if backup.poll() is not None or time.monotonic() - begun > PATIENCE_S:
                    raise SystemExit("the backup makes no dump")
                time.sleep(0.05)
            if (status := writer.ask("DELETE", f"objects/{name}")[0]) != 204 or writer.ask("GET", f"objects/{name}")[0] != 404:
                raise SystemExit(f"a removal during a backup got {status}")
            removed.touch()
            if code := backup.wait(PATIENCE_S):
                raise SystemExit(f"the backup ended with {code}")
        finally:
            backup.kill()
            backup.wait()
        if any([instance.stop() for instance in self.instances]):
            raise SystemExit("an instance did not end well")
        settings = services.settings("restored", "no_tls = true\n")
        shutil.copytree(copy, stored / "restored/objects")
        restored = subprocess.run([programs / "pg_restore", "--no-owner", f"--dbname={services.postgres.url('restored')}", dump], capture_output=True, text=True)
        if restored.returncode != 0:
            raise SystemExit(f"pg_restore ended with {restored.returncode}: {restored.stderr}")
        self.instances = [Server(services.place, PROGRAM, settings=settings, name="restored")]
        found = json.loads(self.instances[0].administer("check", settings, "--json"))
        if found["problem_count"]:
            raise SystemExit(f"the check of what was restored found {found}")
        for one in self.writers:
            one.check()
        if writer.newest() != last:
            raise SystemExit(f"the last publication was {last}, and {writer.newest()} after it was restored")
        say(f"backed up by pg_dump, and restored: {found['objects']} objects, the one among them that was removed meanwhile")

    def stop(self):
        self.done.set()
        for instance in self.instances:
            instance.kill()


def faults(services, rounds, seed):
    say(f"faults: {rounds} rounds, seed {seed}")
    world = Faults(services, seed)
    try:
        world.play(rounds)
        world.restore()
    finally:
        world.stop()


def skip_or_start():
    if postgres_process.find():
        return Services(remotes=True)
    if os.environ.get("STRONGROOM_TEST_SCALED"):
        raise SystemExit("PostgreSQL is not installed, and STRONGROOM_TEST_SCALED says that no test of several instances may be skipped")
    say("SKIPPED: PostgreSQL is not installed, so no test of several instances of a server runs; on Debian or Ubuntu type: sudo apt-get install postgresql")
    return None


def main():
    what, *command = sys.argv[1:] or ["all"]
    if what not in ("all", "faults", "with") or (what == "with") != bool(command):
        raise SystemExit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    services = skip_or_start() if what == "with" else Services(remotes=what == "all")
    try:
        if what == "with":
            sys.exit(run(command, services.environment() if services else None))
        rounds, seed = int(os.environ.get("ROUNDS", "50")), int(os.environ.get("SEED", str(time.time_ns() % 1_000_000)))
        if what == "all":
            environment = {**services.environment(), "STRONGROOM_RACES": os.environ.get("RACES", "10000")}
            tests = ["cargo", "test", "--locked", "-p", "strongroom-server", "-p", "strongroom-remote"]
            if code := run(tests, environment):
                sys.exit(code)
        faults(services, rounds, seed)
    finally:
        if services:
            services.stop()


if __name__ == "__main__":
    main()
