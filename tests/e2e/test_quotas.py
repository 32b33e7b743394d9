"""Quotas of client keys through the real processes: requests a minute, tokens a day, what is told of them, and what lasts.

How buckets and counters count is in the unit tests of kernel/tenancy; here it is that every route meets them, in order, that they are
put right by what engines count, and that a restart, a reload or a clock changes nothing of what was used.
"""
import concurrent.futures
import datetime
import json
import os
import pathlib
import struct
import tempfile
import time

import anthropic
import httpx
import openai
import pytest

from cloud import OPENAI_KEY, Cloud
from conftest import wait_for
from test_auth import ACME, BETA, auth_yaml, bearer, entry

FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def quota(text):
    return f"      quota: {{{text}}}\n"


def write_keys(stack, **quotas):
    keys = {"acme": ACME, "beta": BETA}
    (stack.folder / "auth.yaml").write_text(auth_yaml(*(entry(keys[name], name, text) for name, text in quotas.items())))


def start(stack, *args, engine_args=(), env=None, agent_env=None, **quotas):
    write_keys(stack, **quotas)
    stack.engine = stack.start_engine("--model", "sim-model", "--tokens", "6", *engine_args)
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", *args, env=env)
    stack.agent = stack.start_agent(stack.engine, env=agent_env)
    return stack


def say(stack, key=ACME, path="/v1/chat/completions", text="hi", **more):
    body = {"model": "sim-model", "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(stack.url + path, json=body, headers=bearer(key), timeout=30)


def refused(answer, code, status=429):
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert status != 429 or int(answer.headers["retry-after"]) >= 1
    return answer


def told(answer, what):
    """The three header fields about requests or tokens; None without a limit."""
    fields = [answer.headers.get(f"x-ratelimit-{which}-{what}") for which in ("limit", "remaining", "reset")]
    return None if fields == [None] * 3 else tuple(map(int, fields))


def used(stack, tenant="acme"):
    return stack.metric("hivenet_router_tenant_tokens_used_today", tenant_id=tenant)


def to_midnight():
    now = datetime.datetime.now(datetime.timezone.utc)
    return 86400 - (now.hour * 3600 + now.minute * 60 + now.second)


def reload(stack):
    stack.router.hangup("client key(s) loaded")


def test_requests_a_minute_are_counted_before_the_body_is_judged(stack):
    """Naive variants: a limit that is asked after the body, or that a 401, a 413 or the list of models spends."""
    start(stack, "--max-request-bytes", "20000", acme=quota("requests_per_minute: 5"), beta="")
    assert say(stack, "sk-nobody").status_code == 401
    assert say(stack, text="x" * 30_000).status_code == 413
    for path in ("/v1/models", "/v1/models/sim-model"):
        answer = httpx.get(stack.url + path, headers=bearer(ACME))
        assert answer.status_code == 200 and told(answer, "requests") is None
    answer = say(stack)
    assert (answer.status_code, told(answer, "requests"), told(answer, "tokens")) == (200, (5, 4, 12), None)
    bad = httpx.post(stack.url + "/v1/chat/completions", content=b"{", headers=bearer(ACME))
    assert bad.status_code == 400 and told(bad, "requests")[1] == 3, "what is no request is spent all the same"
    assert told(say(stack, path="/v1/messages", max_tokens=1), "requests")[1] == 2
    assert told(say(stack, path="/v1/messages/count_tokens"), "requests")[1] == 1
    with httpx.stream("POST", stack.url + "/v1/chat/completions", headers=bearer(ACME),
                      json={"model": "sim-model", "messages": [], "stream": True}) as answer:
        assert told(answer, "requests")[1] == 0
        answer.read()
    over = refused(say(stack, text="x" * 9000), "rate_limit_exceeded")
    assert told(over, "requests")[:2] == (5, 0) and 1 <= int(over.headers["retry-after"]) <= 12
    refused(httpx.post(stack.url + "/v1/chat/completions", content=b"{", headers=bearer(ACME)), "rate_limit_exceeded")
    answer = say(stack, BETA)
    assert answer.status_code == 200 and told(answer, "requests") is None
    assert stack.metric("hivenet_router_tenant_rate_limited_total", tenant_id="acme") == 2
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_rpm") == 2
    assert stack.metric("hivenet_router_tenant_requests_failed_total", tenant_id="acme") == 2
    assert stack.metric("hivenet_router_tenant_quota_rpm_limit", tenant_id="acme") == 5
    assert stack.metric("hivenet_router_tenant_quota_rpm_limit", tenant_id="beta") == 0


def test_limits_are_one_over_all_workers(stack):
    """Naive variant: each worker has buckets and days of its own, and a key as many times its limits."""
    start(stack, "--workers", "3", acme=quota("requests_per_minute: 5"), beta="")
    began = time.monotonic()
    seen = [say(stack).status_code for _ in range(30)]  # each over a connection of its own: any worker
    refilled = int((time.monotonic() - began) / 12)
    assert set(seen) == {200, 429} and 5 <= seen.count(200) <= 5 + refilled, seen
    whole = total(say(stack, BETA))
    write_keys(stack, acme="", beta=quota(f"tokens_per_day: {5 * whole}"))
    reload(stack)
    seen = [say(stack, BETA).status_code for _ in range(20)]
    assert seen == [200] * 5 + [429] * 15 and used(stack, "beta") == 5 * whole, seen


def test_official_clients_wait_as_long_as_they_are_told(stack):
    start(stack, "--rpm-burst-seconds", "3", acme=quota("requests_per_minute: 20"))
    gpt = lambda retries: openai.OpenAI(base_url=stack.url + "/v1", api_key=ACME, max_retries=retries, timeout=20)
    claude = lambda retries: anthropic.Anthropic(base_url=stack.url, api_key=ACME, max_retries=retries, timeout=20)
    ask_gpt = lambda c: c.chat.completions.create(model="sim-model", messages=[{"role": "user", "content": "x"}])
    ask_claude = lambda c: c.messages.create(model="sim-model", max_tokens=4, messages=[{"role": "user", "content": "x"}])
    for client, ask, error in ((gpt, ask_gpt, openai.RateLimitError), (claude, ask_claude, anthropic.RateLimitError)):
        wait_for("a token is there", lambda: say(stack).status_code == 200)
        with pytest.raises(error) as raised:
            ask(client(0))
        assert raised.value.response.headers["retry-after"] in ("2", "3")
        began = time.monotonic()
        ask(client(1))
        assert 1 < time.monotonic() - began < 8


MODELS = "per_model: {sim-model: {requests_per_minute_per_replica: 2, tokens_per_day: 5000}, late-model: {requests_per_minute_per_replica: 1, tokens_per_day: 0}}"


def test_requests_of_a_model_grow_with_its_agents_and_others_have_none(stack):
    start(stack, acme=quota(MODELS))
    assert told(say(stack), "requests")[:2] == (2, 1)
    stack.start_agent(stack.engine, identity="second.key")
    answer = say(stack)
    assert told(answer, "requests")[:2] == (4, 0) and told(answer, "tokens")[0] == 5000, "what was left is kept, the rate is new"
    refused(say(stack), "rate_limit_exceeded")
    # Nobody serves it: routing tells why, and nothing is spent.
    answer = say(stack, model="late-model")
    assert answer.status_code in (404, 503) and told(answer, "requests") is None
    other = refused(say(stack, model="x" * 200), "rate_limit_exceeded")
    assert "x" * 200 in other.json()["error"]["message"] and told(other, "requests")[1] == 0
    bad = httpx.post(stack.url + "/v1/chat/completions", content=b"{", headers=bearer(ACME))
    assert bad.status_code == 400, "no model was asked for, so none is over its limit"
    metrics = stack.metrics()
    assert not [name for name in metrics if "xxxx" in name], "a client's word is no label"
    per_model = lambda what, model: stack.metric(f"hivenet_router_tenant_per_model_quota_{what}_limit", tenant_id="acme", model=model)
    assert (per_model("rpm", "sim-model"), per_model("tpd", "sim-model"), per_model("rpm", "late-model")) == (4, 5000, 0)
    assert stack.metric("hivenet_router_tenant_rate_limited_total", tenant_id="acme") == 2


TEN = "{requests_per_minute_per_replica: 10, tokens_per_day: %d}"


def test_ten_requests_a_minute_of_three_agents_are_thirty_and_of_none_are_not_counted(stack):
    """The day of a model is asked all the same. Naive variants: ten, however many there are; ten times nobody is nothing left, and the client
    is told of a limit where there is no agent; who is not asked for the one is not asked for the other.
    """
    start(stack, acme=quota(f"per_model: {{sim-model: {TEN % 5000}, late-model: {TEN % 50}}}"))
    for name in ("second.key", "third.key"):
        stack.start_agent(stack.engine, identity=name)
    first = say(stack)
    assert told(first, "requests")[:2] == (30, 29)
    for _ in range(11):
        over = refused(say(stack, model="late-model", max_tokens=47), "token_limit_exceeded")  # 4 + 47 tokens of 50
        assert told(over, "requests") is None and told(over, "tokens")[:2] == (50, 50)
    nobody = say(stack, model="late-model", max_tokens=46)
    assert nobody.status_code in (404, 503) and told(nobody, "requests") is None and told(nobody, "tokens")[0] == 50
    assert used(stack) == total(first), "nobody was asked, nothing is spent"
    stack.start_agent(stack.start_engine("--model", "late-model"), identity="late.key")
    assert told(say(stack, model="late-model", max_tokens=1), "requests")[:2] == (10, 9)


def total(answer):
    usage = answer.json()["usage"]
    return usage.get("total_tokens") or usage["input_tokens"] + usage["output_tokens"]


def test_every_route_that_spends_tokens_is_charged_what_the_engine_counted(stack):
    """Naive variant: the estimate alone, or chat alone."""
    start(stack, acme=quota("tokens_per_day: 100000"))
    embedder = stack.start_engine("--model", "sim-embed")
    ranker = stack.start_engine("--model", "sim-rank")
    stack.start_agent(embedder, "--capability", "embedding", identity="embed.key")
    stack.start_agent(ranker, "--capability", "reranker", identity="rank.key")
    spent = 0
    for path, more in (("/v1/chat/completions", {}), ("/v1/completions", {"prompt": "hi"}), ("/v1/messages", {"max_tokens": 5}),
                       ("/v1/responses", {"input": "hi"}), ("/v1/embeddings", {"input": "hi there", "model": "sim-embed"}),
                       ("/v1/rerank", {"query": "hi", "documents": ["a", "b"], "model": "sim-rank"})):
        answer = say(stack, path=path, **more)
        assert answer.status_code == 200, (path, answer.text)
        spent += total(answer)
        assert used(stack) == spent, path
        limit, left, reset = told(answer, "tokens")
        assert (limit, left) == (100000, 100000 - spent) and abs(reset - to_midnight()) < 5, path
    for path, usage_of in (("/v1/chat/completions", lambda e: e.get("usage")), ("/v1/messages", lambda e: e.get("usage") if e["type"] == "message_delta" else None)):
        body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 5, "stream_options": {"include_usage": True}}
        with httpx.stream("POST", stack.url + path, json=body, headers=bearer(ACME)) as answer:
            left = told(answer, "tokens")[1]
            assert left < 100000 - spent, "what it has taken before"
            events = [json.loads(l[6:]) for l in answer.iter_lines() if l.startswith("data: {")]
        found = [usage_of(e) for e in events if usage_of(e)][-1]
        wait_for(path, lambda: used(stack) > spent)
        output = found.get("completion_tokens") or found["output_tokens"]
        assert used(stack) >= spent + output
        spent = used(stack)
    assert say(stack, path="/v1/messages/count_tokens").status_code == 200
    assert used(stack) == spent, "counting costs nothing"
    wait_for("the audit log says the same", lambda: sum(l["input_tokens"] + l["output_tokens"] for l in stack.audit()
                                                        if "count_tokens" not in l.get("route", "")) == spent)


def test_routes_allowed_by_name_spend_requests_and_tokens_as_all_others_do(stack):
    """Naive variants: limits are asked on a list of routes, usage is looked for in chat answers, a form is passed on unread."""
    flags = [word for name in ("tokenize", "score", "audio/speech", "audio/transcriptions") for word in ("--allow-route", name)]
    start(stack, *flags, acme=quota("requests_per_minute: 8, tokens_per_day: 2000"),
          beta=quota("per_model: {sim-rank: {requests_per_minute_per_replica: 2, tokens_per_day: 5000}}"))
    ranker = stack.start_engine("--model", "sim-rank")
    stack.start_agent(ranker, "--capability", "reranker", identity="rank.key")
    asked = 0

    def ask(name, key=ACME, status=200, **body):
        nonlocal asked
        sent = {"data": body, "files": {"file": ("a.wav", b"RIFF" * 500)}} if name == "audio/transcriptions" else {"json": body}
        answer = httpx.post(f"{stack.url}/v1/{name}", headers=bearer(key), timeout=30, **sent)
        assert answer.status_code == status, answer.text
        if key == ACME:
            asked += 1
            assert told(answer, "requests")[:2] == (8, max(0, 8 - asked)), name
            assert asked > 8 or told(answer, "tokens")[:2] == (2000, 2000 - used(stack)), name
        return answer

    scored = ask("score", model="sim-rank", text_1="q", text_2=["a", "b"])
    spent = used(stack)
    assert spent == total(scored) > 0
    for name, field in (("tokenize", "prompt"), ("audio/speech", "input")):  # their engine tells nothing
        ask(name, model="sim-model", **{field: "x" * 400})
        assert 50 < used(stack) - spent < 200, name
        spent = used(stack)
    ask("audio/transcriptions", model="sim-model")
    assert used(stack) == spent
    counted = {"text": "hi", "usage": {"type": "tokens", "input_tokens": 30, "output_tokens": 12, "total_tokens": 42}}
    stack.engine.faults(status=200, body=json.dumps(counted))
    assert ask("audio/transcriptions", model="sim-model").json() == counted
    stack.engine.faults()
    assert used(stack) == spent + 42
    before = stack.engine.state()["chats"]
    refused(ask("tokenize", status=429, model="sim-model", prompt="x" * 20_000), "token_limit_exceeded")
    refused(ask("audio/speech", status=429, model="sim-model", input="x", max_tokens=5000), "token_limit_exceeded")
    ask("tokenize", model="sim-model", prompt="x")
    refused(ask("tokenize", status=429, model="sim-model", prompt="x"), "rate_limit_exceeded")
    refused(ask("audio/transcriptions", status=429, model="sim-model"), "rate_limit_exceeded")
    assert stack.engine.state()["chats"] == before + 1

    for status in (200, 200, 429):
        last = ask("score", key=BETA, status=status, model="sim-rank", text_1="q", text_2=["a", "b"])
    refused(last, "rate_limit_exceeded")
    assert used(stack, "beta") == 2 * total(scored)
    for name in ("tokenize", "audio/transcriptions"):  # a model that the key's quota does not name, of a form, too
        refused(ask(name, key=BETA, status=429, model="sim-model", prompt="x"), "rate_limit_exceeded")


def test_what_does_not_fit_into_the_day_is_refused_and_costs_nothing(stack):
    start(stack, acme=quota("tokens_per_day: 200"), beta=quota("tokens_per_day: 10"))
    assert say(stack, BETA, path="/v1/messages/count_tokens", text="x" * 400).status_code == 200 and used(stack, "beta") == 0
    answer = refused(say(stack, max_tokens=1000), "token_limit_exceeded")
    assert told(answer, "tokens")[:2] == (200, 200) and abs(int(answer.headers["retry-after"]) - to_midnight()) < 5
    refused(say(stack, text="x" * 900), "token_limit_exceeded")
    refused(say(stack, max_completion_tokens=2**62, max_tokens=-5), "token_limit_exceeded")
    refused(say(stack, max_tokens=100, n=2), "token_limit_exceeded")
    assert used(stack) == 0 and [r["path"] for r in stack.engine.requests()] == ["/v1/messages/count_tokens"], "nothing of those refused"
    assert say(stack, max_tokens=-1000).status_code == 400 and len(stack.engine.requests()) == 2, "a negative limit is the engine's to refuse"
    assert 0 <= used(stack) <= 10, "and gives nobody tokens"
    assert say(stack).status_code == 200
    spent = used(stack)
    assert 0 < spent < 200
    # No agent has seen it: what was taken comes back.
    assert say(stack, model="nobody-has-it").status_code == 404 and used(stack) == spent
    # It failed at the engine: its prompt is spent, once.
    stack.engine.faults(status=500)
    assert say(stack).status_code == 502
    assert spent < used(stack) <= spent + 10
    stack.engine.faults()
    assert stack.metric("hivenet_router_tenant_token_limited_total", tenant_id="acme", phase="input") == 4
    assert stack.metric("hivenet_router_tenant_quota_tpd_limit", tenant_id="acme") == 200


def test_an_answer_beyond_the_day_is_withheld_unless_it_has_been_sent(stack):
    start(stack, acme="", beta="")
    whole = total(say(stack))
    write_keys(stack, acme=quota(f"tokens_per_day: {whole - 1}"), beta=quota(f"tokens_per_day: {whole - 1}"))
    reload(stack)
    over = refused(say(stack), "token_limit_exceeded")
    assert told(over, "tokens")[:2] == (whole - 1, 0) and abs(int(over.headers["retry-after"]) - to_midnight()) < 5
    line = wait_for("its audit line", lambda: [l for l in stack.audit() if l["error_code"] == "token_limit_exceeded"])[0]
    assert line["input_tokens"] + line["output_tokens"] == whole and line["agent_id"] and line["status_code"] == 429
    assert used(stack) == whole - 1 and stack.row(list(stack.table())[0])["universal"]["failed_requests_total"] == 0
    refused(say(stack), "token_limit_exceeded")
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, headers=bearer(BETA)) as answer:
        assert answer.status_code == 200 and [l for l in answer.iter_lines() if l][-1] == "data: [DONE]"
    wait_for("charged", lambda: used(stack, "beta") == whole - 1)
    refused(say(stack, BETA), "token_limit_exceeded")
    for tenant in ("acme", "beta"):
        assert stack.metric("hivenet_router_tenant_token_limited_total", tenant_id=tenant, phase="output") == 1
        assert stack.metric("hivenet_router_tenant_token_limited_total", tenant_id=tenant, phase="input") == 1


def test_a_providers_answer_is_charged_too(stack, tmp_path_factory):
    cloud = Cloud(tmp_path_factory.mktemp("cloud"))
    try:
        write_keys(stack, acme=quota("tokens_per_day: 1000"))
        (stack.folder / "policy.yaml").write_text("routing_policy: {strategy: least-loaded}\nfallback_provider: {engine: openai, model: gpt}\n")
        stack.start_router("--policy-file", stack.folder / "policy.yaml", "--auth-config-file", stack.folder / "auth.yaml", "--openai-base-url", cloud.url + "/v1",
                           "--provider-ca-file", cloud.certificate, env={"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY})
        answer = say(stack)
        assert answer.status_code == 200 and used(stack) == total(answer) == 15
        assert told(answer, "tokens")[1] == 985
    finally:
        cloud.close()


def test_a_provider_in_the_place_of_agents_counts_as_one_replica(stack, tmp_path_factory):
    """Naive variant: without agents the limit of a model is not asked, and the provider gets, and charges for, whatever comes."""
    cloud = Cloud(tmp_path_factory.mktemp("cloud"))
    try:
        write_keys(stack, acme=quota("per_model: {sim-model: {requests_per_minute_per_replica: 1, tokens_per_day: 0}}"))
        (stack.folder / "policy.yaml").write_text("routing_policy: {strategy: least-loaded}\nfallback_provider: {engine: openai, model: gpt}\n")
        stack.start_router("--policy-file", stack.folder / "policy.yaml", "--auth-config-file", stack.folder / "auth.yaml", "--openai-base-url", cloud.url + "/v1",
                           "--provider-ca-file", cloud.certificate, env={"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY})
        answer = say(stack)
        assert answer.status_code == 200 and told(answer, "requests")[:2] == (1, 0)
        refused(say(stack), "rate_limit_exceeded")
        assert len(cloud.requests) == 1
        # What no provider answers is for routing to refuse.
        answer = say(stack, path="/v1/embeddings", input="x")
        assert answer.status_code in (404, 503) and told(answer, "requests") is None
    finally:
        cloud.close()


def test_a_reload_keeps_what_was_used_and_clips_it_to_new_limits(stack):
    """Naive variant: a reload that makes new buckets is a refill for everybody who can send SIGHUP."""
    start(stack, acme=quota("requests_per_minute: 3, tokens_per_day: 10000"), beta=quota("requests_per_minute: 3"))
    for _ in range(3):
        assert say(stack).status_code == 200
    spent = used(stack)
    reload(stack)
    refused(say(stack), "rate_limit_exceeded")
    write_keys(stack, acme=quota(f"tokens_per_day: {int(spent) - 1}"))
    reload(stack)
    answer = refused(say(stack), "token_limit_exceeded")
    assert told(answer, "requests") is None and told(answer, "tokens")[1] == 0
    wait_for("gauges of a tenant without keys go", lambda: not [n for n in stack.metrics() if "_quota_" in n and 'tenant_id="beta"' in n])
    write_keys(stack, acme=quota("tokens_per_day: 10000"), beta=quota("requests_per_minute: 3"))
    reload(stack)
    assert say(stack).status_code == 200 and used(stack) > spent
    assert stack.metric("hivenet_router_tenant_quota_rpm_limit", tenant_id="beta") == 3


def restart(stack, how, *args):
    """The same router again, over the same files."""
    if how == "kill":
        stack.router.kill()
    else:
        stack.router.stop()
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", *args)
    stack.start_agent(stack.engine, identity=f"again-{time.monotonic_ns()}.key")


def on_disk(stack, budget, tokens):
    """Whether the database holds that many tokens of today; old pages with other numbers may be there, too."""
    day = int(time.time()) // 86400
    data = (stack.folder / "db" / "data.mdb").read_bytes()
    return any(struct.pack(">Q", int(tokens)) in after[:64] for after in data.split(b"quotaTPD:%s:%d" % (budget, day))[1:])


def test_the_days_usage_survives_a_kill_and_a_stop(stack):
    """At most one second's usage is lost by kill -9; what was used before it is there again, of models too."""
    persistent = ("--quota-backend", "badger")
    start(stack, *persistent, acme=quota("tokens_per_day: 100000"), beta=quota(MODELS))
    for key in (ACME, ACME, BETA):
        assert say(stack, key).status_code == 200
    spent, of_model = used(stack), used(stack, "beta")
    assert min(spent, of_model) > 0
    # A second is what a kill may lose, and what a busy machine makes longer.
    wait_for("it is on disk", lambda: on_disk(stack, b"acme", spent) and on_disk(stack, b"beta\0sim-model", of_model), limit=5)
    say(stack)
    restart(stack, "kill", *persistent)
    assert spent <= used(stack) <= spent * 2 and used(stack, "beta") == of_model
    assert say(stack).status_code == 200
    spent = used(stack)
    restart(stack, "stop", *persistent)  # at once: nothing may be lost
    assert used(stack) == spent and used(stack, "beta") == of_model
    assert stack.metric("hivenet_router_quota_backend_errors_total") == 0
    restart(stack, "stop")
    assert used(stack) == 0, "memory, the default, begins anew"


def test_kill_9_loses_at_most_the_last_second(stack):
    """Clients spend all the time; what they were told a second before the kill is used after it, wherever between two writes it comes.

    Naive variants: written every few seconds, or at an orderly end only; a write that waits until nothing changes any more.
    """
    limit = 10_000_000
    with tempfile.TemporaryDirectory(prefix="hive-quota-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as memory:
        persistent = ("--quota-backend", "lmdb", "--disk-db-path", memory)  # no slow disk of this machine is in that second
        start(stack, *persistent, acme=quota(f"tokens_per_day: {limit}"))
        for seconds in (1.3, 1.7, 2.1):
            for _ in range(5):
                marks, end = [], time.monotonic() + seconds
                while time.monotonic() < end:
                    spent = limit - told(say(stack), "tokens")[1]
                    marks.append((time.monotonic(), spent))
                killed = time.monotonic()
                restart(stack, "kill", *persistent)
                answer = say(stack)
                kept = limit - told(answer, "tokens")[1] - total(answer)
                assert kept <= marks[-1][1]
                if len(marks) > 10 and max(b[0] - a[0] for a, b in zip(marks, marks[1:])) < 0.3:
                    break  # else the machine stood still, and the router with it
            assert max(spent for at, spent in marks if at <= killed - 1) <= kept, (killed, kept, marks)
        stack.router.kill()


def test_a_clock_that_jumps_neither_refills_nor_locks_nor_cuts(stack):
    """The agent's clock jumps, too. Naive variants: a day read off the wall clock at each request; a bucket filled by it."""
    assert FAKETIME.exists(), "install the package libfaketime, as ./dev does"
    clock = stack.folder / "clock"
    clock.write_text("+0")
    fake = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    start(stack, "--request-timeout", "20s", env=fake, agent_env=fake, acme=quota("requests_per_minute: 2, tokens_per_day: 10000"), beta=quota("tokens_per_day: 90000"))
    assert say(stack).status_code == say(stack).status_code == 200
    spent = used(stack)
    say(stack, BETA)
    refused(say(stack), "rate_limit_exceeded")
    stack.engine.faults(step_ms=100)
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 40}
    with concurrent.futures.ThreadPoolExecutor(1) as pool, httpx.Client(timeout=30) as client:
        running = pool.submit(client.post, stack.url + "/v1/chat/completions", json=body, headers=bearer(BETA))
        for step in ("+5h", "-7h", "+30h", "+0"):
            clock.write_text(step)
            if step == "+30h":
                stack.agent.hangup("shared secret")
                said = (datetime.datetime.strptime(httpx.get(stack.url + "/health").headers["date"], "%a, %d %b %Y %H:%M:%S %Z"),
                        datetime.datetime.strptime(stack.agent.log().splitlines()[-1][:19], "%Y-%m-%dT%H:%M:%S"))
                now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
                assert all(abs((each - now).total_seconds() / 3600 - 30) < 0.1 for each in said), said
            refused(say(stack), "rate_limit_exceeded")
            assert used(stack) == spent, step
            assert say(stack, BETA, max_tokens=1).status_code == 200, step
        assert running.result().text.rstrip().endswith("data: [DONE]")
    assert [row["status"]["routable"] for row in stack.table().values()] == [True]
    assert stack.agent.log().count("registered with router") == 1, "one session all the while"
