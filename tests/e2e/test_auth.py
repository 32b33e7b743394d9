"""Client keys of auth.yaml against the real processes: who gets in, what they see, and what a reload may change.

The naive variants these fail on: a reload that is applied half or opens the API with an empty file, a body that is read
before the key is looked at, a filter on the list alone, the first of two credentials winning, secrets in a log.
"""
import hashlib
import json
import shlex
import socket
import subprocess

import httpx
import pytest
from conftest import ADMIN_KEY, BIN, Process, wait_for

ACME = "sk-hivenet-acme-key-of-the-end-to-end-tests"
BETA = "sk-hivenet-beta-key-of-the-end-to-end-tests"
GONE = "sk-hivenet-gone-key-of-the-end-to-end-tests"
CHALLENGE = 'Bearer realm="hivenet-router"'


def sha(key):
    return hashlib.sha256(key.encode()).hexdigest()


def entry(key, owner, more=""):
    return (f"    - key_hash: {sha(key)}\n      key_preview: sk-...{key[-4:]}\n"
            f"      metadata: {{name: {owner} key, owner: {owner}}}\n{more}")


def auth_yaml(*entries):
    return "api:\n  mode: api-key\n  keys:\n" + "".join(entries)


DEFAULT = auth_yaml(entry(ACME, "acme"), entry(BETA, "beta", "      models: [other-model]\n"),
                    entry(GONE, "gone").replace("owner: gone}", "owner: gone, expires_at: 01-01-2000}"))


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def start(stack, text=DEFAULT, *args, **kw):
    (stack.folder / "auth.yaml").write_text(text)
    return stack.start_router("--auth-config-file", stack.folder / "auth.yaml", *args, **kw)


def refused_to_start(stack, *args, env=None):
    done = subprocess.run([BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0", "--disk-db-path",
                           stack.folder / "db", *map(str, args)], capture_output=True, text=True, timeout=20, cwd=stack.folder,
                          env={"HIVENET_ROUTER_AUDIT_LOG_PATH": "off", **(env or {})})
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.fixture
def guarded(stack):
    stack.engine = stack.start_engine("--model", "sim-model")
    start(stack)
    stack.start_agent(stack.engine)
    return stack


def test_who_guesses_is_made_to_wait_and_learns_nothing_meanwhile(stack):
    """Naive variants: failures are counted and a right guess still opens; the count is of the proxy's address, or of the one that the
    guesser writes; requests without a key, a scanner's or a browser's, lock their address out; /admin has a count of its own.
    """
    start(stack, DEFAULT, "--trusted-proxies", "127.0.0.0/8", "--auth-failures-per-minute", "5")
    ask = lambda key, address, path="/v1/models": httpx.get(stack.url + path, headers={**(bearer(key) if key else {}), "X-Forwarded-For": address})
    for _ in range(20):
        assert ask(None, "192.0.2.1").status_code == 401
    for n in range(5):
        assert ask(f"sk-guess-{n}", "192.0.2.1", "/admin/health" if n == 4 else "/v1/models").status_code == 401
    for path, key in (("/v1/models", ACME), ("/v1/models", "sk-guess"), ("/v1/chat/completions", ACME), ("/admin/health", ADMIN_KEY)):
        answer = ask(key, "192.0.2.1", path) if "chat" not in path else httpx.post(
            stack.url + path, headers={**bearer(key), "X-Forwarded-For": "192.0.2.1"}, json={"model": "sim-model"})
        error = answer.json()["error"]
        assert answer.status_code == 429 and (error.startswith("too many failed") if "admin" in path else error["code"] == "rate_limit_exceeded"), answer.text
        assert 1 <= int(answer.headers["retry-after"]) <= 12, "one more try every 60 / 5 s"
    assert ask(ACME, "192.0.2.2").status_code == 200, "another address"
    assert ask(ACME, "192.0.2.1, 192.0.2.2").status_code == 200, "what the guesser wrote itself does not count"
    assert httpx.get(stack.url + "/health", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 200
    assert stack.metric("hivenet_router_auth_throttled_total", surface="client") == 3
    assert stack.metric("hivenet_router_auth_throttled_total", surface="admin") == 1
    line = wait_for("an audit line", lambda: [l for l in stack.audit() if l["status_code"] == 429])[0]
    assert (line["source_ip"], line["tenant_id"], line["error_code"], line["ended"]) == ("192.0.2.1", "", "rate_limit_exceeded", "rejected_auth")


def test_every_spelling_of_a_good_key_opens_and_everything_else_gets_one_401(guarded):
    url = guarded.url + "/v1/models"
    for headers in (bearer(ACME), {"Authorization": f"bearer  \t {ACME}"}, {"Authorization": ACME}, {"x-api-key": ACME},
                    {**bearer(ACME), "x-api-key": ACME}):
        assert httpx.get(url, headers=headers).status_code == 200, headers
    bodies = set()
    for headers in ({}, bearer("sk-wrong"), bearer(GONE), bearer(ADMIN_KEY), {"Authorization": "Basic YTpi"}, {"x-api-key": ACME + "x"},
                    {"Authorization": ""}, bearer(guarded.secret), bearer("k" * 5000), bearer(sha(ACME))):
        answer = httpx.get(url, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, CHALLENGE), headers
        error = answer.json()["error"]
        assert error.pop("request_id") == answer.headers["x-request-id"]
        bodies.add(json.dumps(error))
    assert bodies == {json.dumps({"code": "unauthorized", "message": "unauthorized", "source": "router", "type": "authentication_error"})}
    two = httpx.get(url, headers={**bearer(ACME), "x-api-key": BETA})
    assert two.status_code == 401 and "two different" in two.json()["error"]["message"]
    assert guarded.chat(headers=bearer(ACME)).status_code == 200
    assert guarded.chat().status_code == 401
    count = lambda why: guarded.metric("hivenet_router_auth_failures_total", surface="client", reason=why)
    told = {"no_key": 5, "unknown_key": 5, "expired_key": 1, "disabled_key": 0, "two_credentials": 1}
    assert {why: count(why) for why in told} == told
    lines = wait_for("their audit lines", lambda: (found := [l for l in guarded.audit() if l["status_code"] == 401]) and len(found) == 12 and found)
    assert {why: [l["denied"] for l in lines].count(why) for why in told} == told
    assert {l["denied"] for l in guarded.audit() if l["status_code"] == 200} == {""}
    assert len(guarded.engine.requests()) == 1


def test_health_needs_no_key_and_admin_another_one(guarded):
    assert httpx.get(guarded.url + "/health").status_code == 200
    assert guarded.admin("/admin/health", key=ACME).status_code == 401
    assert guarded.admin("/admin/health").status_code == 200
    assert guarded.metric("hivenet_router_auth_failures_total", surface="admin", reason="unknown_key") == 1
    both = httpx.get(guarded.url + "/admin/health", headers={**bearer(ADMIN_KEY), "x-api-key": ACME})
    assert both.status_code == 401, "which of two credentials counts would be a guess"
    assert guarded.metric("hivenet_router_auth_failures_total", surface="admin", reason="two_credentials") == 1
    assert httpx.get(guarded.url + "/v1/nothing").status_code == 404  # paths are no secret


def test_a_key_sees_and_uses_its_models_and_no_other(guarded):
    see = lambda key, path="": httpx.get(guarded.url + "/v1/models" + path, headers=bearer(key))
    assert [m["id"] for m in see(ACME).json()["data"]] == ["sim-model"]
    assert see(BETA).json() == {"object": "list", "data": []}
    assert see(ACME, "/sim-model").json()["agents"]["list"]
    hidden, unknown = see(BETA, "/sim-model"), see(BETA, "/no-model")
    for answer in (hidden, unknown):
        assert answer.status_code == 404
    strip = lambda a: {k: v for k, v in a.json()["error"].items() if k != "request_id"}
    assert strip(hidden) == strip(unknown)
    assert "sim-model" not in see(BETA, "/sim-modle").text
    assert "close matches: sim-model" in see(ACME, "/sim-modle").text
    answer = guarded.chat(headers=bearer(BETA))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "model_forbidden")
    assert answer.json()["error"]["type"] == "permission_error"
    assert guarded.engine.requests() == []


def test_models_of_a_quota_are_a_list_too_and_the_rest_is_over_its_limit(stack):
    stack.engine = stack.start_engine("--model", "sim-model")
    quota = "      models: [sim-model]\n      quota: {per_model: {only-this: {requests_per_minute_per_replica: 0, tokens_per_day: 0}}}\n"
    start(stack, auth_yaml(entry(ACME, "acme", quota)))
    stack.start_agent(stack.engine)
    answer = stack.chat(headers=bearer(ACME))
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "sim-model" in answer.json()["error"]["message"]
    assert httpx.get(stack.url + "/v1/models", headers=bearer(ACME)).json()["data"] == []


def test_a_bad_key_is_answered_before_a_byte_of_the_body(guarded):
    host, port = guarded.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer nope\r\nContent-Length: 9000000\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        answer = s.recv(65536)
    assert answer.startswith(b"HTTP/1.1 401 ") and b"100 Continue" not in answer, answer
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer " + ACME.encode() +
                  b"\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 100 Continue")


def test_a_reload_changes_keys_without_cutting_a_stream_and_a_bad_file_changes_nothing(guarded):
    router = guarded.router
    path = guarded.folder / "auth.yaml"
    see = lambda key: httpx.get(guarded.url + "/v1/models", headers=bearer(key)).status_code

    def reload(text, said):
        path.write_text(text)
        router.hangup(said)

    guarded.engine.faults(step_ms=20)
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 60}
    with httpx.stream("POST", guarded.url + "/v1/chat/completions", json=body, headers=bearer(ACME), timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        reload(auth_yaml(entry(BETA, "beta")), "1 client key(s) loaded")
        wait_for("the old key is refused", lambda: see(ACME) == 401)
        assert see(BETA) == 200
        assert [l for l in lines if l][-1] == "data: [DONE]"
    kept = "the client keys stay as they were"
    for bad in ("", "api: {}\n", "api: [\n", auth_yaml("    - {key_hash: zz}\n"), DEFAULT.replace("api-key", "dynamic")):
        reload(bad, kept)
        assert (see(ACME), see(BETA)) == (401, 200), bad
    path.unlink()
    router.hangup(kept)
    assert see(BETA) == 200
    reload(DEFAULT, "3 client key(s) loaded")
    wait_for("the key is back", lambda: see(ACME) == 200)


def test_the_router_does_not_start_half_open(stack):
    folder = stack.folder
    write = lambda text: (folder / "auth.yaml").write_text(text) and folder / "auth.yaml"
    cases = [
        (["--auth-config-file", folder / "missing.yaml"], {}, "missing.yaml: cannot be opened"),
        ([], {"HIVENET_ROUTER_AUTH_MODE": "api-key"}, "api-key needs keys"),
        (["--auth-config-file", write("api: {mode: api-key}\n")], {}, "needs at least one entry"),
    ]
    for args, env, words in cases:
        assert words in refused_to_start(stack, *args, env=env)
    write(auth_yaml(entry(ACME, "acme")) + "admin: {mode: api-key}\n")
    assert "there is no admin key" in refused_to_start(stack, "--auth-config-file", folder / "auth.yaml")
    write(auth_yaml(entry(ADMIN_KEY, "acme")))
    said = refused_to_start(stack, "--auth-config-file", folder / "auth.yaml", env={"HIVENET_ROUTER_ADMIN_API_KEYS": ADMIN_KEY})
    assert "also an admin key" in said and ADMIN_KEY not in said
    write(auth_yaml(entry(ACME, "acme", "      quota: {requests_per_hour: 5}\n")))
    assert "auth.yaml:7: api.keys[0].quota.requests_per_hour: unknown key" in refused_to_start(stack, "--auth-config-file", folder / "auth.yaml", "--strict-auth")


def test_keys_of_a_file_must_fit_the_policy_beside_it(stack):
    """Naive variant: only what is written through /admin is judged, and a file's key can never send the prompts that its model allows."""
    key = lambda minute: auth_yaml(entry(ACME, "acme", f"      quota: {{input_tokens_per_minute: {minute}}}\n"))
    auth, policy, config = (stack.folder / name for name in ("auth.yaml", "policy.yaml", "router.yaml"))
    policy.write_text("mode: serverless\nmax_input_tokens: 262144\nrouting_policy: {strategy: least-loaded}\n")
    config.write_text(f"auth_config_file: {auth}\npolicy_file: {policy}\n")
    auth.write_text(key(100))
    check = subprocess.run([BIN / "hivenet-router", "check", config], capture_output=True, text=True, timeout=20, cwd=stack.folder)
    assert check.returncode == 1
    for said in (check.stderr, refused_to_start(stack, "--auth-config-file", auth, "--policy-file", policy)):
        for words in ("input_tokens_per_minute", f"sk-...{ACME[-4:]} is 100", "max_input_tokens 262144", "the global policy"):
            assert words in said, said
    start(stack, key(262144), "--policy-file", policy)
    see = lambda: httpx.get(stack.url + "/v1/models", headers=bearer(ACME)).status_code
    assert see() == 200
    auth.write_text(key(100).replace(sha(ACME), sha(BETA)))
    stack.router.hangup("the client keys stay as they were")
    assert see() == 200 and httpx.get(stack.url + "/v1/models", headers=bearer(BETA)).status_code == 401


def test_check_judges_the_file_and_no_secret_is_ever_shown(stack):
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(ACME, "acme", "      quota: {requests_per_hour: 5}\n")))
    (stack.folder / "router.yaml").write_text("auth_config_file: auth.yaml\n")
    run = lambda *args: subprocess.run([BIN / "hivenet-router", *args], capture_output=True, text=True, timeout=20, cwd=stack.folder)
    good = run("check", "router.yaml")
    assert (good.returncode, good.stdout) == (0, "ok\n"), good.stderr
    assert "warning: auth.yaml:7: api.keys[0].quota.requests_per_hour: unknown key" in good.stderr
    (stack.folder / "auth.yaml").write_text(auth_yaml(f"    - {{key_hash: {ACME}, metadata: {{name: n, owner: o}}}}\n"))
    bad = run("check", "router.yaml")
    assert bad.returncode == 1 and "auth.yaml:4: api.keys[0].key_hash: not a SHA-256" in bad.stderr
    printed = run("--config", "router.yaml", "--print-config")
    for said in (bad.stdout + bad.stderr, printed.stdout + printed.stderr):
        assert ACME not in said


def test_keygen_makes_a_key_that_its_own_entry_opens_for(stack):
    run = lambda *args: subprocess.run([BIN / "hivenet-router", "keygen", *args], capture_output=True, text=True, timeout=20, cwd=stack.folder)
    made = run("--tenant", 'a "quoted": tenant')
    assert (made.returncode, made.stderr) == (0, "")
    key = made.stdout.splitlines()[1].strip()
    assert key.startswith("sk-hivenet-") and sha(key) in made.stdout
    text = "".join(line + "\n" for line in made.stdout.splitlines() if line.startswith("    "))
    start(stack, auth_yaml(text), "--strict-auth")
    assert httpx.get(stack.url + "/v1/models", headers=bearer(key)).status_code == 200
    assert key not in stack.router.log()
    # The loader takes whatever comes out: a name at the limit, and limits that are there from the first day.
    longest = run("--tenant", "x" * 200)
    assert longest.returncode == 0 and "requests_per_minute: 100" in longest.stdout and "tokens_per_day: 500000" in longest.stdout
    text = "".join(line + "\n" for line in longest.stdout.splitlines() if line.startswith("    "))
    (stack.folder / "longest.yaml").write_text(auth_yaml(text))
    (stack.folder / "checked.yaml").write_text(f"auth_config_file: {stack.folder / 'longest.yaml'}\nstrict_auth: true\n")
    checked = subprocess.run([BIN / "hivenet-router", "check", stack.folder / "checked.yaml"], capture_output=True, text=True, timeout=20,
                             cwd=stack.folder)
    assert checked.returncode == 0, checked.stderr
    for refused in "x" * 201, " ", "", "a\nb", "a\x7fb":
        assert run("--tenant", refused).returncode == 1, refused
    assert run("--tenat", "x").returncode == 2
    assert run().stdout.count("my-tenant") == 2


def test_without_keys_every_address_is_served_where_that_is_asked_for_with_a_warning(stack):
    stack.start_router(http=":0")
    assert stack.router.said["http"].startswith(("0.0.0.0:", "[::]:"))
    wait_for("warned", lambda: "open to everybody" in stack.router.log())


CAN_UNSHARE = subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


@pytest.mark.skipif(not CAN_UNSHARE, reason="no network namespace of our own")
@pytest.mark.parametrize("keys,bound", [(False, ["127.0.0.1:8080"]), (True, ["0.0.0.0:8080", "[::]:8080"])])
def test_without_a_named_address_it_is_this_host_only_and_with_keys_every_one(stack, keys, bound):
    """In a network namespace, where the default port is free whatever runs here."""
    (stack.folder / "auth.yaml").write_text(DEFAULT)
    args = [BIN / "hivenet-router", "--metrics-port", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--disk-db-path", stack.folder / "db",
            *(["--auth-config-file", stack.folder / "auth.yaml"] if keys else [])]
    inside = "ip link set lo up && exec " + shlex.join(map(str, args))
    router = stack.keep(Process("router", ["unshare", "-rn", "sh", "-c", inside], stack.folder,
                                {"HIVENET_ROUTER_AUDIT_LOG_PATH": "off", "HIVENET_ROUTER_JWT_SECRET": stack.secret}))
    assert router.ready()["http"] in bound
    assert "open to everybody who reaches it" not in router.log()


def test_tenants_reach_metrics_and_the_log_without_secrets(guarded):
    assert guarded.chat(headers=bearer(ACME)).status_code == 200
    assert guarded.chat(headers=bearer(ACME), model="no-such-model").status_code == 404
    series = {"tenant_id": "acme", "key_id": sha(ACME)[:12]}
    assert guarded.metric("hivenet_router_routing_requests_routed_total", tenant_id="acme", model="sim-model") == 1
    assert guarded.metric("hivenet_router_tenant_requests_success_total", deployment_id="unset", model="sim-model", **series) == 1
    assert guarded.metric("hivenet_router_tenant_input_tokens_total", **series) > 0
    assert guarded.metric("hivenet_router_tenant_output_tokens_total", **series) > 0
    assert guarded.metric("hivenet_router_tenant_requests_failed_total", model="__unknown__", **series) == 1
    wait_for("exhausted line", lambda: "tenant=acme" in guarded.router.log())
    page = httpx.get(guarded.metrics_url).text
    for secret in (ACME, BETA, ADMIN_KEY, guarded.secret):
        assert secret not in guarded.router.log() and secret not in page


def test_tenants_share_a_full_agent_fairly(stack):
    """One tenant fills the queue first; the other's few requests do not wait behind all of them."""
    stack.engine = stack.start_engine("--model", "sim-model")
    start(stack, auth_yaml(entry(ACME, "acme"), entry(BETA, "beta")), "--queue-depth", "40")
    stack.start_agent(stack.engine, "--capacity", "1")
    stack.engine.faults(first_token_ms=4000)  # the first one holds the agent until all of its tenant wait
    order = []

    import concurrent.futures
    def one(key):
        assert stack.chat(headers=bearer(key), timeout=30).status_code == 200
        order.append(key)

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        first = [pool.submit(one, ACME) for _ in range(20)]
        wait_for("a full queue", lambda: stack.admin("/admin/health").json()["waiting_capacity"] >= 18)
        stack.engine.faults(first_token_ms=100)
        second = [pool.submit(one, BETA) for _ in range(4)]
        for done in first + second:
            done.result()
    last = max(i for i, key in enumerate(order) if key == BETA)
    assert last < 16, order
