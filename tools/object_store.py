"""S3 servers on this machine for demos, tests and measurements, and a connection to one that can be slowed or interrupted.

`ObjectStore` comes from the package `moto`, which is installed into .tools if it is missing. It keeps its objects in memory and temporary files.
`DurableStore` is the program `s3s-fs`, which is built into .tools if it is missing. It keeps them in a folder, so they outlive it.
"""

import collections
import http.client
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools/moto"
START_S = 60
# The server does not check the one that signs, but wants to see that somebody did.
SIGNED = "AWS4-HMAC-SHA256 Credential=demo/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class ObjectStore:
    """`within`: the beginning of a command that runs it elsewhere, as in a network namespace, where `host` is its address."""

    CREDENTIALS = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}

    def __init__(self, place, host="127.0.0.1", within=(), say=print):
        self.install(say)
        self.host = host
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [*within, sys.executable, "-m", "moto.server", "-H", host, "-p", str(self.port)]
        environment = {**os.environ, "PYTHONPATH": str(TOOLS), "TMPDIR": str(place)}
        self.log = place / "server.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        begun = time.monotonic()
        while not self.answers():
            if time.monotonic() - begun > START_S or self.process.poll() is not None:
                raise SystemExit(f"the S3 server does not start: {self.log.read_text()}")
            time.sleep(0.05)

    @staticmethod
    def install(say=print):
        """Where there is no network later, call it while there is one."""
        if TOOLS.exists():
            return
        say("installing an S3 server into .tools")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts", "--root-user-action=ignore", "--target", str(TOOLS), "moto[server]"]
        if subprocess.run(install).returncode != 0:
            raise SystemExit(f"moto cannot be installed; type: {' '.join(install)}")

    def answers(self):
        try:
            socket.create_connection((self.host, self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def request(self, method, path):
        connection = http.client.HTTPConnection(self.host, self.port)
        connection.request(method, path, headers={"Authorization": SIGNED})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the store answers {method} {path} with {answer.status}")
        return body

    def create_bucket(self, name):
        self.request("PUT", f"/{name}")

    def read(self, bucket, name):
        return self.request("GET", f"/{bucket}/{urllib.parse.quote(name)}")

    def objects(self, bucket):
        """The names of all objects."""
        found, token = [], ""
        while True:
            query = f"/{bucket}?list-type=2{'&continuation-token=' + urllib.parse.quote(token) if token else ''}"
            listing = self.request("GET", query).decode()
            found += re.findall("<Key>([^<]+)</Key>", listing)
            more = re.search("<NextContinuationToken>([^<]+)</NextContinuationToken>", listing)
            if not more:
                return found
            token = more[1]

    def requests(self):
        """How many requests it has answered until now, by what they are: `GET segments`, `LIST publications`, `PUT v`."""
        found = collections.Counter()
        # Answers that say no are in colour.
        for method, path in re.findall(rb'"(?:\x1b\[\d+m)*([A-Z]+) /([^ ]*) HTTP/1\.1', self.log.read_bytes()):
            path, _, query = path.decode().partition("?")
            folders = path.rstrip("/").split("/")[1:-1]
            if b"GET" == method and ("list-type" in query or not folders):
                prefix = urllib.parse.parse_qs(query).get("prefix", [""])[0]
                found[f"LIST {prefix.rstrip('/').split('/')[-1]}".strip()] += 1
            else:
                found[f"{method.decode()} {folders[-1] if folders else ''}".strip()] += 1
        return found

    def stop(self):
        self.process.kill()
        self.process.wait()


class DurableStore:
    """Its objects are files in a folder, a folder for each bucket: what it has confirmed is there after a kill -9."""

    VERSION = "0.14.1"
    PROGRAM = ROOT / f".tools/s3s-fs-{VERSION}/bin/s3s-fs"
    KEY, SECRET = "test", "of-the-store"

    def __init__(self, place, say=print):
        self.install(say)
        self.root, self.log = place / "s3", place / "s3.log"
        self.root.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @classmethod
    def install(cls, say=print):
        if cls.PROGRAM.exists():
            return
        say("building an S3 server into .tools")
        root = cls.PROGRAM.parent.parent
        install = ["cargo", "install", "--quiet", "--locked", "--root", str(root), "--version", f"={cls.VERSION}", "--features", "binary", "s3s-fs"]
        # It stores what tests send, and is measured by nobody: built in little time rather than fast.
        quick = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "1", "CARGO_PROFILE_RELEASE_LTO": "off"}
        if subprocess.run(install, cwd=ROOT, env={**os.environ, **quick}).returncode != 0:
            raise SystemExit(f"s3s-fs cannot be built; type: {' '.join(install)}")

    def start(self):
        """At the port that it had, with what it has."""
        command = [str(self.PROGRAM), "--host", "127.0.0.1", "--port", str(self.port), "--access-key", self.KEY, "--secret-key", self.SECRET, str(self.root)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "RUST_LOG": "error"})
        begun = time.monotonic()
        while not self.answers():
            if time.monotonic() - begun > START_S or self.process.poll() is not None:
                self.kill()
                raise SystemExit(f"the S3 server does not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.02)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def create_bucket(self, name):
        (self.root / name).mkdir()

    def url(self, bucket, path=""):
        """The place of a remote or of a server, with its keys."""
        return f"s3://{self.KEY}:{self.SECRET}@{bucket}/{path}?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"

    def objects(self, bucket):
        """The names of all objects."""
        root = self.root / bucket
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def kill(self):
        self.process.kill()
        self.process.wait()

    stop = kill


class Relay:
    """Passes connections on to a port of `host`, each way `delay_s` later, until it is cut."""

    def __init__(self, port, host="127.0.0.1", delay_s=0.0):
        self.far, self.delay_s, self.is_cut, self.open = (host, port), delay_s, False, set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self.far)
            except OSError:
                near.close()
                continue
            self.open |= {near, far}
            ended = []
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for one, other in ((near, far), (far, near)):
                passing = queue.Queue(maxsize=1024)
                threading.Thread(target=self.take, args=(one, passing), daemon=True).start()
                threading.Thread(target=self.give, args=(passing, other, ended), daemon=True).start()

    def take(self, one, passing):
        data = True
        while data:
            try:
                data = one.recv(1 << 16)
            except OSError:
                data = b""
            passing.put((time.monotonic() + self.delay_s, data))

    def give(self, passing, other, ended):
        """What comes from one end goes to the other in its order; nothing at all is the end of it."""
        data = True
        while data:
            due, data = passing.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                other.sendall(data) if data else other.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        ended.append(other)
        if len(ended) == 2:
            for end in ended:
                end.close()
                self.open.discard(end)

    def cut(self):
        self.is_cut = True
        for end in list(self.open):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def mend(self):
        self.is_cut = False
