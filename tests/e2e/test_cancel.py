"""A client that leaves, in whatever state its request is, ends the engine's request, and nobody is blamed."""
import json
import socket
import time

import pytest

from conftest import wait_for


def connect(stack, body):
    s = stack.dial()
    raw = json.dumps(body).encode()
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    return s


def body(stream, tokens=100000):
    return {"model": "sim-model", "stream": stream, "max_tokens": tokens, "messages": []}


def settled(stack):
    row = stack.row(stack.agent.peer_id)
    health = stack.admin("/admin/health").json()
    return row["status"]["active_requests"] == 0 and health["in_flight"] == 0 and health["waiting_capacity"] == 0


def blameless(stack):
    universal = stack.row(stack.agent.peer_id)["universal"]
    assert universal["failed_requests_total"] == 0 and universal["consecutive_failures"] == 0


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("stream", [True, False])
def test_while_the_engine_works(stack, stream, how):
    stack.engine = stack.start_engine("--step-ms", "5")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine)
    s = connect(stack, body(stream))
    wait_for("the engine runs it", lambda: stack.engine.state()["running"] == 1)
    if stream:
        s.settimeout(10)
        wait_for("content arrives", lambda: b"token" in s.recv(65536))
    if how == "rst":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    s.close()
    left = time.monotonic()
    wait_for("the engine's request is ended", lambda: stack.engine.state()["running"] == 0, limit=2, pause=0.005)
    assert time.monotonic() - left < 1.0
    wait_for("everything is returned", lambda: settled(stack))
    blameless(stack)
    assert stack.chat(max_tokens=1).status_code == 200


def test_before_the_first_token(stack):
    stack.engine = stack.start_engine("--first-token-ms", "60000")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine)
    s = connect(stack, body(True))
    wait_for("the engine has it", lambda: stack.engine.state()["running"] == 1)
    s.close()
    wait_for("the engine's request is ended", lambda: stack.engine.state()["running"] == 0, limit=2)
    wait_for("everything is returned", lambda: settled(stack))
    blameless(stack)


def test_while_it_waits_in_the_capacity_queue(stack):
    stack.engine = stack.start_engine("--step-ms", "5")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine, "--capacity", "1")
    first = connect(stack, body(True))
    wait_for("the slot is taken", lambda: stack.engine.state()["running"] == 1)
    waiting = connect(stack, body(True))
    wait_for("the second waits", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 1)
    assert stack.metric("hivenet_router_queue_depth", model="sim-model") == 1
    waiting.close()
    wait_for("it is out of the line", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 0)
    first.close()
    wait_for("everything is returned", lambda: settled(stack))
    assert stack.engine.state()["chats"] == 1, "the one that left never reached the engine"
    blameless(stack)


def test_a_half_sent_body(stack):
    stack.engine = stack.start_engine()
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine)
    s = stack.dial()
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    wait_for("it is seen", lambda: stack.admin("/admin/health").json()["lines"]["reading_body"] == 1)
    s.close()
    wait_for("it is gone", lambda: stack.admin("/admin/health").json()["lines"]["reading_body"] == 0)
    assert stack.engine.state()["chats"] == 0


def test_a_hundred_clients_that_leave_cost_no_slot(stack):
    stack.engine = stack.start_engine("--step-ms", "5", "--max-num-seqs", "64")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine, "--capacity", "20")
    for round_ in range(5):
        clients = [connect(stack, body(i % 2 == 0, tokens=4000)) for i in range(20)]
        wait_for("all run", lambda: stack.engine.state()["running"] == 20)
        for c in clients:
            c.close()
        wait_for("none runs", lambda: stack.engine.state()["running"] == 0, limit=3)
        wait_for("everything is returned", lambda: settled(stack))
    blameless(stack)
