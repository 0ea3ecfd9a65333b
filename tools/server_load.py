"""Requests to servers on this machine from many processes at once, over TLS, and how long each took."""

import array
import math
import multiprocessing
import re
import socket
import ssl
import time

ANSWER_S = 120
START_S = 120
# What is shorter goes in one piece with the head of its request.
SHORT_LEN = 16 << 10
# Both servers are on this machine and belong to this run: who they are needs no proof.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TLS.check_hostname = False
TLS.verify_mode = ssl.CERT_NONE


class Wrong(Exception):
    """An answer that is not what it has to be."""


class Line:
    """A connection, on which one request comes after the answer to the one before."""

    def __init__(self, port):
        plain = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.host, self.rest = TLS.wrap_socket(plain), f"127.0.0.1:{port}", bytearray()

    def send(self, method, path, headers, body=b""):
        fields = {"Host": self.host, **headers}
        if body or method == "PUT":
            fields["Content-Length"] = len(body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()
        if len(body) <= SHORT_LEN:
            self.socket.sendall(head + body)
        else:
            self.socket.sendall(head)
            self.socket.sendall(body)

    def more(self):
        came = self.socket.recv(1 << 18)
        if not came:
            raise Wrong("the server ended the connection")
        self.rest += came

    def head(self):
        """The status and the length of the body that follows: 0 if it does not say one."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            self.more()
        head = bytes(self.rest[:end])
        del self.rest[: end + 4]
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return int(head.split(b" ", 2)[1]), int(length[1]) if length else 0

    def ask(self, method, path, headers, body=b""):
        """Gives the status and the body of the answer."""
        self.send(method, path, headers, body)
        status, length = self.head()
        while len(self.rest) < length:
            self.more()
        came = bytes(self.rest[:length])
        del self.rest[:length]
        return status, came

    def expect(self, status, method, path, headers, body=b""):
        got, came = self.ask(method, path, headers, body)
        if got != status:
            raise Wrong(f"{method} {path} got {got} instead of {status}: {came[:200]!r}")
        return came


def load(workers, prepare, seconds=math.inf, count=None, rate=None):
    """Has so many processes do what `prepare(number)` gives, again and again; stops after so many seconds, or `count` times in each.

    With `rate`, so many are due each second in all; the time of one is then counted from when it was due, also if the one before it
    in its process took longer. Gives how many were done, in how many seconds, and their times in order.
    """
    context = multiprocessing.get_context("fork")
    barrier, children = context.Barrier(workers), []
    for number in range(workers):
        ours, theirs = context.Pipe(duplex=False)
        interval = workers / rate if rate else 0
        child = context.Process(target=work, args=(number, workers, prepare, barrier, theirs, seconds, count, interval), daemon=True)
        child.start()
        theirs.close()
        children.append((child, ours))
    times, begun, ended, wrong = array.array("d"), math.inf, 0.0, []
    for child, ours in children:
        try:
            one = ours.recv()
        except EOFError:
            one = "a process that asks ended"
        child.join()
        if isinstance(one, str):
            wrong.append(one)
            continue
        begun, ended = min(begun, one[0]), max(ended, one[1])
        times.frombytes(one[2])
    if wrong:
        # Those that waited for the one that failed say less than it does.
        raise SystemExit(max(wrong, key=len))
    return {"count": len(times), "seconds": ended - begun, "times": sorted(times)}


def work(number, workers, prepare, barrier, out, seconds, count, interval):
    try:
        turn = prepare(number)
        barrier.wait(START_S)
        begun = time.perf_counter()
        due, times = begun + interval * number / workers, array.array("d")
        while time.perf_counter() - begun < seconds and (count is None or len(times) < count):
            if interval:
                time.sleep(max(0.0, due - time.perf_counter()))
            start = due if interval else time.perf_counter()
            turn()
            times.append(time.perf_counter() - start)
            due += interval
        out.send((begun, time.perf_counter(), times.tobytes()))
    except Exception as error:
        barrier.abort()
        out.send(f"{type(error).__name__}: {error}")


def percentile_ms(times, part):
    """Of times in order: so that `part` of them are not longer."""
    return 1000 * times[min(len(times) - 1, math.ceil(part * len(times)) - 1)] if times else math.nan
