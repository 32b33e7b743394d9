"""Row 5: an agent whose engine fails at once does not attract traffic: after its first failures it gets one request at a time until one
succeeds, and few of those while others serve.
"""
import concurrent.futures
import threading

import pytest

from conftest import at_rest, wait_for
from raw import Client, completion, whole

TAKES_ITS_TIME = "--first-token-ms", "20"  # so that a failing engine is always the idle one
BROKEN = whole(b'{"error":{"message":"out of memory","type":"InternalServerError","code":500}}', b"500 Internal Server Error")


def broken(chat):
    chat.send(BROKEN)
    return True


def works(chat):
    chat.send(whole(completion()))
    return True


@pytest.mark.parametrize("how", ["answers 500", "refuses connections"])
def test_an_engine_that_fails_at_once_does_not_draw_the_load(stack, engines, how):
    """Naive variant (`--probation-after 0` is it): the least loaded agent is the one that fails fastest, so it is asked first by nearly
    every request; and each of these takes a retry, of which there are few.
    """
    stack.start_router()
    bad = engines(broken)
    stack.start_agent(stack.start_engine(*TAKES_ITS_TIME), identity="good.key")
    agent = stack.start_agent(bad.url, "--backend-failure-threshold", "1000", identity="bad.key", kind="openai")
    if how == "refuses connections":
        bad.close()

    def ask(_):
        with Client(stack) as c:
            return c.finish().status

    with concurrent.futures.ThreadPoolExecutor(3) as pool:  # as many as may be repeated at a time
        statuses = list(pool.map(ask, range(300)))
    assert statuses == [200] * 300
    failed = stack.row(agent.peer_id)["universal"]["failed_requests_total"]
    # Three and what was under way with them; then probes after 0.25, 0.5, 1, ... s.
    assert 3 <= failed <= 3 + 4 + 4, failed
    assert stack.row(agent.peer_id)["status"]["probation"] and stack.row(agent.peer_id)["status"]["routable"]
    assert stack.metric("hivenet_router_agent_on_probation", peer_id=agent.peer_id) == 1
    wait_for("all is returned", lambda: at_rest(stack))


def test_alone_it_gets_one_request_at_a_time_until_one_succeeds(stack, engines):
    """Naive variants: all that wait rush at an engine that has just failed; or nobody is let through any more, and it stays dead."""
    go, count = threading.Event(), [0, 0]  # now, most
    together = threading.Barrier(5)        # those behind the probe, answered once all of them are here
    guard = threading.Lock()

    def answer(chat):
        if chat.number_of_all <= 3:
            return broken(chat)
        with guard:
            count[0] += 1
            count[1] = max(count)
        go.wait(20)
        if chat.number_of_all > 4:
            together.wait(20)
        with guard:
            count[0] -= 1
        chat.send(whole(completion()))
        return True

    arrived = []

    def numbered(chat):
        with guard:
            arrived.append(chat)
            chat.number_of_all = len(arrived)
        return answer(chat)

    stack.start_router()
    agent = stack.start_agent(engines(numbered).url, "--capacity", "8", kind="openai")
    for _ in range(3):
        with Client(stack) as c:
            assert c.finish().status == 502 and b"out of memory" in c.payload, "the engine's own words, not `no agents`"
    assert stack.row(agent.peer_id)["status"]["probation"]
    clients = [Client(stack) for _ in range(6)]
    wait_for("five wait", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 5)
    wait_for("the one that does not is at the engine", lambda: count == [1, 1])
    assert len(arrived) == 4
    go.set()
    for c in clients:
        with c:
            assert c.finish().status == 200
    assert count[1] == 5, "after the first success they go together"
    assert "probation" not in stack.row(agent.peer_id)["status"]
    wait_for("all is returned", lambda: at_rest(stack))


def test_an_engine_that_works_again_is_found_out_by_a_probe_among_others(stack, engines):
    """Naive variant: while another agent serves, nobody ever asks the one that failed."""
    healed = threading.Event()
    stack.start_router()
    stack.start_agent(stack.start_engine(*TAKES_ITS_TIME), identity="good.key")
    agent = stack.start_agent(engines(lambda chat: works(chat) if healed.is_set() else broken(chat)).url, identity="bad.key", kind="openai")

    def ask():
        with Client(stack) as c:
            assert c.finish().status == 200
        return stack.row(agent.peer_id)

    wait_for("on probation", lambda: ask()["status"].get("probation"))
    healed.set()
    wait_for("served by it again", lambda: ask()["universal"]["successful_requests_total"] > 0, limit=15)
    assert "probation" not in ask()["status"]
