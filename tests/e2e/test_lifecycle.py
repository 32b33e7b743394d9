"""Agents come, go, freeze and return; routers restart. No request hangs, nothing is counted twice."""
import re
import shutil
import signal
import socket
import threading
import time

import httpx

from conftest import wait_for


def asked_for_health(door):
    """A connection to an engine that answers nothing."""
    with door.accept()[0] as peer:
        peer.settimeout(2)
        return peer.recv(4096).startswith(b"GET /health ")


def test_the_agent_starts_without_engine_and_without_router(stack):
    """Naive variant: it ends when either is not there yet, or after a second try, and the order of starts matters."""
    stack.start_router()
    http, link = stack.router.said["http"], stack.link
    assert stack.router.stop() == 0
    port = stack.reserve()
    agent = stack.start_agent(f"http://127.0.0.1:{port}", wait=False, link=link)
    wait_for("no engine", lambda: "the engine is not ready: cannot connect" in agent.log())
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", port))
        door.listen()
        door.settimeout(1)
        for _ in range(2):
            wait_for("it asks again", lambda: asked_for_health(door))
    engine = stack.start_engine("--port", port)
    wait_for("it dials again", lambda: agent.log().count("no connection to the router at") >= 3)
    assert agent.child.poll() is None, "it waits for both"
    stack.start_router(http=http, link=link)
    wait_for("routable", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=35)
    assert stack.chat(max_tokens=1).status_code == 200
    assert engine.state()["served"] == 1


def test_a_new_agent_gets_its_slots_one_after_another(stack):
    """Naive variant: it gets as much at once as those that are warm; or what it may have now is shown as what it has."""
    stack.start_router("--slow-start", "1h")
    agent = stack.start_agent(stack.start_engine(), "--capacity", "8")
    row = stack.row(agent.peer_id)
    assert row["metadata"]["capacity"] == 8
    assert row["status"]["effective_capacity"] == 1 and row["status"]["slow_start"]
    http, link = stack.router.said["http"], stack.link
    assert stack.router.stop() == 0
    stack.start_router("--slow-start", "500ms", http=http, link=link)
    wait_for("it has started", lambda: "slow_start" not in stack.row(agent.peer_id)["status"], limit=35)
    assert stack.row(agent.peer_id)["status"]["effective_capacity"] == 8


def test_the_peer_id_is_stable_and_in_libp2p_form(simple):
    """Naive variant: a key of its own at every start; a file that others can read."""
    assert simple.agent.peer_id.startswith("12D3KooW")
    assert (simple.folder / "agent.key").stat().st_mode & 0o777 == 0o600
    assert (simple.folder / "agent.key").stat().st_size == 68
    simple.agent.stop()
    assert simple.start_agent(simple.engine).peer_id == simple.agent.peer_id


def test_secrets_change_while_agents_have_both(stack):
    """Agents have the old and the new one: they follow the router to either, and back.

    Naive variant: the transport is not started a second time: after the first secret nothing is dialled any more.
    """
    old, new = "the-old-secret-0123456789abcdef012345", "the-new-secret-0123456789abcdef012345"
    both = stack.folder / "secrets"
    both.write_text(f"{old}\n{new}\n")
    both.chmod(0o600)
    engine = stack.start_engine("--model", "sim-model")
    stack.secret = new
    stack.start_router()
    http, link = stack.router.said["http"], stack.link
    agent = stack.start_agent(engine, "--jwt-secret-file", both)
    assert stack.chat(max_tokens=1).status_code == 200
    assert stack.router.stop() == 0
    stack.secret = old
    stack.start_router(http=http, link=link)
    wait_for("it is back with the other", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=20)
    assert stack.chat(max_tokens=1).status_code == 200


def test_goodbye_takes_the_agent_out_at_once_and_lets_its_stream_finish(simple):
    """Naive variant: SIGTERM closes the link, and the stream with it."""
    simple.engine.faults(step_ms=20)
    result = {}
    thread = threading.Thread(target=lambda: result.update(r=simple.chat(stream=True, max_tokens=200)))  # with its end the agent is gone
    thread.start()
    wait_for("it runs", lambda: simple.engine.state()["running"] == 1)
    simple.agent.child.terminate()
    wait_for("draining", lambda: not simple.row(simple.agent.peer_id)["status"]["routable"], limit=2)
    thread.join(20)
    assert result["r"].status_code == 200 and result["r"].text.endswith("data: [DONE]\n\n")
    assert simple.agent.child.wait(10) == 0


def test_a_killed_agent_ends_its_requests_at_once_and_comes_back_with_its_history(simple):
    """Naive variant: the request waits for its own deadline; the agent comes back as a new one, with counts from 0, or with the load it
    had.
    """
    for _ in range(3):
        assert simple.chat(max_tokens=1).status_code == 200
    simple.engine.faults(first_token_ms=60000)
    result = {}

    def ask():
        begin = time.monotonic()
        result["answer"] = simple.chat(max_tokens=1, timeout=40)
        result["took"] = time.monotonic() - begin

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for("it runs", lambda: simple.engine.state()["running"] == 1)
    simple.agent.kill()
    wait_for("unroutable at once", lambda: not simple.row(simple.agent.peer_id)["status"]["routable"], limit=2)
    thread.join(40)
    assert result["answer"].status_code == 503, result["answer"].text
    assert result["answer"].json()["error"]["code"] == "agent_disconnected"
    assert result["took"] < 10
    simple.engine.faults()
    before = simple.row(simple.agent.peer_id)["universal"]
    simple.start_agent(simple.engine)
    after = simple.row(simple.agent.peer_id)
    assert after["universal"]["successful_requests_total"] == before["successful_requests_total"] == 3
    assert after["universal"]["srtt_ms"] == before["srtt_ms"]
    assert after["status"]["active_requests"] == 0
    assert simple.chat(max_tokens=1).status_code == 200


def test_a_frozen_agent_is_noticed_and_recovers(simple):
    """Naive variant: only a closed connection counts as lost; or what was lost once stays out."""
    simple.agent.child.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    answer = simple.chat(max_tokens=1, timeout=40)
    assert answer.status_code == 503 and time.monotonic() - begin < 10
    wait_for("unroutable", lambda: not simple.row(simple.agent.peer_id)["status"]["routable"], limit=8)
    simple.agent.child.send_signal(signal.SIGCONT)
    wait_for("back", lambda: simple.row(simple.agent.peer_id)["status"]["routable"], limit=20)
    assert simple.chat(max_tokens=1).status_code == 200


def test_agents_reconnect_to_a_restarted_router_and_latency_survives_it(simple):
    """Naive variant: the agent gives up after some tries; the history is kept in memory only."""
    for _ in range(4):
        simple.chat(max_tokens=1)
    before = simple.row(simple.agent.peer_id)["universal"]
    http, link = simple.router.said["http"], simple.link
    assert simple.router.stop() == 0
    simple.start_router(http=http, link=link)
    wait_for("registered again", lambda: simple.row(simple.agent.peer_id)["status"]["routable"], limit=20)
    after = simple.row(simple.agent.peer_id)["universal"]
    # JSON text in between: the last digit of a double may differ.
    assert after["latency_state"] == "KNOWN" and abs(after["srtt_ms"] - before["srtt_ms"]) < 1e-9
    assert after["successful_requests_total"] == 4
    assert simple.chat(max_tokens=1).status_code == 200


def test_history_of_the_last_flush_survives_kill_9(stack):
    """Naive variant: it is written at an orderly end only."""
    engine = stack.start_engine()
    stack.start_router("--universal-flush-interval", "200ms")
    agent = stack.start_agent(engine)
    for _ in range(5):
        stack.chat(max_tokens=1)
    wait_for("flushed", lambda: b'"successful_requests":5' in (stack.folder / "db" / "data.mdb").read_bytes())
    # Asked of the thread that writes: the whole of it is done.
    assert stack.admin("/admin/storage").json()["disk_db"]["univ_history_count"] == 1
    http, link = stack.router.said["http"], stack.link
    stack.router.kill()
    stack.start_router("--universal-flush-interval", "200ms", http=http, link=link)
    wait_for("registered again", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=20)
    assert stack.row(agent.peer_id)["universal"]["successful_requests_total"] == 5


def test_a_new_agent_keeps_the_routers_pace_from_its_welcome_on(stack):
    """Naive variant: the period told with the welcome holds from the first beat on, which is due after five seconds."""
    engine = stack.start_engine()
    stack.start_router("--heartbeat-interval", "500ms")
    agent = stack.start_agent(engine)
    beats = set()

    def beaten():
        beats.add(stack.row(agent.peer_id)["status"]["last_seen"])
        return len(beats) >= 5

    wait_for("it has beaten", beaten, limit=4)


def test_silence_makes_unhealthy_then_removed(stack):
    """Naive variant: an agent that is gone stays in the table for ever, or cannot come back."""
    engine = stack.start_engine()
    stack.start_router("--heartbeat-interval", "1s", "--unhealthy-after", "2s", "--remove-after", "4s", "--health-check-interval", "500ms")
    agent = stack.start_agent(engine)
    agent.kill()
    wait_for("removed", lambda: agent.peer_id not in stack.table(), limit=12)
    answer = stack.chat()
    assert answer.status_code in (404, 503)
    again = stack.start_agent(engine)
    assert again.peer_id == agent.peer_id and stack.chat(max_tokens=1).status_code == 200


def test_a_sick_engine_takes_its_agent_out_until_it_is_well(stack):
    """Naive variant: heartbeats of the agent alone decide, and requests go to an engine that is down; or it never comes back."""
    engine = stack.start_engine()
    stack.start_router()
    agent = stack.start_agent(engine, "--health-check-interval", "100ms")
    engine.faults(health="down")
    wait_for("backend unhealthy", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"], limit=5)
    answer = stack.chat()
    assert answer.status_code == 503 and answer.json()["error"]["code"] == "no_agents_available"
    engine.faults()
    wait_for("well again", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=5)
    assert stack.chat(max_tokens=1).status_code == 200


def test_two_live_agents_with_one_identity_do_not_flap(stack):
    """Naive variant: the newest wins, so that each throws the other out in turn."""
    engine = stack.start_engine()
    stack.start_router()
    first = stack.start_agent(engine)
    links = stack.metric("hivenet_router_link_links_welcomed_total")
    shutil.copy(stack.folder / "agent.key", stack.folder / "copy.key")  # the file itself is held by the first
    second = stack.start_agent(engine, identity="copy.key", wait=False)
    assert second.peer_id == first.peer_id
    wait_for("the newcomer is refused", lambda: "duplicate" in second.log(), limit=15)
    for _ in range(20):
        assert stack.row(first.peer_id)["status"]["routable"]
        assert stack.chat(max_tokens=1).status_code == 200
    wait_for("it has tried again", lambda: second.log().count("ends the link: duplicate: another process") >= 2, limit=30)
    assert stack.metric("hivenet_router_link_links_welcomed_total") == links
    assert stack.metric("hivenet_router_link_rejected_total", reason="duplicate") >= 1
    # The newcomer is told who is there, the router's log who came.
    told = re.search(r"ends the link: duplicate: another process with this identity is connected from (127\.0\.0\.1:\d+)",
                     second.log())
    assert told and f"from {told[1]}" in stack.router.log()
    line = re.search(r"a second process with this identity at (\S+) was refused, the owner at (\S+) is alive", stack.router.log())
    assert line and line[2] == told[1] != line[1]
    first.kill()
    # The retry-after it was given, and a few seconds.
    wait_for("the other takes over", lambda: stack.chat(max_tokens=1).status_code == 200, limit=9)


def test_with_two_workers_the_agent_links_to_both_and_every_connection_is_served(stack):
    """Naive variant: one link for all: what another worker accepted finds no agent."""
    engine = stack.start_engine()
    stack.start_router("--workers", "2")
    assert len(stack.router.said["link"]) == 2
    agent = stack.start_agent(engine)
    for _ in range(30):  # each its own connection: the kernel spreads them over both workers
        assert stack.chat(max_tokens=1).status_code == 200
    assert engine.state()["served"] == 30
    assert stack.row(agent.peer_id)["status"]["active_requests"] == 0


def test_the_router_drains_on_sigterm(simple):
    """Naive variant: the stream is cut, or the process never ends."""
    simple.engine.faults(step_ms=20)
    result = {}
    thread = threading.Thread(target=lambda: result.update(r=simple.chat(stream=True, max_tokens=40)))
    thread.start()
    wait_for("it runs", lambda: simple.engine.state()["running"] == 1)
    simple.router.child.terminate()
    thread.join(20)
    assert result["r"].text.endswith("data: [DONE]\n\n")
    assert simple.router.child.wait(10) == 0
    try:
        httpx.get(simple.url + "/health", timeout=2)
        raise AssertionError("still listening")
    except httpx.HTTPError:
        pass
