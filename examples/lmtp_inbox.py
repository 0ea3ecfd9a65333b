#!/usr/bin/env python3
"""Takes mail by LMTP or SMTP, and deposits each message in the inbox of a vault with `strongroom deposit`.

    lmtp_inbox.py --address-file FILE [--listen HOST:PORT] [--max BYTES] [--strongroom PROGRAM]

FILE has the URL of an address of the inbox in its first line (`strongroom inbox add`). This program has no secret of the vault: what it has
deposited it cannot read again. It asks nobody who he is: let it listen where only your mail server reaches it. While a message is
deposited, other users of this machine can see its subject and sender in the list of processes.

A message is confirmed once the server of the vault has it durably. Until then the mail server keeps it and tries again; a message that
is delivered twice comes into the vault once, for the hash of its content is the `--id` of the deposit.

Python 3.9 or later, nothing else.
"""

import argparse
import asyncio
import email.errors
import email.header
import email.parser
import email.utils
import hashlib
import os
import re
import sys
import tempfile
import urllib.parse

# Exit codes of `strongroom deposit`.
USAGE, NO_SPACE = 2, 6

LINE_MAX = 64 * 1024
RECIPIENTS_MAX = 100
HEADERS_MAX = 256 * 1024
IDLE_S = 300
SENDER_BYTES_MAX = 128


class Inbox:
    """The address, and how many messages go there at a time."""

    def __init__(self, url, program, most):
        parts = urllib.parse.urlsplit(url)
        token, at, place = parts.netloc.rpartition("@")
        if not at or not token.startswith("sra-"):
            sys.exit("lmtp_inbox.py: the file has no address of an inbox, which looks like https://sra-…@server/account/vault")
        # Other users see the arguments of a process, but not its environment.
        self.url = parts._replace(netloc=place).geturl()
        self.environment = {**os.environ, "STRONGROOM_TOKEN": token}
        self.program = program
        self.most = most
        self.turns = asyncio.Semaphore(4)

    async def deposit(self, message, digest, sender):
        """Gives the answer for the mail server."""
        command = [self.program, "deposit", self.url, "-", "--quiet"]
        command += [f"--name={name_of(message)}", f"--id={digest}", f"--from={cut(sender, SENDER_BYTES_MAX)}"]
        async with self.turns:
            message.seek(0)
            process = await asyncio.create_subprocess_exec(
                *command, stdin=message, stdout=asyncio.subprocess.DEVNULL, env=self.environment
            )
            code = await process.wait()
        return {
            0: "250 2.0.0 deposited",
            USAGE: "554 5.6.0 it cannot be deposited",
            NO_SPACE: "452 4.2.2 the inbox is full",
        }.get(code, "451 4.3.0 it could not be deposited, try again later")


def cut(text, most):
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def name_of(message):
    """What the message is called in the vault, which makes a safe name of it."""
    message.seek(0)
    headers = email.parser.BytesHeaderParser().parsebytes(message.read(HEADERS_MAX))
    subject = str(headers.get("Subject", ""))
    try:
        subject = str(email.header.make_header(email.header.decode_header(subject)))
    except (LookupError, ValueError, email.errors.MessageError):
        # Whoever wrote it encoded it wrongly: it is called as it stands there.
        pass
    subject = " ".join(subject.replace("\0", " ").split()).replace("/", "-")
    # Nothing but the message itself may be in it: with another name it would be another deposit.
    try:
        sent = email.utils.parsedate_to_datetime(str(headers["Date"])).strftime("%Y-%m-%d ")
    except (TypeError, ValueError, IndexError, OverflowError):
        sent = ""
    return cut(f"{sent}{subject or 'mail'}", 180) + ".eml"


class Session:
    """One connection."""

    def __init__(self, inbox, reader, writer):
        self.inbox, self.reader, self.writer = inbox, reader, writer
        self.is_lmtp = False
        self.forget()

    def forget(self):
        self.sender, self.recipients = None, 0

    async def say(self, *lines):
        self.writer.write("".join(line + "\r\n" for line in lines).encode())
        await asyncio.wait_for(self.writer.drain(), IDLE_S)

    async def whole_line(self):
        """The next line, with its end; `None` behind the last."""
        try:
            return await asyncio.wait_for(self.reader.readuntil(b"\r\n"), IDLE_S)
        except asyncio.IncompleteReadError:
            return None

    async def line(self):
        """The next line, without its end; `None` behind the last."""
        line = await asyncio.wait_for(self.reader.readline(), IDLE_S)
        return line.rstrip(b"\r\n") if line.endswith(b"\n") else None

    async def run(self):
        await self.say("220 strongroom inbox")
        while (line := await self.line()) is not None:
            word = line[:4].decode("ascii", "replace").upper()
            if word == "QUIT":
                return await self.say("221 2.0.0 bye")
            await getattr(self, f"on_{word.lower()}", self.on_other)(line.decode("utf-8", "replace"))

    async def on_other(self, _line):
        await self.say("502 5.5.1 not known here")

    async def on_lhlo(self, _line, is_lmtp=True):
        self.forget()
        self.is_lmtp = is_lmtp
        await self.say("250-strongroom", "250-8BITMIME", "250-SMTPUTF8", "250-ENHANCEDSTATUSCODES", f"250 SIZE {self.inbox.most}")

    async def on_ehlo(self, line):
        await self.on_lhlo(line, is_lmtp=False)

    async def on_helo(self, _line):
        self.forget()
        self.is_lmtp = False
        await self.say("250 strongroom")

    async def on_noop(self, _line):
        await self.say("250 2.0.0 yes")

    async def on_rset(self, _line):
        self.forget()
        await self.say("250 2.0.0 yes")

    async def on_mail(self, line):
        said = re.match(r"MAIL FROM:\s*<([^>]*)>(.*)", line, re.IGNORECASE)
        if not said:
            return await self.say("501 5.5.4 MAIL FROM:<address>")
        size = re.search(r"\bSIZE=([0-9]{1,20})\b", said[2], re.IGNORECASE)
        if size and int(size[1]) > self.inbox.most:
            return await self.say("552 5.3.4 it is too long")
        self.sender, self.recipients = said[1], 0
        return await self.say("250 2.1.0 yes")

    async def on_rcpt(self, _line):
        if self.sender is None:
            return await self.say("503 5.5.1 MAIL first")
        if self.recipients >= RECIPIENTS_MAX:
            return await self.say("452 4.5.3 too many recipients")
        self.recipients += 1
        return await self.say("250 2.1.5 yes")

    async def on_data(self, _line):
        if not self.recipients:
            return await self.say("503 5.5.1 RCPT first")
        await self.say("354 go on")
        with tempfile.TemporaryFile() as message:
            length, digest = 0, hashlib.sha256()
            # A dot ends it only between line ends of mail: else a message could hold another one, of whatever sender.
            while (line := await self.whole_line()) != b".\r\n":
                if line is None:
                    return None
                line = line[1:] if line.startswith(b".") else line
                length += len(line)
                # What is too long is read to its end and kept nowhere.
                if length <= self.inbox.most:
                    digest.update(line)
                    message.write(line)
            if length > self.inbox.most:
                answer = "552 5.3.4 it is too long"
            else:
                answer = await self.inbox.deposit(message, digest.hexdigest(), self.sender)
        # LMTP has an answer for each recipient; all have the same inbox.
        count = self.recipients if self.is_lmtp else 1
        self.forget()
        return await self.say(*[answer] * count)


async def serve(arguments):
    with open(arguments.address_file, encoding="utf-8") as file:
        inbox = Inbox(file.readline().strip(), arguments.strongroom, arguments.max)

    async def connected(reader, writer):
        try:
            await Session(inbox, reader, writer).run()
        except (OSError, asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError):
            # It has gone, is silent, or sends a line without end.
            pass
        finally:
            writer.close()

    host, _, port = arguments.listen.rpartition(":")
    server = await asyncio.start_server(connected, host.strip("[]"), int(port), limit=LINE_MAX)
    at = server.sockets[0].getsockname()
    print(f"listening at {at[0]}:{at[1]}", flush=True)
    async with server:
        await server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address-file", required=True)
    parser.add_argument("--listen", default="127.0.0.1:2424")
    parser.add_argument("--max", type=int, default=50_000_000)
    parser.add_argument("--strongroom", default="strongroom")
    try:
        asyncio.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
