"""A proxy in front of an S3 server that simulates a bad network: 503, cut connections, wrong bytes.

A seed decides which request meets which fault, so the same requests meet the same number of faults.
"""

import asyncio
import random
import re
import threading
from collections import Counter

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class FaultyProxy:
    """Shares of faulty requests: `busy` returns 503, `cut` closes the connection before or during the answer, and
    `wrong` changes one byte of the body.
    """

    def __init__(self, port, busy=0.0, cut=0.0, wrong=0.0, seed=1, only=None):
        self._to, self._draw = port, random.Random(seed)
        self._shares = {"busy": busy, "cut": cut, "wrong": wrong}
        self._only = only
        """A function of the request's first line: whether it may meet a fault at all."""
        self.met = Counter()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # transports end one loop iteration after they are closed
        self._loop.close()

    def _drawn(self, line):
        drawn, fault = self._draw.random(), None
        for name, share in self._shares.items():
            if 0 <= drawn < share:
                fault = name
            drawn -= share
        if fault is None or (self._only is not None and not self._only(line)):
            return None
        return fault

    async def _serve(self, reader, writer):
        upstream = None
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._to, limit=1 << 20)
            while await self._one(reader, writer, *upstream):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, upstream and upstream[1]):
                if one is not None:
                    one.close()

    async def _one(self, reader, writer, answers, requests):
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        line = head.split(b"\r\n")[0].decode()
        fault = self._drawn(line)
        if fault == "busy":
            self.met[fault] += 1
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n%s" % (len(BUSY), BUSY))
            await writer.drain()
            return True
        if fault == "cut" and self._draw.random() < 0.5:  # the server never received it
            self.met[fault] += 1
            return False
        requests.write(head + body)
        await requests.drain()
        head, body = await _answer(answers, line.startswith("HEAD"))
        if fault == "cut":  # the server did it, but all or half of the answer is lost
            self.met[fault] += 1
            writer.write((head + body)[: len(head) + len(body) // 2 if body else 0])
            await writer.drain()
            return False
        if fault == "wrong" and body and re.match(rb"HTTP/1.1 20[06]", head):
            self.met[fault] += 1
            place = self._draw.randrange(len(body))
            body = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        writer.write(head + body)
        await writer.drain()
        return True


def _length(head):
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


async def _answer(answers, is_head):
    head = await answers.readuntil(b"\r\n\r\n")
    if is_head or re.match(rb"HTTP/1.1 (204|304|1)", head):
        return head, b""
    if not re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        return head, await answers.readexactly(_length(head))
    body = b""
    while True:
        size = int((line := await answers.readuntil(b"\r\n")).split(b";")[0], 16)
        body += line + await answers.readexactly(size + 2)
        if not size:
            return head, body
