"""A Strongroom server on this machine for demos and tests: started, asked for its numbers, killed, and started again at the same address."""

import http.client
import re
import signal
import subprocess
import urllib.parse

START_S = 60


class Server:
    """A server in a folder of its own below `place`, or with the settings in a file. `options` are further arguments of `serve`."""

    def __init__(self, place, program, *options, settings=None, name="server"):
        self.program, self.options, self.settings = program, options, settings
        # Commands for the administrator take the file in the place of the folder.
        self.folder, self.log = settings or place / "server", place / f"{name}.log"
        self.port, self.fingerprint, self.numbers_at = 0, None, None
        self.start()

    def start(self):
        """At the address that it had, if it ran before."""
        where = ["--config", str(self.settings)] if self.settings else [str(self.folder)]
        command = [self.program, "serve", *where, "--listen", f"127.0.0.1:{self.port}", *self.options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.url, port = self.said(r"listening at (https?://127\.0\.0\.1:(\d+))")
        self.port = int(port)
        if self.url.startswith("https:"):
            (self.fingerprint,) = self.said(r"fingerprint ([0-9a-f]{64})")
        if "--metrics" in self.options:
            (self.numbers_at,) = self.said(r"metrics at http://(127\.0\.0\.1:\d+)/metrics")

    def said(self, form):
        # Ends without a line if the server does not start.
        line = self.process.stdout.readline()
        found = re.fullmatch(form + "\n", line)
        if not found:
            self.kill()
            raise SystemExit(f"the server does not start: {line}{self.log.read_text(errors='replace')}")
        return found.groups()

    def administer(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"strongroom-server {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def add_account(self, name, *quota):
        """Gives its token."""
        return self.administer("account", "add", self.folder, name, *quota)

    def used_bytes(self, name):
        """What the account has stored, also while no server runs."""
        accounts = self.administer("account", "list", self.folder)
        return int(re.search(rf"^{re.escape(name)}  (\d+)", accounts, re.MULTILINE)[1])

    def number(self, name):
        """A number of its metrics: the sum over all labels."""
        connection = http.client.HTTPConnection(self.numbers_at, timeout=START_S)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        values = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
        if not values:
            raise SystemExit(f"the server has no metric {name}")
        return sum(map(float, values))

    def stop(self):
        """Ends it as a service manager does; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_S)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def url_of(self, path, token, port=None):
        """The URL of a vault for a device; through a relay at `port` if there is one."""
        parts = urllib.parse.urlsplit(self.url)
        query = f"?fingerprint={self.fingerprint}" if self.fingerprint else ""
        return f"{parts.scheme}://{token}@{parts.hostname}:{port or parts.port}/{path}{query}"
