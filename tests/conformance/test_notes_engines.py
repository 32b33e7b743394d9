"""Engines (README.md, Line by line), beyond rows 5 to 8: that load, that hang, that only ping."""
import json
import threading
import time

import pytest

from conftest import at_rest, audit_of, blameless, told, wait_for
from raw import DONE, ROLE, SSE, STOP, Client, completion, event, say, serve, whole

LOADING = whole(b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}', b"503 Service Unavailable")
PING = b": ping\n\n"


def start_two(stack, answer, engines, *agent):
    fleet = [engines(answer), engines(answer)]
    stack.start_router()
    return fleet, [stack.start_agent(e, *agent, identity=f"{i}.key") for i, e in enumerate(fleet)]


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_loads_its_model_is_starting_and_has_not_failed(stack, engines, stream):
    """It says so in a chat's answer: alone, the client gets 503 with Retry-After; another engine serves; once it has loaded it serves, at
    once.

    Naive variants: 503 is a failure like 500, and puts it on probation; the client is told 502, or nothing of when.
    """
    loaded = threading.Event()

    def answer(chat):
        if loaded.is_set():
            return serve(chat)
        chat.send(LOADING)
        return True

    slow = engines(answer)
    stack.start_router()
    agent = stack.start_agent(slow, identity="slow.key", kind="llamacpp")
    for _ in range(4):  # more than --probation-after
        with Client(stack, stream=stream) as client:
            client.finish()
        error = json.loads(client.payload)["error"]
        assert (client.status, error["code"], error["source"]) == (503, "backend_unavailable", "backend")
        assert "Loading model" in error["message"] and client.fields["retry-after"] == "1"
    assert blameless(stack, agent) and "probation" not in stack.row(agent.peer_id)["status"]

    stack.start_agent(engines(serve), identity="quick.key")
    for _ in range(4):
        with Client(stack, stream=stream) as client:
            assert client.finish().status == 200 and client.complete
    loaded.set()
    before = len(slow.chats)

    def served_by_it():
        with Client(stack, stream=stream) as client:
            assert client.finish().status == 200
        return len(slow.chats) > before

    wait_for("it serves", served_by_it)
    assert blameless(stack, agent)
    wait_for("everything is returned", lambda: at_rest(stack))


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_is_well_but_does_not_answer_is_given_up_for_another(stack, engines, stream):
    """Its health page answers, its chats hang: `--http-timeout` of the agent, well below the request's deadline, ends the attempt.

    Naive variant: only the request's deadline does, and then nobody is left to be asked in time.
    """
    asked = []

    def answer(chat):
        asked.append(chat)
        if len(asked) > 1:
            return serve(chat)
        chat.wait_gone(20)

    fleet, agents = start_two(stack, answer, engines, "--http-timeout", "1s")
    begin = time.monotonic()
    with Client(stack, stream=stream) as client:
        client.finish()
    took = time.monotonic() - begin
    print(f"the other engine's answer came after {took:.2f} s")
    assert client.status == 200 and client.complete and len(asked) == 2
    assert client.payload == (ROLE + say("a") + DONE if stream else completion())
    assert 0.9 < took < 10
    wait_for("the engine was told", lambda: asked[0].gone, limit=2)
    assert stack.metric("hivenet_router_routing_attempts_failed_total", cause="engine_timeout") == 1
    hung = agents[next(i for i, e in enumerate(fleet) if asked[0] in e.chats)]
    wait_for("it counts against that agent alone", lambda: [blameless(stack, a) for a in agents] == [a is not hung for a in agents])
    assert told(audit_of(stack, client), "completed", 200, "")
    wait_for("everything is returned", lambda: at_rest(stack))


NOTHING = [PING, b'event: ping\ndata: {"type": "ping"}\n\n', event({}), b'data: {"choices":[]}\n\n']


def test_after_content_an_engine_that_only_pings_is_idle(stack, engines):
    """The agent's limit counts from content to content. The client is told in the stream.

    Naive variant: every byte is a sign of life, and the stream lasts until the request's deadline.
    """
    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE, say("a"))
        chat.wait_gone(30, meanwhile=lambda: chat.chunk(*NOTHING))

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine, "--http-timeout", "1s")
    begin = time.monotonic()
    with Client(stack, stream=True) as client:
        client.finish()
    took = time.monotonic() - begin
    print(f"it was ended after {took:.2f} s")
    assert client.status == 200 and client.payload.startswith(ROLE + say("a")) and not client.complete
    error = json.loads(client.payload.strip().split(b"\n\n")[-1].removeprefix(b"data: "))["error"]
    assert error["code"] == "backend_error" and "no content" in error["message"] and b"[DONE]" not in client.payload
    assert 0.9 < took < 10
    wait_for("the engine was told", lambda: engine.chats[0].gone, limit=2)
    assert told(audit_of(stack, client), "engine_error", 200, "backend_error")
    wait_for("it counts", lambda: stack.row(agent.peer_id)["universal"]["failed_requests_total"] == 1)


def test_before_content_too_and_then_another_is_asked(stack, engines):
    """Naive variant: once the head is there nothing but the deadline ends the wait, and the client gets 504."""
    asked = []

    def answer(chat):
        asked.append(chat)
        if len(asked) > 1:
            return serve(chat)
        chat.send(SSE)
        chat.chunk(ROLE)
        chat.wait_gone(30, meanwhile=lambda: chat.chunk(*NOTHING))

    start_two(stack, answer, engines, "--http-timeout", "1s")
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.status == 200 and client.payload == ROLE + say("a") + DONE and client.complete
    assert stack.metric("hivenet_router_routing_attempts_failed_total", cause="engine_timeout") == 1


def test_a_slow_stream_with_content_is_not_idle(stack, engines):
    """A word every 0.3 s under a limit of one second, for longer than three of them, pings between. Naive variants: the limit holds for
    the whole stream; or one ping makes it idle.
    """
    words = [say(str(i)) for i in range(12)]

    def answer(chat):
        chat.send(SSE)
        for word in words:
            chat.chunk(word)
            chat.wait_gone(0.3, meanwhile=lambda: chat.chunk(PING))
        chat.chunk(STOP + DONE)
        chat.last_chunk()
        return True

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine, "--http-timeout", "1s")
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.complete and client.payload.replace(PING, b"") == b"".join(words) + STOP + DONE
    assert blameless(stack, agent)
    assert told(audit_of(stack, client), "completed", 200, "")
