"""Agents die by SIGKILL again and again under load, at two routers with two workers each. Every request ends, no slot is lost."""
import random
import threading
import time

import httpx
import pytest

from conftest import Stack, wait_for

LOAD_S = 12  # at least
KILLS, SERVED = 10, 100  # as well
CLIENTS = 6  # at each router


@pytest.fixture
def second(stack, tmp_path):
    folder = tmp_path / "second"
    folder.mkdir()
    s = Stack(folder)
    s.secret = stack.secret
    yield s
    s.stop()


def ask(stack, seed, over, outcomes, troubles):
    rng = random.Random(seed)
    with httpx.Client(timeout=20) as client:
        while not over.is_set():
            stream = rng.random() < 0.5
            body = {"model": "sim-model", "messages": [], "stream": stream, "max_tokens": rng.choice([1, 5, 40])}
            try:
                if stream and rng.random() < 0.2:  # leaves in the middle
                    with client.stream("POST", stack.url + "/v1/chat/completions", json=body) as answer:
                        for _ in answer.iter_raw():
                            break
                    continue
                answer = client.post(stack.url + "/v1/chat/completions", json=body)
            except httpx.RemoteProtocolError:
                outcomes.append("cut")  # a stream whose agent died after its first bytes
                continue
            except httpx.HTTPError as error:
                troubles.append(repr(error))
                continue
            if answer.status_code == 200 and stream and "[DONE]" not in answer.text:
                outcomes.append("told" if "error" in answer.text else "short")
            else:
                outcomes.append(answer.status_code)
            if answer.status_code not in (200, 404, 502, 503):
                troubles.append(answer.text)


def at_rest(stack, peers):
    health = stack.admin("/admin/health").json()
    table = stack.table()
    return (health["in_flight"] == 0 and health["waiting_capacity"] == 0
            and all(table[p]["status"]["active_requests"] == 0 and table[p]["status"]["routable"] for p in peers))


def test_agents_that_die_under_load_hang_no_request_and_lose_no_slot(stack, second):
    engine = stack.start_engine("--model", "sim-model", "--step-ms", "3", "--max-num-seqs", "64")
    for s in (stack, second):
        s.start_router("--workers", "2")
    agents = [stack.start_agent(engine, "--router", second.link, identity=f"agent{i}.key") for i in range(3)]
    peers = [a.peer_id for a in agents]
    wait_for("known to both", lambda: all(second.row(p)["status"]["routable"] for p in peers))

    outcomes, troubles, over = [], [], threading.Event()
    begin = time.monotonic()
    threads = [threading.Thread(target=ask, args=(s, i, over, outcomes, troubles))
               for i, s in enumerate([stack, second] * CLIENTS)]
    for t in threads:
        t.start()
    kills = 0
    while (took := time.monotonic() - begin) < LOAD_S or (took < 5 * LOAD_S and (kills < KILLS or outcomes.count(200) <= SERVED)):
        victim = kills % len(agents)
        agents[victim].kill()
        kills += 1
        agents[victim] = stack.start_agent(engine, "--router", second.link, identity=f"agent{victim}.key", wait=False)
        time.sleep(0.2)
    over.set()
    until = time.monotonic() + 25
    for t in threads:
        t.join(max(0.0, until - time.monotonic()))
    assert not any(t.is_alive() for t in threads), "a request hangs"

    assert troubles == []
    assert kills >= KILLS and outcomes.count(200) > SERVED, (kills, {o: outcomes.count(o) for o in set(outcomes)})
    assert "cut" in outcomes or "told" in outcomes, "no kill met a running stream: nothing was tried"
    assert "short" not in outcomes, "a stream ended early without a word"
    for s in (stack, second):
        assert s.router.child.poll() is None, s.router.log()[-4000:]
        wait_for("everything is returned", lambda: at_rest(s, peers), limit=20)
        for _ in range(10):
            assert s.chat(max_tokens=1).status_code == 200
        wait_for("everything is returned", lambda: at_rest(s, peers))
    wait_for("the engine is idle", lambda: engine.state()["running"] == 0)
    # A difference shows after three looks, a second apart.
    drifts, until = set(), time.monotonic() + 4.5

    def looked():
        drifts.update(s.metric("hivenet_router_lease_drift") for s in (stack, second))
        return time.monotonic() > until

    wait_for("the looks are over", looked)
    assert drifts == {0}
    for s in (stack, second):
        assert s.router.stop() == 0
