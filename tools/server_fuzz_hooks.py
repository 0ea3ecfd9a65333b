"""What the OpenAPI document of the server cannot say, for Schemathesis: which account has the token, hashes of contents, names of objects that are there.

`server_fuzz.py` runs Schemathesis with this module. Without it nearly every request would be refused by its account or by its hash.
Only values that the document allows are replaced; what Schemathesis makes wrong stays wrong. How often each request got which status is
written to the file STRONGROOM_FUZZ_COUNTS.
"""

import atexit
import collections
import json
import os
import random
import re
import sys
from pathlib import Path

import schemathesis

sys.path.append(str(Path(__file__).resolve().parent / "vectors"))
from blake3_slow import blake3  # noqa: E402

ACCOUNT = os.environ["STRONGROOM_FUZZ_ACCOUNT"]
VAULTS = ("one", "two")
NAME = re.compile(r"[a-z0-9-][a-z0-9.-]*")
HASH = re.compile(r"[0-9a-fA-F]{64}")
NONCE = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
# The name of the server in a login, and how many challenges it keeps open for an account.
SERVER, CHALLENGES = "127.0.0.1", 64
NAME_BYTES_MAX = 200
NUMBER_MAX = 2**64 - 1
RANGES = ("bytes=0-0", "bytes=0-", "bytes=1-5", "bytes=5-1", "bytes=9999-", "lines=1-2")

chance = random.Random(int(os.environ.get("STRONGROOM_FUZZ_SEED", "0")))
counts = collections.defaultdict(collections.Counter)
there = []
last = collections.Counter()
challenges = collections.deque(maxlen=CHALLENGES)


def is_name(value):
    return isinstance(value, str) and len(value) <= NAME_BYTES_MAX and NAME.fullmatch(value)


def body_of(case):
    # Bytes come in a wrapper that looks like a string without a character.
    body = getattr(case.body, "data", case.body)
    return body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else b""


def choose_object(case, path):
    """Another name than the random one: of an object that is there, or of one that can be created now."""
    forms = [one for one in there if (one[1] is not None) == ("kind" in path)]
    if case.method != "PUT":
        if forms and chance.random() < 0.7:
            path["vault"], kind, path["name"] = chance.choice(forms)
            if kind is not None:
                path["kind"] = kind
    elif "kind" in path:
        which = chance.random()
        if which < 0.15:
            path["kind"], path["name"] = "publications", f"{last[path['vault']] + chance.choice((1, 1, 1, 0, 2)):016}"
        elif which < 0.3:
            path["kind"], path["name"] = "segments", blake3(body_of(case)).hex()


def choose_challenge(case, path):
    """One that is open, and a name of the server. No key is here: what is signed stays random."""
    body = case.body
    if isinstance(body, dict) and NONCE.fullmatch(str(body.get("nonce", ""))) and challenges and chance.random() < 0.7:
        path["vault"], body["nonce"] = challenges.popleft()
        if isinstance(body.get("server"), str):
            body["server"] = SERVER


@schemathesis.hook
def before_call(context, case, kwargs):
    path, query, headers = case.path_parameters or {}, case.query or {}, case.headers or {}
    if is_name(path.get("account")) and chance.random() < 0.9:
        path["account"] = ACCOUNT if chance.random() < 0.97 else "other"
    if is_name(path.get("vault")) and chance.random() < 0.9:
        path["vault"] = chance.choice(VAULTS)
    if is_name(path.get("name")) and is_name(path.get("vault")) and is_name(path.get("kind", "a")) and case.method in ("GET", "HEAD", "PUT", "DELETE"):
        choose_object(case, path)
    if case.operation.definition.raw.get("operationId") == "logIn" and path.get("account") == ACCOUNT and is_name(path.get("vault")):
        choose_challenge(case, path)
    if case.method == "PUT" and HASH.fullmatch(str(headers.get("strongroom-blake3", ""))):
        headers["strongroom-blake3"] = blake3(body_of(case)).hex()
    if isinstance(headers.get("range"), str) and chance.random() < 0.7:
        headers["range"] = chance.choice(RANGES)
    # Nobody publishes meanwhile: who waits long holds up the run.
    wait = str(query.get("wait", ""))
    if wait.isdecimal() and wait.isascii() and int(wait) <= NUMBER_MAX:
        query["wait"] = int(chance.random() < 0.01)


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw.get("operationId", "")
    if case.method.upper() == case.operation.method.upper():
        counts[operation][response.status_code] += 1
    path = case.path_parameters or {}
    if operation == "challenge" and response.status_code == 200:
        challenges.append((path["vault"], json.loads(response.content)["nonce"]))
    if case.method == "PUT" and response.status_code == 201 and "name" in path:
        there.append((path["vault"], path.get("kind"), path["name"]))
        if path.get("kind") == "publications":
            last[path["vault"]] = int(path["name"])


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """The document has no way to say that two names together are too long, or that a name must say the number or the hash of its object.

    In a run with a token every request has it, also the one that is meant to lack it: the run without one is for that.
    """
    if type(failure).__name__ == "MissingHeaderNotRejected":
        return failure.header_name.lower() != "authorization"
    path = case.path_parameters or {}
    query = case.query or {}
    kind, name = str(path.get("kind", query.get("kind", ""))), str(path.get("name", query.get("after", "")))
    is_too_long = len(kind) + 1 + len(name) > NAME_BYTES_MAX
    is_special = kind in ("publications", "segments", "headers", "revisions")
    accepted = type(failure).__name__ == "RejectedPositiveData" and response.status_code == 400 and (is_too_long or is_special)
    return not accepted


@atexit.register
def write_counts():
    Path(os.environ["STRONGROOM_FUZZ_COUNTS"]).write_text(json.dumps(counts))
