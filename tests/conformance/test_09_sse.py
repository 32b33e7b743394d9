"""Row 9: what the engine streams is what the client reads, byte for byte and at once, however it is cut."""
import socket
import statistics
import threading
import time

import pytest

from conftest import at_rest, wait_for
from raw import DONE, ROLE, SSE, STOP, Client, say
from sockets import options_of, refused_here

# Everything a strict or a careless reader trips over, small enough to be cut at every byte.
NASTY = (
    b": hello\n\n"
    + b"retry: 10\n\n"
    + b"data:" + ROLE[5:].strip() + b"\r\n\r\n"                                    # no space, CRLF
    + 'data: {"choices":[{"index":0,"delta":{"content":"é漢🙂"}}]}\n\n'.encode()     # UTF-8 of two, three and four bytes
    + b'data: {"choices":[{"index":0,"delta":{"content":"data: [DONE]\\n\\n"}}]}\n\n'  # [DONE] inside text
    + b'id: 7\rdata: {"choices":[{"index":0,\rdata: "delta":{"content":"x"}}]}\r\r'    # CR alone, two data lines
    + b"unknown: field\ndata\n\n"                                                   # a field without colon
    + b"event: error-ish\n: [DONE]\n\n"
    + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    + DONE
)
BOM = b"\xef\xbb\xbf"


def pieces(*parts, pause=0.0, close=False):
    """Sends each part in a chunk of its own, and waits so long that it is a read of its own."""
    def answer(chat):
        head = SSE.replace(b"Transfer-Encoding: chunked\r\n", b"") if close else SSE
        chat.send(head)
        for part in parts:
            if part:
                chat.send(part) if close else chat.chunk(part)
                time.sleep(pause)
        if not close:
            chat.last_chunk()
        return not close
    return answer


def read(stack):
    with Client(stack, stream=True) as client:
        client.finish()
        return client


def test_every_split_gives_the_client_the_engines_bytes(stack, engines):
    """The nasty stream, cut in two at each of its bytes.

    Naive variants: the router parses events and writes them again (CRLF becomes LF, comments vanish); it decodes UTF-8 a read at a
    time; it takes [DONE] inside a text for the end.
    """
    engine = engines()
    stack.start_router()
    stack.start_agent(engine)
    for at in range(len(NASTY) + 1):
        engine.answer = pieces(NASTY[:at], NASTY[at:], pause=0.002)
        client = read(stack)
        assert client.payload == NASTY and client.complete, at
    wait_for("everything is returned", lambda: at_rest(stack))


STREAMS = {
    "byte by byte": [NASTY[i:i + 1] for i in range(len(NASTY))],
    "all at once": [NASTY],
    "with a BOM": [BOM, NASTY],
    "without a last empty line": [NASTY[:-2]],
    "a line of 3 MiB": [say("a"), b'data: {"choices":[{"index":0,"delta":{"content":"', *[b"y" * 65536] * 48, b'"}}]}\n\n', DONE],
    "3 MiB before content, in a comment": [b": " + b"z" * 65536] + [b"z" * 65536] * 47 + [b"\n\n", say("a"), DONE],
    "5,000 events in one read": [b"".join(say(f"{i} ") for i in range(5000)), STOP, DONE],
    "no event at all": [b"just text\nand more"],
    "bytes that are no UTF-8": [say("a"), b"data: \xff\xfe\x00\x80\n\n", DONE],
}


@pytest.mark.parametrize("framing", ["chunked", "until close"])
def test_streams_of_other_shapes_pass_unchanged(stack, engines, framing):
    """Naive variants: a line buffer with a limit; a scanner that gives up the stream with the line; NUL ends the text."""
    engine = engines()
    stack.start_router()
    stack.start_agent(engine)
    for name, parts in STREAMS.items():
        engine.answer = pieces(*parts, close=framing == "until close")
        client = read(stack)
        whole = b"".join(parts)
        assert client.payload == whole, (name, len(client.payload), len(whole), client.payload[-300:])
        assert client.complete, name
    wait_for("everything is returned", lambda: at_rest(stack))


def test_header_fields_keep_proxies_from_buffering(stack, engines):
    """Naive variant: the engine's own fields are passed on, and the next nginx collects the stream."""
    engine = engines()
    stack.start_router()
    stack.start_agent(engine)
    for fields in (b"", b"Cache-Control: max-age=60\r\n", b"cache-control: no-cache\r\nX-Engine: here\r\n"):
        head = SSE.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n")

        def answer(chat):
            chat.send(head)
            chat.chunk(say("a"), DONE)
            chat.last_chunk()
            return True

        engine.answer = answer
        client = read(stack)
        assert client.fields["x-accel-buffering"] == "no"
        assert client.fields["cache-control"] == "no-cache, no-transform"
        assert client.head.lower().count("\r\ncache-control:") == 1
        assert client.fields["content-type"] == "text/event-stream; charset=utf-8"
        assert client.fields.get("x-engine") == ("here" if b"X-Engine" in fields else None)


def test_each_piece_arrives_before_the_next_one_is_sent(stack, engines):
    """The engine sends a piece only when the client has read the one before: also half events, also single bytes. (The client asks for
    usage itself: otherwise the router may keep an event until it is whole, to see whether it is the usage it asked for.)

    Naive variants: a buffer that is flushed when it is full, or at the end of an event, or by a timer: this never ends, or slowly.
    """
    got = threading.Semaphore(0)
    rest = [say(f"{i}") for i in range(100)]
    halves = [part for e in rest for part in (e[:20], e[20:])] + [b"d", b"a", b"t", b"a", b": [DONE]\n\n"]
    waits = []

    def answer(chat):
        chat.send(SSE)
        for part in [say("first"), *halves]:
            sent = time.monotonic()
            chat.chunk(part)
            if not got.acquire(timeout=5):
                return False
            waits.append(time.monotonic() - sent)
        chat.last_chunk()
        return True

    stack.start_router()
    stack.start_agent(engines(answer))
    client = Client(stack, stream=True, stream_options={"include_usage": True})
    expected = 0
    for part in [say("first"), *halves]:
        expected += len(part)
        assert client.until(lambda c: len(c.payload) >= expected)
        got.release()
    client.finish()
    assert client.complete and client.payload == say("first") + b"".join(halves)
    middle = statistics.median(waits)
    print(f"from engine to client: median {middle * 1e3:.2f} ms, most {max(waits) * 1e3:.1f} ms")
    assert middle < 0.03


def test_no_hop_waits_for_a_full_segment(stack, engines):
    """TCP_NODELAY is set on the client's connection and on the engine's; libzmq sets it on its own.

    Naive variant: a socket as the system gives it: small events wait for the acknowledgement of those before, up to 40 ms.
    """
    hold = threading.Event()

    def answer(chat):
        chat.send(SSE)
        chat.chunk(say("a"))
        hold.wait(10)
        chat.last_chunk()

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine)
    with Client(stack, stream=True) as client:
        assert client.until(lambda c: c.payload)
        ends = {
            "client": (stack.router.pid, client.socket.getsockname()),
            "engine": (agent.pid, engine.chats[0].connection.getsockname()),
            "link, router": (stack.router.pid, None),
            "link, agent": (agent.pid, None),
        }
        link_port = int(stack.link.rsplit(":", 1)[1])
        try:
            for name, (pid, peer) in ends.items():
                found = [nodelay for local, remote, nodelay in options_of(pid, socket.IPPROTO_TCP, socket.TCP_NODELAY)
                         if remote == peer or (peer is None and link_port in (local[1], remote[1]))]
                assert found and all(found), (name, found)
        except PermissionError as error:
            refused_here(error)
        finally:
            hold.set()
        client.finish()
