"""Clients, engines, strangers and files that mean harm or are broken: each gets a clear answer, nobody else suffers,
nothing is left behind."""
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from conftest import BIN, BY_NATURE, SANITIZED, SANITIZER_OPTIONS, SLOWER, complaints, wait_for

RESET = struct.pack("ii", 1, 0)


def connect(stack, data=b"", receive_buffer=0):
    s = stack.dial(receive_buffer)
    if data:
        s.sendall(data)
    return s


def read_all(s):
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out + b"<reset>"
        if not piece:
            return out
        out += piece


def ask(stack, data):
    with connect(stack, data) as s:
        return read_all(s)


def chat_body(stream=False, **more):
    return json.dumps({"model": "sim-model", "stream": stream, "messages": [{"role": "user", "content": "hello"}], **more}).encode()


def post(body, fields=b"Connection: close\r\n"):
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body) + fields + b"\r\n" + body


def status(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None


def settled(stack):
    health = stack.admin("/admin/health").json()
    lines = stack.metrics()
    return (stack.row(stack.agent.peer_id)["status"]["active_requests"] == 0 and health["in_flight"] == 0
            and all(v == 0 for k, v in lines.items() if k.startswith("hivenet_router_requests_in_stage"))
            and lines['http_server_active_requests{method="POST",route="/v1/chat/completions"}'] == 0)


class ScriptedEngine:
    """Sound health and model pages; what a chat request gets is `answer(connection)`, then the connection ends."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.answer = lambda connection: None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection:
                while True:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        piece = connection.recv(65536)
                        if not piece:
                            return
                        data += piece
                    head, _, rest = data.partition(b"\r\n\r\n")
                    if head.startswith(b"POST"):
                        length = next(int(f.split(b":")[1]) for f in head.split(b"\r\n") if f.lower().startswith(b"content-length"))
                        while len(rest) < length:
                            rest += connection.recv(65536)
                        return self.answer(connection)
                    page = b'{"object":"list","data":[{"id":"sim-model","object":"model","owned_by":"vllm"}]}'
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        except OSError:
            pass


def sends(*parts, reset=False):
    def answer(connection):
        for part in parts:
            connection.sendall(part)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return answer


@pytest.fixture
def scripted(stack):
    stack.engine = ScriptedEngine()
    stack.start_router("--request-timeout", "5s")
    stack.agent = stack.start_agent(stack.engine.url)
    yield stack
    stack.engine.listener.close()


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n"
LAST = b"Connection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    # what is no HTTP/1.1
    "TLS": (bytes.fromhex("16030100a5010000a10303") + b"\0" * 160 + b"\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/3.0": (b"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /health\r\n\r\n", 400),
    "a version that is none": (b"GET /health HTTP/11\r\nHost: x\r\n\r\n", 400),
    "SMTP": (b"EHLO example.org\r\n\r\n", 400),
    "zeros as a head": (b"\0" * 500 + b"\r\n\r\n", 400),
    # one message that two servers may read as two
    "length and chunked": (HEAD + b"Content-Length: 5\r\n" + CHUNKED + b"0\r\n\r\n", 400),
    "chunked and length": (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "chunked with a space": (HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "length with a space": (HEAD + b"Content-Length : 2\r\n\r\n{}", 400),
    "chunked behind a tab": (HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "two codings": (HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    "another coding first": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "identity": (HEAD + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "chunked twice": (HEAD + b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"0\r\n\r\n", 400),
    "chunked in HTTP/1.0": (b"POST /v1/chat/completions HTTP/1.0\r\n" + CHUNKED + b"0\r\n\r\n", 400),
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "two lengths that differ": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "two lengths in one": (HEAD + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "length with a sign": (HEAD + b"Content-Length: +2\r\n\r\n{}", 400),
    "negative length": (HEAD + b"Content-Length: -2\r\n\r\n{}", 400),
    "length in hexadecimal": (HEAD + b"Content-Length: 0x2\r\n\r\n{}", 400),
    "no length": (HEAD + b"Content-Length:\r\n\r\n{}", 400),
    "length that overflows": (HEAD + b"Content-Length: 18446744073709551618\r\n\r\n{}", 400),
    "folded field": (GET + b"A: b\r\n c\r\n\r\n", 400),
    "folded length": (HEAD + b"Content-Length:\r\n 2\r\n\r\n{}", 400),
    "folded first field": (b"GET /health HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "bare CR": (GET + b"A: b\rc\r\n\r\n", 400),
    "bare LF": (GET + b"A: b\nC: d\r\n\r\n", 400),
    "bare LF everywhere": (b"GET /health HTTP/1.1\nHost: x\nA: b\n\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"Host: y\r\n\r\n", 400),
    "two hosts alike": (GET + b"host: x\r\n\r\n", 400),
    "a field without a name": (GET + b": b\r\n\r\n", 400),
    "a field without a colon": (GET + b"abc\r\n\r\n", 400),
    "a field with a space in its name": (GET + b"a b: c\r\n\r\n", 400),
    "NUL in a field": (GET + b"A: b\0c\r\n\r\n", 400),
    # bodies
    "endless length": (HEAD + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n{}", 413),
    "endless chunk": (HEAD + CHUNKED + b"ffffffffffffffff\r\nabc", 413),
    "overflowing chunk": (HEAD + CHUNKED + b"0000000000000000a\r\nabc", 400),
    "chunk with a sign": (HEAD + CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", 400),
    "chunk with 0x": (HEAD + CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", 400),
    "chunk with a space": (HEAD + CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n", 400),
    "chunk without a size": (HEAD + CHUNKED + b"\r\n{}\r\n0\r\n\r\n", 400),
    "chunks with bare LF": (HEAD + CHUNKED + b"2\n{}\n0\n\n", 400),
    "chunk longer than it says": (HEAD + CHUNKED + b"1\r\n{}\r\n0\r\n\r\n", 400),
    "line end in a chunk extension": (HEAD + CHUNKED + b"2;a\nb\r\n{}\r\n0\r\n\r\n", 400),
    "a long chunk extension": (HEAD + CHUNKED + b"2;" + b"a" * 300 + b"\r\n{}\r\n0\r\n\r\n", 400),
    "chunk extensions without end": (HEAD + CHUNKED + (b"1;" + b"a" * 200 + b"\r\n \r\n") * 200, 400),
    "trailer": (HEAD + CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\n\r\n", 400),
    "a body one byte over the limit": (HEAD + b"Content-Length: 10485761\r\n\r\n" + b" " * 10485761, 413),
    "the same in a chunk": (HEAD + CHUNKED + b"a00001\r\n" + b" " * 10485761 + b"\r\n0\r\n\r\n", 413),
    "the same in many chunks": (HEAD + CHUNKED + (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 10 + b"1\r\n \r\n0\r\n\r\n", 413),
    # heads that are too much
    "3000 fields": (GET + b"".join(b"a%d: b\r\n" % i for i in range(3000)) + b"\r\n", 431),
    "300 fields": (GET + b"".join(b"a%d: b\r\n" % i for i in range(300)) + b"\r\n", 431),
    "a field of 100 KB": (GET + b"A: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    "a field name of 100 KB": (GET + b"a" * 100_000 + b": b\r\n\r\n", 431),
    "a target of 100 KB": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "a method of 100 KB": (b"A" * 100_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "a head without any line end": (b"a" * 100_000, 431),
    # methods and targets
    "NUL in the target": (b"GET /he\0alth HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "absolute form": (b"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "CONNECT": (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "an asterisk": (b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "OPTIONS of everything": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "a fragment": (b"GET /health#x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "two spaces": (b"GET  /health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no target": (b"GET HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a method in small letters": (b"post /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + LAST, 405),
    "a method nobody knows": (b"BREW /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + LAST, 405),
    "TRACE": (b"TRACE /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + LAST, 405),
    "a method that is no word": (b"G@(T /health HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "dots in the path": (b"GET /v1/../admin/health HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "dots in disguise": (b"GET /v1/%2e%2e/admin/health HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "a letter in disguise": (b"GET /%61dmin/health HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "slashes before admin": (b"GET //admin/health HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "NUL in disguise": (b"GET /v1/models/sim-model%00 HTTP/1.1\r\nHost: x\r\n" + LAST, 404),
    "a long bearer": (b"GET /admin/health HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * 20_000 + b"\r\n" + LAST, 401),
    # expectations
    "an expectation nobody knows": (HEAD + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417),
    "an expectation and more": (HEAD + b"Expect: 100-continue, x\r\nContent-Length: 2\r\n\r\n{}", 417),
    # JSON
    "no UTF-8": (post(b'{"model":"sim-model","messages":["\xff\xfe"]}'), 400),
    "half a character": (post(b'{"model":"sim-model","a":"\xe2\x82"}'), 400),
    "a surrogate in UTF-8": (post(b'{"model":"sim-model","a":"\xed\xa0\x80"}'), 400),
    "an overlong slash": (post(b'{"model":"sim-model","a":"\xc0\xaf"}'), 400),
    "UTF-16": (post('{"model":"sim-model"}'.encode("utf-16")), 400),
    "deep JSON": (post(b'{"model":"sim-model","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), 400),
    "JSON without end": (post(b'{"a":' * 100_000), 400),
    "the model twice": (post(b'{"model":"sim-model","mod\\u0065l":"other"}'), 400),
    "the stream twice": (post(b'{"model":"sim-model","stream":false,"stream":true}'), 400),
    "zeros": (post(b"\0" * 1000), 400),
    "NUL behind the object": (post(chat_body() + b"\0"), 400),
    "NUL in a text": (post(b'{"model":"sim-model","a":"\0"}'), 400),
    "a second object": (post(chat_body() + b"{}"), 400),
    "not a number": (post(b'{"model":"sim-model","temperature":NaN}'), 400),
    "a comment": (post(b'{"model":"sim-model"/**/}'), 400),
    "no body": (post(b""), 400),
    "a list": (post(b'["sim-model"]'), 400),
    "a long model": (post(b'{"model":"' + b"m" * 257 + b'"}'), 400),
    "a model with a line end": (post(b'{"model":"a\\r\\nSet-Cookie: x"}'), 404),
}


def refusal(answer):
    """The error of a refusal, whose shape is checked here: one head, one JSON envelope of the length it says."""
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])}
    assert int(fields[b"content-length"]) == len(body) and not re.search(rb"HTTP/1.1 \d", body), answer[:500]
    assert fields[b"content-type"].startswith(b"application/json"), head
    return json.loads(body)["error"]


def test_requests_that_mean_harm_are_refused_and_harm_nobody(simple):
    """Naive variant: a lenient parser (two lengths, bare LF, a folded field pass and the next hop reads two requests); limits that are
    looked at when everything has been read; a refusal without our envelope.
    """
    wrong = []
    for name, (wire, wanted) in REQUESTS.items():
        answer = ask(simple, wire)
        if status(answer) != wanted or b"\r\nSet-Cookie" in answer or answer.endswith(b"<reset>"):
            wrong.append((name, wanted, answer[:300]))
            continue
        error = refusal(answer)
        if not wire.startswith(b"GET /admin"):
            assert error["source"] == "router" and error["code"] and error["message"] and error["type"], (name, error)
    assert not wrong
    assert simple.engine.state()["chats"] == 0
    assert simple.chat(max_tokens=1).status_code == 200
    wait_for("everything is returned", lambda: settled(simple))


def test_odd_requests_that_are_sound_are_served(simple):
    """Naive variant: strictness that refuses what the standard allows."""
    body = chat_body(max_tokens=1)
    half = len(body) // 2
    chunks = b"%X;name=\"value\"\r\n%s\r\n%016x\r\n%s\r\n000;last\r\n\r\n" % (half, body[:half], len(body) - half, body[half:])
    for name, wire in {
        "chunks with extensions": HEAD + b"Connection: close\r\n" + CHUNKED + chunks,
        "fields in capitals": HEAD.upper().replace(b"/V1/CHAT/COMPLETIONS", b"/v1/chat/completions") + b"CONTENT-LENGTH: %d\r\nCONNECTION: CLOSE\r\n\r\n" % len(body) + body,
        "blank lines first": b"\r\n\r\n" + post(body),
        "slashes too many": post(body).replace(b"/v1/chat/", b"//v1//chat/"),
        "a query": post(body).replace(b"completions", b"completions?a=%00&b"),
        "an offer to upgrade": post(body, b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"),
        "white space around": post(b" \r\n\t" + body + b"\n\n"),
        "200 fields": post(body, b"Connection: close\r\n" + b"".join(b"a%d: b\r\n" % i for i in range(200))),
        "25 levels": post(body[:-1] + b',"x":' + b"[" * 25 + b"]" * 25 + b"}"),
    }.items():
        answer = ask(simple, wire)
        assert status(answer) == 200 and not answer.endswith(b"<reset>"), f"{name}: {answer[:300]}"
    assert b"HTTP2-Settings" not in json.dumps(simple.engine.requests()).encode()


def test_http_1_0_gets_no_chunks_and_a_close(simple):
    """Naive variant: every answer is HTTP/1.1."""
    for stream in (False, True):
        body = chat_body(stream, max_tokens=3)
        answer = ask(simple, b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert status(answer) == 200 and b"chunked" not in head.lower(), head
        assert rest.endswith(b"data: [DONE]\n\n") if stream else json.loads(rest)["choices"]
    assert status(ask(simple, b"GET /health HTTP/1.0\r\n\r\n")) == 200
    with connect(simple, b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") as s:
        wait_for("the answer", lambda: b"ok" in s.recv(4096))
        s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert status(read_all(s)) == 200


def test_a_body_is_asked_for_only_when_its_head_is_acceptable(simple):
    """Naive variant: the library's `100 Continue` comes with the head, whatever stands in it."""
    body = chat_body(max_tokens=1)
    with connect(simple, HEAD + b"Expect: 100-Continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) as s:
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        assert status(read_all(s)) == 200
    for wire, wanted in ((HEAD + b"Content-Length: 10485761\r\n", 413), (HEAD.replace(b"/v1/chat", b"/v2/chat") + b"Content-Length: 5\r\n", 404),
                         (HEAD.replace(b"POST", b"PUT") + b"Content-Length: 5\r\n", 405), (HEAD + b"Content-Length: x\r\n", 400)):
        said = ask(simple, wire + b"Expect: 100-continue\r\n\r\n")
        assert status(said) == wanted and b"100 Continue" not in said, said[:200]
        refusal(said)
    old = ask(simple, b"POST /v1/chat/completions HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert status(old) == 200, "HTTP/1.0 knows no expectations"


def test_pipelined_requests_are_answered_in_order(simple):
    """Naive variant: what came with the head is lost, or the quick answer overtakes the slow one."""
    wire = GET + b"\r\n" + post(chat_body(True, max_tokens=2), b"") + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + post(chat_body(max_tokens=1), b"") + GET + LAST
    answer = ask(simple, wire + GET + b"\r\n")
    seen = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert seen == [200, 200, 404, 200, 200], answer
    assert answer.index(b"[DONE]") < answer.index(b"not_found") < answer.index(b"chat.completion\"")


def test_bombs_of_json_cost_little_time(simple):
    """Naive variant: a parser that recurses, or that looks at each byte again at each level. What a scan may cost in CPU time is
    measured alone (request_scan_test.attacks_of_size_and_depth_...); this bound has the upload and a busy machine in it.
    """
    size = 10 * 1024 * 1024 - 100
    start = b'{"model":"sim-model","x":'
    for name, bomb in {"brackets": b"[" * size, "objects": b'{"a":' * (size // 5), "quotes": b'"' * size, "backslashes": b'"' + b"\\" * size, "commas": b"[" + b"," * size,
                       "numbers": b"1" * size, "keys": b'{"' + b"k" * size, "closed": b"[" * (size // 2) + b"]" * (size // 2)}.items():
        begin = time.monotonic()
        answer = ask(simple, post((start + bomb)[:size]))
        took = time.monotonic() - begin
        assert status(answer) == 400 and refusal(answer)["code"] == "request_invalid", f"{name}: {answer[:300]}"
        assert took < 3 * SLOWER, f"{name} took {took:.1f} s"


def test_slow_senders_are_bounded_and_keep_nobody_waiting(stack):
    """Naive variant: a time-out between two bytes, which a byte a second never meets."""
    stack.engine = stack.start_engine()
    stack.start_router("--request-timeout", "4s")
    stack.agent = stack.start_agent(stack.engine)
    before = stack.router.memory_kib()
    began = {}  # each by itself: with TLS eighty handshakes take their time

    def slow(data):
        s = connect(stack, data)
        began[s] = time.monotonic()
        return s

    heads = [slow(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-A: ") for _ in range(40)]
    bodies = [slow(HEAD + b"Content-Length: 1000000\r\n\r\n{") for _ in range(20)]
    bodies += [slow(HEAD + CHUNKED + b"1\r\n{\r\n") for _ in range(20)]
    begin = time.monotonic()
    late, took = {}, {}
    while len(late) < len(heads + bodies) and time.monotonic() - begin < 16:
        for s in heads + bodies:
            if s in late:
                continue
            s.setblocking(False)
            try:
                said = s.recv(65536)
                late[s], took[s] = said, time.monotonic() - began[s]
                continue
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            s.settimeout(5)
            try:
                s.sendall(b"a" if s in heads else b"\x20" if s in bodies[:20] else b"1\r\n \r\n")
            except OSError:
                pass
        assert stack.chat(max_tokens=1).status_code == 200
        time.sleep(0.2)
    assert len(late) == len(heads + bodies), "a slow sender is never cut off"
    for s in heads:
        assert status(late[s]) == 408 and refusal(late[s])["code"] == "request_invalid" and took[s] > 9, late[s]
    for s in bodies:
        assert status(late[s]) == 408 and refusal(late[s])["code"] == "request_invalid" and 3 < took[s] < 9, late[s]
    for s in heads + bodies:
        s.close()
    assert stack.router.grown_kib(before) < 30_000
    wait_for("everything is returned", lambda: settled(stack))


def test_nothing_after_a_bad_head_is_a_request(simple):
    """Naive variant: the reader looks for the next head in what the bad one left behind."""
    answer = ask(simple, post(chat_body(max_tokens=1), b"") + GET + b"\r\n" + b"GARBAGE\r\n\r\n" + post(chat_body(max_tokens=1)))
    assert answer.count(b"HTTP/1.1 200 OK") == 2 and answer.count(b"HTTP/1.1 400 ") == 1
    assert simple.engine.state()["chats"] == 1


@pytest.mark.parametrize("page", ["client", "metrics"])
def test_a_client_that_asks_and_never_reads_costs_little(simple, page):
    """Naive variant: answers are made as fast as requests come and kept until they are taken."""
    path = b"/v1/models" if page == "client" else b"/metrics"
    before = simple.router.memory_kib()
    with connect(simple, receive_buffer=4096) if page == "client" else socket.socket() as s:
        if page == "metrics":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = simple.metrics_url.split("/")[2].split(":")
            s.connect((host, int(port)))
        s.setblocking(False)
        wire = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        rest, refused = b"", 0
        end = time.monotonic() + 10
        while refused < 20 and time.monotonic() < end:  # until the router takes no more of them
            try:
                rest = rest or wire * 1000
                rest = rest[s.send(rest):]  # or what was cut would make the next one a bad head
                refused = 0
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                refused += 1
                time.sleep(0.02)
        assert refused == 20, "it takes requests without end"
        assert simple.router.grown_kib(before) < 30_000
        assert simple.chat(max_tokens=1).status_code == 200


EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
ANSWERS = {
    "garbage": (sends(b"\0\xff" * 500 + b"\r\n\r\n"), 502),
    "another protocol": (sends(b"SSH-2.0-OpenSSH\r\n"), 502),
    "nothing": (sends(), 502),
    "a reset": (sends(reset=True), 502),
    "100 first": (sends(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + b"Content-Length: 2\r\n\r\n{}"), 200),
    "103 first": (sends(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}"), 200),
    "100 without end": (sends(b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000), 502),
    "101": (sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), 502),
    "204": (sends(b"HTTP/1.1 204 No Content\r\n\r\n"), 502),
    "a redirect": (sends(b"HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n"), 502),
    "status 999": (sends(b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n"), 502),
    "429 for ever": (sends(b"HTTP/1.1 429 X\r\nRetry-After: 99999999999999\r\nContent-Length: 2\r\n\r\n{}"), 503),
    "400 of 2 MB": (sends(b"HTTP/1.1 400 X\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000), 400),
    "less than its length": (sends(OK + b"Content-Length: 100\r\n\r\n{}"), 502),
    "more than its length": (sends(OK + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n"), 200),
    "length and chunked": (sends(OK + b"Content-Length: 2\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"), 502),
    "two lengths": (sends(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 502),
    "two codings": (sends(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 502),
    "identity": (sends(OK + b"Transfer-Encoding: identity\r\n\r\n{}"), 502),
    "chunked in HTTP/1.0": (sends(OK.replace(b"1.1", b"1.0") + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"), 502),
    "chunked with a space": (sends(OK + b"Transfer-Encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 502),
    "two lengths alike": (sends(OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), 502),
    "negative length": (sends(OK + b"Content-Length: -2\r\n\r\n{}"), 502),
    "a folded field": (sends(OK + b"A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}"), 502),
    "a bare LF": (sends(OK + b"A: b\nC: d\r\nContent-Length: 2\r\n\r\n{}"), 502),
    "NUL in a field": (sends(OK + b"A: b\0c\r\nContent-Length: 2\r\n\r\n{}"), 502),
    "HTTP/2": (sends(b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"), 502),
    "a head without end": (sends(OK, *[b"a" * 10_000] * 100), 502),
    "a trailer": (sends(OK + CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\n\r\n"), 502),
    "trailers without end": (sends(OK + CHUNKED + b"2\r\n{}\r\n0\r\n", *[b"A: b\r\n" * 1000] * 100), 502),
    "chunk extensions": (sends(OK + CHUNKED + b"2;a=b\r\n{}\r\n0;c\r\n\r\n"), 200),
    "chunk extensions without end": (sends(OK + CHUNKED + b"2;", *[b"a" * 1000] * 100), 502),
    "an endless chunk": (sends(OK + CHUNKED + b"ffffffffffffffff\r\n", b"x" * 1000), 502),
    "a stream in a chunk too short": (sends(SSE + CHUNKED + b"5\r\n" + EVENT + b"\r\n0\r\n\r\n"), 502),
    "a bad chunk": (sends(OK + CHUNKED + b"zz\r\n"), 502),
    "100 MB announced": (sends(OK + b"Content-Length: 104857600\r\n\r\n{"), 502),
    "fields without end": (sends(OK, *[b"X-A: b\r\n" * 1000] * 100), 502),
    "fields of 40 KB": (sends(OK + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 900) for i in range(45)) + b"Content-Length: 2\r\n\r\n{}"), 502),
    "a stream that is cut before content": (sends(SSE + CHUNKED), 502),
    "a stream that is only an error": (sends(SSE + b'\r\ndata: {"error":{"message":"boom"}}\n\n'), 502),
    "a stream without its type": (sends(b"HTTP/1.1 200 OK\r\n\r\n" + EVENT), 200),
    "a stream of comments": (sends(SSE + b"\r\n", *[b": ping\n\n" * 1000] * 50), 200),
    "one line of 5 MB": (sends(SSE + b"\r\ndata: ", *[b"x" * 100_000] * 50), 200),
    "compressed": (sends(OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), 200),
}


def test_engines_that_answer_nonsense_are_told_apart(scripted):
    """Naive variant: the engine is trusted: its framing, its fields, its statuses, its lengths go to the client, or take the agent down.
    """
    memory = scripted.router.memory_kib()
    for name, (answer, wanted) in ANSWERS.items():
        scripted.engine.answer = answer
        for stream in (False, True):
            said = ask(scripted, post(chat_body(stream)))
            assert status(said) == wanted, f"{name}, stream {stream}: {said[:400]}"
            assert not said.endswith(b"<reset>"), name
            if wanted >= 500:
                error = refusal(said)
                assert error["source"] == "backend" and error["message"] and error["request_id"], (name, error)
                assert error["request_id"] in scripted.router.log() + scripted.agent.log(), name
    scripted.engine.answer = sends(OK + b"Content-Length: 2\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-Request-ID: evil\r\n\r\n{}")
    said = ask(scripted, post(chat_body()))
    assert status(said) == 200 and b"X-Hop" not in said and b"evil" not in said
    assert scripted.router.grown_kib(memory) < 30_000
    scripted.engine.answer = sends(OK + b"Content-Length: 2\r\n\r\n{}")
    assert status(ask(scripted, post(chat_body()))) == 200, "it still serves"
    wait_for("everything is returned", lambda: settled(scripted))


def test_a_stream_that_breaks_after_content_says_so_and_does_not_end_well(scripted):
    """Naive variant: the last chunk is written whatever happened."""
    for reset in (False, True):
        scripted.engine.answer = lambda c: (c.sendall(SSE + CHUNKED + b"%x\r\n" % len(EVENT) + EVENT + b"\r\n"), time.sleep(0.2),
                                            reset and c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET))
        said = ask(scripted, post(chat_body(True)))
        assert b"backend_error" in said and b"[DONE]" not in said and not said.endswith(b"0\r\n\r\n")


def test_strangers_on_the_link_port_disturb_no_agent(simple):
    """Naive variant: a peer has a place, buffers and a descriptor before it has proved anything."""
    host, port = simple.link.split(":")
    greeting = bytes.fromhex("ff00000000000000017f0300")
    before = simple.router.descriptors()
    for data in (GET + b"\r\n", bytes.fromhex("16030100a5010000a10303") + b"x" * 160, b"\0" * 5000, b"\xff" * 100_000,
                 greeting + b"NULL" + b"\0" * 60, greeting + b"PLAIN" + b"\0" * 60, greeting + b"CURVE" + b"\0" * 1000, b""):
        with socket.create_connection((host, int(port))) as s:
            s.settimeout(0.1)
            try:
                s.sendall(data)
                s.recv(1000)
            except OSError:
                pass
        assert simple.chat(max_tokens=1).status_code == 200
    half = [socket.create_connection((host, int(port))) for _ in range(100)]
    for i, s in enumerate(half):
        s.sendall(greeting[: i % len(greeting)])
    simple.start_agent(simple.engine, identity="second.key")
    for s in half:
        s.close()
    wait_for("nothing is left of them", lambda: simple.router.descriptors() <= before + 4)
    assert len(simple.table()) == 2


def test_streams_that_nobody_reads_cost_little_and_hinder_no_other(stack):
    """Naive variant: what is not read is kept; or one window for all streams of a link."""
    stack.engine = stack.start_engine("--step-ms", "5", "--kv-tokens", "100000000", "--max-num-seqs", "128", "--word", " " + "w" * 500)
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine, "--capacity", "100")
    before = stack.router.memory_kib(), stack.agent.memory_kib()
    unread = [connect(stack, post(chat_body(True, max_tokens=100_000)), receive_buffer=4096) for _ in range(20)]
    wait_for("they run", lambda: stack.engine.state()["running"] == 20)
    read = [connect(stack, post(chat_body(True, max_tokens=200))) for _ in range(25)]
    for s in read:
        assert b"data: [DONE]" in read_all(s)
    assert stack.router.grown_kib(before[0]) < 40_000 and stack.agent.grown_kib(before[1]) < 40_000
    for s in unread:
        s.close()
    wait_for("everything is returned", lambda: settled(stack))
    assert stack.chat(max_tokens=1).status_code == 200


def test_five_hundred_clients_that_leave_anywhere_leave_nothing(stack):
    """Naive variant: one of the states a client can leave in forgets its slot, its descriptor or its record."""
    stack.engine = stack.start_engine("--step-ms", "1", "--max-num-seqs", "64")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine, "--capacity", "40")
    assert stack.chat(max_tokens=1).status_code == 200
    before = stack.router.descriptors(), stack.agent.descriptors(), stack.router.memory_kib()
    for i in range(500):
        wire = post(chat_body(i % 2 == 0, max_tokens=2000))
        s = connect(stack, wire[: len(wire) * (i % 7 + 1) // 7])
        if i % 7 == 6 and i % 4 == 0:
            s.recv(100)
        if i % 3 == 0:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        s.close()
    wait_for("everything is returned", lambda: settled(stack))
    wait_for("no request runs on", lambda: stack.engine.state()["running"] == 0)
    wait_for("the router's descriptors are closed", lambda: stack.router.descriptors() <= before[0] + 2)
    assert stack.agent.descriptors() <= before[1] + 41, "kept connections to the engine, at most one a slot"
    assert stack.router.grown_kib(before[2]) < 30_000
    counted = stack.metric("hivenet_router_routing_requests_finished_total")
    gone = stack.metric("hivenet_router_routing_requests_finished_total", outcome="client_gone")
    assert stack.metric("hivenet_router_routing_requests_finished_total", outcome="completed") + gone == counted
    universal = stack.row(stack.agent.peer_id)["universal"]
    assert universal["failed_requests_total"] == 0


@pytest.mark.parametrize("who", ["engine", "agent", "router"])
def test_a_short_freeze_of_anyone_costs_time_only(simple, who):
    """Naive variant: a missed beat or two ends streams."""
    simple.engine.faults(step_ms=5)
    s = connect(simple, post(chat_body(True, max_tokens=100)))
    s.recv(100)
    child = getattr(simple, who).child
    child.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    child.send_signal(signal.SIGCONT)
    assert b"data: [DONE]" in read_all(s)


def test_deadlines_hold_whatever_the_engine_does(stack):
    """Naive variant: the limit is one between two reads, and an engine that sends now and then never meets it."""
    engine = stack.start_engine("--first-token-ms", "60000")
    stack.start_router("--request-timeout", "500ms", "--stream-timeout", "1s", "--workers", "2")
    stack.agent = stack.start_agent(engine)
    for attempt in range(8):
        answer = stack.chat(stream=attempt % 2 == 0)
        assert answer.status_code == 504 and answer.json()["error"]["code"] == "request_timeout", answer.text
    engine.faults(first_token_ms=0, step_ms=50)
    begin = time.monotonic()
    said = ask(stack, post(chat_body(True, max_tokens=1000)))
    assert 0.8 < time.monotonic() - begin < 5
    assert b"request_timeout" in said and not said.endswith(b"0\r\n\r\n")
    wait_for("the engine's request is ended", lambda: engine.state()["running"] == 0)
    wait_for("everything is returned", lambda: settled(stack))


def test_a_bad_policy_at_a_sighup_changes_nothing(stack):
    """Naive variant: what could be read is applied; or the router ends; or one that expands without end takes its memory."""
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy:\n  strategy: least-loaded\n")
    engine = stack.start_engine()
    stack.start_router("--policy-file", policy)
    stack.start_agent(engine)
    bombs = ["a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)),
             "a: " + "[" * 100_000, "a: &a [*a]\n", "routing_policy:\n  strategy: nonsense\n", 'a: "' + "x" * 3_000_000 + '"\n', ""]
    for bomb in bombs + ["/dev/zero"]:
        if bomb.startswith("/"):
            policy.unlink()
            policy.symlink_to(bomb)
        else:
            policy.write_text(bomb)
        stack.router.hangup("the policy stays as it was")
        assert stack.chat(max_tokens=1).status_code == 200
    assert stack.router.log().count("the policy stays as it was") == len(bombs) + 1


def test_a_start_that_cannot_work_ends_at_once_and_says_why(stack):
    """Naive variant: it starts without what it was told to use."""
    stack.start_router()
    broken = stack.folder / "broken"
    broken.mkdir()
    (broken / "data.mdb").write_bytes(b"\xa5" * 65536)
    a_file = stack.folder / "file"
    a_file.write_text("x")
    environment = {"HIVENET_ROUTER_JWT_SECRET": stack.secret, "PATH": os.environ["PATH"], **SANITIZER_OPTIONS}
    data = stack.folder / "db" / "data.mdb"
    inode = data.stat().st_ino
    for flags, said in ((["--disk-db-path", stack.folder / "db"], "in use"), (["--disk-db-path", broken], "data.mdb"),
                        (["--disk-db-path", stack.folder / "db", "--reset-disk-db"], f"in use by process {stack.router.pid}"),
                        (["--storage", "memory", "--reset-disk-db"], 'the storage "memory" has no option "reset"'),
                        (["--disk-db-path", a_file], "not a directory"), (["--policy-file", "/dev/zero"], "not a regular file"),
                        (["--policy-file", stack.folder], "not a regular file"), (["--config", "/dev/zero"], "not a regular file"),
                        (["--http-port", "%s:%d" % stack.place], "http-port")):
        done = subprocess.run([BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0", "--link-listen",
                               "127.0.0.1:0", "--disk-db-path", stack.folder / "other", *flags], env=environment, cwd=stack.folder,
                              capture_output=True, text=True, timeout=10 * SLOWER)
        assert done.returncode == 1 and said in done.stderr and not complaints(done.stderr.encode()), (flags, done)
    assert stack.admin("/admin/health").status_code == 200, "the first one is not disturbed"
    assert data.stat().st_ino == inode, "nor is its database"
    stack.start_router("--disk-db-path", broken, "--reset-disk-db")
    assert stack.admin("/admin/storage").json()["disk_db"]["entries"] == 0


@pytest.mark.skipif(SANITIZED, reason=BY_NATURE + "UBSan looks at an object through a pipe, and takes it for none without a descriptor")
def test_the_descriptor_limit_is_raised_and_its_end_survived(stack):
    """Naive variant: accept() fails in a loop at full speed, or libzmq ends the process."""
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    engine = stack.start_engine()
    stack.start_router()
    stack.agent = stack.start_agent(engine)
    for process in (stack.router, stack.agent):
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    resource.prlimit(stack.router.pid, resource.RLIMIT_NOFILE, (80, hard))
    crowd = [socket.create_connection(stack.place) for _ in range(100)]
    said = lambda: stack.router.log().count("no descriptors or no memory for a new connection")
    wait_for("it says so", said)
    assert stack.router.child.poll() is None
    for s in crowd:
        s.close()
    wait_for("it serves again", lambda: stack.chat(max_tokens=1).status_code == 200)
    assert stack.metric("http_server_accept_failures_total") > 0
    assert said() <= 5


def test_a_second_sigterm_ends_a_drain(simple):
    """Naive variant: further signals are ignored while it drains."""
    simple.engine.faults(step_ms=50)
    s = connect(simple, post(chat_body(True, max_tokens=2000)))
    s.recv(100)
    for process in (simple.agent, simple.router):
        process.child.terminate()
        wait_for("it drains", lambda: "leaving" in process.log())
        process.child.terminate()
        assert process.child.wait(5 * SLOWER) == 0
    s.close()
