"""Load of mixed kinds against one router: what well-behaved and what badly behaved clients do, over plain sockets."""
import asyncio
import collections
import json
import random
import re
import socket

BIG = 256 * 1024


def head(method, path, length=None, *fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: soak"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, *fields, "", ""]).encode()


def chat(stream, tokens, pad=0, model="sim-model"):
    body = json.dumps({"model": model, "stream": stream, "max_tokens": tokens,
                       "messages": [{"role": "user", "content": "hello" + "x" * pad}]}).encode()
    return head("POST", "/v1/chat/completions", len(body), "Content-Type: application/json") + body


class Client:
    """One keep-alive connection, opened anew when it was given up."""

    def __init__(self, host, port):
        self.where = host, port
        self.reader = self.writer = None

    async def connect(self, receive_buffer=None):
        self.close()
        s = socket.socket()
        s.setblocking(False)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(s, self.where)
        self.reader, self.writer = await asyncio.open_connection(sock=s)

    def close(self, hard=False):
        if self.writer is None:
            return
        (self.writer.transport.abort if hard else self.writer.close)()
        self.reader = self.writer = None

    async def send(self, data):
        if self.writer is None:
            await self.connect()
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self):
        """(status, body) of a whole answer."""
        text = await self.reader.readuntil(b"\r\n\r\n")
        status = int(text[9:12])
        body = b""
        if length := re.search(rb"(?i)content-length: (\d+)", text):
            body = await self.reader.readexactly(int(length[1]))
        elif b"chunked" in text.lower():
            parts = []
            while size := int(await self.reader.readline(), 16):
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            body = b"".join(parts)
        if b"connection: close" in text.lower():
            self.close()
        return status, body


async def buffered(c, rng):
    await c.send(chat(False, rng.choice((1, 8, 200))))
    return (await c.answer())[0]


async def streamed(c, rng):
    await c.send(chat(True, rng.choice((1, 8, 40))))
    status, body = await c.answer()
    return status if status != 200 or body.endswith(b"data: [DONE]\n\n") else "short"


async def large(c, rng):
    await c.send(chat(rng.random() < 0.5, 2, BIG))
    return (await c.answer())[0]


BAD = [head("POST", "/v1/chat/completions", 9) + b"{not json", head("POST", "/v1/chat/completions", 2) + b"{}",
       chat(False, 1, model="nobody-serves-this"), head("GET", "/v1/nothing"), head("DELETE", "/v1/models"),
       head("POST", "/v1/chat/completions", 1 << 30), b"GET / HTTP/9.9\r\n\r\n",
       head("POST", "/v1/chat/completions", None, "Transfer-Encoding: chunked") + b"zz\r\n",
       head("POST", "/v1/chat/completions", 5, "Transfer-Encoding: chunked") + b"hello"]


async def bad_input(c, rng):
    await c.send(rng.choice(BAD))
    status, _ = await c.answer()
    c.close()
    return status


async def leaves_in_body(c, rng):
    request = chat(False, 1, rng.choice((100, BIG)))
    await c.send(request[:rng.randrange(60, len(request))])
    c.close(hard=rng.random() < 0.5)
    return "left"


async def leaves_at_once(c, rng):
    await c.send(chat(rng.random() < 0.5, 20))
    c.close(hard=rng.random() < 0.5)
    return "left"


async def leaves_before_head(c, rng):
    await c.send(chat(False, 200))
    await asyncio.sleep(rng.random() * 0.01)
    c.close(hard=rng.random() < 0.5)
    return "left"


async def leaves_mid_stream(c, rng):
    await c.send(chat(True, 400))
    await c.reader.read(4096)
    c.close(hard=rng.random() < 0.5)
    return "left"


async def reads_slowly(c, rng):
    await c.connect(receive_buffer=4096)
    await c.send(chat(True, 3000))
    for _ in range(rng.randrange(2, 6)):
        await c.reader.read(2048)
        await asyncio.sleep(0.02)
    if rng.random() < 0.5:
        c.close(hard=True)
        return "left"
    end = b""
    while piece := await c.reader.read(65536):
        end = end[-64:] + piece
        if end.endswith(b"0\r\n\r\n"):
            break
    c.close()
    return 200 if b"data: [DONE]" in end else "short"


KINDS = ([buffered] * 34 + [streamed] * 30 + [bad_input] * 9 + [leaves_in_body] * 5 + [leaves_at_once] * 6
         + [leaves_before_head] * 6 + [leaves_mid_stream] * 6 + [large] * 3 + [reads_slowly])
# What a well-behaved client may see while others misbehave.
GOOD = {buffered: {200}, streamed: {200}, large: {200}, reads_slowly: {200, "left"}, bad_input: {400, 404, 405, 413, 505}}


class Load:
    def __init__(self, address, connections=96, seed=1):
        host, port = address.rsplit(":", 1)
        self.where = host, int(port)
        self.connections = connections
        self.rng = random.Random(seed)
        self.done = 0
        self.outcomes = collections.Counter()
        self.troubles = collections.Counter()

    async def _one(self, target):
        rng = random.Random(self.rng.random())
        c = Client(*self.where)
        while self.done < target:
            self.done += 1
            kind = rng.choice(KINDS)
            try:
                if c.writer is None:
                    await c.connect()
                result = await asyncio.wait_for(kind(c, rng), 30)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
                result = type(error).__name__
                c.close(hard=True)
            self.outcomes[kind.__name__, result] += 1
            if kind in GOOD and result not in GOOD[kind]:
                self.troubles[kind.__name__, result] += 1
        c.close()

    def count_by_kind(self):
        kinds = collections.Counter()
        for (kind, _), n in self.outcomes.items():
            kinds[kind] += n
        return kinds

    def run_to(self, total):
        """Goes on until `total` requests have been made since the start."""
        async def all_of_them():
            await asyncio.gather(*(self._one(total) for _ in range(self.connections)))
        asyncio.run(all_of_them())
