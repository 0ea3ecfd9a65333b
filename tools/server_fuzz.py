#!/usr/bin/env python3
"""Requests of every kind to a real server, made by Schemathesis of its OpenAPI document: no answer may be undocumented, none may say that the server failed.

    tools/server_fuzz.py [SECONDS]        120 seconds if nothing is said; SEED=n for other requests; STRONGROOM_SERVER=program

Schemathesis is installed into .tools if it is missing. It runs three times, with all of its checks: with the token of an account, without a
token, and with the token of an account that has nothing left. Requests that wait for events without end, and those with the address of an inbox, are made here.
"""

import collections
import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from server_process import START_S, Server

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools/vectors"))
from blake3_slow import blake3  # noqa: E402

PROGRAM = os.environ.get("STRONGROOM_SERVER", str(ROOT / "target/debug/strongroom-server"))
# Another version has other checks, and finds other things: raise it on purpose.
VERSION = "4.32.5"
TOOLS = ROOT / f".tools/schemathesis-{VERSION}"
SEED = os.environ.get("SEED", "1")
# For what begins before the time counts and what ends after it.
LATER_S = 180
# The request that is answered without end.
ENDLESS = "followPublications"
# The request with which each run begins.
DOCUMENT = "document"
# The request that needs the signature of a device, which nobody has here: each is refused. What a login gives is tried by the tests of the server.
SIGNED = "logIn"
# The requests that need the address of an inbox, which Schemathesis has not: each is refused. Those with one are made here.
OF_INBOX = ("inbox", "inboxHead", "deposit")
ADDRESS = "sra-" + "7" * 64
# The vaults in which the hooks ask for most objects.
VAULTS = ("one", "two")
HASH_OF_NOTHING = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
# Statuses with which a server may refuse what is wrong, and what it cannot carry out just now.
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx"{full}]
[checks.negative_data_rejection]
expected-statuses = ["4xx"{full}]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "416"{full}]
[checks.missing_required_header]
expected-statuses = ["4xx"]
"""


def say(text):
    print(text, flush=True)


def install():
    if (TOOLS / "ready").exists():
        return
    say("installing Schemathesis into .tools")
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(TOOLS)],
        [str(TOOLS / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", f"schemathesis=={VERSION}"],
    ]
    for step in steps:
        if subprocess.run(step).returncode != 0:
            raise SystemExit(f"Schemathesis cannot be installed; type: {' '.join(step)}")
    (TOOLS / "ready").touch()


class Asked(Server):
    """A server that is sent single requests."""

    def request(self, method, path, token=None, body=b"", headers=()):
        """The status, the headers and the first bytes of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        try:
            own = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, body, {**own, **dict(headers)})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read1(65536) if method != "HEAD" else b""
        finally:
            connection.close()

    def document(self):
        with urllib.request.urlopen(f"{self.url}/v1/openapi.json", timeout=START_S) as answer:
            return json.load(answer)


class Fuzz:
    def __init__(self, place, server):
        self.place, self.server, self.findings = place, server, []
        self.requests = 0

    def found(self, text):
        self.findings.append(text)
        say(f"  FOUND: {text}")

    def schemathesis(self, name, seconds, account, token, has_nothing_left=False):
        """One run with all checks. What it finds is printed as it says it."""
        say(f"{name}, for {seconds} s")
        counts, config = self.place / "counts.json", self.place / "schemathesis.toml"
        counts.unlink(missing_ok=True)
        config.write_text(CONFIG.format(full=', "507"' if has_nothing_left else ""))
        command = [str(TOOLS / "bin/schemathesis"), "--config-file", str(config), "run", f"{self.server.url}/v1/openapi.json"]
        command += ["--checks", "all", "--max-time", str(seconds), "--seed", SEED, "--continue-on-failure", "--request-timeout", "60"]
        command += ["--no-color", "--generation-database", "none", "--warnings", "off"]
        if token:
            command += ["--header", f"Authorization: Bearer {token}", "--exclude-operation-id", ENDLESS]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tools"),
            "SCHEMATHESIS_HOOKS": "server_fuzz_hooks",
            "STRONGROOM_FUZZ_ACCOUNT": account,
            "STRONGROOM_FUZZ_COUNTS": str(counts),
            "STRONGROOM_FUZZ_SEED": SEED,
        }
        try:
            done = subprocess.run(command, cwd=self.place, env=environment, capture_output=True, text=True, timeout=seconds + LATER_S)
        except subprocess.TimeoutExpired as late:
            self.found(f"{name}: Schemathesis has not ended after {late.timeout} s")
            return {}
        if done.returncode != 0:
            # No token in what people copy into a report.
            text = (done.stdout + done.stderr).replace(token or "\0", "TOKEN")
            say(text)
            self.found(f"{name}: Schemathesis ended with {done.returncode}, see above")
        seen = json.loads(counts.read_text()) if counts.exists() else {}
        self.count(name, seen)
        return seen

    def count(self, name, seen):
        statuses = collections.Counter()
        for of in seen.values():
            statuses.update(of)
        self.requests += sum(statuses.values())
        say(f"  {sum(statuses.values())} requests; " + ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())))
        if not statuses:
            self.found(f"{name}: nothing was requested")

    def expect_success(self, document, seen):
        """A run whose every request is refused proves little."""
        for path, item in document["paths"].items():
            for operation in item.values():
                own = operation["operationId"]
                # 409: the document of a login could be read, and was refused for what it says.
                wanted = "409" if own == SIGNED else "401" if own in OF_INBOX else "2"
                if own not in (ENDLESS, DOCUMENT) and not any(status.startswith(wanted) for status in seen.get(own, {})):
                    self.found(f"no request {own} was carried out: {dict(seen.get(own, {}))}")

    def create(self, account, vault, name, token):
        """An object without a byte."""
        path = f"/v1/vaults/{account}/{vault}/objects/{name}"
        status = self.server.request("PUT", path, token, b"", {"strongroom-blake3": HASH_OF_NOTHING})[0]
        if status != 201:
            self.found(f"PUT {path} got {status}")

    def follow(self, document, account, token):
        """Requests for events: the head and the first event, or the refusal."""
        say("events")
        path = "/v1/vaults/{account}/{vault}/publications/events"
        own = document["paths"][path]["get"]["responses"]
        at = path.format(account=account, vault="followed")
        self.create(account, "followed", "publications/" + "0" * 15 + "1", token)
        statuses = collections.Counter()
        for query, token_, status, begins in [
            ("", token, 200, b'id: 1\ndata: {"last":1}\n\n'),
            ("?after=0", token, 200, b'id: 1\ndata: {"last":1}\n\n'),
            *((f"?after={value}", token, 400, b"{") for value in ("", "x", "-1", "+1", "0.5", "1e3", "%31", "18446744073709551616", "9" * 1000, "0&after=0", "0&x=1", "null", "0;", "0=0")),
            ("?x", token, 400, b"{"),
            ("?after=0", None, 401, b"{"),
            ("?after=0", "wrong", 401, b"{"),
        ]:
            got, headers, body = self.server.request("GET", at + query, token_)
            statuses[str(got)] += 1
            kind = headers.get_content_type()
            response = own.get(str(got), {})
            if "$ref" in response:
                response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
            if got != status or kind not in response.get("content", {}) or not body.startswith(begins):
                self.found(f"GET events{query[:40]}: {got} {kind} {body[:60]!r} instead of {status}")
        self.count("events", {ENDLESS: statuses})


    def deposit(self, document, account, token):
        """Requests with the address of an inbox: what they may, and what they may not."""
        say("the inbox")
        self.create(account, "inbox", "addresses/" + blake3(ADDRESS.encode()).hex(), token)
        place, own = "/v1/vaults/{account}/{vault}/inbox", document["paths"]
        at, ids = place.format(account=account, vault="inbox"), (f"{number:032x}" for number in itertools.count())
        first = next(ids)
        hashed = {"strongroom-blake3": HASH_OF_NOTHING}
        statuses = {name: collections.Counter() for name in OF_INBOX}
        asked = [
            ("GET", "", ADDRESS, {}, 200),
            ("HEAD", "", ADDRESS, {}, 200),
            ("GET", "", token, {}, 401),
            ("PUT", f"/{first}.{'a' * 16}.0000", ADDRESS, hashed, 201),
            ("PUT", f"/{first}", ADDRESS, hashed, 201),
            ("PUT", f"/{first}", ADDRESS, hashed, 409),
            ("PUT", f"/{first}.{'a' * 16}.0001", ADDRESS, hashed, 409),
            ("PUT", f"/{next(ids)}", ADDRESS, {}, 400),
            ("PUT", f"/{next(ids)}", ADDRESS, {"strongroom-blake3": "0" * 64}, 400),
            ("PUT", f"/{next(ids)}", token, hashed, 401),
            ("PUT", f"/{next(ids)}", "sra-" + "8" * 64, hashed, 401),
            *(("PUT", f"/{name}", ADDRESS, hashed, 400) for name in ("x", "0" * 31, "A" * 32, f"{first}.a.0000", f"{first}.{'a' * 16}.1", "%2e%2e")),
        ]
        for method, path, token_, headers, status in asked:
            got, answered, body = self.server.request(method, at + path, token_, b"", headers)
            name = {"GET": "inbox", "HEAD": "inboxHead", "PUT": "deposit"}[method]
            statuses[name][str(got)] += 1
            form = place + "/{deposit}" if path else place
            if got != status or str(got) not in own[form][method.lower()]["responses"]:
                self.found(f"{method} inbox{path}: {got} {answered.get_content_type()} {body[:60]!r} instead of {status}")
        # By one address not more than so many come.
        for _ in range(100):
            got = self.server.request("PUT", f"{at}/{next(ids)}", ADDRESS, b"", hashed)[0]
            statuses["deposit"][str(got)] += 1
        if statuses["deposit"]["429"] < 20:
            self.found(f"100 deposits by one address: {dict(statuses['deposit'])}")
        self.count("the inbox", statuses)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    install()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strongroom-fuzz-") as folder:
        place = Path(folder)
        server = Asked(place, PROGRAM, "--no-tls")
        fuzz = Fuzz(place, server)
        try:
            tokens = {"anna": server.add_account("anna"), "poor": server.add_account("poor", "--bytes", "40", "--objects", "4")}
            # Asked for now and then with the token of another.
            server.add_account("other")
            document = server.document()
            for vault in VAULTS:
                # Where there is something that may be a header, somebody may want to log in.
                fuzz.create("anna", vault, "headers/0", tokens["anna"])
            seen = fuzz.schemathesis("with the token of an account", max(seconds * 6 // 10, 10), "anna", tokens["anna"])
            fuzz.expect_success(document, seen)
            fuzz.schemathesis("without a token", max(seconds * 2 // 10, 5), "anna", None)
            fuzz.schemathesis("with the token of an account that has nothing left", max(seconds * 2 // 10, 5), "poor", tokens["poor"], has_nothing_left=True)
            fuzz.follow(document, "anna", tokens["anna"])
            fuzz.deposit(document, "anna", tokens["anna"])
            if (code := server.stop()) != 0:
                fuzz.found(f"the server ended with {code}")
        finally:
            server.kill()
        log = server.log.read_text(errors="replace")
        for line in log.splitlines():
            if not line.startswith('{"time_ms":') or '"kind":"error"' in line:
                fuzz.found(f"in the log: {line[:300]}")
        for account, token in tokens.items():
            if token in log:
                fuzz.found(f"the log has the token of {account}")
        checked = subprocess.run([PROGRAM, "check", str(server.folder)], capture_output=True, text=True)
        say(f"check: {checked.stdout.strip()}")
        if checked.returncode != 0 or "belong to no object" in checked.stdout:
            fuzz.found("the folder of the server has problems")
    say(f"{fuzz.requests} requests in {time.monotonic() - begun:.0f} s, {len(fuzz.findings)} findings (seed {SEED})")
    sys.exit(1 if fuzz.findings else 0)


if __name__ == "__main__":
    main()
