"""Client keys written through /admin/api-keys, and the admin keys themselves, against the real processes.

The naive variants these fail on: keys put to work before they are stored or stored after the answer, a 200 before every worker knows,
a revocation that cuts running streams or waits for a reload, a version compared as a number, an opened API on a mode change, an admin
role that is looked at on some routes only, a raw key in the database or a log.
"""
import datetime
import hashlib
import json

import httpx
import openai
import pytest
from conftest import ADMIN_KEY, wait_for
from test_auth import refused_to_start

ONE, TWO = "sk-hivenet-one-of-the-dynamic-key-tests", "sk-hivenet-two-of-the-dynamic-key-tests"
DYNAMIC = {"HIVENET_ROUTER_AUTH_MODE": "dynamic"}


def sha(key):
    return hashlib.sha256(key.encode()).hexdigest()


def entry(key, owner="acme", **more):
    return {"key_hash": sha(key), "key_preview": f"sk-...{key[-4:]}", "owner": owner, "name": f"{owner} key", "enabled": True, **more}


def put(stack, id, version, key, key_used=ADMIN_KEY, **more):
    return stack.admin(f"/admin/api-keys/{id}", "PUT", key=key_used, json={"version": version, **entry(key, **more)})


def status(stack, key):
    return httpx.get(stack.url + "/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code


def serve(stack, *args, env=None):
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router(*args, env={**DYNAMIC, **(env or {})})
    stack.start_agent(stack.engine)
    return stack


def test_a_key_opens_with_the_200_and_closes_with_the_next_one_on_every_worker(stack):
    serve(stack, "--workers", "3")
    assert status(stack, ONE) == 401 and status(stack, ADMIN_KEY) == 401
    assert stack.admin("/admin/api-keys/version").json() == {"version": "", "count": 0}
    for n in range(20):
        assert put(stack, "k", f"{n:03}a", ONE).json() == {"ok": True}
        with httpx.Client() as fresh:  # a connection of its own: any worker
            assert fresh.get(stack.url + "/v1/models", headers={"x-api-key": ONE}).status_code == 200
        assert stack.admin("/admin/api-keys/k", "DELETE", params={"version": f"{n:03}b"}).json() == {"ok": True}
        assert status(stack, ONE) == 401


def test_the_openai_sdk_is_let_in_as_the_entry_says(stack):
    serve(stack)
    assert put(stack, "acme/prod", "1", ONE, allowed_models=["sim-model"]).status_code == 200
    client = openai.OpenAI(base_url=stack.url + "/v1", api_key=ONE, max_retries=0, timeout=20)
    said = client.chat.completions.create(model="sim-model", messages=[{"role": "user", "content": "hello"}])
    assert said.choices[0].message.content
    with pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(model="other", messages=[{"role": "user", "content": "hello"}])
    series = {"tenant_id": "acme", "key_id": "acme/prod"}
    assert stack.metric("hivenet_router_tenant_requests_success_total", model="sim-model", **series) == 1
    lines = lambda: [line for line in stack.audit() if line["log_type"] == "audit"]
    wait_for("the audit line", lambda: any((line["tenant_id"], line["key_id"], line["status_code"]) == ("acme", "acme/prod", 200) for line in lines()))
    client.api_key = TWO
    with pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_what_was_answered_200_is_there_after_kill_9_and_no_key_is_in_any_file(stack):
    stack.start_router(env=DYNAMIC)
    assert put(stack, "a", "1", ONE, max_occupancy_share=0.4, quota={"input_tokens_per_minute": 7}).status_code == 200
    assert put(stack, "b", "2", TWO).status_code == 200
    before = stack.admin("/admin/api-keys").json()
    stack.router.kill()
    stack.start_router(env=DYNAMIC)
    assert stack.admin("/admin/api-keys").json() == before
    assert [k["id"] for k in before["keys"]] == ["a", "b"] and {k["key_hash"] for k in before["keys"]} == {""}
    assert stack.admin("/admin/api-keys/version").json() == {"version": "2", "count": 2}
    assert (status(stack, ONE), status(stack, TWO)) == (200, 200)
    assert put(stack, "a", "1", ONE).json() == {"error": "stale version", "current_version": "2"}
    assert stack.admin("/admin/api-keys/a", "DELETE", params={"version": "3"}).status_code == 200
    stack.router.kill()
    stack.start_router(env=DYNAMIC)
    assert (status(stack, ONE), status(stack, TWO)) == (401, 200)
    stack.router.kill()
    stack.start_router("--key-store=false", env=DYNAMIC)
    assert status(stack, TWO) == 401
    for path in stack.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for secret in (ONE, TWO, ADMIN_KEY):
                assert secret.encode() not in data, path


def test_a_key_is_switched_off_and_ends_and_is_exchanged_with_an_overlap(stack):
    serve(stack)
    now = datetime.datetime.now(datetime.timezone.utc)
    at = lambda seconds: (now + datetime.timedelta(seconds=seconds)).isoformat()
    assert put(stack, "off", "1", ONE, enabled=False).status_code == 200
    assert status(stack, ONE) == 401
    assert put(stack, "off", "2", ONE, expires_at=at(-1)).status_code == 200
    assert status(stack, ONE) == 401
    assert put(stack, "off", "3", ONE, expires_at=at(3600)).status_code == 200
    assert status(stack, ONE) == 200
    # The new one beside the old one, then an end for the old one.
    assert put(stack, "new", "4", TWO).status_code == 200
    assert (status(stack, ONE), status(stack, TWO)) == (200, 200)
    assert put(stack, "off", "5", ONE, expires_at=at(2)).status_code == 200
    wait_for("the old key has ended", lambda: status(stack, ONE) == 401)
    assert status(stack, TWO) == 200
    # Another key under the same id: the old one is dead with the answer.
    assert put(stack, "new", "6", ONE).json()["error"].startswith('key_hash is that of key "off"')
    assert stack.admin("/admin/api-keys/off", "DELETE", params={"version": "6"}).status_code == 200
    assert put(stack, "new", "7", ONE).status_code == 200
    assert (status(stack, ONE), status(stack, TWO)) == (200, 401)


def test_a_stream_outlives_its_key(stack):
    serve(stack)
    assert put(stack, "k", "1", ONE).status_code == 200
    stack.engine.faults(step_ms=20)
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 40}
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, headers={"x-api-key": ONE}, timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert stack.admin("/admin/api-keys/replace", "POST", json={"version": "2", "keys": []}).json() == {"ok": True, "count": 0}
        assert status(stack, ONE) == 401
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_a_replacement_is_taken_whole_up_to_16_mib_and_a_single_entry_up_to_1(stack):
    stack.start_router(env=DYNAMIC)
    many = [{"id": f"k{n:05}", **entry(f"sk-key-{n}", owner=f"t{n}"), "allowed_models": ["a-model-with-a-long-name"] * 4} for n in range(8000)]
    assert len(json.dumps(many)) > 2 << 20
    post = lambda keys, version: stack.admin("/admin/api-keys/replace", "POST", json={"version": version, "keys": keys})
    bad = post(many[:-1] + [{**many[-1], "max_occupancy_share": 2}], "1")
    assert bad.status_code == 400 and bad.json()["error"].startswith("key[7999].max_occupancy_share")
    assert stack.admin("/admin/api-keys/version").json() == {"version": "", "count": 0}
    assert post(many, "1").json() == {"ok": True, "count": 8000}
    assert status(stack, "sk-key-7999") == 200
    assert stack.admin("/admin/api-keys/k07999").json()["key"]["owner"] == "t7999"
    assert put(stack, "big", "2", ONE, name="x" * (1 << 20)).status_code == 413
    stack.router.kill()
    stack.start_router(env=DYNAMIC)
    assert stack.admin("/admin/api-keys/version").json() == {"version": "1", "count": 8000}


def test_keys_and_policies_are_judged_beside_each_other_whichever_is_written(stack):
    stack.start_router(env=DYNAMIC)
    policy = lambda mode, most: stack.admin("/admin/policy", "PUT", content=f"mode: {mode}\nmax_input_tokens: {most}\nrouting_policy: {{strategy: least-loaded}}\n")
    assert put(stack, "k", "1", ONE, quota={"input_tokens_per_minute": 100000}).status_code == 200
    refused = policy("serverless", 262144)
    assert refused.status_code == 400 and "input_tokens_per_minute" in refused.json()["error"], refused.text
    assert policy("serverless", 100000).status_code == 200
    refused = put(stack, "l", "2", TWO, quota={"input_tokens_per_minute": 99999})
    assert refused.status_code == 400 and "100000" in refused.json()["error"], refused.text
    assert stack.admin("/admin/api-keys/version").json() == {"version": "1", "count": 1}
    assert policy("reserved", 100000).status_code == 200
    assert put(stack, "l", "2", TWO, quota={"input_tokens_per_minute": 99999}).status_code == 200


def test_one_value_has_one_role(stack):
    stack.start_router(env=DYNAMIC)
    for value, words in ((ADMIN_KEY, "also an admin key"), (stack.secret, "shared secret")):
        refused = put(stack, "k", "1", value)
        assert refused.status_code == 400 and words in refused.json()["error"]
    assert put(stack, "k", "1", ONE).status_code == 200
    assert stack.admin("/admin/api-keys", key=ONE).status_code == 401


def test_a_key_that_is_typed_for_a_name_is_refused_and_stands_nowhere(stack):
    """Naive variants: what does not begin with sk- is no key; the routes of keys alone look; a refusal to a stranger writes it down."""
    stack.start_router(env=DYNAMIC)
    plain = "client-key-without-a-prefix-0004"
    assert put(stack, "k", "1", plain).status_code == 200
    policy = "models: [m]\nrouting_policy: {strategy: least-loaded}\n"
    for secret in (plain, ADMIN_KEY, stack.secret):
        for method, path, body in (("PUT", f"policy/models/{secret}", policy), ("DELETE", f"policy/models/{secret}", ""), ("PUT", f"agents/{secret}/revoked", ""),
                                   ("POST", f"agents/{secret}/kick", ""), ("DELETE", f"api-keys/{secret}?version=2", "")):
            for key, status_code in ((ADMIN_KEY, 400), (ONE, 401)):
                answer = stack.admin("/admin/" + path, method, key=key, content=body)
                assert answer.status_code == status_code and secret not in answer.text, (method, path, answer.text)
    targets = lambda: [line["target"] for line in stack.audit() if line["log_type"] == "admin_audit"]
    wait_for("a line of each", lambda: len(targets()) == 31)
    assert targets() == ["k"] + ["[secret]"] * 30
    assert stack.admin("/admin/policy/models").json() == {}
    for secret in (plain, ADMIN_KEY, stack.secret):
        assert secret not in (stack.folder / "audit.jsonl").read_text() + stack.router.log()


def test_tokens_a_minute_of_a_key_hold_where_the_model_is_serverless(stack):
    policy = stack.folder / "policy.yaml"
    policy.write_text("mode: serverless\nrouting_policy: {strategy: least-loaded}\n")
    serve(stack, "--policy-file", policy)
    assert put(stack, "k", "1", ONE, quota={"input_tokens_per_minute": 10}).status_code == 200
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "x" * 32}], "max_tokens": 1}  # 10 tokens
    ask = lambda: httpx.post(stack.url + "/v1/chat/completions", json=body, headers={"x-api-key": ONE}, timeout=20)
    assert ask().status_code == 200
    over = ask()
    assert (over.status_code, over.json()["error"]["code"]) == (429, "rate_limit_exceeded"), over.text
    assert int(over.headers["retry-after"]) >= 1
    assert stack.metric("hivenet_router_admission_rejections_total", reason="b4_itpm") == 1


def test_the_mode_needs_an_admin_key_whatever_else_is_allowed(stack):
    for env in ({}, {"HIVENET_ROUTER_ALLOW_INSECURE_ADMIN": "true"}):
        assert "there is no admin key" in refused_to_start(stack, env={**DYNAMIC, **env})


def test_without_the_mode_the_routes_say_so(stack):
    stack.start_router()
    for method, path in (("GET", ""), ("GET", "/version"), ("GET", "/a"), ("PUT", "/a"), ("DELETE", "/a?version=1"), ("POST", "/replace")):
        answer = stack.admin("/admin/api-keys" + path, method)
        assert (answer.status_code, answer.json()) == (501, {"error": "dynamic key registry not active"}), (method, path)
        assert stack.admin("/admin/api-keys" + path, method, key=ONE).status_code == 401


def test_a_reload_changes_admin_keys_alone_and_never_the_mode(stack):
    auth, admins = stack.folder / "auth.yaml", stack.folder / "admin-keys"
    later = "admin-key-of-the-end-to-end-tests-0002"
    auth.write_text("api: {mode: dynamic}\n")
    admins.write_text(ADMIN_KEY + "\n")
    stack.start_router("--auth-config-file", auth, "--admin-api-keys-file", admins, env={"HIVENET_ROUTER_ADMIN_API_KEYS": ""})
    assert put(stack, "k", "1", ONE).status_code == 200
    admins.write_text(ADMIN_KEY + "\n" + later + "\n")  # both for a while
    stack.router.hangup("2 admin key(s) loaded")
    assert [stack.admin("/admin/health", key=key).status_code for key in (ADMIN_KEY, later)] == [200, 200]
    admins.write_text(later + "\n")
    stack.router.hangup("1 admin key(s) loaded")
    assert [stack.admin("/admin/health", key=key).status_code for key in (ADMIN_KEY, later)] == [401, 200]
    kept = "the client keys stay as they were"
    bad = [(auth, "api: {mode: none}\n"), (auth, ""), (auth, "api: ["), (admins, "short\n"), (admins, ""), (admins, later + "\nro:" + later + "\n"),
           (admins, ONE + "\n")]
    for path, text in bad:
        before = path.read_text()
        path.write_text(text)
        stack.router.hangup(kept)
        assert stack.admin("/admin/api-keys/version", key=later).json() == {"version": "1", "count": 1}, text
        assert status(stack, ONE) == 200
        path.write_text(before)
    assert stack.metric("hivenet_router_auth_reload_total", result="success") == 2
    assert stack.metric("hivenet_router_auth_reload_total", result="error") == len(bad)
    assert later not in stack.router.log() and ONE not in stack.router.log()


def test_static_keys_are_neither_opened_nor_made_dynamic_by_a_reload_but_for_a_written_none(stack):
    auth = stack.folder / "auth.yaml"
    listed = f"api:\n  mode: api-key\n  keys:\n    - {{key_hash: {sha(ONE)}, metadata: {{name: n, owner: o}}}}\n"
    auth.write_text(listed)
    stack.start_router("--auth-config-file", auth)
    for text in ("", "api: {}\n", "api: {mode: dynamic}\n"):
        auth.write_text(text)
        stack.router.hangup("the client keys stay as they were")
        assert (status(stack, ONE), status(stack, TWO)) == (200, 401), text
    auth.write_text("api: {mode: none}\n")
    stack.router.hangup("open to everybody from now on")
    wait_for("open", lambda: status(stack, TWO) == 200)
    auth.write_text(listed)
    stack.router.hangup("1 client key(s) loaded")
    wait_for("closed again", lambda: status(stack, TWO) == 401)


def test_a_read_only_admin_key_sees_everything_and_changes_nothing(stack):
    reader = "reader-key-of-the-end-to-end-tests-0003"
    serve(stack, env={"HIVENET_ROUTER_ADMIN_API_KEYS": f"{ADMIN_KEY}, ro:{reader}"})
    for path in ("/admin/health", "/admin/routing-table", "/admin/policy/models", "/admin/api-keys", "/admin/storage", "/admin/plugins"):
        assert stack.admin(path, key=reader).status_code == 200, path
    explain = {"model": "sim-model", "messages": [{"role": "user", "content": "x"}]}
    assert stack.admin("/admin/explain", "POST", key=reader, json=explain).status_code == stack.admin("/admin/explain", "POST", json=explain).status_code
    peer = next(iter(stack.table()))
    for method, path in (("PUT", "/admin/api-keys/k"), ("DELETE", "/admin/api-keys/k"), ("POST", "/admin/api-keys/replace"), ("PUT", "/admin/policy"),
                         ("DELETE", "/admin/policy"), ("PUT", "/admin/policy/models/m"), ("POST", f"/admin/agents/{peer}/drain"),
                         ("DELETE", f"/admin/agents/{peer}/drain"), ("POST", "/admin/metrics/reset")):
        answer = stack.admin(path, method, key=reader)
        assert (answer.status_code, answer.json()) == (403, {"error": "this admin key may only read"}), (method, path)
    assert stack.admin("/admin/health", key=f"ro:{reader}").status_code == 401
    assert put(stack, "k", "1", reader).status_code == 400
    assert reader not in stack.router.log()
