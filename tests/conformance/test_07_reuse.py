"""Row 7: a kept connection that the engine closes at an awkward moment costs the client nothing and the agent no blame."""
import json
import select
import time

import httpx

from conftest import at_rest, blameless, wait_for
from raw import Client, serve


def attempts_failed(stack):
    return sum(v for k, v in stack.metrics().items() if k.startswith("hivenet_router_routing_attempts_failed_total"))


def ask(stack, count, pause=0.0, **more):
    with httpx.Client(timeout=10) as client:
        for i in range(count):
            body = {"model": "sim-model", "messages": [{"role": "user", "content": "x" * more.get("size", 1)}], "stream": i % 2 == 1}
            answer = client.post(stack.url + "/v1/chat/completions", content=json.dumps(body))
            assert answer.status_code == 200, (i, answer.text)
            assert not body["stream"] or answer.text.endswith("data: [DONE]\n\n")
            time.sleep(pause)


def test_an_engine_that_closes_after_100_requests(stack, engines):
    """As uvicorn with --limit-max-requests does: without a word, after the 100th answer.

    Naive variant: an early close of a kept connection is an engine failure like any other: 502, and the agent is blamed.
    """
    engine = engines(lambda chat: serve(chat) and chat.of_connection < 100)
    stack.start_router()
    agent = stack.start_agent(engine)
    ask(stack, 350)
    assert len(engine.chats) == 350
    assert blameless(stack, agent) and attempts_failed(stack) == 0
    wait_for("everything is returned", lambda: at_rest(stack))


def test_an_engine_that_closes_when_the_next_request_arrives(stack, engines):
    """The race itself, every second time: the request is on its way when the engine closes, with FIN or RST and without a byte.
    It is sent once more, whole, on a fresh connection; no try is charged and nobody is blamed, although max_tries is 1.

    Naive variants: no second sending (502); the second one counts as a try of the request or a failure of the agent; only the
    head is sent again.
    """
    def answer(chat):
        if chat.of_connection % 2 == 0:
            if chat.number % 2 == 0:
                chat.reset()
            return False
        return serve(chat)

    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {strategy: least-loaded, max_tries: 1}\n")
    engine = engines(answer)
    stack.start_router("--policy-file", policy)
    agent = stack.start_agent(engine)
    ask(stack, 60, size=30_000)
    assert len(engine.chats) == 60 + 59, "each request but the first meets the close and is sent once more"
    dead = [c for c in engine.chats if c.of_connection % 2 == 0]
    assert all(len(c.body) > 30_000 for c in engine.chats) and len(dead) == 59
    assert blameless(stack, agent) and attempts_failed(stack) == 0
    universal = stack.row(agent.peer_id)["universal"]
    assert universal["successful_requests_total"] == 60
    wait_for("everything is returned", lambda: at_rest(stack))


def test_it_is_sent_again_once_and_only_before_the_first_byte(stack, engines):
    """An engine that closes fresh connections, too, has failed; one that had begun its answer is not asked twice.

    Naive variant: the client of the engine goes on for ever, or repeats what the engine has begun to do.
    """
    engine = engines(serve)
    stack.start_router()
    agent = stack.start_agent(engine)
    ask(stack, 1)
    engine.answer = lambda chat: False
    with Client(stack) as client:
        assert client.finish().status == 502
    assert len(engine.chats) == 1 + 2, "the kept connection and one fresh one"
    assert not blameless(stack, agent)
    engine.answer = serve
    ask(stack, 1)
    engine.answer = lambda chat: chat.send(b"HTTP/1.1 2")
    before = len(engine.chats)
    with Client(stack) as client:
        assert client.finish().status == 502
    assert len(engine.chats) == before + 1
    wait_for("everything is returned", lambda: at_rest(stack))


def test_the_pool_learns_when_the_engine_closes_idle_connections(stack, engines):
    """An engine that closes after 2 s idle instead of the expected 5 s: after two such closes the agent closes first.

    Naive variant: a fixed idle limit: the engine keeps closing first, and each close is a chance for the race.
    """
    closed_by = []

    def answer(chat):
        serve(chat)
        ready, _, _ = select.select([chat.connection], [], [], 2.0)
        closed_by.append("agent" if ready else "engine")
        return False  # closes now, whoever was first

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine)
    for i in range(4):
        ask(stack, 1)
        wait_for("its connection is closed", lambda: len(closed_by) == i + 1)
    assert closed_by == ["engine", "engine", "agent", "agent"]
    assert blameless(stack, agent) and attempts_failed(stack) == 0


def test_the_pool_closes_before_an_engine_with_a_limit_of_5_s(stack, engines):
    """uvicorn's default. Naive variant: connections are kept until somebody closes them."""
    closed = []

    def answer(chat):
        serve(chat)
        begin = time.monotonic()
        ready, _, _ = select.select([chat.connection], [], [], 5.0)
        closed.append((bool(ready), time.monotonic() - begin))
        return False

    engine = engines(answer)
    stack.start_router()
    stack.start_agent(engine)
    ask(stack, 1)
    wait_for("its connection is closed", lambda: closed, limit=7)
    by_agent, after = closed[0]
    assert by_agent and 3.5 < after < 4.8, closed
