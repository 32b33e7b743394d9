"""Memory: the byte budget and what it refuses, bodies held once, slow readers, and short forms of ./dev soak."""
import json
import pathlib
import re
import resource
import socket
import sys
import time

import httpx
import pytest

from conftest import wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))
import parts  # noqa: E402
from load import Load, head  # noqa: E402

MIB = 1 << 20
WIDE = ("--max-num-seqs", "20000", "--kv-tokens", "1000000000", "--step-ms", "1")


def start(stack, *router, engine=WIDE, agent=("--capacity", "20000")):
    stack.engine = stack.start_engine("--model", "sim-model", *engine)
    stack.start_router("--max-concurrent", "1000", *router)
    stack.agent = stack.start_agent(stack.engine, *agent)
    return stack


def body_of(size, **more):
    return json.dumps({"model": "sim-model", "messages": [{"role": "user", "content": "x" * size}], **more}).encode()


def connect(stack, receive_buffer=None, segment=None):
    host, port = stack.router.said["http"].rsplit(":", 1)
    s = socket.socket()
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    if segment:  # the loopback's own are of 64 KiB, and so are then a reader's steps
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
    s.settimeout(20)
    s.connect((host, int(port)))
    return s


def answer_of(s):
    """A whole answer, of the length that it says."""
    raw = b""
    while True:
        piece = s.recv(65536)
        assert piece, raw
        raw += piece
        head_of_it, _, body = raw.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head_of_it)
        if length and len(body) >= int(length[1]):
            return raw.decode()


def post(length, *fields):
    return head("POST", "/v1/chat/completions", length, "Content-Type: application/json", *fields)


def held(stack):
    return stack.metric("hivenet_router_memory_held_bytes")


def ended(stack, outcome):
    return sum(v for k, v in stack.metrics().items()
               if k.startswith("hivenet_router_routing_requests_finished_total") and f'outcome="{outcome}"' in k)


def test_over_its_budget_the_router_refuses_unread_what_it_refuses_and_serves_the_rest(stack):
    """Naive variant: bodies are read first and counted afterwards; the refusal comes after `100 Continue`; a chunked body, whose length
    nobody told, is never counted, nor is that of a stream, which the router writes its question for usage into; `/health` needs memory,
    too.
    """
    start(stack, "--memory-budget", "11MiB", "--max-request-bytes", "10MiB")
    stack.engine.faults(hang=True)
    holders = []
    for stream in (False, True):  # 2 x 4 MiB that an engine has and does not answer
        s = connect(stack)
        body = body_of(4 * MIB, stream=stream)
        s.sendall(post(len(body)) + body)
        holders.append(s)
    wait_for("both are held", lambda: held(stack) > 7.9 * MIB)  # a loop tells its part in steps of 64 KiB
    wait_for("the engine has both", lambda: stack.engine.state()["chats"] == 2)  # what comes after the fault is answered
    stack.engine.faults()
    # What fits is served, what does not is refused before a byte of it was asked for.
    assert stack.chat(max_tokens=1).status_code == 200
    with connect(stack) as s:
        s.sendall(post(5 * MIB, "Expect: 100-continue"))
        answer = answer_of(s)
    assert answer.startswith("HTTP/1.1 503") and "Retry-After: 1" in answer and "queue_full" in answer and "memory-budget" in answer
    assert stack.metric("hivenet_router_memory_shed_total", phase="before_body") == 1
    assert ended(stack, "rejected_memory") == 1
    # A body of unknown length is refused as soon as it has grown too much.
    with connect(stack) as s:
        s.sendall(post(None, "Transfer-Encoding: chunked"))
        chunk = b"%x\r\n" % 65536 + b"x" * 65536 + b"\r\n"
        sent = 0
        try:
            while sent < 8 * MIB:
                s.sendall(chunk)
                sent += 65536
        except OSError:
            pass
        answer = answer_of(s)
    assert answer.startswith("HTTP/1.1 503"), answer[:200]
    assert stack.metric("hivenet_router_memory_shed_total", phase="in_body") == 1
    # While nothing fits: health and admin answer, and so do requests again when the holders have gone.
    assert httpx.get(stack.url + "/health").status_code == 200
    assert stack.admin("/admin/health").status_code == 200
    for s in holders:
        s.close()
    parts.wait_for_rest(stack)
    wait_for("nothing is held", lambda: held(stack) < 128 * 1024)
    body = body_of(5 * MIB, max_tokens=1)
    assert httpx.post(stack.url + "/v1/chat/completions", content=body, timeout=20).status_code == 200


def test_the_waiting_line_of_a_model_is_bounded_in_bytes(stack):
    """Naive variant: a bound on the number of requests alone, which three large bodies pass."""
    start(stack, "--queue-bytes", "1MiB", engine=("--max-num-seqs", "8"), agent=("--capacity", "1"))
    stack.engine.faults(hang=True)
    waiting = [connect(stack) for _ in range(3)]
    small, large = body_of(600 * 1024), body_of(600 * 1024)
    for i, body in enumerate((small, small, large)):
        waiting[i].sendall(post(len(body)) + body)
        if i < 2:
            wait_for("it is in", lambda: stack.engine.state()["chats"] == 1)
            wait_for("it waits", lambda n=i: stack.admin("/admin/health").json()["waiting_capacity"] == n)
    answer = answer_of(waiting[2])
    assert answer.startswith("HTTP/1.1 503") and "no_capacity" in answer and "Retry-After: 1" in answer
    assert stack.metric("hivenet_router_queue_refused_total") == 1
    for s in waiting:
        s.close()


def test_a_body_is_held_once(stack):
    """Naive variant: the body is copied for the scan, for the retry, for the link."""
    start(stack)
    grown, counted = parts.bodies_in_flight(stack, 6, 10 * MIB - 1000)
    assert 0.95 < counted < 1.1, counted
    assert grown < 1.3, f"{grown:.2f} resident bytes a body byte: somebody copies it"


class Reader:
    """A streamed chat whose bytes are read only when told."""

    def __init__(self, stack, tokens, segment=None):
        self.socket = connect(stack, receive_buffer=8192, segment=segment)
        body = body_of(1, stream=True, max_tokens=tokens)
        self.socket.sendall(post(len(body)) + body)
        self.seen = self.socket.recv(4096)
        self.end = b""

    def drain(self):
        n = len(self.seen)
        while piece := self.socket.recv(1 << 20):
            n += len(piece)
            self.end = (self.end + piece)[-64:]
            if self.end.endswith(b"0\r\n\r\n"):
                break
        return n


def test_a_slow_reader_stops_its_own_stream_at_the_engine_and_nobody_elses(stack):
    """Naive variant: the agent reads as fast as the engine writes and the router keeps what the client does not take; or the link itself
    stops, and with it everybody's streams.
    """
    start(stack, engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384))
    before = parts.settled_rss(stack.router.pid, 0.5), parts.settled_rss(stack.agent.pid, 0.5)
    readers = [Reader(stack, 6000) for _ in range(2)]  # 2 x 94 MiB
    # The engine has it all at once; what it can get rid of stands still at the windows and the sockets' buffers.
    last = -1

    def stands_still():
        nonlocal last
        now, last_one = stack.engine.state()["bytes_written"], last
        last = now
        return now == last_one

    wait_for("the engine is stopped", stands_still, pause=0.3)
    assert last < 48 * MIB, f"{last / MIB:.1f} MiB left the engine for two readers that read nothing"
    assert parts.rss(stack.router.pid) - before[0] < 12 * MIB
    assert parts.rss(stack.agent.pid) - before[1] < 12 * MIB
    begin = time.monotonic()
    for _ in range(20):
        assert stack.chat(max_tokens=2, stream=True).text.endswith("data: [DONE]\n\n")
    assert time.monotonic() - begin < 5
    readers[0].socket.settimeout(60)
    assert readers[0].drain() > 6000 * 16384 and b"data: [DONE]" in readers[0].end, "whoever reads on gets it all"
    for r in readers:
        r.socket.close()
    parts.wait_for_rest(stack)


def test_a_reader_that_stands_still_ends_as_client_slow(stack):
    """Naive variant: only what the engine sends is timed, and the engine has been stopped: the slot is lost for good."""
    start(stack, "--stream-write-timeout", "1s", engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384))
    reader = Reader(stack, 6000)
    wait_for("client_slow", lambda: ended(stack, "client_slow") == 1, limit=10)
    parts.wait_for_rest(stack)
    assert stack.engine.state()["bytes_written"] < 48 * MIB, "the engine's answer is cut off"
    assert stack.chat(max_tokens=1).status_code == 200
    reader.socket.close()


def test_a_reader_of_10_kilobytes_a_second_keeps_its_stream_for_longer_than_the_limit(stack):
    """Naive variant: progress is what the socket takes (a third of the kernel's buffer at once) or what credit comes back for
    (64 KiB at once), either of which a slow reader needs longer for than the limit. (The reader's own kernel tells of its progress in
    steps, too: here about every 2 s.)
    """
    start(stack, "--stream-write-timeout", "4s", engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384),
          agent=("--capacity", "8", "--stream-write-timeout", "4s"))
    reader = Reader(stack, 6000, segment=1400)
    begin = time.monotonic()
    for step in range(1, 131):
        assert reader.socket.recv(1024), f"cut after {time.monotonic() - begin:.1f} s"
        wait_for("its next look", lambda: time.monotonic() >= begin + step * 0.1, pause=0.01)
    assert ended(stack, "client_slow") == 0
    wait_for("client_slow once it stops", lambda: ended(stack, "client_slow") == 1, limit=15)
    assert stack.metric("http_server_clients_slow_total") == 1
    parts.wait_for_rest(stack)
    reader.socket.close()


def test_a_buffered_answer_that_nobody_takes_counts_as_a_slow_client(stack):
    """Naive variant: only an exchange under way is counted, and that of an answer which is complete in the router is over."""
    start(stack, "--stream-write-timeout", "1s", engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384))
    s = connect(stack, receive_buffer=8192)
    body = body_of(1, max_tokens=50)  # 800 KiB: held whole, then written at once
    s.sendall(post(len(body)) + body)
    wait_for("counted", lambda: stack.metric("http_server_clients_slow_total") == 1)
    s.close()


def test_without_a_write_timeout_a_slow_reader_may_take_its_time(stack):
    """Naive variant: 0 is a time-out of 0 s."""
    start(stack, "--stream-write-timeout", "0s", engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384),
          agent=("--capacity", "8", "--stream-write-timeout", "0s"))
    reader = Reader(stack, 1000)
    time.sleep(0.5)  # what is off must not fire at once
    assert reader.drain() > 1000 * 16384 and b"data: [DONE]" in reader.end
    reader.socket.close()


def test_far_over_its_budget_the_router_gives_up_the_slowest(stack):
    """Naive variant: the budget refuses new requests, and those that run go on growing; or all of them are ended at once."""
    start(stack, "--memory-budget", "1MiB", "--max-request-bytes", "1MiB",
          engine=("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--word", "w" * 16384))
    readers = []
    for _ in range(12):  # each may hold a window of 256 KiB
        try:
            readers.append(Reader(stack, 6000))
        except (AssertionError, OSError):
            break
    wait_for("some are given up", lambda: stack.metric("hivenet_router_memory_streams_ended_total") >= 1, limit=10)
    wait_for("back under the budget", lambda: held(stack) <= MIB, limit=10)
    wait_for("and end as such", lambda: ended(stack, "client_slow") >= 1)
    assert stack.metric("hivenet_router_memory_streams_ended_total") < len(readers), "only as many as it takes"
    wait_for("served again", lambda: stack.chat(max_tokens=1).status_code == 200)
    for r in readers:
        r.socket.close()


@pytest.fixture
def many_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_streams_and_connections_cost_little(stack, many_files):
    """Naive variant: buffers of the largest read, a thread or a parser for each."""
    start(stack)
    each = parts.idle_streams(stack, 1000)
    assert each["router"] < 32 * 1024, each
    assert each["agent"] < 48 * 1024, each
    kept, _, _ = parts.idle_connections(stack, 1000)
    assert kept < 8 * 1024, kept


def test_memory_does_not_grow_with_the_number_of_requests_and_no_slot_is_lost(stack):
    """Naive variant: a record, a series or a queue entry stays behind each request; leases of requests that ended oddly stay out."""
    start(stack)
    load = Load(stack.router.said["http"])
    load.run_to(1500)
    parts.wait_for_rest(stack)
    first = parts.settled_rss(stack.router.pid, 1), parts.settled_rss(stack.agent.pid, 1)
    load.run_to(6000)
    parts.wait_for_rest(stack)
    last = parts.settled_rss(stack.router.pid, 1), parts.settled_rss(stack.agent.pid, 1)
    assert not load.troubles, load.troubles
    assert last[0] < 1.15 * first[0] + MIB and last[1] < 1.15 * first[1] + MIB, (first, last)
    time.sleep(3.2)  # the sweep wants three looks
    assert stack.metric("hivenet_router_lease_drift") == 0


def test_a_model_that_nobody_serves_any_more_is_forgotten_with_its_series(stack):
    """Naive variant: pools and metric series are made and never dropped; a stranger's model name becomes a label."""
    engine = stack.start_engine("--model", "old-model")
    stack.start_router("--heartbeat-interval", "200ms", "--unhealthy-after", "1500ms", "--remove-after", "2s", "--health-check-interval", "100ms")
    agent = stack.start_agent(engine)
    assert stack.chat(model="old-model", max_tokens=1).status_code == 200
    assert any('model="old-model"' in k for k in stack.metrics())
    agent.stop()
    wait_for("no series left", lambda: not any("old-model" in k for k in stack.metrics()), limit=20, pause=0.2)
    answer = stack.chat(model="old-model")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "model_not_found"
    assert not any("old-model" in k for k in stack.metrics()), "a stranger's word is no label"
    stack.start_agent(engine)
    assert stack.chat(model="old-model", max_tokens=1).status_code == 200, "it may come back"
