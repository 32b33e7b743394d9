"""What is secret stands in no output: router, agent, engine and provider run with secrets that cannot be mistaken, through requests
that succeed and that fail in many ways, at log level debug; then everything that came out of them is searched.

Searched are the logs, standard outputs, audit lines, metrics, every page of the admin API, every answer to a client, what the engine
was sent, and all files that were written. Searched for are the secrets, their base64 at any offset, and the SHA-256 of what is a key.
Whoever finds a text here that was none of a secret's business made the test fail; that a search finds what is there is tested first.
"""
import base64
import contextlib
import hashlib
import itertools
import os
import socket
import subprocess
import urllib.parse
import uuid

import httpx
import pytest
from cloud import ANTHROPIC_KEY, OPENAI_KEY, Cloud
from conftest import ADMIN_KEY, BIN, Process, Stack, wait_for

CLIENT = "sk-hivenet-Zq7client0key0of0the0secrets0test"
OTHER = "sk-hivenet-Zq7wrong0key0that0opens0nothing"
WRONG_ADMIN = "Zq7-admin-key-that-opens-nothing-at-all"
PROMPT = "Zq7 the prompt of a client is nobody's business"
ANSWERED = "Zq7words of an engine that repeats what it was asked"
COOKIE, QUERY, BASIC, PROXY = "Zq7cookie-of-a-browser", "Zq7key-in-a-query-string", "Zq7user:Zq7password", "Zq7-proxy-credential-of-a-client"
WRONG_SECRET = "Zq7wrong-secret-of-an-agent-00000000000"


def shapes(secret, hashed=True):
    """The texts by which a secret would be known."""
    raw = secret.encode()
    yield raw
    yield urllib.parse.quote(secret, safe="").encode()
    for shift in range(3):  # base64 of something that holds it: the digits that depend on nothing else
        whole = base64.b64encode(b"\0" * shift + raw + b"\0" * ((-shift - len(raw)) % 3)).decode()
        yield whole[-(-shift * 8 // 6):(shift + len(raw)) * 8 // 6].encode()
    if hashed:
        digest = hashlib.sha256(raw)
        yield digest.hexdigest().encode()
        yield digest.digest()
        yield base64.b64encode(digest.digest())


def found(secrets, outputs):
    """(secret, shape, output) of each that is there."""
    for secret in secrets:
        for shape in shapes(secret):
            for name, content in outputs.items():
                if shape in content:
                    at = content.index(shape)
                    yield f"{name} holds {secret!r} as {shape!r}: ...{content[max(0, at - 80):at + len(shape) + 40]!r}..."


@pytest.mark.parametrize("text", [CLIENT, PROMPT, BASIC])
def test_the_search_finds_what_is_there(text):
    for before in ("", "a", "ab", "abc"):
        for hidden in (text, urllib.parse.quote(text, safe=""), base64.b64encode((before + text + "!").encode()).decode(),
                       hashlib.sha256(text.encode()).hexdigest()):
            assert list(found([text], {"log": f"at {before}{hidden} end".encode()})), (before, hidden)
    assert not list(found([text], {"log": b"nothing of it"}))


class Outputs:
    def __init__(self, stack):
        self.stack, self.all, self.answers = stack, {}, 0

    def keep(self, name, content):
        self.all[name] = content if isinstance(content, bytes) else content.encode()

    def answer(self, a):
        self.answers += 1
        self.keep(f"answer {self.answers} ({a.status_code} of {a.request.method} {a.request.url.path})", str(a.headers).encode() + a.content)
        return a

    def files(self, inputs):
        for path in sorted(self.stack.folder.rglob("*")):
            if path.is_file() and path not in inputs:
                self.keep(str(path.relative_to(self.stack.folder)), path.read_bytes())


def ways_to_ask(url, model="sim-model"):
    """Requests of clients, sound and not, each with everything secret about it."""
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 3}
    good = {"Authorization": f"Bearer {CLIENT}", "Cookie": f"session={COOKIE}", "Proxy-Authorization": f"Bearer {PROXY}"}
    basic = base64.b64encode(BASIC.encode()).decode()
    heads = [good, {"x-api-key": CLIENT}, {"Authorization": CLIENT}, {"Authorization": f"bEaReR \t {CLIENT}"}, {"Authorization": f"Bearer {OTHER}"},
             {"x-api-key": OTHER}, {"Authorization": f"Basic {basic}"}, {"Authorization": f"Bearer {CLIENT}", "x-api-key": OTHER},
             {"Authorization": f"Bearer {ADMIN_KEY}"}, {"Authorization": f"Bearer {OTHER} {CLIENT}"}, {"Cookie": f"key={CLIENT}"}]
    paths = ["/v1/chat/completions", f"/v1/chat/completions?api_key={QUERY}&key={CLIENT}", "/v1/messages", "/v1/completions", f"/v1/{QUERY}",
             f"/{OTHER}/v1/chat/completions", "/v1/embeddings"]
    for head, path in itertools.product(heads, paths[:2]):
        yield httpx.Request("POST", url + path, headers=head, json=body)
    for path in paths[2:]:
        yield httpx.Request("POST", url + path, headers=good, json={**body, "prompt": PROMPT, "input": PROMPT})
    for changed in ({"stream": True}, {"model": f"no-{uuid.uuid4()}"}, {"max_tokens": "x"}, {"messages": PROMPT}, {"model": None}):
        yield httpx.Request("POST", url + paths[0], headers=good, json={**body, **changed})
    for broken in (f'{{"model":"{model}","messages":"{PROMPT}', PROMPT, f'{{"model":"a","model":"{PROMPT}"}}', f'{{"{PROMPT}":1}}'):
        yield httpx.Request("POST", url + paths[0], headers=good, content=broken.encode())
    for path in ("/v1/models", f"/v1/models/{QUERY}", f"/v1/models?token={QUERY}", "/health", f"/admin/policy?key={QUERY}"):
        for head in heads[:5]:
            yield httpx.Request("GET", url + path, headers=head)


def ways_to_administer(url, request_id, peer):
    def one(method, path, key=ADMIN_KEY, **more):
        return httpx.Request(method, url + path, headers={"Authorization": f"Bearer {key}"}, **more)

    for path in ("health", "routing-table", "agents", f"agents/{peer}", "models", "models/sim-model", "storage", "plugins", "policy", "policy/models",
                 "api-keys", "api-keys/version"):
        yield one("GET", f"/admin/{path}")
        yield one("GET", f"/admin/{path}", WRONG_ADMIN)
        yield one("GET", f"/admin/{path}", CLIENT)
    yield one("POST", "/admin/explain", json={"request_id": request_id})
    yield one("POST", "/admin/explain", json={"model": "sim-model", "messages": [{"role": "user", "content": PROMPT}]})
    yield one("PUT", "/admin/policy/models/x", content="models: [y]\nrouting_policy: {strategy: least-loaded}\n")
    yield one("PUT", "/admin/policy/models/x", content="routing_policy: {strategy: none-of-that-name}\n")
    yield one("DELETE", "/admin/policy/models/x")
    yield one("DELETE", f"/admin/policy/models/{CLIENT}")
    yield one("POST", f"/admin/agents/{peer}/drain", WRONG_ADMIN)
    yield one("POST", "/admin/metrics/reset")


def strangers(url):
    """Heads that are none, with secrets in them."""
    host, port = url[7:].split(":")
    for head in (f"GET /v1/models HTTP/9.9\r\nAuthorization: Bearer {CLIENT}\r\n\r\n", f"{OTHER}\r\n\r\n",
                 f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer {CLIENT}\r\n\r\n",
                 f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {CLIENT}\r\nX-Long: " + "x" * 40_000 + "\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as s:
            s.sendall(head.encode())
            out = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    out += piece
        yield out


@pytest.fixture
def cloud(tmp_path_factory):
    made = Cloud(tmp_path_factory.mktemp("cloud"))
    yield made
    made.close()


def test_no_secret_stands_in_any_output(stack, cloud):
    folder = stack.folder
    digest = hashlib.sha256(CLIENT.encode()).hexdigest()
    auth, policy = folder / "auth.yaml", folder / "policy.yaml"
    auth.write_text(f"api:\n  mode: api-key\n  keys:\n    - {{key_hash: {digest}, metadata: {{name: n, owner: acme}}}}\n")
    policy.write_text("routing_policy: {strategy: least-loaded, max_tries: 1}\nfallback_provider: {engine: openai, model: gpt-of-the-policy}\n")
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--auth-config-file", auth, "--policy-file", policy, "--openai-base-url", cloud.url + "/v1", "--anthropic-base-url", cloud.url,
                       "--provider-ca-file", cloud.certificate, "--expose-routing", "--auth-failures-per-minute", "0",
                       env={"HIVENET_ROUTER_LOG_LEVEL": "debug", "HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY,
                            "HIVENET_ROUTER_ANTHROPIC_API_KEY": ANTHROPIC_KEY})
    agent = stack.start_agent(stack.engine, env={"HIVENET_ROUTER_LOG_LEVEL": "debug"})
    stack.start_agent(stack.engine, identity="stranger.key", secret=WRONG_SECRET, wait=False)
    out = Outputs(stack)
    request_id = str(uuid.uuid4())
    with httpx.Client(timeout=30) as client:
        send = lambda request: out.answer(client.send(request))
        for request in ways_to_ask(stack.url):
            send(request)
        body = {"model": "sim-model", "messages": [{"role": "user", "content": PROMPT}], "stream": True}
        good = {"Authorization": f"Bearer {CLIENT}", "X-Request-ID": request_id}
        ask = lambda **more: client.post(stack.url + "/v1/chat/completions", headers=good, json={**body, **more})
        # What an engine says of its request goes to the client and to nobody else.
        for fault in ({"status": 400}, {"status": 500}, {"status": 503}, {"cut_after": 2}, {"error_after": 0}, {"error_after": 3}, {"health": "down"}):
            stack.engine.faults(body=f'{{"error":{{"message":"{ANSWERED}: {PROMPT}"}}}}', **fault)
            with contextlib.suppress(httpx.TransportError):
                ask()
        stack.engine.faults()
        # Nobody serves this model but the provider, which answers in every way and repeats the router's key.
        for fault in (None, 401, 400, 500, "empty", "early error", "cut"):
            cloud.fault = fault
            for stream in (False, True):
                with contextlib.suppress(httpx.TransportError):
                    out.answer(ask(model="of-the-provider", stream=stream))
        last = ask(stream=False)
        assert last.status_code == 200
        for request in ways_to_administer(stack.url, request_id, agent.peer_id):
            send(request)
        for number, answer in enumerate(strangers(stack.url)):
            out.keep(f"answer to stranger {number}", answer)
        out.keep("metrics", client.get(stack.metrics_url).content)
        wait_for("the stranger is turned away", lambda: "secret" in stack.processes[-1].log().lower())
        sent = stack.engine.requests()
        assert any(PROMPT in r.get("body", "") for r in sent), "the engine is asked what the client asked"
        out.keep("fields of requests to the engine", repr([r["headers"] for r in sent]))
    auth.write_text(f"api:\n  mode: api-key\n  keys: [{{key_hash: {OTHER}, metadata: {{name: n, owner: acme}}}}]\n")
    stack.router.child.send_signal(1)
    wait_for("the file is refused", lambda: "stay as they were" in stack.router.log())
    for process in reversed(stack.processes[1:]):
        process.stop()
    out.files({auth})

    names = list(out.all)
    for must in ("router-", "agent-", "audit.jsonl", "metrics", "data.mdb"):
        assert any(must in name for name in names), f"{must} was searched: {names}"
    assert request_id.encode() in out.all["audit.jsonl"] and b"[key]" in next(v for k, v in out.all.items() if k.startswith("router-") and k.endswith(".log"))
    keys = [CLIENT, OTHER, ADMIN_KEY, WRONG_ADMIN, stack.secret, WRONG_SECRET, OPENAI_KEY, ANTHROPIC_KEY, COOKIE, BASIC, PROXY]
    assert not list(found(keys, out.all))
    # A client's own words come back to it alone (a path that is not there, a model's name); what it said to an engine to nobody.
    others = {k: v for k, v in out.all.items() if not k.startswith("answer")}
    assert not list(found([QUERY, PROMPT, ANSWERED], {k: v for k, v in others.items() if "to the engine" not in k}))
    assert not list(found([PROMPT], {k: v for k, v in out.all.items() if "/admin/" in k}))


def test_every_stack_searches_what_its_processes_wrote(tmp_path):
    """Naive variant: one scenario searches its own outputs, and whatever another test brings about is seen by nobody."""
    file = tmp_path / "of-the-link"
    file.write_text(f"# the newest first\n{WRONG_SECRET}\n")
    given = {"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY, "HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER}, ro:{WRONG_ADMIN}"}

    def ended(said="", **outputs):
        folder = tmp_path / str(uuid.uuid4())
        folder.mkdir()
        s = Stack(folder)
        s.keep(Process("teller", ["sh", "-c", 'echo "$0"', said, "--jwt-secret-file", file], folder, given)).child.wait(10)
        (folder / "router.yaml").write_text(f"# must hold it: {OPENAI_KEY}")
        for name, text in outputs.items():
            (folder / f"{name}.jsonl").write_text(text)
        return s

    ended("no secret", audit="no secret either").stop()
    for secret in (OPENAI_KEY, OTHER, WRONG_ADMIN, WRONG_SECRET, ADMIN_KEY):
        with pytest.raises(AssertionError, match=f"teller-.*[.]out holds the secret {secret}"):
            ended(f"words around {secret}, and behind it").stop()
    with pytest.raises(AssertionError, match="rotated.jsonl holds the secret"):
        ended(rotated=f'{{"target":"{OTHER}"}}').stop()
    s = ended()
    s.page = f'a_metric{{label="{s.secret}"}} 1'
    with pytest.raises(AssertionError, match="the metrics page holds the secret"):
        s.stop()


WRONG_CONFIGS = {
    "a secret as a flag": ("hivenet-router", ["--jwt-secret", OTHER], {}, ""),
    "a secret as a flag with =": ("hivenet-router", [f"--admin-api-keys={OTHER}"], {}, ""),
    "an admin key with a space": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER} x"}, ""),
    "a short admin key": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": "Zq7short"}, ""),
    "the same admin key twice": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER},{OTHER}"}, ""),
    "a short secret": ("hivenet-router", [], {"HIVENET_ROUTER_JWT_SECRET": "Zq7short"}, ""),
    "an odd secret": ("hivenet-router", [], {"HIVENET_ROUTER_JWT_SECRET": OTHER + "\x01"}, ""),
    "an odd secret of an agent": ("hivenet-agent", [], {"HIVENET_ROUTER_AGENT_JWT_SECRET": OTHER + "\xfc"}, ""),
    "an odd provider key": ("hivenet-router", [], {"HIVENET_ROUTER_OPENAI_API_KEY": f"{OTHER} {OTHER}"}, ""),
    "a secret in the file": ("hivenet-router", ["--config", "FILE"], {}, f"jwt_secret: {OTHER}\n"),
    "admin keys that are no list": ("hivenet-router", ["--config", "FILE"], {}, f"admin_api_keys: {{a: {OTHER}}}\n"),
    "a provider key in the file": ("hivenet-router", ["--config", "FILE"], {}, f"openai_api_key: {OTHER}\n"),
    "YAML that breaks at a secret": ("hivenet-router", ["--config", "FILE"], {}, f"admin_api_keys: [\"{OTHER}\n"),
    "a key as its hash": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{{key_hash: {OTHER}, metadata: {{name: n, owner: o}}}}]}}\n"),
    "a key as a key": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{OTHER}]}}\n"),
    "a key as the name of a setting": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{{key: {OTHER}, metadata: {{name: n, owner: o}}}}]}}\n"),
    "a short secret of an agent": ("hivenet-agent", [], {"HIVENET_ROUTER_JWT_SECRET": "Zq7short"}, ""),
    "an agent's secret as a flag": ("hivenet-agent", ["--jwt-secret", OTHER], {}, ""),
    "an agent's secret in its file": ("hivenet-agent", ["--config", "FILE"], {}, f"jwt_secret: {OTHER}\n"),
    "a user name in a URL": ("hivenet-agent", ["--backend-url", f"http://u:{OTHER}@localhost:1"], {}, ""),
    "a user name in a provider's URL": ("hivenet-router", ["--openai-base-url", f"https://u:{OTHER}@localhost:1"], {}, ""),
}


@pytest.mark.parametrize("way", [[], ["--check-config"], ["--print-config"]], ids=["start", "check", "print"])
@pytest.mark.parametrize("what", WRONG_CONFIGS)
def test_a_mistake_in_the_configuration_is_told_without_the_secret(tmp_path, what, way):
    program, arguments, env, text = WRONG_CONFIGS[what]
    file = tmp_path / "file.yaml"
    file.write_text(text)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
    if program == "hivenet-router":
        clean |= {"HIVENET_ROUTER_HTTP_PORT": "127.0.0.1:0", "HIVENET_ROUTER_METRICS_PORT": "127.0.0.1:0"}
    ran = subprocess.run([BIN / program, *way, *(str(file) if a == "FILE" else a for a in arguments)], env={**clean, **env}, cwd=tmp_path,
                         capture_output=True, timeout=20)
    said = {"stdout": ran.stdout, "stderr": ran.stderr}
    assert not list(found([OTHER], said)) and b"Zq7short" not in ran.stdout + ran.stderr
    assert ran.returncode >= 0, "it does not crash"
    if way != ["--print-config"]:
        assert ran.returncode != 0 and ran.stderr, "and it is told"
        assert "twice" in what or all(name.encode() in ran.stderr for name in env), "with the variable's name"


def test_print_config_masks_every_secret_it_was_given(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
    env |= {"HIVENET_ROUTER_JWT_SECRET": WRONG_SECRET, "HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER},{WRONG_ADMIN}",
            "HIVENET_ROUTER_OPENAI_API_KEY": CLIENT, "HIVENET_ROUTER_ANTHROPIC_API_KEY": PROXY}
    ran = subprocess.run([BIN / "hivenet-router", "--print-config"], env=env, cwd=tmp_path, capture_output=True, timeout=20)
    assert ran.returncode == 0 and b"********" in ran.stdout
    assert not list(found([WRONG_SECRET, OTHER, WRONG_ADMIN, CLIENT, PROXY], {"stdout": ran.stdout, "stderr": ran.stderr}))
