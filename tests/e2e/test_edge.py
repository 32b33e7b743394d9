"""What one client may take of the listeners, by setting: time for a head and a body, bytes, requests, connections.

What each limit does in every state is shown in kernel/http; here that the settings reach the listeners and that all of it is counted.
"""
import os
import socket
import time

import httpx
import pytest

from conftest import wait_for

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


def read_all(s):
    out = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return out
        out += piece


def own_address():
    """One of this machine that is no loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # nothing is sent
            address = s.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


def connections(pid):
    """Open sockets."""
    seen = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            seen += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
        except FileNotFoundError:
            pass
    return seen


def timeouts(stack, phase):
    return stack.metric("http_server_timeouts_total", listener="client", phase=phase)


@pytest.fixture
def strict(stack):
    stack.start_router("--http-header-timeout", "300ms", "--http-idle-timeout", "600ms", "--http-body-timeout", "400ms", "--http-body-min-rate",
                       "1000", "--http-max-header-bytes", "2048", "--max-requests-per-connection", "2", "--workers", "2")
    return stack


def test_a_slow_head_a_slow_body_and_silence_end_and_are_counted(strict):
    """Naive variant: a limit between two reads only, which a byte now and then satisfies for ever."""
    silent = strict.dial()
    slow = strict.dial()
    slow.sendall(b"GET /health HT")
    assert read_all(slow).startswith(b"HTTP/1.1 408 ")
    assert timeouts(strict, "header") == 1
    stuck = strict.dial()
    stuck.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    assert read_all(stuck).startswith(b"HTTP/1.1 408 ")
    trickle = strict.dial()
    trickle.settimeout(0.1)
    trickle.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
    begin, answer = time.monotonic(), b""
    while not answer and time.monotonic() < begin + 5:
        trickle.sendall(b" ")
        try:
            answer = trickle.recv(65536)
        except TimeoutError:
            pass
    assert answer.startswith(b"HTTP/1.1 408 ") and time.monotonic() < begin + 3
    assert timeouts(strict, "body") == 2
    assert read_all(silent) == b""
    assert timeouts(strict, "idle") >= 1


def test_a_long_head_and_the_last_request_of_a_connection(strict):
    with strict.dial() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 3000 + b"\r\n\r\n")
        assert read_all(s).startswith(b"HTTP/1.1 431 ")
    with strict.dial() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        said = read_all(s)
    assert said.count(b"HTTP/1.1 200 OK") == 2 and said.lower().count(b"connection: close") == 1
    with httpx.Client() as client:
        assert [client.get(strict.url + "/health").status_code for _ in range(7)] == [200] * 7, "a client library just connects again"


def test_one_address_has_its_connections_over_all_workers(stack):
    """Naive variants: each worker counts by itself; or a place is not given back."""
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback, which is not counted")
    stack.start_router("--max-connections-per-address", "6", "--workers", "3", http=f"{address}:0")
    place = stack.place

    def served(s):
        try:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            return s.recv(4096).startswith(b"HTTP/1.1 200")
        except ConnectionError:
            return False

    kept = [stack.dial() for _ in range(6)]
    assert all(served(s) for s in kept)
    assert not any(served(socket.create_connection(place, timeout=10)) for _ in range(5))
    assert stack.metric("http_connections_refused_total", listener="client", reason="address_limit") == 5
    for s in kept[:2]:
        s.close()

    def again():
        s = socket.create_connection(place, timeout=10)
        return s if served(s) else None

    kept += [wait_for("the places are free", again) for _ in range(2)]
    assert again() is None


def test_a_crowd_at_the_metrics_listener_takes_nothing_from_clients(stack):
    """Naive variant: a listener nobody thought of accepts until the descriptors are gone."""
    stack.start_router()
    place = tuple(stack.metrics_url.split("/")[2].split(":"))
    crowd = [socket.create_connection(place) for _ in range(300)]
    wait_for("it stops at its limit", lambda: connections(stack.router.pid) >= 256)
    for _ in range(3):  # answered by the thread that would accept the rest of them before that
        assert stack.admin("/admin/health").status_code == 200
    assert connections(stack.router.pid) < 290
    assert httpx.get(stack.url + "/health").status_code == 200
    for s in crowd:
        s.close()
    assert wait_for("it serves again", lambda: httpx.get(stack.metrics_url).status_code == 200)
