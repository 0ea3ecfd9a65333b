"""A PostgreSQL server on this machine for tests and measurements, from the package of the distribution, in a folder of its own."""

import glob
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

START_S = 60
USER, PASSWORD = "test", "of-the-database"


def find():
    """The folder of its programs; `None` if it is not installed."""
    places = [shutil.which("postgres"), *glob.glob("/usr/lib/postgresql/*/bin/postgres"), *glob.glob("/usr/pgsql-*/bin/postgres")]
    folders = {Path(place).resolve().parent for place in places if place}
    whole = [folder for folder in folders if all((folder / name).exists() for name in ("postgres", "initdb", "pg_isready"))]

    def version(folder):
        return [int(number) for number in re.findall(r"\d+", str(folder))]

    return max(whole, key=version, default=None)


class Postgres:
    """`place` must be a folder that every user of this machine may enter: the server refuses to be root, and runs as `nobody` then."""

    def __init__(self, place, durable=False):
        self.programs = find()
        if not self.programs:
            raise SystemExit("PostgreSQL is not installed; on Debian or Ubuntu type: sudo apt-get install postgresql")
        self.folder, self.log = place / "postgres", place / "postgres.log"
        self.folder.mkdir()
        self.rights = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.rights = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        # A process that is killed leaves what it wrote to the system: only a machine that stops needs more.
        self.options = ["fsync=on" if durable else "fsync=off"]
        self.certificate = self.sign()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = self.folder / f"password-{secrets.token_hex(8)}"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self.run("initdb", "-D", self.folder / "data", "-U", USER, "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--locale=C", "--no-sync")
        password.unlink()
        self.start()

    def sign(self):
        """A certificate for this machine that signs itself; nothing without the program `openssl`, and then connections have no TLS."""
        certificate, key = self.folder / "certificate.pem", self.folder / "key.pem"
        command = ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-out", str(certificate), "-keyout", str(key)]
        if not shutil.which("openssl") or subprocess.run(command, capture_output=True).returncode != 0:
            return None
        key.chmod(0o600)
        if self.rights:
            os.chown(key, self.rights["user"], self.rights["group"])
        self.options += ["ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}"]
        return certificate

    def run(self, program, *arguments):
        done = subprocess.run([self.programs / program, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, **self.rights)
        if done.returncode != 0:
            raise SystemExit(f"{program} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self):
        """At the port that it had, with what it has."""
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300", *self.options]
        command = [self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        for option in options:
            command += ["-c", option]
        begun = time.monotonic()
        self.process = None
        while not self.answers():
            # After a kill it does not start before the last of its former processes has ended.
            if self.process is None or self.process.poll() is not None:
                with open(self.log, "ab") as log:
                    self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self.rights)
            if time.monotonic() - begun > START_S:
                self.kill()
                raise SystemExit(f"PostgreSQL does not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.05)

    def answers(self):
        if self.process is None or self.process.poll() is not None:
            return False
        done = subprocess.run([self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)])
        return done.returncode == 0

    def url(self, database="postgres"):
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement, database="postgres"):
        """What a statement answers, as text."""
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        command = [self.programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-Atqc", statement, database]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{statement}: {done.stderr}")
        return done.stdout.strip()

    def kill(self):
        """Its other processes notice, and end."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Ends it in an orderly way: who is connected is cut off."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.kill()
