"""Row 1: a client that leaves ends its request in every phase, at both hops, and nobody pays for it.

The engine's connection must be closed within 50 ms of the client's on an idle machine; that budget is measured in bench/. Here
the bound is generous (LIMIT), because a machine that tests is not idle, and each test prints what it saw.
"""
import threading
import time

import pytest

from conftest import answered, at_rest, blameless, outcome, wait_for
from raw import JSON, ROLE, SSE, Client, say, whole

LIMIT = 1.0
HOWS = ("fin", "rst")


def silent(chat):
    chat.wait_gone()


def half_an_answer(chat):
    chat.send(JSON + b"Content-Length: 1000\r\n\r\n{")
    chat.wait_gone()


def role_and_silence(chat):
    chat.send(SSE)
    chat.chunk(ROLE)
    chat.wait_gone()


def streaming(chat):
    chat.send(SSE)
    chat.chunk(ROLE)
    chat.wait_gone(meanwhile=lambda: chat.chunk(say("word ")))


class Failing:
    """Fails a request when told to: so the order of the attempts is known."""

    def __init__(self):
        self.gate = threading.Event()

    def __call__(self, chat):
        self.gate.wait(10)
        chat.send(whole(b'{"error":{"message":"broken"}}', b"500 X"))


def queued(stack):
    return stack.metric("hivenet_router_queue_depth", model="sim-model")


def closed_after(chat, left):
    wait_for("the engine's connection is closed", lambda: chat.gone, limit=LIMIT + 1, pause=0.002)
    since = chat.gone - left
    print(f"the engine's connection was closed {since * 1000:.1f} ms after the client's")
    assert since < LIMIT


def ended_as_gone(stack, gone):
    wait_for("it ends as client_gone", lambda: outcome(stack, "client_gone") == gone, limit=3)
    assert answered(stack, 499) == gone
    wait_for("everything is returned", lambda: at_rest(stack))


@pytest.mark.parametrize("phase,stream,answer", [
    ("waiting for the head, buffered", False, silent),
    ("waiting for the head, streamed", True, silent),
    ("inside a buffered answer", False, half_an_answer),
    ("after the head, before content", True, role_and_silence),
    ("mid-stream", True, streaming),
])
def test_while_an_engine_has_it(stack, engines, phase, stream, answer):
    """Naive variants: the relay forgets its stream without telling the agent; the agent lets its call run on."""
    engine, other = engines(answer), engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine)
    for gone, how in enumerate(HOWS, 1):
        client = Client(stack, stream=stream)
        wait_for("the engine has it", lambda: len(engine.chats) == gone)
        if phase == "mid-stream":
            assert client.until(lambda c: b"word" in c.payload)
        if gone == 2:
            second = stack.start_agent(other, identity="second.key")  # where a retry would go
        closed_after(engine.chats[-1], client.leave(how))
        ended_as_gone(stack, gone)
    assert len(engine.chats) == len(HOWS) and not other.chats
    assert blameless(stack, agent) and blameless(stack, second)


def test_in_the_line_for_a_forward_slot(stack, engines):
    """Naive variant: a waiting request is only dropped when its turn comes."""
    engine = engines(silent)
    stack.start_router("--max-concurrent", "1")
    agent = stack.start_agent(engine)
    first = Client(stack)
    wait_for("the engine has it", lambda: engine.chats)
    for gone, how in enumerate(HOWS, 1):
        waiting = Client(stack)
        wait_for("the second is in line", lambda: stack.metric("hivenet_router_request_queue_length") == 1)
        waiting.leave(how)
        wait_for("the line is empty", lambda: stack.metric("hivenet_router_request_queue_length") == 0, limit=LIMIT)
        assert outcome(stack, "client_gone") == gone
    assert engine.chats[0].gone is None, "the other goes on"
    closed_after(engine.chats[0], first.leave())
    ended_as_gone(stack, 3)
    assert len(engine.chats) == 1 and blameless(stack, agent)


def test_parked_in_the_capacity_queue(stack, engines):
    """Naive variant: the place in the queue outlives the client, and the next free slot goes to nobody."""
    engine = engines(silent)
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "1")
    first = Client(stack)
    wait_for("the engine has it", lambda: engine.chats)
    for how in HOWS:
        parked = Client(stack)
        wait_for("the second is parked", lambda: queued(stack) == 1)
        parked.leave(how)
        wait_for("the queue is empty", lambda: queued(stack) == 0, limit=LIMIT)
    closed_after(engine.chats[0], first.leave())
    ended_as_gone(stack, 3)
    assert len(engine.chats) == 1 and blameless(stack, agent)


@pytest.mark.parametrize("stream", [False, True])
def test_during_a_retry(stack, engines, stream):
    """The first engine fails, the client leaves while the second has the request: no third one hears of it.

    Naive variant: losing the client is a failed attempt like any other, and the next agent is tried.
    """
    fails, hangs, spare = Failing(), engines(silent), engines(silent)
    failing = engines(fails)
    stack.start_router()
    bad = stack.start_agent(failing)
    client = Client(stack, stream=stream)
    wait_for("the first engine has it", lambda: failing.chats)
    good = stack.start_agent(hangs, identity="good.key")
    fails.gate.set()
    wait_for("the second engine has it", lambda: hangs.chats)
    third = stack.start_agent(spare, identity="spare.key")
    closed_after(hangs.chats[0], client.leave())
    ended_as_gone(stack, 1)
    assert len(failing.chats) == 1 and len(hangs.chats) == 1 and not spare.chats
    assert blameless(stack, good) and blameless(stack, third)
    assert stack.row(bad.peer_id)["universal"]["failed_requests_total"] == 1, "the engine's failure stays a failure"


def test_parked_during_a_retry(stack, engines):
    """As above, but the second agent is full: the retry waits in its queue when the client leaves."""
    fails, hangs = Failing(), engines(silent)
    failing = engines(fails)
    stack.start_router()
    stack.start_agent(failing)
    client = Client(stack)
    wait_for("the first engine has it", lambda: failing.chats)
    good = stack.start_agent(hangs, "--capacity", "1", identity="good.key")
    holder = Client(stack)
    wait_for("the second engine is full", lambda: hangs.chats)
    fails.gate.set()
    wait_for("the retry is parked", lambda: queued(stack) == 1)
    client.leave()
    wait_for("the queue is empty", lambda: queued(stack) == 0, limit=LIMIT)
    closed_after(hangs.chats[0], holder.leave())
    ended_as_gone(stack, 2)
    assert len(failing.chats) == 1 and len(hangs.chats) == 1 and blameless(stack, good)


def test_a_slot_of_a_client_that_left_serves_the_next_at_once(stack, engines):
    """Over a link the agent's slot comes back with its answer to CANCEL; whoever waits for it is served then.

    Naive variant: the slot returns with the engine's own end, or by a time-out.
    """
    engine = engines(silent)
    stack.start_router()
    stack.start_agent(engine, "--capacity", "1")
    first = Client(stack)
    wait_for("the engine has it", lambda: engine.chats)
    engine.answer = lambda chat: chat.send(whole(b'{"choices":[]}')) or True
    second = Client(stack)
    wait_for("the second is parked", lambda: queued(stack) == 1)
    left = first.leave()
    assert second.finish().status == 200
    took = time.monotonic() - left
    print(f"the next one was answered after {took * 1000:.1f} ms")
    assert took < LIMIT
    wait_for("everything is returned", lambda: at_rest(stack))
