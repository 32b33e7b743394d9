"""Row 11: queues. Bounded in count (../e2e/test_routing.py) and bytes (../e2e/test_memory.py), in order within a model, no model blocks
another, a wait ends with the deadline, and whoever is refused is refused before a byte.
"""
import json
import threading
import time

from conftest import at_rest, blameless, outcome, wait_for
from raw import DONE, SSE, Client, say, serve


def waiting(stack):
    return stack.admin("/admin/health").json()["waiting_capacity"]


def test_a_models_requests_are_served_in_the_order_in_which_they_came(stack, engines):
    """Naive variants: a freed slot goes to whoever asks next; whoever was woken in vain goes to the tail; streams and large bodies pass."""
    go, order = threading.Event(), []

    def answer(chat):
        order.append(json.loads(chat.body)["messages"][0]["content"][:2])
        if len(order) == 1:
            go.wait(20)
        return serve(chat)

    stack.start_router()
    stack.start_agent(engines(answer).url, "--capacity", "1", kind="openai")
    clients = []
    for i in range(12):
        text = f"{i:02}" + "x" * (200_000 if i % 5 == 4 else 0)
        clients.append(Client(stack, stream=i % 3 == 1, messages=[{"role": "user", "content": text}]))
        if i == 0:
            wait_for("the slot is taken", lambda: order)
        else:
            wait_for("it waits", lambda: waiting(stack) == i)
    go.set()
    for c in clients:
        with c:
            assert c.finish().status == 200
    assert order == [f"{i:02}" for i in range(12)]


def test_no_model_blocks_another(stack, engines):
    """Naive variant: a request that waits for a model keeps its place among those that may be forwarded, so that one stuck model stops them all."""
    go = threading.Event()

    def held(chat):
        go.wait(30)
        return serve(chat)

    stack.start_router("--max-concurrent", "3", "--queue-depth", "20", "--queue-size", "5")
    stack.start_agent(engines(held, models=("stuck",)).url, "--capacity", "1", identity="stuck.key", kind="openai")
    stack.start_agent(engines(serve, models=("fine",)).url, "--capacity", "2", identity="fine.key", kind="openai")
    stuck = []
    for i in range(20):
        stuck.append(Client(stack, model="stuck"))
        wait_for("it waits", lambda: waiting(stack) == i)
    begin = time.monotonic()
    for i in range(20):
        with Client(stack, model="fine", stream=i % 2 == 0) as c:
            assert c.finish().status == 200
    assert time.monotonic() - begin < 2
    assert waiting(stack) == 19
    go.set()
    for c in stuck:
        with c:
            assert c.finish().status == 200
    wait_for("all is returned", lambda: at_rest(stack))


def test_a_wait_ends_with_the_deadline_and_the_engine_never_hears_of_it(stack, engines):
    """Naive variant: the deadline is looked at when a slot is free, so that the client waits for ever, or an engine works for nobody."""
    go, held = threading.Event(), []

    def answer(chat):
        held.append(chat)
        chat.send(SSE)
        chat.chunk(say("a"))
        go.wait(20)
        chat.chunk(DONE)
        chat.last_chunk()
        return True

    stack.start_router("--request-timeout", "1s", "--stream-timeout", "20s")
    agent = stack.start_agent(engines(answer).url, "--capacity", "1", kind="openai")
    first = Client(stack, stream=True)
    assert first.until(lambda c: b'"a"' in c.payload)
    begin = time.monotonic()
    with Client(stack) as c:
        assert c.finish().status == 504 and b'"request_timeout"' in c.payload
    assert 0.9 < time.monotonic() - begin < 5, "long before the slot is free"
    wait_for("it is counted", lambda: outcome(stack, "deadline") == 1)
    go.set()
    with first:
        assert first.finish().complete
    assert len(held) == 1
    assert blameless(stack, agent)
    wait_for("all is returned", lambda: at_rest(stack))


def test_who_does_not_fit_is_refused_at_once_with_a_retry_after_and_before_any_byte_of_a_stream(stack, engines):
    """Naive variant: a stream's head goes out first, and the refusal comes as an event of a 200."""
    go = threading.Event()

    def held(chat):
        go.wait(20)
        return serve(chat)

    stack.start_router("--queue-depth", "1")
    stack.start_agent(engines(held).url, "--capacity", "1", kind="openai")
    clients = [Client(stack, stream=True)]
    wait_for("the slot is taken", lambda: any(r["status"]["active_requests"] for r in stack.table().values()))
    clients.append(Client(stack, stream=True))
    wait_for("it waits", lambda: waiting(stack) == 1)
    assert all(c.raw == b"" for c in clients)
    begin = time.monotonic()
    with Client(stack, stream=True) as c:
        assert c.finish().status == 503 and json.loads(c.payload)["error"]["code"] == "no_capacity"
        assert int(c.fields["retry-after"]) >= 1 and c.fields["content-type"].startswith("application/json")
    assert time.monotonic() - begin < 5, "long before the slot is free"
    go.set()
    for c in clients:
        with c:
            assert c.finish().status == 200
