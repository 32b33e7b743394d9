"""Policy documents in a running router: folder, admin API, storage, aliases, and what answers say of their routing.

The naive variants these fail on: a policy kept in memory alone, an answer before it is stored, a bad file or write that changes half,
files that win over what was written after them, an alias that is replaced wherever its text stands or that keys and policies see.
"""
import concurrent.futures
import hashlib
import json
import os
import signal
import subprocess
import time

import httpx
import pytest
from conftest import ADMIN_KEY, BIN, TOP, wait_for
from test_auth import ACME, auth_yaml, bearer, entry

ANYBODY = "routing_policy: {strategy: least-loaded}\n"
NOBODY = "routing_policy: {strategy: least-loaded, match: {region: nowhere}}\n"
DEFAULT = {"routing_policy": {"match": {}, "strategy": "least-loaded"}}


def named(models, base=ANYBODY):
    return f"models: [{models}]\n{base}"


def put(stack, text, name=None, **kw):
    return stack.admin("/admin/policy" + (f"/models/{name}" if name else ""), "PUT", content=text, **kw)


def reloads(stack, trigger, result):
    return sum(v for k, v in stack.metrics().items() if k.startswith("hivenet_router_policy_reload_total{")
               and f'trigger="{trigger}"' in k and f'result="{result}"' in k)


def test_the_api_shows_writes_and_deletes_policies(simple):
    assert simple.admin("/admin/policy").json() == DEFAULT
    assert simple.admin("/admin/policy/models").json() == {}
    answer = put(simple, NOBODY)
    assert (answer.status_code, answer.json()) == (200, {"status": "policy updated"})
    shown = simple.admin("/admin/policy")
    assert shown.json() == {"mode": "reserved", "routing_policy": {"match": {"region": "nowhere"}, "strategy": "least-loaded"}}
    assert simple.chat().status_code == 503

    answer = put(simple, named("sim-model, other"), "team/a")
    assert (answer.status_code, answer.json()) == (200, {"status": "policy updated", "name": "team/a", "models": ["sim-model", "other"]})
    assert simple.chat().status_code == 200, "its own document rules it"
    assert list(simple.admin("/admin/policy/models").json()) == ["team/a"]
    assert simple.admin("/admin/policy/models/team/a").json()["models"] == ["sim-model", "other"]
    assert simple.admin("/admin/policy/models/sim-model").status_code == 404, "a document's name, not a model's"

    taken = put(simple, named("other"), "b")
    assert taken.status_code == 409 and "team/a" in taken.json()["error"] and "'b'" in taken.json()["error"]
    for text, name, words in [("[not-a-map", None, "policy:"), ("routing_policy: {strategy: nonsense}", None, "unknown strategy"),
                              ("routing_policy: {strategy: best-itl}", None, "not yet implemented"), ("routing_policy: {}", None, "strategy is required"),
                              (ANYBODY, "c", "models"), (ANYBODY + "mode: reserverd\n", None, "unknown mode"),
                              (ANYBODY + "fallback_provider: {model: m}\n", None, "fallback_provider.engine is required"),
                              ("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 1, lt: 2}}}", None, "only one operator")]:
        refused = put(simple, text, name)
        assert refused.status_code == 400 and words in refused.json()["error"], refused.text
    assert simple.admin("/admin/policy").json() == shown.json()
    assert put(simple, ANYBODY, "").status_code == 200
    assert simple.admin("/admin/policy/models/", "PUT", content=named("x")).status_code == 400
    for method in ("PUT", "DELETE"):
        key = simple.admin("/admin/policy/models/%20sk-typed-here-by-mistake", method, content=named("x"))
        assert key.status_code == 400 and "by-mistake" not in key.text + simple.router.log(), "a key is nobody's name"
    assert put(simple, "x" * (1 << 20 | 1)).status_code == 413
    assert simple.admin("/admin/policy", "POST").headers["allow"] == "GET, HEAD, PUT, DELETE"
    assert simple.admin("/admin/policy", key="").status_code == 401
    assert (reloads(simple, "api", "success"), reloads(simple, "api", "error")) == (3, 9)

    for _ in range(2):
        answer = simple.admin("/admin/policy/models/team/a", "DELETE")
        assert (answer.status_code, answer.json()) == (200, {"status": "policy deleted", "name": "team/a"})
    assert simple.admin("/admin/policy", "DELETE").json() == {"status": "policy deleted"}
    assert simple.admin("/admin/policy").json() == DEFAULT


def test_if_match_refuses_who_read_an_older_policy(simple):
    first = simple.admin("/admin/policy").headers["etag"]
    match = {"Authorization": f"Bearer {ADMIN_KEY}", "If-Match": first}
    assert httpx.put(simple.url + "/admin/policy", content=NOBODY, headers=match).status_code == 200
    late = httpx.put(simple.url + "/admin/policy", content=ANYBODY, headers=match)
    assert late.status_code == 412 and simple.chat().status_code == 503


def test_what_was_answered_200_is_there_after_kill_9_unless_its_file_was_edited(stack):
    folder = stack.folder / "policies"
    folder.mkdir()
    (folder / "_default.yaml").write_text(ANYBODY + "# first\n")
    (folder / "a.yaml").write_text(named("a"))
    args = ("--policy-model-dir", folder)
    stack.start_router(*args)
    for text, name in [(NOBODY, None), (named("m, n"), "api"), (named("a2"), "a")]:
        assert put(stack, text, name).status_code == 200
    stack.router.kill()
    stack.start_router(*args)
    assert stack.admin("/admin/policy").json()["routing_policy"]["match"] == {"region": "nowhere"}
    assert {k: v["models"] for k, v in stack.admin("/admin/policy/models").json().items()} == {"a": ["a2"], "api": ["m", "n"]}

    assert stack.admin("/admin/policy/models/api", "DELETE").status_code == 200
    stack.router.kill()
    (folder / "a.yaml").write_text(named("a3"))
    stack.start_router(*args)
    assert {k: v["models"] for k, v in stack.admin("/admin/policy/models").json().items()} == {"a": ["a3"]}
    assert stack.admin("/admin/policy").json()["routing_policy"]["match"] == {"region": "nowhere"}
    stack.router.kill()
    stack.start_router(*args, "--policy-store=false")
    assert stack.admin("/admin/policy").json()["routing_policy"]["match"] == {}


def test_a_folder_is_read_again_file_by_file(stack):
    folder = stack.folder / "policies"
    folder.mkdir()
    engine = stack.start_engine()
    (folder / "sim.yaml").write_text(named("sim-model"))
    os.utime(folder / "sim.yaml", (1, 1))
    (folder / "late.yaml").write_text(named("sim-model", NOBODY))
    stack.start_router("--policy-model-dir", folder)
    stack.start_agent(engine)
    said = stack.router.log()
    assert "late.yaml" in said and "sim.yaml" in said and "claimed" in said, "both are named"
    assert stack.chat().status_code == 200
    (folder / "late.yaml").unlink()
    (folder / "sim.yaml").write_text("[not-a-map")
    (folder / "_default.yaml").write_text(NOBODY)
    stack.router.hangup("a policy document stays as it was")
    assert stack.chat().status_code == 200 and stack.admin("/admin/policy").json()["routing_policy"]["match"] == {"region": "nowhere"}
    (folder / "sim.yaml").unlink()
    stack.router.hangup("policy loaded")
    assert stack.chat().status_code == 503
    stack.router.hangup("no policy file has changed")
    assert (reloads(stack, "sighup", "error"), reloads(stack, "sighup", "success")) == (1, 1)


# The two files of ../policies, as the admin API shows them.
SHED = {"kv_cache_utilization": {"gt": 0.9}, "waiting_requests": {"gt": 20}}
LAST = {"name": "global-any", "match": {}, "strategy": "least-loaded", "max_tries": 1}
GLOBAL_FILE = {
    "mode": "reserved", "shed_if": SHED,
    "routing_policy": {
        "match": {"region": "EU-France", "engine": "vllm", "tags": ["production"]},
        "exclude_if": {**SHED, "capacity_utilization": {"gt": 0.9}, "success_rate": {"lt": 0.95}, "gpu_temperature_c": {"gt": 80},
                       "consecutive_failures": {"gte": 3}},
        "strategy": "least-loaded", "max_tries": 3},
    "fallback_chain": [{
        "name": "eu-west", "match": {"region": "EU-West", "engine": "vllm"},
        "exclude_if": {"kv_cache_utilization": {"gt": 0.92}, "success_rate": {"lt": 0.9}, "consecutive_failures": {"gte": 3}},
        "strategy": "least-loaded", "max_tries": 2}, LAST]}
LLAMA_FILE = {
    "models": ["llama3:70b", "llama3:70b-instruct"], "mode": "reserved",
    "routing_policy": {
        "match": {"engine": "vllm"},
        "exclude_if": {"kv_cache_utilization": {"gt": 0.95}, "consecutive_failures": {"gte": 3}, "gpu_temperature_c": {"gt": 85}},
        "strategy": "least-loaded", "max_tries": 2},
    "fallback_chain": [LAST]}
CAPS = {"max_input_tokens": 262144, "images_max": 10, "admit_budget_tokens": 408987, "max_inflight": 37}
PROVIDER = {"engine": "openai", "model": "gpt-4o"}


def test_the_go_products_files_and_documents_are_served_with_every_value_in_place(stack):
    """With the plugins of the build. Naive variants: a cap, a rule, a step or the provider that is read and lost; numbers in other words after a
    write of what was read.
    """
    stack.start_router("--policy-model-dir", TOP / "tests" / "policies", "--strict-policy", env={"HIVENET_ROUTER_OPENAI_API_KEY": "key-of-the-provider"})
    assert stack.admin("/admin/policy").json() == GLOBAL_FILE
    assert stack.admin("/admin/policy/models").json() == {"llama3-large": LLAMA_FILE}
    step = {"match": {"region": "eu", "engine": "vllm"}, "exclude_if": {"kv_cache_utilization": {"gt": 0.9}, "srtt": {"gt": 500}},
            "strategy": "least-loaded", "max_tries": 5}
    for mode in ("reserved", "serverless"):
        document = {"mode": mode, **CAPS, "shed_if": SHED, "routing_policy": step, "fallback_chain": [LAST], "fallback_provider": PROVIDER}
        assert put(stack, json.dumps(document)).status_code == 200
        shown = stack.admin("/admin/policy")
        assert shown.json() == document
        assert put(stack, shown.text).status_code == 200
        assert stack.admin("/admin/policy").content == shown.content


def run(*args):
    return subprocess.run([BIN / "hivenet-router", *args], capture_output=True, text=True, timeout=30, env={"PATH": os.environ["PATH"]})


def test_policy_check_tells_every_problem_with_its_line_and_the_nearest_name(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("mode: reserverd\nrouting_policy:\n  strategy: least-loadd\n  exclude_if:\n    srt: {gt: 1}\n    srtt: {}\n"
                   "fallback_chain:\n  - strategy: least-loaded\n    match: {region: [a]}\nexlude_if: {}\n")
    done = run("policy", "check", bad)
    assert done.returncode == 1
    for line, words in [(1, "unknown mode"), (3, "did you mean 'least-loaded'"), (5, "did you mean 'srtt'"), (6, "exactly one operator"), (9, "region")]:
        assert any(text.startswith(f"{bad}:{line}:") and words in text for text in done.stdout.splitlines()), (words, done.stdout)
    assert "exlude_if" not in done.stdout
    assert "bad.yaml:10" in run("policy", "check", bad, "--strict-policy").stdout

    (tmp_path / "sub").mkdir()
    for name, text in [("_default.yaml", ANYBODY), ("a.yaml", named("m")), ("b.yaml", named("m"))]:
        (tmp_path / "sub" / name).write_text(text)
    done = run("policy", "check", tmp_path / "sub")
    assert done.returncode == 1 and "claimed by document 'a'" in done.stdout
    whole = tmp_path / "whole.yaml"
    whole.write_text(f"policy_model_dir: {tmp_path / 'sub'}\n")
    done = run("check", whole)
    assert done.returncode == 1 and "claimed by document 'a'" in done.stderr
    (tmp_path / "sub" / "b.yaml").unlink()
    done = run("policy", "check", tmp_path / "sub")
    assert (done.returncode, done.stdout) == (0, "ok: the global policy, 1 document(s) for models\n")
    assert run("policy", "check", tmp_path / "sub" / "a.yaml").returncode == 0
    assert run("policy", "check", tmp_path / "nowhere.yaml").returncode == 1
    for wrong in [("policy",), ("policy", "check"), ("policy", "chek", bad), ("policy", "check", bad, "--no-such-flag")]:
        assert run(*wrong).returncode == 2
    config = tmp_path / "router.yaml"
    config.write_text("plugins: {enable: [strategy_least_loaded, storage_lmdb, transport_zmq]}\n")
    good = tmp_path / "good.yaml"
    good.write_text("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 1}}}\n")
    assert run("policy", "check", good).returncode == 0
    done = run("policy", "check", good, "--config", config)
    assert done.returncode == 1 and "plugin gate_srtt provides it and is not enabled" in done.stdout


def start_with_aliases(stack, text, *args):
    config = stack.folder / "router.yaml"
    config.write_text(text)
    return stack.start_router("--config", config, *args)


def test_an_alias_is_its_model_for_keys_policies_engine_and_audit(stack):
    engine = stack.start_engine()
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(ACME, "acme", "      models: [sim-model]\n")))
    start_with_aliases(stack, "model_aliases:\n  gpt-4o: sim-model\n  fast: gpt-4o\n  none: nobody-serves-this\n  denied: other\n",
                       "--auth-config-file", stack.folder / "auth.yaml")
    stack.start_agent(engine)
    put(stack, NOBODY)
    put(stack, named("sim-model"), "sim")
    body = b'{ "messages" : [{"role":"user","content":"gpt-4o \\u00e9"}], "max_tokens":3, "model" : "gpt-4o" , "x":1.50}'
    for number, stream in enumerate((False, True)):
        sent = body.replace(b'"x":1.50', b'"stream":true') if stream else body
        answer = httpx.post(stack.url + "/v1/chat/completions", content=sent, headers={
            **bearer(ACME), "Content-Type": "application/json", "X-Request-ID": f"0b5f6c1e-aaaa-4000-8000-{number:012d}"})
        assert answer.status_code == 200, answer.text
        assert '"model":"sim-model"' in answer.text.replace(" ", ""), "the engine's own name stays"
    own = body.replace(b'"model" : "gpt-4o"', b'"model" : "sim-model"')
    asked = own.replace(b'"x":1.50', b'"stream":true').replace(b"{", b'{"stream_options":{"include_usage":true},', 1)
    assert [r["body_sha256"] for r in engine.requests()[-2:]] == [hashlib.sha256(b).hexdigest() for b in (own, asked)]
    found = wait_for("audit", lambda: [l for l in stack.audit() if l.get("alias")])
    assert {(l["model"], l["alias"]) for l in found} == {("sim-model", "gpt-4o")}
    refused = stack.chat(model="denied", headers=bearer(ACME))
    assert refused.status_code == 403

    listed = {m["id"]: m for m in httpx.get(stack.url + "/v1/models", headers=bearer(ACME)).json()["data"]}
    assert set(listed) == {"sim-model", "gpt-4o", "fast"}
    assert listed["fast"]["alias_of"] == "sim-model" and "alias_of" not in listed["sim-model"]
    assert httpx.get(stack.url + "/v1/models/fast", headers=bearer(ACME)).json()["agents"]["total"] == 1

    config = stack.folder / "router.yaml"
    config.write_text("model_aliases: {fast: fast}\n")
    stack.router.hangup("the model aliases stay as they were")
    assert stack.chat(model="fast", headers=bearer(ACME)).status_code == 200
    config.write_text("model_aliases: {quick: sim-model}\n")
    stack.router.child.send_signal(signal.SIGHUP)
    wait_for("the new alias", lambda: stack.chat(model="quick", headers=bearer(ACME)).status_code == 200)
    assert stack.chat(model="fast", headers=bearer(ACME)).status_code in (403, 404)


@pytest.mark.parametrize("text, words", [("model_aliases:\n  a: b\n  b: a\n", ":2: "), ("model_aliases:\n  a: b\n  a: c\n", ":3"),
                                         ("model_aliases: [a]\n", "a list stands where a map")])
def test_bad_aliases_stop_the_start_with_file_and_line(tmp_path, text, words):
    config = tmp_path / "router.yaml"
    config.write_text(text)
    done = run("--config", config)
    assert done.returncode == 1 and f"{config}" in done.stderr and words in done.stderr, done.stderr


def test_answers_say_who_served_them_when_told_to(stack):
    engine = stack.start_engine("--first-token-ms", "100")
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {strategy: least-loaded, match: {region: nowhere}}\n"
                      "fallback_chain: [{name: \"any\\r\\nwhere\", strategy: least-loaded}]\n")
    stack.start_router("--policy-file", policy, "--expose-routing")
    agent = stack.start_agent(engine)
    for stream in (False, True):
        answer = stack.chat(stream=stream)
        assert answer.headers["x-hivenet-agent"] == agent.peer_id and answer.headers["x-hivenet-step"] == "any??where"
        assert (answer.headers["x-hivenet-attempts"], answer.headers["x-hivenet-queue-ms"]) == ("1", "0")
    engine.faults(status=500)
    failed = stack.chat()
    assert failed.status_code == 502 and failed.headers["x-hivenet-agent"] == agent.peer_id
    assert int(failed.headers["x-hivenet-attempts"]) >= 1
    unknown = stack.chat(model="unknown")
    assert unknown.headers["x-hivenet-attempts"] == "0" and "x-hivenet-agent" not in unknown.headers
    policy.write_text(ANYBODY)


def test_attempts_and_the_wait_are_counted_in_answers_and_in_the_audit_log(stack):
    """Naive variant: 1 and 0, which is right for almost every request."""
    good, bad = stack.start_engine(), stack.start_engine()
    stack.start_router("--expose-routing")
    stack.start_agent(good, "--capacity", "1", identity="good.key")

    def asked(number, **more):
        name = f"3c9e5d1e-0000-4000-8000-{number:012d}"
        answer = stack.chat(headers={"X-Request-ID": name}, max_tokens=1, **more)
        assert answer.status_code == 200, answer.text
        line, = wait_for("its line", lambda: [entry for entry in stack.audit() if entry["request_id"] == name])
        assert answer.headers["x-hivenet-attempts"] == str(line["attempts"]) and answer.headers["x-hivenet-queue-ms"] == str(line["queue_ms"])
        return line

    first = asked(1, messages=[{"role": "user", "content": "x" * 320}])
    assert (first["input_estimate"], first["attempts"], first["queue_ms"]) == (100, 1, 0)
    good.faults(first_token_ms=2000)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        held = pool.submit(asked, 2)
        wait_for("the slot is taken", lambda: good.state()["running"] == 1)
        begin = time.monotonic()
        third = pool.submit(asked, 3)
        wait_for("it waits", lambda: stack.admin("/admin/health").json()["waiting_capacity"] == 1)
        good.faults(first_token_ms=0)
        waited = third.result()
        assert 0 < waited["queue_ms"] <= (time.monotonic() - begin) * 1e3 and waited["attempts"] == 1
        assert held.result()["queue_ms"] == 0
    bad.faults(status=500)
    stack.start_agent(bad, "--capacity", "1", identity="bad.key")
    lines = [asked(number) for number in range(4, 14)]
    assert {entry["attempts"] for entry in lines} == {1, 2}, "whatever came to the bad one was tried twice"
    assert sum(entry["attempts"] == 2 for entry in lines) == bad.state()["chats"]


def test_answers_say_nothing_of_their_routing_by_themselves(simple):
    for answer in (simple.chat(), simple.chat(stream=True), simple.chat(model="unknown")):
        assert not [name for name in answer.headers if name.startswith("x-hivenet")]


def test_an_alias_in_an_upload_is_replaced_in_its_field_alone(stack):
    engine = stack.start_engine()
    start_with_aliases(stack, "model_aliases: {whisper-1: sim-model}\nallow_route: [audio/transcriptions]\n")
    stack.start_agent(engine)
    body = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="whisper-1"\r\n\r\nwhisper-1\r\n'
            b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b--\r\n')
    httpx.post(stack.url + "/v1/audio/transcriptions", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    own = body.replace(b'name="model"\r\n\r\nwhisper-1', b'name="model"\r\n\r\nsim-model')
    assert engine.requests()[-1]["body_sha256"] == hashlib.sha256(own).hexdigest()
