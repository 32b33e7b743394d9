"""Streams (README.md, Line by line), beyond rows 8 to 10."""
import gzip
import json
import threading
import time
import zlib

from conftest import at_rest, audit_of, outcome, told, wait_for
from raw import DONE, JSON, ROLE, SSE, STOP, Client, completion, say, whole


def start(stack, engines, *router, agent=()):
    engine = engines()
    stack.start_router(*router)
    return engine, stack.start_agent(engine, *agent)


def test_a_line_of_8_mib_in_pieces_of_1_kib_costs_time_in_proportion(stack, engines):
    """Naive variant: the observer searches the whole line again with every read; that is 32 GiB of searching."""
    engine, _ = start(stack, engines)
    line = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"w" * (8 << 20) + b'"}}]}\n\n'

    def answer(chat):
        chat.send(SSE)
        chat.chunk(say("a"))
        for at in range(0, len(line), 1024):
            chat.chunk(line[at:at + 1024])
        chat.chunk(DONE)
        chat.last_chunk()
        return True

    engine.answer = answer
    begin = time.monotonic()
    with Client(stack, stream=True) as client:
        got = 0
        while client.receive():  # the payload is compared by its length: the test's reader must not be the slow one
            got = len(client.raw)
            if client.raw.endswith(b"0\r\n\r\n"):
                break
    took = time.monotonic() - begin
    assert got > len(line) and b"[DONE]" in client.raw[-100:]
    print(f"8 MiB in 1 KiB pieces took {took:.1f} s")
    assert took < 10


def test_the_first_token_is_timed_by_content(stack, engines):
    """Naive variant: the head, the role or the first ping stops the clock."""
    engine, _ = start(stack, engines)
    pinged, go_on = threading.Event(), threading.Event()

    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE, b": ping\n\n")
        pinged.set()
        assert go_on.wait(20)
        chat.chunk(say("a"), STOP, DONE)
        chat.last_chunk()
        return True

    engine.answer = answer
    with Client(stack, stream=True) as client:
        assert pinged.wait(20)
        begin = time.monotonic()
        while time.monotonic() < begin + 0.3:  # the router is awake all that time
            assert stack.admin("/admin/health").status_code == 200
        without_content = time.monotonic() - begin
        go_on.set()
        client.finish()
    name = "hivenet_router_request_time_to_first_byte_seconds"
    wait_for("it is counted", lambda: stack.metric(f"{name}_count") == 1)
    assert stack.metric(f"{name}_sum") >= without_content


def test_an_engine_that_only_pings_is_idle(stack, engines):
    """Comments, role and empty deltas keep no request alive: at its deadline the client gets a whole answer with status 504, and the agent
    is the one that did not answer.

    Naive variant: the first byte of any kind commits, and the client has a 200 with nothing in it.
    """
    engine, agent = start(stack, engines, "--request-timeout", "800ms")

    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE)
        chat.wait_gone(5, meanwhile=lambda: chat.chunk(b": ping\n\n"))

    engine.answer = answer
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.status == 504 and json.loads(client.payload)["error"]["code"] == "request_timeout"
    wait_for("the engine was told", lambda: engine.chats[0].gone, limit=2)
    assert stack.row(agent.peer_id)["universal"]["failed_requests_total"] == 1
    assert outcome(stack, "deadline") == 1


def test_compressed_answers_pass_as_they_are(stack, engines):
    """The router asks for none; an engine that compresses nevertheless is relayed with its header, streamed or not: the client has each piece
    before the engine sends the next. The tokens are estimated. If it breaks off, nothing is put into what only a decompressor reads.

    Naive variants: the header is dropped; the bytes are searched for events, and held until 64 KiB or the end; nothing is counted; an
    error event in plain text follows the compressed bytes.
    """
    engine, _ = start(stack, engines)
    packed = gzip.compress(completion("compressed"))
    engine.answer = lambda chat: chat.send(whole(packed, fields=b"Content-Encoding: gzip\r\n")) or True
    with Client(stack) as client:
        client.finish()
    assert client.fields["content-encoding"] == "gzip" and client.payload == packed
    assert b"accept-encoding: identity" in engine.chats[0].head.lower()
    entry = audit_of(stack, client)
    assert entry["estimated"] and entry["output_tokens"] > 0 and entry["input_tokens"] > 0

    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(e) + packer.flush(zlib.Z_SYNC_FLUSH) for e in (ROLE, say("a"), say("b"), STOP + DONE)] + [packer.flush()]
    got, breaks = threading.Semaphore(0), [False]

    def answer(chat):
        chat.send(SSE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))
        for piece in pieces[:2 if breaks[0] else None]:
            chat.chunk(piece)
            if not got.acquire(timeout=3):
                return False
        if not breaks[0]:
            chat.last_chunk()
        return not breaks[0]

    engine.answer = answer
    with Client(stack, stream=True) as client:
        expected = b""
        for piece in pieces:
            expected += piece
            assert client.until(lambda c: len(c.payload) >= len(expected)), "a piece is held back"
            got.release()
        client.finish()
    assert client.fields["content-encoding"] == "gzip" and client.payload == expected and client.complete
    entry = audit_of(stack, client)
    assert told(entry, "completed", 200, "") and entry["estimated"] and 0 < entry["output_tokens"] < len(expected)
    assert outcome(stack, "completed") == 2

    breaks[0] = True
    got.release(2)
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.payload == b"".join(pieces[:2]) and not client.complete
    entry = audit_of(stack, client)
    assert told(entry, "engine_error", 200, "backend_error") and entry["output_tokens"] > 0


def test_the_answers_content_type_decides_not_the_request(stack, engines):
    """An engine answers a stream request with JSON, or the reverse: the client gets what it answered, as it is.

    Naive variant: the request's `stream` decides: JSON becomes an endless stream without content, events a broken JSON.
    """
    engine, _ = start(stack, engines)
    engine.answer = lambda chat: chat.send(whole(completion("plain"))) or True
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.status == 200 and client.payload == completion("plain") and client.complete
    assert client.fields["content-type"] == "application/json" and "x-accel-buffering" not in client.fields

    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE, say("a"), DONE)
        chat.last_chunk()
        return True

    engine.answer = answer
    with Client(stack) as client:
        client.finish()
    assert client.status == 200 and client.payload == ROLE + say("a") + DONE and client.complete
    assert client.fields["content-type"].startswith("text/event-stream") and client.fields["x-accel-buffering"] == "no"


def test_a_stream_has_no_limit_in_total(stack, engines):
    """100 MiB, more than any answer of known length may have, and the router keeps none of it.

    Naive variant: one limit for all bodies; or the stream is kept for later.
    """
    engine, _ = start(stack, engines)
    event = say("z" * 60_000)
    count = (100 << 20) // len(event)

    def answer(chat):
        chat.send(SSE)
        for _ in range(count):
            chat.chunk(event)
        chat.chunk(DONE)
        chat.last_chunk()
        return True

    engine.answer = answer

    before = stack.router.memory_kib("VmHWM")
    total, tail = 0, b""
    with Client(stack, stream=True) as client:
        while not tail.endswith(b"0\r\n\r\n"):
            piece = client.socket.recv(1 << 20)
            assert piece, tail[-200:]
            total += len(piece)
            tail = (tail + piece)[-1000:]
    assert total > 100 << 20 and b"[DONE]" in tail
    assert stack.router.memory_kib("VmHWM") - before < 30_000
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_large_answer_of_known_length_passes_and_an_endless_one_is_refused(stack, engines):
    """Answers have a cap of their own, the agent's --max-answer-bytes, here and by default larger than the 8 MiB that the HTTP library
    would allow. It holds however the answer is framed; of one that has been passed on in part the client sees the connection end.

    Naive variants: the library's limit; a limit that only a Content-Length meets.
    """
    engine, _ = start(stack, engines, agent=("--max-answer-bytes", "10MiB"))
    body = completion("x" * (9 << 20))
    engine.answer = lambda chat: chat.send(whole(body)) or True
    with Client(stack, timeout=30) as client:
        client.finish()
    assert client.status == 200 and client.complete and client.payload == body
    body = completion("x" * (11 << 20))
    with Client(stack, timeout=30) as client:
        assert client.finish().status == 502
        assert "10485760" in json.loads(client.payload)["error"]["message"]

    def chunks(chat):
        chat.send(JSON + b"Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 1 << 20):
            chat.chunk(body[at:at + (1 << 20)])
        chat.last_chunk()

    engine.answer = chunks
    with Client(stack, timeout=30) as client:
        client.finish()
    assert client.status == 200 and not client.complete and len(client.payload) <= 10 << 20
    assert told(audit_of(stack, client), "engine_error", 200, "backend_error")
    engine.answer = lambda chat: (chat.send(JSON + b"Content-Length: 999999999999\r\n\r\n{"), chat.wait_gone(5))[0]
    with Client(stack) as client:
        assert client.finish().status == 502


def test_a_silent_stream_is_kept_alive_by_comment_lines_between_events(stack, engines):
    """With `--sse-keepalive`: a comment line alone, never before the head is committed, never inside an event, never when off.

    Naive variants: the comment is followed by an empty line (two SDKs dispatch an empty event); it is put into the middle of a line
    that has come in half; it commits the answer.
    """
    half, seen, sent = say("b"), threading.Event(), []

    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE)
        chat.wait_gone(0.3)        # before content: nothing may be sent
        sent.append(time.monotonic())
        chat.chunk(say("a"))
        seen.wait(10)              # between events
        chat.chunk(half[:15])
        chat.wait_gone(0.3)        # inside one
        chat.chunk(half[15:])
        chat.chunk(DONE)
        chat.last_chunk()
        return True

    engine, _ = start(stack, engines, "--sse-keepalive", "100ms")
    engine.answer = answer
    first, rest = ROLE + say("a"), half + DONE
    with Client(stack, stream=True, stream_options={"include_usage": True}) as client:
        assert client.until(lambda c: len(c.payload) >= len(first) + 3 * len(b":\n"))
        took = time.monotonic() - sent[0]
        seen.set()
        client.finish()
    assert client.payload.startswith(first) and client.payload.endswith(rest)
    between = client.payload[len(first):-len(rest)]
    print(f"between the events: {between}, the first three in {took:.2f} s")
    assert between == b":\n" * (len(between) // 2) and len(between) >= 6 and client.complete
    assert took >= 0.29, "one each 100 ms"
    engine.answer = lambda chat: (chat.send(SSE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")), chat.chunk(b"x" * 70_000 + b"\n\n"),
                                  chat.wait_gone(0.3), chat.last_chunk())[0]
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.payload == b"x" * 70_000 + b"\n\n", "a compressed stream has no events that we could see"
