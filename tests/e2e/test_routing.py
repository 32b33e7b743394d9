"""Choosing: ties, capacity, gates, retries, one deadline, through the real processes."""
import concurrent.futures
import re
import time

import pytest

from conftest import wait_for


def start_fleet(stack, count, *agent_args, router_args=(), engine_args=()):
    engines = [stack.start_engine(*engine_args) for _ in range(count)]
    stack.start_router(*router_args)
    agents = [stack.start_agent(e, *agent_args, identity=f"{i}.key") for i, e in enumerate(engines)]
    return engines, agents


def test_equal_agents_share_short_sequential_requests(stack):
    engines, _ = start_fleet(stack, 4)
    for _ in range(200):
        assert stack.chat(max_tokens=1).status_code == 200
    counts = [e.state()["served"] for e in engines]
    assert sum(counts) == 200 and all(40 <= c <= 60 for c in counts), counts


def test_capacity_is_never_exceeded_and_everybody_is_served(stack):
    engines, agents = start_fleet(stack, 2, "--capacity", "2", engine_args=("--max-num-seqs", "64", "--first-token-ms", "30"))
    most = [0, 0]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        futures = [pool.submit(stack.chat, i % 2 == 0, max_tokens=1) for i in range(24)]
        while not all(f.done() for f in futures):
            for k, e in enumerate(engines):
                most[k] = max(most[k], e.state()["running"])
        statuses = [f.result().status_code for f in futures]
    assert statuses == [200] * 24
    assert max(most) <= 2
    assert stack.metric("hivenet_router_queue_wait_seconds_count", model="sim-model") >= 1


@pytest.mark.parametrize("code,line,router_args,capacity", [
    ("no_capacity", "waiting_capacity", ("--queue-depth", "2"), "1"),
    ("queue_full", "queue_length", ("--max-concurrent", "1", "--queue-size", "1"), "10"),
])
def test_a_full_queue_refuses_with_a_truthful_retry_after(stack, code, line, router_args, capacity):
    """Either line, once it has moved a few times, tells its own speed. Naive variant: 1, so that clients knock in vain."""
    engine = stack.start_engine("--first-token-ms", "2300")
    stack.start_router(*router_args)
    stack.start_agent(engine, "--capacity", capacity)

    def three(pool):
        held = pool.submit(stack.chat, max_tokens=1)
        wait_for("running", lambda: engine.state()["running"] == 1)
        rest = []
        for n in (1, 2):
            rest.append(pool.submit(stack.chat, max_tokens=1))
            wait_for("waiting", lambda: stack.admin("/admin/health").json()[line] == n)
        return [held, *rest]

    def refusal():
        refused = stack.chat(max_tokens=1)
        assert refused.status_code == 503 and refused.json()["error"]["code"] == code
        return int(refused.headers["retry-after"])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = three(pool)
        assert refusal() == 1, "nothing is known yet"
        assert [f.result().status_code for f in first] == [200] * 3
        assert [f.result().status_code for f in three(pool)] == [200] * 3
        last = three(pool)
        assert 2 <= refusal() <= 4, "a slot gets free every 2.3 s"
        engine.faults(first_token_ms=10)
        assert [f.result().status_code for f in last] == [200] * 3


def test_one_deadline_covers_everything(stack):
    engine = stack.start_engine("--first-token-ms", "60000")
    stack.start_router("--request-timeout", "700ms")
    agent = stack.start_agent(engine)
    for stream in (False, True):
        begin = time.monotonic()
        answer = stack.chat(stream=stream)
        assert answer.status_code == 504 and answer.json()["error"]["code"] == "request_timeout"
        assert 0.6 < time.monotonic() - begin < 2
    wait_for("the engine was told", lambda: engine.state()["running"] == 0, limit=2)
    wait_for("slots back", lambda: stack.row(agent.peer_id)["status"]["active_requests"] == 0)


def test_a_failing_engine_is_left_for_a_good_one(stack):
    (bad, good), _ = start_fleet(stack, 2)
    bad.faults(status=500)
    for _ in range(8):
        assert stack.chat(max_tokens=1).status_code == 200
    bad.kill()
    for _ in range(8):
        assert stack.chat(max_tokens=1).status_code == 200
    assert good.state()["served"] == 16


def test_a_fleet_of_full_engines_does_not_get_each_request_from_every_agent(stack):
    """Naive variant: an engine's 429 is free, so that each request is forwarded once to every agent just when nobody can take it."""
    engines, agents = start_fleet(stack, 6, router_args=("--retry-budget", "0", "--retry-budget-min", "1", "--retry-delay", "100ms"))
    for engine in engines:
        engine.faults(status=429)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: stack.chat(max_tokens=1), range(48)))
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "backend_unavailable"), answer.text
        assert int(answer.headers["retry-after"]) >= 1
    refused = stack.metric("hivenet_router_retries_refused_total", model="sim-model")
    assert refused >= 24, "one of sixteen at a time may try again"
    assert sum(e.state()["chats"] for e in engines) <= 48 + 5 * (48 - refused)
    assert [stack.row(a.peer_id)["universal"]["failed_requests_total"] for a in agents] == [0] * 6, "nobody is to blame"


def test_a_policy_file_chooses_by_match_and_gate(stack):
    policy = stack.folder / "policy.yaml"
    policy.write_text("""
routing_policy:
  match: {region: EU, tags: [fast]}
  exclude_if: {srtt: {gt: 100000}}
  strategy: least-loaded
  max_tries: 2
""")
    a, b = stack.start_engine(), stack.start_engine()
    stack.start_router("--policy-file", policy)
    stack.start_agent(a, "--region", "EU", "--tags", "fast,prod", identity="a.key")
    stack.start_agent(b, "--region", "US", "--tags", "fast", identity="b.key")
    for _ in range(10):
        assert stack.chat(max_tokens=1).status_code == 200
    assert (a.state()["served"], b.state()["served"]) == (10, 0)


def test_the_srtt_gate_reads_the_live_value(stack):
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {exclude_if: {srtt: {gt: 150}}, strategy: least-loaded}\n")
    (slow, fast), agents = start_fleet(stack, 2, router_args=("--policy-file", policy))
    slow.faults(first_token_ms=400)
    wait_for("the slow one has been measured", lambda: stack.chat(max_tokens=1) and
             (stack.row(agents[0].peer_id)["universal"]["srtt_ms"] or 0) > 150, limit=15)
    before = slow.state()["chats"]
    for _ in range(10):
        assert stack.chat(max_tokens=1).status_code == 200
    assert slow.state()["chats"] == before


@pytest.mark.parametrize("text,words", [
    ("routing_policy: {strategy: nonsense}", ["unknown strategy", "consistent-hash, least-loaded, peak-ewma, power-of-two, prefix-affinity, token-load"]),
    ("routing_policy: {strategy: best-ttft}", ["not yet implemented"]),
    ("routing_policy: {strategy: least-loaded, exclude_if: {srt: {gt: 1}}}", ["unknown field", "srt"]),
    ("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {}}}", ["exactly one operator"]),
    ("routing_policy: {}", ["strategy is required"]),
    ("routing_policy: {strategy: least-loaded, strategy: power-of-two}", ["policy.yaml:1"]),
])
def test_a_bad_policy_stops_the_start_and_says_why(stack, text, words):
    policy = stack.folder / "policy.yaml"
    policy.write_text(text)
    try:
        stack.start_router("--policy-file", policy)
    except AssertionError as error:
        for w in words:
            assert w in str(error)
    else:
        raise AssertionError("the router started")


def test_published_latency_follows_from_the_logged_samples(stack):
    engine = stack.start_engine()
    stack.start_router(env={"GOLOG_LOG_LEVEL": "metrics=debug"})
    agent = stack.start_agent(engine)
    row = stack.row(agent.peer_id)["universal"]
    assert row["latency_state"] == "UNKNOWN" and row["srtt_ms"] is None and row["rttvar_ms"] is None
    assert not any(k.startswith("hivenet_router_agent_srtt_ms{") for k in stack.metrics())
    for delay in (0, 30, 5, 80, 0):
        engine.faults(first_token_ms=delay)
        assert stack.chat(stream=delay == 5, max_tokens=1).status_code == 200
    samples = [float(r) for r in re.findall(r" r_ms=(\S+)", stack.router.log())]
    assert len(samples) == 5
    srtt, rttvar = samples[0], samples[0] / 2
    for r in samples[1:]:
        rttvar = 0.75 * rttvar + 0.25 * abs(srtt - r)
        srtt = 0.5 * srtt + 0.5 * r if r < srtt else 0.875 * srtt + 0.125 * r
    row = stack.row(agent.peer_id)["universal"]
    assert row["latency_state"] == "KNOWN"
    assert abs(row["srtt_ms"] - srtt) < 1e-6 and abs(row["rttvar_ms"] - rttvar) < 1e-6
    labels = dict(peer_id=agent.peer_id, model="sim-model", engine="vllm", organization="Unknown", machine="Unknown")
    assert abs(stack.metric("hivenet_router_agent_srtt_ms", **labels) - srtt) < 1e-6
    assert abs(stack.metric("hivenet_router_agent_rttvar_ms", **labels) - rttvar) < 1e-6
    assert stack.admin("/admin/metrics/reset", "POST").json()["status"] == "metrics reset"
    row = stack.row(agent.peer_id)["universal"]
    assert row["latency_state"] == "UNKNOWN" and row["srtt_ms"] is None and row["successful_requests_total"] == 0
    assert stack.admin("/admin/storage").json()["disk_db"]["univ_history_count"] == 0


def samples_of(stack, number):
    """What the debug lines say of the request that asked() made: its samples in ms."""
    return [float(r) for r in re.findall(rf"request_id={REQUEST.format(number)} r_ms=(\S+)", stack.router.log())]


def asked(stack, number, **more):
    return stack.chat(headers={"X-Request-ID": REQUEST.format(number)}, **more)


REQUEST = "5d2f7a34-0000-4000-8000-{:012d}"
SAMPLES = {"GOLOG_LOG_LEVEL": "metrics=debug"}


def test_a_sample_is_the_time_from_sending_to_the_head_of_the_answer(stack):
    """Not what comes before it, the queue, nor behind it, a stream's delivery; of a buffered chat the head is there with the whole answer
    (docs/latency.md).

    Naive variants: the request's whole latency, so that long streams and full queues make an agent look far; the first token; the time
    from the client's request on.
    """
    engine = stack.start_engine("--step-ms", "40")
    stack.start_router(env=SAMPLES)
    stack.start_agent(engine, "--capacity", "1")
    # Two seconds each: what a busy machine adds is little beside them.

    def took(number, **more):
        begin = time.monotonic()
        assert asked(stack, number, **more).status_code == 200
        (r,) = wait_for("a sample", lambda: samples_of(stack, number))
        return (time.monotonic() - begin) * 1e3, r

    whole, r = took(1, stream=True, max_tokens=50)
    assert whole > 1900 and r < 700, (whole, r)
    whole, r = took(2, stream=False, max_tokens=50)
    assert 1900 < r <= whole, (whole, r)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        held = pool.submit(stack.chat, True, max_tokens=50)
        wait_for("the slot is taken", lambda: engine.state()["running"] == 1)
        whole, r = took(3, stream=True, max_tokens=1)
        assert held.result().status_code == 200
    assert whole > 1000 and r < 700, (whole, r)
    assert stack.metric("hivenet_router_queue_wait_seconds_sum", model="sim-model") > 0.8


def test_failures_are_samples_when_something_was_sent(stack):
    """An error status and a deadline after sending say how far the agent is; a deadline in the queue says nothing of it.

    Naive variants: only successes count, and an agent that answers nothing keeps the latency of its good days; a request that was never
    sent counts with its waiting time.
    """
    engine = stack.start_engine()
    stack.start_router("--request-timeout", "2s", env=SAMPLES)
    stack.start_agent(engine, "--capacity", "1")
    engine.faults(status=500)
    assert asked(stack, 1).status_code == 502
    (r,) = samples_of(stack, 1)
    assert 0 < r < 700
    engine.faults(first_token_ms=60_000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        held = pool.submit(asked, stack, 2)
        wait_for("the slot is taken", lambda: engine.state()["chats"] == 2)
        parked = asked(stack, 3)
        assert held.result().status_code == 504 and parked.status_code == 504
    (r,) = samples_of(stack, 2)
    assert 1700 < r < 4000
    after = samples_of(stack, 3)
    assert after == [] or after[0] < 1100, "the time in the queue is none of the agent's"


def test_who_is_asked_late_is_not_to_blame_for_the_deadline(stack):
    """Naive variant: the last agent asked gets a failure and a sample as long as what was left, whatever others did with the time."""
    engines, agents = start_fleet(stack, 2, router_args=("--request-timeout", "4s"))
    for engine in engines:
        engine.faults(hang=True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stack.chat)
        first = wait_for("one has it", lambda: [i for i, e in enumerate(engines) if e.state()["chats"]])[0]
        begin = time.monotonic()  # not before: how long a client takes to begin is none of the request's time
        wait_for("more than half of its time is over", lambda: time.monotonic() > begin + 2.5)
        engines[first].kill()
        wait_for("the other has it", lambda: engines[1 - first].state()["chats"] == 1)
        assert answer.result().status_code == 504
    blamed, late = (stack.row(agents[i].peer_id)["universal"] for i in (first, 1 - first))
    assert (blamed["failed_requests_total"], late["failed_requests_total"]) == (1, 0)
    assert late["latency_state"] == "UNKNOWN" and late["consecutive_failures"] == 0
    assert stack.metric("hivenet_router_routing_attempts_failed_total", cause="deadline") == 1


def test_the_log_says_once_and_exactly_why_no_step_could_serve(stack):
    """Naive variants: a line for each step or each try, also of requests that a later step served; the last step's reason alone."""
    policy = stack.folder / "policy.yaml"
    policy.write_text("""
routing_policy: {strategy: least-loaded, match: {region: EU, tags: [fast]}}
fallback_chain:
  - {name: cool, strategy: least-loaded, exclude_if: {gpu_temperature_c: {gte: 0, on_missing: exclude}}}
  - {name: once, strategy: least-loaded, max_tries: 1}
""")
    engine = stack.start_engine()
    stack.start_router("--policy-file", policy)
    stack.start_agent(engine, "--region", "US", "--tags", "prod")
    lines = lambda: [l[l.index("policy_exhausted"):].strip() for l in stack.router.log().splitlines() if "policy_exhausted" in l]
    assert stack.chat(max_tokens=1).status_code == 200 and lines() == [], "a later step has served it"
    engine.faults(status=500)
    asked = "0b5f6c1e-bbbb-4000-8000-000000000001"
    answer = stack.chat(headers={"X-Request-ID": asked})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "backend_error"), "the error that was made, not `no agents`"
    assert wait_for("the line", lines) == [
        f"policy_exhausted request_id={asked} model=sim-model capability=llm tenant=default chain=[routing_policy\u2192cool\u2192once] tried=3/3 "
        'reason=routing_policy: gate[4] match [region(got="US",want="EU")=1] | cool: gate[7] exclude_if [gpu_temperature_c=1] | '
        "once: max_tries exhausted"]
    answer = stack.chat(model="nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert wait_for("its line", lambda: lines()[1:])[0].endswith(
        "reason=routing_policy: gate[1] model_filter [model_not_registered] | cool: gate[1] model_filter [model_not_registered] | "
        "once: gate[1] model_filter [model_not_registered]")
