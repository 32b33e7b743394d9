"""An engine and a client made by hand: every byte, every pause and every close is the test's."""
import json
import select
import socket
import struct
import threading
import time

RESET = struct.pack("ii", 1, 0)
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DONE = b"data: [DONE]\n\n"


def event(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice], **more}).encode() + b"\n\n"


def say(text):
    return event({"content": text})


ROLE = event({"role": "assistant", "content": ""})
STOP = event({}, "stop")
ERROR = b'data: {"error":{"message":"it broke","type":"InternalServerError","code":500}}\n\n'


def whole(body, status=b"200 OK", fields=b""):
    """A complete answer with its length."""
    return (b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body) + fields + b"\r\n" + body)


def completion(text="hi", prompt=3, output=1):
    return json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                       "finish_reason": "stop"}], "usage": {"prompt_tokens": prompt, "completion_tokens": output,
                                                            "total_tokens": prompt + output}}).encode()


def serve(chat):
    """Answers at once, streamed or whole as asked."""
    if b'"stream": true' in chat.body:
        chat.send(SSE)
        chat.chunk(ROLE + say("a"), DONE)
        chat.last_chunk()
    else:
        chat.send(whole(completion()))
    return True


class Chat:
    """One request that reached the engine."""

    def __init__(self, connection, number, of_connection, head, body):
        self.connection, self.number, self.of_connection = connection, number, of_connection
        self.head, self.body = head, body
        self.target = head.split(b" ")[1].decode()
        self.arrived = time.monotonic()
        self.gone = None  # when the other side closed its connection

    def send(self, *parts):
        for part in parts:
            self.connection.sendall(part)

    def chunk(self, *parts):
        for part in parts:
            self.connection.sendall(b"%x\r\n" % len(part) + part + b"\r\n")

    def last_chunk(self):
        self.connection.sendall(b"0\r\n\r\n")

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def wait_gone(self, limit=30.0, meanwhile=None, pause=0.02):
        """Waits for the other side's close; calls `meanwhile` every `pause` seconds."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            ready, _, _ = select.select([self.connection], [], [], pause)
            try:
                if ready and self.connection.recv(65536) == b"":
                    self.gone = time.monotonic()
                elif not ready and meanwhile:
                    meanwhile()
            except OSError:
                self.gone = time.monotonic()
            if self.gone:
                return True
        return False


class RawEngine:
    """Sound health and model pages; what a POST gets is `answer(chat)`. The connection is kept when that returns True."""

    def __init__(self, answer=None, models=("sim-model",), listener=None):
        self.listener = listener or socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = "http://%s:%d" % self.listener.getsockname()[:2]
        self.answer = answer or (lambda chat: chat.send(whole(completion())) or True)
        self.models = list(models)
        self.health = b"200 OK"
        self.chats = []
        self.connections = 0
        self.open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for s in [self.listener, *self.open]:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection, number):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open.add(connection)
        try:
            with connection:
                data, chats = b"", 0
                while True:
                    while b"\r\n\r\n" not in data:
                        piece = connection.recv(65536)
                        if not piece:
                            return
                        data += piece
                    head, _, data = data.partition(b"\r\n\r\n")
                    if not head.startswith(b"POST"):
                        if not self._page(connection, head):
                            return
                        continue
                    length = next(int(f.split(b":")[1]) for f in head.split(b"\r\n") if f.lower().startswith(b"content-length"))
                    while len(data) < length:
                        piece = connection.recv(1 << 20)
                        if not piece:
                            return
                        data += piece
                    chats += 1
                    chat = Chat(connection, number, chats, head, data[:length])
                    data = data[length:]
                    self.chats.append(chat)
                    if not self.answer(chat):
                        return
        except OSError:
            pass
        finally:
            self.open.discard(connection)

    def _page(self, connection, head):
        path = head.split(b" ")[1]
        if path.endswith(b"/health"):
            connection.sendall(whole(b"{}", self.health))
        else:
            listed = [{"id": m, "object": "model", "owned_by": "vllm"} for m in self.models]
            connection.sendall(whole(json.dumps({"object": "list", "data": listed}).encode()))
        return True


class Client:
    """A request on a connection of its own, read byte by byte."""

    def __init__(self, stack, body=None, stream=False, path="/v1/chat/completions", wire=None, timeout=20, **more):
        self.socket = stack.dial(timeout=timeout)
        self.raw = b""          # everything that came
        self.ended = self.was_reset = False
        self._at = None         # first byte of the body
        self._left = 0          # of the chunk that is being read
        self._parsed = 0
        self.payload = b""      # the body without its chunk framing
        self.complete = False   # the last chunk, or the whole length, was there
        if wire is None:
            if body is None:
                body = json.dumps({"model": "sim-model", "stream": stream, "messages": [{"role": "user", "content": "hello"}], **more})
            body = body if isinstance(body, bytes) else body.encode()
            wire = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
                path.encode(), len(body)) + body
        self.socket.sendall(wire)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def leave(self, how="fin"):
        """Closes the connection; the moment."""
        if how == "rst":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        left = time.monotonic()
        self.socket.close()
        return left

    def receive(self):
        """One read. False at the end."""
        try:
            piece = self.socket.recv(1 << 20)
        except ConnectionResetError:
            piece, self.was_reset = b"", True
        if not piece:
            self.ended = True
            return False
        self.raw += piece
        self._parse()
        return True

    def _parse(self):
        if self._at is None:
            end = self.raw.find(b"\r\n\r\n")
            if end < 0:
                return
            self._at = self._parsed = end + 4
        if self.chunked:
            while not self.complete:
                if self._left == 0:
                    end = self.raw.find(b"\r\n", self._parsed)
                    if end < 0:
                        return
                    self._left = int(self.raw[self._parsed:end], 16) + 2
                    self._parsed = end + 2
                    self.complete = self._left == 2
                part = self.raw[self._parsed:self._parsed + self._left]
                if not part:
                    return
                self.payload += part[:max(0, self._left - 2)]
                self._parsed += len(part)
                self._left -= len(part)
        else:
            self.payload = self.raw[self._at:]
            self.complete = "content-length" in self.fields and len(self.payload) >= int(self.fields["content-length"])

    @property
    def head(self):
        return self.raw.partition(b"\r\n\r\n")[0].decode()

    @property
    def status(self):
        return int(self.head[9:12])

    @property
    def fields(self):
        return {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in self.head.split("\r\n")[1:])}

    @property
    def chunked(self):
        return self.fields.get("transfer-encoding") == "chunked"

    def until(self, done):
        """Reads on until `done(self)`; False when the connection ends before."""
        while not done(self):
            if not self.receive():
                return bool(done(self))
        return True

    def finish(self):
        """Reads to the end of the answer or of the connection."""
        self.until(lambda c: c.complete)
        return self

    def to_end(self):
        """Reads until the connection ends."""
        while self.receive():
            pass
        return self
