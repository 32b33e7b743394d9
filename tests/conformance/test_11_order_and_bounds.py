"""Row 11: lines of requests are bounded in count and bytes, know deadlines, go in order, and one model's line is nobody else's.

That a request which cannot be served in time is told so at once: ../e2e/test_admission.py.
"""
import hashlib
import json
import threading
import time

import pytest

from conftest import at_rest, wait_for
from raw import Client, completion, whole


class Gate:
    """An engine whose answers wait until each is let go; it knows in which order the requests came."""

    def __init__(self):
        self.names, self.free, self.lock = [], threading.Semaphore(0), threading.Lock()

    def __call__(self, chat):
        with self.lock:
            self.names.append(json.loads(chat.body).get("user", ""))
        self.free.acquire(timeout=30)
        chat.send(whole(completion()))
        return True

    def open(self, count=1):
        for _ in range(count):
            self.free.release()


def waiting(stack):
    return stack.admin("/admin/health").json()["waiting_capacity"]


def call(stack, user, model="sim-model", padding=0, key=None):
    body = json.dumps({"model": model, "user": user, "messages": [{"role": "user", "content": "x" * padding}]})
    if key is None:
        return Client(stack, body=body)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return Client(stack, wire=(head + body).encode())


def queue_up(stack, *calls):
    """Each in the queue before the next comes."""
    clients = []
    for user, more in calls:
        clients.append(call(stack, user, **more))
        wait_for(f"{user} waits", lambda: waiting(stack) == len(clients), pause=0.005)
    return clients


def finish(stack, gate, clients):
    gate.open(len(clients))
    for c in clients:
        assert c.finish().status == 200


def held_slot(stack, gate, key=None):
    client = call(stack, "first", key=key)
    wait_for("the only slot is taken", lambda: gate.names == ["first"])
    return client


def test_requests_of_one_model_go_in_the_order_in_which_they_came(stack, engines):
    gate = Gate()
    engine = engines(gate)
    stack.start_router()
    stack.start_agent(engine, "--capacity", "1")
    first = held_slot(stack, gate)
    names = [f"n{i}" for i in range(12)]
    clients = queue_up(stack, *[(n, {}) for n in names])
    # One in the middle leaves: nobody else's place changes.
    clients.pop(5).leave()
    wait_for("it has left the line", lambda: waiting(stack) == 11)
    finish(stack, gate, [first, *clients])
    assert gate.names == ["first"] + [n for n in names if n != "n5"]
    wait_for("nothing is held", lambda: at_rest(stack))


def test_the_line_is_bounded_in_count_and_in_bytes(stack, engines):
    """Refused before any byte of an answer, with a whole number of seconds after which asking again makes sense.

    Naive variants: only the count is bounded, so that thirty bodies of ten megabytes wait; the bound refuses who would not have waited.
    """
    gate = Gate()
    engine = engines(gate)
    stack.start_router("--queue-depth", "3", "--queue-bytes", "4096")
    agent = stack.start_agent(engine, "--capacity", "1")
    first = call(stack, "first", padding=6000)
    wait_for("a large one that need not wait is served", lambda: gate.names == ["first"])

    def refused(client):
        client.finish()
        assert client.status == 503 and json.loads(client.payload)["error"]["code"] == "no_capacity"
        assert 1 <= int(client.fields["retry-after"]) <= 60
        return True

    assert refused(call(stack, "large", padding=6000))
    clients = queue_up(stack, ("a", {"padding": 1500}), ("b", {"padding": 1500}))
    assert refused(call(stack, "no room", padding=1500))
    clients += [call(stack, "c")]
    wait_for("a small one has room", lambda: waiting(stack) == 3)
    assert refused(call(stack, "one too many"))
    finish(stack, gate, [first, *clients])
    assert gate.names == ["first", "a", "b", "c"]
    assert stack.row(agent.peer_id)["status"]["active_requests"] == 0


def test_a_model_that_is_full_blocks_no_other(stack, engines):
    """Two forward slots, and ten requests wait for one model. The other model's requests pass them all.

    Naive variant: who waits keeps its forward slot, so that the first two that wait stop the router.
    """
    gate = Gate()
    busy, idle = engines(gate, models=("sim-model",)), engines(models=("other-model",))
    stack.start_router("--max-concurrent", "2", "--queue-size", "10")
    stack.start_agent(busy, "--capacity", "1", identity="a.key")
    stack.start_agent(idle, identity="b.key")
    first = held_slot(stack, gate)
    clients = queue_up(stack, *[(f"n{i}", {}) for i in range(10)])
    for _ in range(5):
        begin = time.monotonic()
        assert call(stack, "x", model="other-model").finish().status == 200
        assert time.monotonic() - begin < 1
    assert waiting(stack) == 10
    finish(stack, gate, [first, *clients])


@pytest.mark.parametrize("flags", [(), ("--tenant-fairness=false",)], ids=["in turns", "by arrival"])
def test_classes_and_tenants_of_keys_decide_who_is_next(stack, engines, flags):
    """A higher class goes first; within one class the owners of keys take turns, each in its own order. With the switch off a class is
    one line for all its owners.

    Naive variants: one line for all, so that who sends ten requests first keeps everybody else waiting for ten; a switch that nobody reads.
    """
    owners = {"key-of-acme-0123456789": ("acme", 0), "key-of-beta-0123456789": ("beta", 0), "key-of-urgent-0123456789": ("urgent", 5)}
    (stack.folder / "auth.yaml").write_text("api:\n  mode: api-key\n  keys:\n" + "".join(
        f"    - key_hash: {hashlib.sha256(key.encode()).hexdigest()}\n      metadata: {{name: {owner}, owner: {owner}}}\n      priority: {priority}\n"
        for key, (owner, priority) in owners.items()))
    acme, beta, urgent = owners
    gate = Gate()
    engine = engines(gate)
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", *flags)
    stack.start_agent(engine, "--capacity", "1")
    first = held_slot(stack, gate, key=acme)
    clients = queue_up(stack, *[(f"a{i}", {"key": acme}) for i in range(4)], *[(f"b{i}", {"key": beta}) for i in range(2)], ("u", {"key": urgent}))
    finish(stack, gate, [first, *clients])
    assert gate.names[:2] == ["first", "u"]
    rest = gate.names[2:]
    assert [n for n in rest if n[0] == "a"] == ["a0", "a1", "a2", "a3"] and [n for n in rest if n[0] == "b"] == ["b0", "b1"]
    if flags:
        assert rest == ["a0", "a1", "a2", "a3", "b0", "b1"]
    else:
        assert sorted(rest[:4]) == ["a0", "a1", "b0", "b1"], f"they take turns: {rest}"
