"""max_parallel_requests of a key through the real processes: one too many is refused or waits, and no end of a request keeps its place.

Naive variants: a count that goes down on the path of success alone; a wait that outlives its client or its deadline.
"""
import concurrent.futures

import httpx
import pytest

from conftest import wait_for
from test_admission import ENDS
from test_auth import ACME, BETA, auth_yaml, bearer, entry
from test_quotas import refused, say

WAITS = "      when_parallel_full: wait\n"


def start(stack, acme, *args, beta=""):
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(ACME, "acme", acme), entry(BETA, "beta", beta)))
    stack.engine = stack.start_engine("--model", "sim-model", "--tokens", "6")
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", *args)
    stack.start_agent(stack.engine)
    return stack.engine


def running(stack, n):
    wait_for(f"{n} run", lambda: stack.engine.state()["running"] == n)


def waiting(stack):
    return stack.metric("hivenet_router_admission_key_waiting_requests")


def test_one_too_many_is_refused_and_other_keys_go_on(stack):
    engine = start(stack, "      max_parallel_requests: 2\n")
    engine.faults(first_token_ms=3000)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        held = [pool.submit(say, stack) for _ in range(2)]
        running(stack, 2)
        answer = refused(say(stack), "rate_limit_exceeded")
        assert answer.headers["retry-after"] == "1"
        other = pool.submit(say, stack, BETA)
        running(stack, 3)
        assert [f.result().status_code for f in (*held, other)] == [200] * 3
    engine.faults()
    assert say(stack).status_code == 200
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_parallel") == 1


def test_one_too_many_waits_in_order_until_its_deadline_or_its_client_ends_it(stack):
    engine = start(stack, "      max_parallel_requests: 1\n" + WAITS, "--request-timeout", "10s", "--queue-depth", "2")
    engine.faults(first_token_ms=2500)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(say, stack, text="first")
        running(stack, 1)
        second = pool.submit(say, stack, text="second")
        wait_for("the second waits", lambda: waiting(stack) == 1)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(stack.url + "/v1/chat/completions", json={"model": "sim-model", "messages": []}, headers=bearer(ACME), timeout=0.2)
        wait_for("the one that left waits no more", lambda: waiting(stack) == 1)
        third = pool.submit(say, stack, text="third")
        wait_for("the third waits", lambda: waiting(stack) == 2)
        refused(say(stack), "rate_limit_exceeded")
        ended = [f.result() for f in (first, second, third)]
        assert [a.status_code for a in ended] == [200] * 3
        assert ended[0].elapsed < ended[1].elapsed < ended[2].elapsed
    engine.faults(first_token_ms=60000)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(say, stack) for _ in range(2)]
        assert {f.result().json()["error"]["code"] for f in both} == {"request_timeout"}
    engine.faults()
    assert waiting(stack) == 0 and say(stack).status_code == 200


def test_no_end_of_a_request_keeps_its_place(stack):
    engine = start(stack, "      max_parallel_requests: 1\n      max_parallel_requests_per_model: 1\n", "--request-timeout", "1500ms")
    for name, (faults, act, how) in ENDS.items():
        engine.faults(**faults)
        act(stack, max_tokens=100, headers=bearer(ACME), **how) if act is not ENDS["client gone"][1] else leave(stack)
        engine.faults()
        wait_for(name + ": the place is free", lambda: say(stack).status_code == 200, limit=5)
    assert say(stack, model="nobody-has-it").status_code == 404
    assert httpx.post(stack.url + "/v1/chat/completions", content=b"{", headers=bearer(ACME)).status_code == 400
    assert say(stack).status_code == 200


def leave(stack):
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 100}
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, headers=bearer(ACME), timeout=10) as answer:
        next(answer.iter_bytes())
