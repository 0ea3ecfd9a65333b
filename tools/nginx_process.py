"""nginx on this machine: for tests of servers behind it, and as a reference for measurements, where it gives and takes plain files over TLS, with a certificate of somebody else."""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools/nginx"
PACKAGES = ("nginx", "nginx-core", "nginx-light")
START_S = 60

CONFIGURATION = """
daemon off;
{user}
pid {place}/pid;
worker_processes auto;
worker_rlimit_nofile 40000;
events {{ worker_connections 20000; }}
http {{
    access_log {place}/access.log;
    default_type application/octet-stream;
    sendfile on;
    keepalive_timeout 3600s;
    keepalive_requests 1000000000;
    client_max_body_size 128m;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {place}/certificate.pem;
        ssl_certificate_key {place}/key.pem;
        root {place}/files;
        dav_methods PUT;
        create_full_put_path on;
    }}
}}
"""


def works(program):
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True)
    except OSError:
        return False
    return done.returncode == 0 and "http_dav_module" in done.stderr and "http_ssl_module" in done.stderr


def find():
    """The program; `None` if there is none and the distribution gives none. It is unpacked and not installed: nothing starts by itself."""
    for program in (shutil.which("nginx"), "/usr/sbin/nginx", str(TOOLS / "usr/sbin/nginx")):
        if program and works(program):
            return program
    TOOLS.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        try:
            subprocess.run(["apt-get", "download", "-qq", package], cwd=TOOLS, capture_output=True)
            for archive in TOOLS.glob(f"{package}_*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(archive), str(TOOLS)], capture_output=True)
        except OSError:
            return None
        if works(program):
            return program
    return None


class Nginx:
    """`tls`: a folder with `certificate.pem` and `key.pem`."""

    def __init__(self, place, program, tls):
        self.place, self.files = place / "nginx", place / "nginx/files"
        self.files.mkdir(parents=True)
        for name in ("certificate.pem", "key.pem"):
            shutil.copy(tls / name, self.place / name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # Its workers would be another user, who may not enter this place.
        user = "user root root;" if os.geteuid() == 0 else ""
        configuration = self.place / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(place=self.place, port=self.port, user=user))
        errors = self.place / "error.log"
        self.process = subprocess.Popen([program, "-p", str(self.place), "-e", str(errors), "-c", str(configuration)])
        begun = time.monotonic()
        while not self.answers():
            if time.monotonic() - begun > START_S or self.process.poll() is not None:
                self.stop()
                raise SystemExit(f"nginx does not start: {errors.read_text() if errors.exists() else ''}")
            time.sleep(0.05)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def processes(self):
        """Its own number, and those of its workers."""
        own = self.process.pid
        workers = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                if re.search(rf"^PPid:\s+{own}$", status.read_text(), re.MULTILINE):
                    workers.append(int(status.parent.name))
            except OSError:
                continue
        return [own, *workers]

    def stop(self):
        """Workers end with their master, if that has the time to tell them."""
        self.process.terminate()
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
