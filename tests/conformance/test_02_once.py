"""Row 2: slots, permits and counts are returned exactly once: at the last byte, at an error, at a cancel; never earlier, never later."""
import concurrent.futures
import json
import random
import threading
import time

import httpx

from conftest import at_rest, wait_for
from raw import ERROR, JSON, ROLE, SSE, Client, completion, say, serve, whole


def busy_refusals(stack):
    return sum(v for k, v in stack.metrics().items()
               if k.startswith("hivenet_router_routing_attempts_failed_total") and 'cause="busy"' in k)


def active(stack, agent):
    return stack.row(agent.peer_id)["status"]["active_requests"]


def test_a_slot_is_held_to_the_last_byte_of_a_stream(stack, engines):
    """Naive variant: the slot goes back at the head, or at the first content, or when the forward slot does."""
    steps = threading.Semaphore(0)

    def answer(chat):
        chat.send(SSE)
        for part in (ROLE, say("a"), say("b"), b"data: [DONE]\n\n"):
            steps.acquire(timeout=10)
            chat.chunk(part)
        steps.acquire(timeout=10)
        chat.last_chunk()
        return True

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "1")
    client = Client(stack, stream=True)
    wait_for("the engine has it", lambda: engine.chats)
    for _ in range(4):
        assert active(stack, agent) == 1
        steps.release()
    assert client.until(lambda c: b"[DONE]" in c.payload) and not client.complete
    assert active(stack, agent) == 1, "the answer has not ended yet"
    assert stack.metric("hivenet_router_forward_slots_in_use") == 0, "of a stream the forward slot goes back at the head"
    second = Client(stack, stream=True)
    wait_for("the second is parked", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    assert len(engine.chats) == 1
    steps.release()
    assert client.finish().complete
    wait_for("then it is served", lambda: len(engine.chats) == 2, limit=2)
    for _ in range(5):
        steps.release()
    assert second.finish().complete
    wait_for("everything is returned", lambda: at_rest(stack))


def test_the_last_byte_frees_the_slot_for_the_next_request(stack, engines):
    """A client that has read the whole answer finds the only slot free: none of its next requests ever waits.

    Naive variant: the slot returns after the records are written, or with a sweep.
    """
    stack.start_router()
    stack.start_agent(engines(serve), "--capacity", "1")
    with httpx.Client() as client:
        for i in range(200):
            body = {"model": "sim-model", "messages": [], "stream": i % 2 == 0}
            answer = client.post(stack.url + "/v1/chat/completions", content=json.dumps(body))
            assert answer.status_code == 200
    waits = [v for k, v in stack.metrics().items() if k.startswith("hivenet_router_queue_wait_seconds_count")]
    assert sum(waits) == 0, "a request found the slot taken although the one before was over"


def ends(number, chat):
    """Every way in which an engine can end a request."""
    ways = [
        lambda: chat.send(whole(completion())),
        lambda: chat.send(whole(b'{"error":{"message":"no"}}', b"400 Bad")),
        lambda: chat.send(whole(b'{"error":{"message":"no"}}', b"500 Bad")),
        lambda: chat.send(whole(b'{"error":{"message":"later"}}', b"429 Slow", b"Retry-After: 1\r\n")),
        lambda: chat.send(whole(b'{"error":{"message":"Loading model"}}', b"503 Soon")),
        lambda: None,
        lambda: chat.reset(),
        lambda: chat.send(b"HTTP/1.1 200 OK\r\nContent-Le"),
        lambda: chat.send(JSON + b"Content-Length: 100\r\n\r\n{"),
        lambda: (chat.send(SSE), chat.chunk(ROLE, say("a")), chat.last_chunk()),
        lambda: (chat.send(SSE), chat.chunk(ROLE, say("a"), ERROR), chat.last_chunk()),
        lambda: (chat.send(SSE), chat.chunk(ROLE, ERROR), chat.last_chunk()),
        lambda: (chat.send(SSE), chat.chunk(ROLE, say("a"))),
        lambda: (chat.send(SSE), chat.chunk(ROLE, say("a")), chat.reset()),
        lambda: chat.wait_gone(5),
        lambda: (chat.send(SSE), chat.chunk(ROLE, say("a")), chat.wait_gone(5)),
    ]
    ways[number % len(ways)]()
    return len(ways)


def test_whatever_ends_a_request_every_count_is_back_and_none_is_back_twice(stack, engines):
    """600 requests that end in every way, from clients of which a third leaves somewhere; then each agent takes exactly its capacity.

    A count that is returned twice lets more in than the capacity, one that is lost lets less in.
    Naive variants: the relay gives the slot back in its error path and again in its destructor; a retry forgets the slot it held.
    """
    lock, numbers = threading.Lock(), iter(range(10**6))

    def answer(chat):
        with lock:
            number = next(numbers)
        ends(number, chat)

    fleet = [engines(answer) for _ in range(2)]
    stack.start_router("--request-timeout", "1500ms", "--stream-timeout", "4s", "--max-concurrent", "6")
    agents = [stack.start_agent(e, "--capacity", "4", identity=f"{i}.key") for i, e in enumerate(fleet)]

    def ask(seed):
        rng = random.Random(seed)
        for _ in range(50):
            client = Client(stack, stream=rng.random() < 0.5, timeout=10)
            if rng.random() < 0.33:
                if rng.random() < 0.5:
                    time.sleep(rng.random() * 0.01)
                else:
                    client.receive()
                client.leave(rng.choice(["fin", "rst"]))
            else:
                with client:
                    client.until(lambda c: c.complete)

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for future in [pool.submit(ask, seed) for seed in range(12)]:
            future.result(60)
    wait_for("everything is returned", lambda: at_rest(stack))
    assert sum(len(e.chats) for e in fleet) > 300
    assert busy_refusals(stack) == 0, "one router and a fixed capacity: it never offers a slot that the agent has not got back"

    hold = threading.Event()

    def held():
        # By their mark: what a client of above left behind may reach its engine only now.
        return [sum(b'"held"' in c.body for c in e.chats) for e in fleet]

    for e in fleet:
        e.answer = lambda chat: (chat.send(SSE), chat.chunk(ROLE, say("a")), hold.wait(10), chat.last_chunk())[0]
    # A second health reading of each agent: what failed above no longer counts against it.
    wait_for("both are routable", lambda: all(stack.row(a.peer_id)["status"]["routable"] for a in agents))
    clients = [Client(stack, stream=True, user="held") for _ in range(10)]
    for c in clients:
        c.until(lambda c: b"\r\n\r\n" in c.raw)
    # Two waited for a slot until their time was up, or were told at once that it would be; none of the streams was over by then.
    statuses = sorted(c.status for c in clients)
    assert statuses[:8] == [200] * 8 and all(s in (503, 504) for s in statuses[8:]), statuses
    assert held() == [4, 4] and stack.metric("hivenet_router_queue_depth", model="sim-model") == 0
    hold.set()
    for c in clients:
        with c:
            c.finish()
    wait_for("everything is returned", lambda: at_rest(stack))


def test_slot_release_headers_frees_the_slot_of_a_stream_at_its_head(stack, engines):
    """With `--slot-release headers`, router and agent both count a stream to its head only; buffered answers to their end.

    Naive variant: only one side does: the agent then refuses as busy what the router thinks it may send, or the router never sends it.
    """
    hold = threading.Event()

    def answer(chat):
        if b'"stream": true' in chat.body:
            chat.send(SSE)
            chat.chunk(ROLE, say("a"))
            hold.wait(20)
            chat.last_chunk()
        else:
            hold.wait(20)
            chat.send(whole(completion()))

    engine = engines(answer)
    stack.start_router("--slot-release", "headers")
    agent = stack.start_agent(engine, "--capacity", "1")
    streams = []
    for i in range(3):
        streams.append(Client(stack, stream=True))
        assert streams[-1].until(lambda c: b'"a"' in c.payload)
        wait_for("its slot is free", lambda: active(stack, agent) == 0, limit=2)
    assert len(engine.chats) == 3
    assert busy_refusals(stack) == 0, "the agent counts otherwise than the router"
    buffered = Client(stack)
    wait_for("the engine has it", lambda: len(engine.chats) == 4)
    assert active(stack, agent) == 1
    late = Client(stack, stream=True)
    wait_for("the next one waits for it", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    hold.set()
    for c in [*streams, buffered, late]:
        with c:
            assert c.finish().complete
    wait_for("everything is returned", lambda: at_rest(stack))
