"""Row 6: busy is not dead. Missing signals empty no pool, recovery is automatic and wakes whoever waits, no state is terminal, and a full
engine's health is still known.
"""
import threading
import time

from conftest import at_rest, wait_for
from raw import Client, serve, whole

QUICK = ("--health-check-interval", "100ms", "--backend-failure-threshold", "2")


def test_signals_that_are_not_there_exclude_nobody(stack, engines):
    """Naive variant: no value reads as 0 or as the worst, and a gate empties the pool of agents whose host says nothing."""
    policy, devices = stack.folder / "policy.yaml", stack.folder / "devices"
    policy.write_text("routing_policy:\n  strategy: least-loaded\n  exclude_if:\n    gpu_temperature_c: {gte: 0}\n"
                      "    gpu_util_percent: {gte: 0}\n    gpu_vram_used_percent: {gte: 0}\n    srtt: {gt: 3600000}\n")
    devices.write_text("none")
    stack.start_router("--policy-file", policy)
    agent = stack.start_agent(engines(serve).url, "--gpu-devices-file", devices, kind="openai")
    for stream in (False, True):
        with Client(stack, stream=stream) as c:
            assert c.finish().status == 200
    assert wait_for("its host was looked at", lambda: stack.row(agent.peer_id).get("hardware"))["gpu"] == []


def test_a_full_engine_that_does_not_answer_its_health_page_stays_in_the_pool(stack):
    """Naive variant: the health page of an engine is starved by the requests that it serves, so that load alone makes it unhealthy, and
    what waits for it gets `no agents`.
    """
    engine = stack.start_engine("--max-num-seqs", "64", "--step-ms", "20")
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "2", "--health-check-interval", "100ms", "--backend-failure-threshold", "1")
    clients = [Client(stack, stream=True, max_tokens=350) for _ in range(2)]  # 7 s: a page that hangs is given up after 5
    for c in clients:
        assert c.until(lambda c: b'"content":"token' in c.payload)
    engine.faults(health="hang", step_ms=20)
    waiting = Client(stack, max_tokens=1)
    wait_for("it waits", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 1)
    for c in clients:
        while not c.complete:
            assert c.receive()
            assert stack.row(agent.peer_id)["status"]["backend_healthy"]
    with waiting:
        assert waiting.finish().status == 200
    wait_for("all is returned", lambda: at_rest(stack))
    for c in clients:
        c.socket.close()


def test_an_engine_that_comes_back_takes_who_waits_for_another(stack, engines):
    """Naive variant: only a freed slot wakes, so the request waits for the busy one while the healthy one is idle."""
    go = threading.Event()

    def held(chat):
        go.wait(20)
        return serve(chat)

    stack.start_router()
    sick = engines(serve)
    stack.start_agent(engines(held).url, "--capacity", "1", identity="busy.key", kind="openai")
    agent = stack.start_agent(sick.url, *QUICK, identity="sick.key", kind="openai")
    sick.health = b"503 Service Unavailable"
    wait_for("it is sick", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"])
    first = Client(stack)
    wait_for("the slot is taken", lambda: any(r["status"]["active_requests"] for r in stack.table().values()))
    second = Client(stack)
    wait_for("it waits", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 1)
    sick.health = b"200 OK"
    begin = time.monotonic()
    with second:
        assert second.finish().status == 200
    assert time.monotonic() - begin < 5, "while the busy one is still busy"
    assert stack.row(agent.peer_id)["universal"]["successful_requests_total"] == 1
    go.set()
    with first:
        assert first.finish().status == 200


def test_no_state_is_terminal(stack, engines):
    """Naive variant: an agent that was unhealthy, silent or failing stays so until somebody restarts something."""
    engine = engines()
    sound = engine.answer
    stack.start_router()
    agent = stack.start_agent(engine.url, *QUICK, kind="openai")

    def ask():
        with Client(stack) as c:
            return c.finish().status

    for _ in range(2):
        assert ask() == 200
        engine.health = b"500 Internal Server Error"
        wait_for("down", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"])
        assert ask() == 503
        engine.health = b"200 OK"
        wait_for("up", lambda: stack.row(agent.peer_id)["status"]["routable"])
        assert ask() == 200
        engine.answer = lambda chat: chat.send(whole(b"{}", b"500 Internal Server Error")) or True
        for _ in range(5):
            assert ask() == 502
        engine.answer = sound
        begin = time.monotonic()
        assert ask() == 200 and time.monotonic() - begin < 1, "alone it is asked whenever there is a request"
