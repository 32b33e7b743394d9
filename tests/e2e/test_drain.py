"""SIGTERM on router and agent: readiness first, no new work, what runs finishes, all of it bounded; SIGKILL leaves nothing hanging."""
import json
import resource
import signal
import threading
import time

import httpx

from conftest import wait_for


class Stream(threading.Thread):
    """One streamed chat on a thread of its own."""

    def __init__(self, stack, tokens, stream=True):
        super().__init__(daemon=True)
        self.stack, self.tokens, self.stream = stack, tokens, stream
        self.status, self.text, self.error, self.fields = None, "", None, {}
        self.start()

    def run(self):
        body = {"model": "sim-model", "messages": [], "stream": self.stream, "max_tokens": self.tokens}
        try:
            with httpx.stream("POST", self.stack.url + "/v1/chat/completions", json=body, timeout=60) as answer:
                self.status, self.fields = answer.status_code, answer.headers
                for piece in answer.iter_text():
                    self.text += piece
        except httpx.HTTPError as error:
            self.error = error
        self.ended_at = time.monotonic()

    def whole(self):
        self.join(30)
        return self.error is None and self.status == 200 and self.text.endswith("data: [DONE]\n\n")


def slow_streams(stack, count, tokens, step_ms=20):
    """Streams that run for a while, each past its first content."""
    stack.engine.faults(step_ms=step_ms)
    streams = [Stream(stack, tokens) for _ in range(count)]
    wait_for("all stream", lambda: all('"content":"token' in s.text for s in streams))
    return streams


def test_a_leaving_router_is_not_ready_refuses_new_work_and_finishes_what_runs(simple):
    """Naive variant: SIGTERM closes the listener or the process at once: streams are cut, kept connections are reset, and the balancer
    learns it from failures.
    """
    assert httpx.get(simple.url + "/health/ready").json() == {"status": "ready"}
    streams = slow_streams(simple, 3, 250)  # with their end it is gone
    with httpx.Client() as kept:
        assert kept.get(simple.url + "/health").status_code == 200
        simple.router.child.terminate()
        ready = wait_for("not ready", lambda: (r := httpx.get(simple.url + "/health/ready")).status_code == 503 and r)
        assert ready.json() == {"status": "not_ready", "reason": "draining"}
        refused = wait_for("refuses", lambda: (r := simple.chat(max_tokens=1)).status_code == 503 and r)
        assert refused.json()["error"]["code"] == "shutting_down"
        assert refused.headers["retry-after"] == "1" and refused.headers["connection"] == "close"
        # A connection that was idle when the drain began is answered, not reset.
        answer = kept.post(simple.url + "/v1/chat/completions", json={"model": "sim-model", "messages": []})
        assert answer.status_code == 503 and answer.headers["connection"] == "close"
    assert httpx.get(simple.url + "/health").status_code == 200, "it lives"
    assert simple.admin("/admin/health").status_code == 200
    assert all(s.whole() for s in streams)
    assert simple.router.child.wait(5) == 0
    assert simple.engine.state()["aborted"] == 0


def test_readiness_goes_before_work_is_refused(stack):
    """Naive variant: both at the same moment: what the balancer sends until its next look is refused."""
    stack.engine = stack.start_engine()
    stack.start_router("--drain-delay", "3s")
    stack.start_agent(stack.engine)
    stack.router.child.terminate()
    begin = time.monotonic()
    wait_for("not ready", lambda: httpx.get(stack.url + "/health/ready").status_code == 503, limit=2.9)
    assert stack.chat(max_tokens=1).status_code == 200 and time.monotonic() - begin < 2.9
    assert stack.router.child.wait(10) == 0
    assert time.monotonic() - begin >= 2.9


def test_a_drain_is_bounded_and_what_is_cut_is_told(stack):
    """Naive variant: the process waits for the last stream however long that runs, or cuts it without a word."""
    stack.engine = stack.start_engine()
    stack.start_router("--drain-timeout", "500ms")
    stack.start_agent(stack.engine, "--capacity", "1")
    (stream,) = slow_streams(stack, 1, 5000)
    parked = Stream(stack, 1, stream=False)
    wait_for("one waits for the slot", lambda: stack.metric("hivenet_router_queue_depth") == 1)
    begin = time.monotonic()
    stack.router.child.terminate()
    assert stack.router.child.wait(5) == 0
    assert 0.4 < time.monotonic() - begin < 3
    stream.join(5)
    parked.join(5)
    last = stream.text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down" and "[DONE]" not in stream.text
    assert parked.status == 503 and json.loads(parked.text)["error"]["code"] == "shutting_down"
    assert parked.fields["retry-after"] == "1"
    wait_for("the engine's request is gone", lambda: stack.engine.state()["running"] == 0, limit=2)


def test_what_waits_when_the_drain_begins_is_served(stack):
    """Naive variant: only what has reached an engine counts as running."""
    stack.engine = stack.start_engine()
    stack.start_router()
    stack.start_agent(stack.engine, "--capacity", "1")
    (stream,) = slow_streams(stack, 1, 150)
    parked = Stream(stack, 1, stream=False)
    wait_for("one waits for the slot", lambda: stack.metric("hivenet_router_queue_depth") == 1)
    stack.router.child.terminate()
    assert stream.whole()
    parked.join(10)
    assert parked.status == 200
    assert stack.router.child.wait(5) == 0


def test_a_second_signal_ends_either_program_at_once(simple):
    """Naive variant: further signals are ignored while it drains, and only SIGKILL helps."""
    slow_streams(simple, 1, 5000)
    for process in (simple.agent, simple.router):
        process.child.terminate()
        wait_for("it leaves", lambda p=process: "leaving" in p.log())
        begin = time.monotonic()
        process.child.terminate()
        process.child.wait(5)
        assert time.monotonic() - begin < 2


def test_without_storage_a_router_is_not_ready_until_it_works_again(stack):
    """Naive variant: readiness is that the process lives; or requests fail with the storage; or the state never comes back."""
    stack.engine = stack.start_engine()
    stack.start_router("--universal-flush-interval", "100ms")
    stack.start_agent(stack.engine)
    soft, hard = resource.prlimit(stack.router.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(stack.router.pid, resource.RLIMIT_FSIZE, (1, hard))  # no file of its can be written
    assert stack.chat(max_tokens=1).status_code == 200
    answer = wait_for("not ready", lambda: (r := httpx.get(stack.url + "/health/ready")).status_code == 503 and r, limit=5)
    assert answer.json()["reason"] == "storage"
    assert stack.chat(max_tokens=1).status_code == 200, "requests do not need it"
    resource.prlimit(stack.router.pid, resource.RLIMIT_FSIZE, (soft, hard))
    wait_for("ready again", lambda: httpx.get(stack.url + "/health/ready").status_code == 200, limit=5)


def test_a_leaving_agent_says_so_its_streams_finish_and_others_take_over(stack):
    """Naive variant: the agent just leaves: the router notices by a time-out, its streams break, new requests still go to it."""
    stack.engine = stack.start_engine()
    stack.start_router()
    leaver = stack.start_agent(stack.engine, identity="a.key")
    streams = slow_streams(stack, 2, 300)  # they outlast what follows: with their end the agent is gone
    other_engine = stack.start_engine()
    stack.start_agent(other_engine, identity="b.key")
    begin = time.monotonic()
    leaver.child.terminate()
    wait_for("unroutable by its word, not by a timeout", lambda: not stack.row(leaver.peer_id)["status"]["routable"], limit=2.5)
    assert time.monotonic() - begin < 2.5
    for _ in range(10):
        assert stack.chat(max_tokens=1).status_code == 200
    assert other_engine.state()["served"] == 10
    assert all(s.whole() for s in streams)
    assert leaver.child.wait(5) == 0
    wait_for("it has said goodbye", lambda: leaver.peer_id not in stack.table(), limit=5)
    assert stack.metric("hivenet_router_link_links_lost_total") == 0
    assert stack.engine.state()["aborted"] == 0


def test_the_operator_drains_one_agent_embedded_or_not_and_calls_it_back(stack):
    """Naive variant: only a process can be drained, by SIGTERM: an embedded agent takes its router with it, and nothing brings one back."""
    engines = [stack.start_engine("--max-num-seqs", "8") for _ in range(2)]
    stack.start_router("--backend", engines[0].url)
    agent = stack.start_agent(engines[1])
    inside = stack.router.said["embedded"][0]["peer_id"]
    wait_for("both", lambda: len([r for r in stack.table().values() if r["status"]["routable"]]) == 2)
    for engine in engines:
        engine.faults(step_ms=20)
    for peer, engine, other in ((inside, engines[0], engines[1]), (agent.peer_id, engines[1], engines[0])):
        stack.engine = engine
        streams = [Stream(stack, 150) for _ in range(4)]
        wait_for("all stream", lambda: all('"content":"token' in s.text for s in streams))
        assert stack.row(peer)["status"]["active_requests"] > 0
        answer = stack.admin(f"/admin/agents/{peer}/drain", "POST")
        assert answer.status_code == 200 and answer.json()["status"]["standing"] == "drained by the operator"
        before = other.state()["chats"]
        for _ in range(4):
            assert stack.chat(max_tokens=1).status_code == 200
        assert other.state()["chats"] == before + 4, "the other one has them all"
        assert all(s.whole() for s in streams), "what ran has finished"
        wait_for("it is empty", lambda: stack.row(peer)["status"]["active_requests"] == 0)
        row = {a["peer_id"]: a for a in stack.admin("/admin/agents").json()["agents"]}[peer]["status"]
        assert not row["routable"] and row["healthy"] and row["backend_healthy"]
        assert stack.admin(f"/admin/agents/{peer}/drain", "DELETE").json()["status"]["routable"]
    stack.admin(f"/admin/agents/{agent.peer_id}/drain", "POST")
    agent.stop()
    again = stack.start_agent(engines[1], wait=False)
    row = wait_for("back", lambda: (r := stack.table().get(again.peer_id)) and "unlinked" not in r["status"]["standing"] and r)
    assert again.peer_id == agent.peer_id and row["status"]["standing"] == "drained by the operator", "a restart is no revocation"
    assert stack.admin(f"/admin/agents/{again.peer_id}/drain", "DELETE").status_code == 200
    wait_for("routable", lambda: stack.row(again.peer_id)["status"]["routable"])
    assert stack.admin("/admin/agents/nobody/drain", "POST").status_code == 404
    answer = stack.admin(f"/admin/agents/{inside}/drain")
    assert answer.status_code == 405 and answer.headers["allow"] == "POST, DELETE"


def test_an_agents_drain_is_bounded_and_costs_nobody_a_hang(stack):
    """Naive variant: it waits for ever, or its streams end like whole ones."""
    stack.engine = stack.start_engine()
    stack.start_router()
    agent = stack.start_agent(stack.engine, "--drain-timeout", "300ms")
    (stream,) = slow_streams(stack, 1, 5000)
    begin = time.monotonic()
    agent.child.terminate()
    assert agent.child.wait(5) == 0
    stream.join(5)
    assert stream.ended_at - begin < 3
    assert "error" in stream.text and "[DONE]" not in stream.text
    wait_for("aborted", lambda: stack.engine.state()["running"] == 0, limit=2)


def test_kill_9_of_the_agent_ends_its_streams_with_a_word(simple):
    """Naive variant: streams hang until the request's deadline, or end like whole ones."""
    streams = slow_streams(simple, 3, 5000)
    begin = time.monotonic()
    simple.agent.kill()
    for s in streams:
        s.join(5)
        assert not s.is_alive() and s.ended_at - begin < 5
        assert "agent_disconnected" in s.text and "[DONE]" not in s.text
    wait_for("aborted", lambda: simple.engine.state()["running"] == 0, limit=2)
    wait_for("no slot is lost", lambda: simple.metric("hivenet_router_link_streams_open") == 0)


def test_kill_9_of_the_router_frees_engine_and_agent(simple):
    """Naive variant: the agent goes on reading from the engine for nobody, or keeps the slots of the link that is gone."""
    streams = slow_streams(simple, 3, 5000)
    http, link = simple.router.said["http"], simple.link
    simple.router.child.send_signal(signal.SIGKILL)
    for s in streams:
        s.join(5)
        assert not s.is_alive() and s.error is not None
    wait_for("the engine's requests are gone", lambda: simple.engine.state()["running"] == 0, limit=5)
    simple.router.child.wait(5)
    simple.engine.faults()
    simple.start_router(http=http, link=link)
    wait_for("served again", lambda: simple.chat(max_tokens=1).status_code == 200, limit=35)
    assert simple.row(simple.agent.peer_id)["status"]["active_requests"] == 0
