"""Admission through the real processes: caps, budget, parking, pressure, the limits of keys, and what a full queue tells.

What each check decides is in the unit tests of kernel/tenancy; here it is that requests meet it, in order, and that whatever way a
request ends, what it held comes back.
"""
import concurrent.futures
import contextlib
import json
import time

import httpx

from conftest import wait_for
from test_auth import ACME, BETA, auth_yaml, bearer, entry
from test_cancel import body, connect

ROUTING = "routing_policy: {strategy: least-loaded}\n"
STRICT = ("--admit-fraction", "1", "--admit-park-timeout", "0s")


def start(stack, policy, *router_args, agent_args=(), engine_args=(), keys=None):
    (stack.folder / "policy.yaml").write_text(policy + ROUTING)
    engine = stack.start_engine(*engine_args)
    args = ["--policy-file", stack.folder / "policy.yaml", *router_args]
    if keys is not None:
        (stack.folder / "auth.yaml").write_text(keys)
        args += ["--auth-config-file", stack.folder / "auth.yaml"]
    stack.start_router(*args)
    stack.start_agent(engine, *agent_args)
    return engine


def say(stack, text="hi", path="/v1/chat/completions", headers=None, timeout=30, **more):
    body = {"model": "sim-model", "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(stack.url + path, json=body, headers=headers, timeout=timeout)


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    return answer


def gauge(stack, name):
    """None before anybody was let in under a limit."""
    return stack.metrics().get(f'hivenet_router_admission_{name}{{model="sim-model"}}')


def held(stack):
    return gauge(stack, "occupancy_tokens"), gauge(stack, "inflight_requests")


def image(n):
    return [{"type": "image_url", "image_url": {"url": f"data:{i}"}} for i in range(n)]


def test_what_is_too_long_or_has_too_many_images_is_refused_before_anybody_sees_it(stack):
    engine = start(stack, "max_input_tokens: 10\nimages_max: 2\n")
    long = "x" * 33  # 33 bytes at 1 / 3.2 are 11 tokens
    cases = [("/v1/chat/completions", {"messages": [{"role": "user", "content": long}]}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": image(3)}]}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": image(2)}, {"role": "user", "content": image(2)}]}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": [*image(1), {"type": "text", "text": long}]}]}),
             ("/v1/messages", {"system": "s" * 400, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
             ("/v1/responses", {"input": long}), ("/v1/completions", {"prompt": long})]
    for path, fields in cases:
        answer = httpx.post(stack.url + path, json={"model": "sim-model", **fields})
        assert answer.status_code == 400 and "input_too_long" in answer.text, (path, fields, answer.text)
        assert "retry-after" not in answer.headers
    assert engine.requests() == []
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b1", model="sim-model") == len(cases)
    # Neither embeddings nor the count of tokens generate anything.
    answer = say(stack, "y" * 400, path="/v1/messages/count_tokens")
    assert answer.status_code == 200 and answer.json()["input_tokens"] > 0
    engine.faults(status=400, body='{"error":{"message":"no","type":"BadRequestError"}}', count=1)
    assert "input_too_long" not in say(stack, "x" * 32, max_tokens=200_000).text
    sent = json.loads(engine.requests()[-1]["body"])
    assert sent["max_tokens"] == 200_000
    assert say(stack, image(2)).status_code == 200
    assert "max_tokens" not in json.loads(engine.requests()[-1]["body"])


def test_counting_tokens_meets_no_limit_and_holds_nothing(stack):
    """400 bytes under a cap of 10, a budget of 5 and a day of 10 tokens. A chat meets each of them.

    Naive variant: it is let in like a chat, and refused like one.
    """
    keys = auth_yaml(entry(ACME, "acme", "      quota: {tokens_per_day: 10}\n"))
    engine = start(stack, "max_input_tokens: 10\nadmit_budget_tokens: 5\n", *STRICT, keys=keys)
    answer = say(stack, "x" * 400, path="/v1/messages/count_tokens", headers=bearer(ACME))
    assert answer.status_code == 200 and answer.json()["input_tokens"] > 0, answer.text
    assert held(stack) == (None, None), "nobody was let in under a limit"
    assert stack.metric("hivenet_router_tenant_tokens_used_today", tenant_id="acme") == 0
    refused(say(stack, "x" * 400, headers=bearer(ACME)), 400, "input_too_long")
    refused(say(stack, max_tokens=2, headers=bearer(ACME)), 429, "concurrency_limit_exceeded")  # 4 + 2 tokens of 5
    assert (stack.admin("/admin/policy", "PUT", content="max_input_tokens: 10\n" + ROUTING)).status_code == 200
    refused(say(stack, max_tokens=7, headers=bearer(ACME)), 429, "token_limit_exceeded")  # 4 + 7 tokens of 10
    assert [r["path"] for r in engine.requests()] == ["/v1/messages/count_tokens"]


def test_a_request_larger_than_the_budget_gets_429_and_holds_nothing(stack):
    engine = start(stack, "admit_budget_tokens: 50\n", *STRICT)
    answer = refused(say(stack, max_tokens=100), 429, "concurrency_limit_exceeded")
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert engine.requests() == []
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b2", model="sim-model") == 1
    assert stack.metric("hivenet_router_routing_requests_finished_total", outcome="rejected_admission") == 1
    assert say(stack, max_tokens=40).status_code == 200
    before = len(engine.requests())
    assert "concurrency_limit" not in say(stack, max_tokens=-1000, stream=True).text
    assert len(engine.requests()) == before + 1, "a negative limit is the engine's to refuse"
    assert held(stack) == (0, 0)
    # A second replica doubles it.
    stack.start_agent(engine, identity="second.key")
    assert say(stack, max_tokens=80).status_code == 200
    assert gauge(stack, "budget_tokens") == 100


def test_each_choice_of_each_prompt_counts_in_the_budget(stack):
    """Naive variant: 300 tokens are held where the request may make 1200."""
    engine = start(stack, "admit_budget_tokens: 1000\n", *STRICT)
    several = {"prompt": ["a", "b", "c", "d"]}
    for path, more in (("/v1/chat/completions", {"n": 4}), ("/v1/completions", {"prompt": "a", "best_of": 4}),
                       ("/v1/completions", several), ("/v1/completions", {"prompt": ["a", "b"], "n": 2})):
        refused(say(stack, path=path, max_tokens=300, **more), 429, "concurrency_limit_exceeded")
    assert engine.requests() == []
    assert say(stack, max_tokens=300, n=3).status_code == 200
    for path, more in (("/v1/completions", {"prompt": [1, 2, 3, 4]}), ("/v1/chat/completions", several)):
        assert "concurrency_limit" not in say(stack, path=path, max_tokens=300, **more).text, (path, more)
    wait_for("nothing is held", lambda: held(stack) == (0, 0))
    line = wait_for("its audit line", lambda: [l for l in stack.audit() if l["status_code"] == 200 and l["model"]])[0]
    assert line["output_limit"] == 300, "the client's own number"


def broken(stack, **more):
    with contextlib.suppress(httpx.HTTPError):
        return say(stack, **more)


def leave(stack, **more):
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True, **more}
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, timeout=10) as answer:
        next(answer.iter_bytes())


ENDS = {
    "success": ({}, say, {"stream": False}),
    "streamed": ({}, say, {"stream": True}),
    "error": ({"status": 500}, say, {"stream": False}),
    "refused by the engine": ({"status": 400, "body": '{"error":{"message":"no","type":"BadRequestError"}}'}, say, {"stream": False}),
    "broken stream": ({"cut_after": 2}, broken, {"stream": True}),
    "deadline": ({"hang": 1}, say, {"stream": False}),
    "client gone": ({"hold_after": 2}, leave, {}),
}


def test_what_a_request_holds_comes_back_however_it_ends(stack):
    """Naive variant: a release on the path of success alone."""
    engine = start(stack, "admit_budget_tokens: 1000\n", *STRICT, "--request-timeout", "2500ms")
    for name, (faults, act, how) in ENDS.items():
        engine.faults(**{"first_token_ms": 1000, **faults})
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(act, stack, max_tokens=100, **how)
            if "status" not in faults:  # those come at once
                wait_for(name + ": 104 are held", lambda: held(stack) == (104, 1), pause=0.005)
            done.result()
        wait_for(name + ": nothing is held", lambda: held(stack) == (0, 0))


def test_an_undeclared_stream_grows_as_its_text_comes(stack):
    engine = start(stack, "admit_budget_tokens: 100000\n", *STRICT, engine_args=("--word", "12345678901234567890 ", "--tokens", "50", "--step-ms", "2"))
    engine.faults(hold_after=40)
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, timeout=10) as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        wait_for("it holds what was streamed", lambda: held(stack)[0] > 100)
    wait_for("nothing is held", lambda: held(stack) == (0, 0))


def test_a_request_parks_until_there_is_room(stack):
    engine = start(stack, "max_inflight: 1\n", "--admit-park-timeout", "20s", engine_args=("--first-token-ms", "2000"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(say, stack, max_tokens=1)
        wait_for("running", lambda: engine.state()["running"] == 1)
        second = pool.submit(say, stack, max_tokens=1)
        wait_for("parked", lambda: gauge(stack, "parked_requests") == 1, pause=0.005)
        assert engine.state()["running"] == 1
        assert first.result().status_code == second.result().status_code == 200
    assert engine.state()["served"] == 2


def test_a_park_ends_with_its_time(stack):
    engine = start(stack, "max_inflight: 1\n", "--admit-park-timeout", "300ms", engine_args=("--first-token-ms", "60000"))
    with connect(stack, body(False)):
        wait_for("running", lambda: engine.state()["running"] == 1)
        begin = time.monotonic()
        answer = refused(say(stack), 429, "concurrency_limit_exceeded")
        assert answer.headers["retry-after"] == "1" and 0.3 <= time.monotonic() - begin < 5
        assert gauge(stack, "parked_requests") == 0


def test_a_park_ends_with_its_client(stack):
    """Naive variant: its place is taken until --admit-park-timeout."""
    engine = start(stack, "max_inflight: 1\n", "--admit-park-timeout", "30s", engine_args=("--first-token-ms", "60000"))
    parked = lambda: gauge(stack, "parked_requests")
    with connect(stack, body(False)):
        wait_for("running", lambda: engine.state()["running"] == 1)
        with connect(stack, body(False)):
            wait_for("parked", lambda: parked() == 1)
        wait_for("its place is free", lambda: parked() == 0)


def test_a_pressed_fleet_sheds(stack):
    """By a rule that the first sample violates; the answer comes from the policy's shed_if and not from a gate: nobody is tried."""
    engine = start(stack, "shed_if: {waiting_requests: {gte: 0}}\n")
    wait_for("the engine was sampled", lambda: say(stack).status_code == 429)
    chats = engine.state()["chats"]
    answer = refused(say(stack), 429, "concurrency_limit_exceeded")
    assert engine.state()["chats"] == chats
    assert answer.headers["retry-after"] == "1" and "waiting_requests" in answer.json()["error"]["message"]
    assert say(stack, path="/v1/messages/count_tokens").status_code == 200
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b3", model="sim-model") >= 2


def test_an_engines_own_queue_sheds_and_a_gate_beside_it_does_not_matter(stack):
    engine = start(stack, "shed_if: {kv_cache_utilization: {gt: 0.90}, waiting_requests: {gt: 1}}\n",
                   engine_args=("--max-num-seqs", "1", "--first-token-ms", "60000"))
    known = lambda: sum(v for k, v in stack.metrics().items() if k.startswith("hivenet_router_agent_engine_waiting_requests{"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(broken, stack, timeout=8) for _ in range(3)]
        wait_for("two wait in the engine", lambda: engine.state()["waiting"] == 2)
        wait_for("the router knows", lambda: known() == 2)
        answer = refused(say(stack), 429, "concurrency_limit_exceeded")
        assert "waiting_requests" in answer.json()["error"]["message"]
        for w in waiting:
            w.result()


def test_a_documents_caps_are_for_its_models_alone(stack):
    (stack.folder / "policy.yaml").write_text(ROUTING)
    (stack.folder / "policies").mkdir()
    (stack.folder / "policies" / "capped.yaml").write_text("models: [capped]\nmax_input_tokens: 10\n" + ROUTING)
    stack.start_router("--policy-file", stack.folder / "policy.yaml", "--policy-model-dir", stack.folder / "policies")
    for model in ("capped", "free"):
        stack.start_agent(stack.start_engine("--model", model), identity=f"{model}.key")
    long = "x" * 33  # 11 tokens
    assert "input_too_long" in say(stack, long, model="capped", max_tokens=1).text
    assert say(stack, model="capped", max_tokens=1).status_code == 200
    assert say(stack, long, model="free", max_tokens=1).status_code == 200
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b1", model="capped") == 1


SERVERLESS = "mode: serverless\nadmit_budget_tokens: 1000\n"


def test_each_key_has_its_own_share(stack):
    keys = auth_yaml(entry(ACME, "acme", "      max_occupancy_share: 0.40\n"), entry(BETA, "beta", "      max_occupancy_share: 0.40\n"))
    engine = start(stack, SERVERLESS, *STRICT, engine_args=("--first-token-ms", "2500"), keys=keys)
    answer = refused(say(stack, max_tokens=500, headers=bearer(ACME)), 429, "rate_limit_exceeded")
    assert answer.headers["retry-after"] == "1" and engine.requests() == []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(say, stack, max_tokens=300, headers=bearer(ACME))
        wait_for("running", lambda: engine.state()["running"] == 1)
        refused(say(stack, max_tokens=200, headers=bearer(ACME)), 429, "rate_limit_exceeded")
        assert held(stack) == (304, 1), "what was refused holds nothing of the model's budget either"
        second = pool.submit(say, stack, max_tokens=300, headers=bearer(BETA))
        assert first.result().status_code == second.result().status_code == 200
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_occupancy", model="sim-model") == 2
    assert held(stack) == (0, 0)


def test_tokens_a_minute_are_each_keys_and_only_where_the_model_is_serverless(stack):
    quota = "      quota: {input_tokens_per_minute: 10, output_tokens_per_minute: 100, tokens_per_day: 100000}\n"
    keys = auth_yaml(entry(ACME, "acme", quota), entry(BETA, "beta", quota))
    start(stack, "mode: serverless\n", keys=keys)
    refused(say(stack, "x" * 45, headers=bearer(ACME)), 429, "rate_limit_exceeded")  # 15 tokens of 10
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_itpm") == 1
    assert stack.metric("hivenet_router_tenant_tokens_used_today", tenant_id="acme") == 0, "the day is asked last"
    assert say(stack, max_tokens=200, headers=bearer(ACME)).status_code == 200
    answer = refused(say(stack, max_tokens=1, headers=bearer(ACME)), 429, "rate_limit_exceeded")
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_otpm") == 1
    assert say(stack, max_tokens=1, headers=bearer(BETA)).status_code == 200


def test_tokens_a_minute_are_one_over_all_workers(stack):
    """Naive variant: each worker fills buckets of its own, and a key has as many times its limits."""
    keys = auth_yaml(entry(ACME, "acme", "      quota: {input_tokens_per_minute: 100}\n"), entry(BETA, "beta", "      quota: {output_tokens_per_minute: 6}\n"))
    start(stack, "mode: serverless\n", "--workers", "3", keys=keys)
    for key, text in ((ACME, "x" * 288), (BETA, "hi")):  # 90 tokens in, 30 out: one request is all
        began = time.monotonic()
        seen = [say(stack, text, max_tokens=30, headers=bearer(key)).status_code for _ in range(24)]  # each over a connection of its own
        refilled = int((time.monotonic() - began) / 10)
        assert set(seen) == {200, 429} and 1 <= seen.count(200) <= 1 + refilled, seen
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_itpm") > 0
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_otpm") > 0


def test_who_parks_goes_on_at_once_when_the_policy_changes(stack):
    """Naive variant: it waits out --admit-park-timeout by the bounds of before."""
    engine = start(stack, "admit_budget_tokens: 150\n", "--admit-fraction", "1", "--admit-park-timeout", "30s", engine_args=("--first-token-ms", "3000"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(say, stack, max_tokens=100)
        wait_for("running", lambda: engine.state()["running"] == 1)
        second = pool.submit(say, stack, max_tokens=100)
        wait_for("parked", lambda: gauge(stack, "parked_requests") == 1)
        assert stack.admin("/admin/policy", "PUT", content="admit_budget_tokens: 300\n" + ROUTING).status_code == 200
        wait_for("both run", lambda: engine.state()["running"] == 2)
        assert first.result().status_code == second.result().status_code == 200
    assert held(stack) == (0, 0)


def test_a_request_that_the_queue_would_keep_too_long_is_told_so_at_once(stack):
    """One slot, a second each: with four in front of it nobody can be served within three seconds.

    Naive variant: it waits its whole time, gets 504, and its place was somebody's who could have been served.
    """
    engine = start(stack, "", "--request-timeout", "3600ms", agent_args=("--capacity", "1"), engine_args=("--first-token-ms", "1000"))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        # Three at a time until the line's speed is known; each of them can be served.
        for _ in range(2):
            assert [f.result().status_code for f in [pool.submit(say, stack, max_tokens=1) for _ in range(3)]] == [200] * 3
        busy = [pool.submit(say, stack, max_tokens=1) for _ in range(3)]
        wait_for("two wait", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 2)
        begin = time.monotonic()
        late = [pool.submit(say, stack, max_tokens=1) for _ in range(3)]
        refusals = [a for a in (f.result() for f in late) if a.status_code != 200]
        assert refusals
        for answer in refusals:
            refused(answer, 503, "no_capacity")
            assert 1 <= int(answer.headers["retry-after"]) <= 4
        assert [f.result().status_code for f in busy] == [200] * 3
        assert time.monotonic() - begin < 8
    assert stack.metric("hivenet_router_queue_refused_late_total", model="sim-model") == len(refusals)
    assert engine.state()["served"] == 9 + 3 - len(refusals)
