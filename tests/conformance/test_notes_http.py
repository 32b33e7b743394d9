"""The HTTP edge (README.md, Line by line): what test_hostile.py and the room's own tests (kernel/http) do not show."""
import json
import os
import re
import resource
import shutil
import socket
import time

import httpx
import pytest

from conftest import ADMIN_KEY, BIN, BY_NATURE, SANITIZED, Process, at_rest, outcome, wait_for
from raw import Client, completion, whole

CHAT = b'{"model":"sim-model","messages":[]}'


def wire(method, path, fields=b"", body=b"", version=b"1.1"):
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return method + b" " + path + b" HTTP/" + version + b"\r\nHost: x\r\n" + length + fields + b"\r\n" + body


def test_every_refusal_of_a_request_is_our_json_envelope(simple):
    """404, 405, 413, 431 and the rest, from whichever layer they come.

    Naive variant: the HTTP layer refuses with a text of its own, and a client library fails to parse it.
    """
    refused = {
        404: wire(b"GET", b"/nothing/here"),
        405: wire(b"PUT", b"/v1/chat/completions", body=b"{}"),
        413: wire(b"POST", b"/v1/chat/completions", b"Content-Length: 99999999\r\n"),
        431: wire(b"GET", b"/health", b"A: " + b"a" * 40_000 + b"\r\n"),
        400: wire(b"GET", b"/health", b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"),
        505: b"GET /health HTTP/3.0\r\nHost: x\r\n\r\n",
    }
    for status, request in refused.items():
        with Client(simple, wire=request) as client:
            client.finish()
        assert client.status == status, client.raw[:300]
        assert client.fields["content-type"].startswith("application/json"), client.head
        error = json.loads(client.payload)["error"]
        assert error["message"] and error["code"] and error["source"] == "router" and error["type"], error
    assert simple.engine.state()["chats"] == 0


def test_head_works_on_every_get_route(simple):
    """The same head as GET, without the body. Naive variant: 405, or a body that the next request is read from."""
    for path in ("/health", "/v1/models", "/v1/models/sim-model", "/v1/models/nobody", "/nothing"):
        got, headed = httpx.get(simple.url + path), httpx.head(simple.url + path)
        assert headed.status_code == got.status_code and headed.content == b"", path
        assert headed.headers["content-length"] == got.headers["content-length"] or path == "/nothing", path
    with Client(simple, wire=wire(b"HEAD", b"/v1/models") + wire(b"GET", b"/health")) as client:
        assert client.until(lambda c: b'{"status":"ok"}' in c.raw)
        assert client.raw.count(b"HTTP/1.1 200 OK") == 2 and b"sim-model" not in client.raw


def test_query_strings_are_allowed_forwarded_and_no_label(simple):
    """Naive variants: an exact comparison of the target (404); the query is lost; each query makes a series."""
    marked = "api-version=2024-10-21&x=%20y"
    assert httpx.get(f"{simple.url}/health?{marked}").status_code == 200
    assert httpx.get(f"{simple.url}/v1/models?{marked}").status_code == 200
    assert httpx.get(f"{simple.url}/v1/models/sim-model?{marked}").status_code == 200
    assert httpx.post(f"{simple.url}/v1/chat/completions?{marked}", content=CHAT).status_code == 200
    assert simple.engine.requests()[-1]["path"] == f"/v1/chat/completions?{marked}"
    assert not any("api-version" in series for series in simple.metrics())


def test_http_1_0_clients_get_no_chunks_and_a_close(simple):
    """Streams included. Naive variant: chunk sizes in the middle of the text."""
    body = b'{"model":"sim-model","messages":[],"stream":true,"max_tokens":3}'
    with Client(simple, wire=wire(b"POST", b"/v1/chat/completions", body=body, version=b"1.0")) as client:
        client.to_end()
    head, _, payload = client.raw.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower()
    assert payload.startswith(b"data: {") and payload.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("setting", ["gone", "allow"])
def test_a_client_that_closes_its_sending_side(stack, engines, setting):
    """It has gone, as a full close looks the same; with `--client-half-close allow` it gets its answer.

    Naive variants: half-closed clients hold their engine; or there is no way to serve the tools that do this.
    """
    if setting == "allow" and os.environ.get("HIVE_TEST_TLS"):
        pytest.skip(BY_NATURE + "Python's TLS does not read any more once its sending side is shut; kernel/http/server_test.cpp shows it")

    def answer(chat):
        if not chat.wait_gone(1.5 if setting == "gone" else 0.3):
            chat.send(whole(completion()))
            return True

    engine = engines(answer)
    stack.start_router("--client-half-close", setting)
    stack.start_agent(engine)
    client = Client(stack)
    wait_for("the engine has it", lambda: engine.chats)
    client.socket.shutdown(socket.SHUT_WR)
    client.to_end()
    if setting == "allow":
        assert client.status == 200 and client.complete and engine.chats[0].gone is None
        wait_for("it is completed", lambda: outcome(stack, "completed") == 1)
    else:
        # Over TLS what comes now is read as it is on the wire: the server's session tickets and its goodbye.
        assert client.raw == b"" or os.environ.get("HIVE_TEST_TLS")
        wait_for("the engine's connection is closed", lambda: engine.chats[0].gone, limit=2)
        wait_for("it has gone", lambda: outcome(stack, "client_gone") == 1)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_expect_100_continue_end_to_end(simple):
    """Answered at once when the head is acceptable, not at all when it is not: then the refusal comes without the body.

    Naive variant: the 100 is sent by the HTTP layer before anybody has looked: a body of gigabytes is invited, then refused.
    """
    expect = b"Expect: 100-continue\r\nContent-Length: %d\r\n"
    with Client(simple, wire=wire(b"POST", b"/v1/chat/completions", expect % len(CHAT))) as client:
        client.socket.settimeout(2)
        assert client.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.socket.sendall(CHAT)
        assert client.finish().status == 200
    for path, length, status in ((b"/v1/chat/completions", 99_999_999, 413), (b"/v1/nothing", 10, 404)):
        with Client(simple, wire=wire(b"POST", path, expect % length)) as client:
            client.to_end()
        assert client.status == status and b"100 Continue" not in client.raw


def test_an_early_refusal_reaches_a_client_that_is_still_sending(simple):
    """The router reads on for a bounded while, so that the client sees 413 and no reset.

    Naive variant: close() with unread bytes: the kernel sends RST and takes the answer with it.
    """
    for _ in range(5):
        with Client(simple, wire=wire(b"POST", b"/v1/chat/completions", b"Content-Length: 20000000\r\n")) as client:
            try:
                for _ in range(8):
                    client.socket.sendall(b" " * (1 << 20))
            except (BrokenPipeError, ConnectionResetError):
                pass
            client.to_end()
        assert client.raw.startswith(b"HTTP/1.1 413 "), client.raw[:100]


@pytest.mark.skipif(SANITIZED, reason=BY_NATURE + "UBSan looks at an object through a pipe, and takes it for none without a descriptor")
def test_running_out_of_descriptors_stops_nothing_that_runs(simple):
    """With 64 descriptors and 200 clients the router serves those it has, does not spin, logs little, keeps its agent, and takes the
    others when there is room.

    Naive variants: accept fails in a loop that takes a whole core; libzmq aborts the process; the listener is gone for good.
    """
    with httpx.Client() as kept:
        assert kept.get(simple.url + "/health").status_code == 200
        used = simple.router.descriptors()
        resource.prlimit(simple.router.pid, resource.RLIMIT_NOFILE, (used + 20, 4096))
        clients = []
        for _ in range(200):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(simple.place)
            clients.append(s)
        time.sleep(0.3)
        log_before, cpu_before = len(simple.router.log()), cpu_seconds(simple.router.pid)
        begin = time.monotonic()
        while time.monotonic() - begin < 1.5:
            answer = kept.post(simple.url + "/v1/chat/completions", content=CHAT)
            assert answer.status_code == 200
            time.sleep(0.1)
        spent = cpu_seconds(simple.router.pid) - cpu_before
        print(f"{spent:.2f} s of CPU in 1.5 s while accepting is not possible")
        assert spent < 0.5 and len(simple.router.log()) - log_before < 2000
        assert simple.router.child.poll() is None
        for s in clients:
            s.close()
    wait_for("it accepts again", lambda: httpx.get(simple.url + "/health", timeout=2).status_code == 200, limit=5)
    assert simple.row(simple.agent.peer_id)["status"]["routable"]


def test_clients_cannot_take_the_descriptors_of_agents(stack):
    """A router that may have 512 descriptors, 300 connections to its metrics, 300 to the listener of /admin and 600 clients: it stops
    accepting before none is left, and an agent can still come.

    Naive variants: accept until it fails: then libzmq cannot accept either, its thread tries for ever on a whole core, and no agent
    can register; or what is kept from clients goes to a listener of the router's own.
    """
    if not shutil.which("prlimit"):
        pytest.skip("no prlimit program")
    engine = stack.start_engine()
    stack.router = stack.keep(Process("router", [
        "prlimit", "--nofile=512:512", BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0",
        "--admin-listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--disk-db-path", stack.folder / "db"], stack.folder,
        {"HIVENET_ROUTER_JWT_SECRET": stack.secret, "HIVENET_ROUTER_ADMIN_API_KEYS": ADMIN_KEY}))
    said = stack.router.ready()
    stack.url, stack.link = "http://" + said["http"], said["link"][0]
    clients = []

    def crowd(listener, size):
        host, port = said[listener].split(":")
        for _ in range(size):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((host, int(port)))
            clients.append(s)

    with httpx.Client() as kept:
        assert kept.get(stack.url + "/health").status_code == 200
        before = stack.router.descriptors()
        try:
            for number, listener in enumerate(("metrics", "admin"), 1):
                crowd(listener, 300)
                wait_for(f"the listener of {listener} has what it takes", lambda: stack.router.descriptors() >= before + number * 30)
            crowd("http", 600)
            agent = stack.start_agent(engine, wait=False)
            wait_for("it registers", lambda: "registered with router" in agent.log(), limit=10)
            cpu = cpu_seconds(stack.router.pid)
            time.sleep(1)
            assert cpu_seconds(stack.router.pid) - cpu < 0.3
            wait_for("and serves", lambda: kept.post(stack.url + "/v1/chat/completions", content=CHAT).status_code == 200, limit=5)
        finally:
            for s in clients:
                s.close()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_idle_connections_do_not_slow_the_others(simple):
    """3,000 of them, as many as a usual limit of descriptors allows. (10,000 are a part of tests/soak.)

    Naive variant: a list of connections that is walked for each event or each tick.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))

    def answers(count):
        times = []
        with httpx.Client() as client:
            for _ in range(count):
                begin = time.monotonic()
                assert client.get(simple.url + "/health").status_code == 200
                times.append(time.monotonic() - begin)
        return sorted(times)[count // 2]

    before = answers(200)
    idle = [socket.create_connection(simple.place) for _ in range(3000)]
    try:
        after = answers(200)
        print(f"median of GET /health: {before * 1e3:.2f} ms, with 3,000 idle connections {after * 1e3:.2f} ms")
        assert after < max(5 * before, 0.01)
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slashes_are_forgiven_under_v1_only(simple):
    """Naive variant: a route for each spelling, or none; under /admin a forgiving match is a hole."""
    for path in ("/v1//chat///completions", "/v1/chat/completions/"):
        assert httpx.post(simple.url + path, content=CHAT).status_code == 200, path
    for path in ("/admin//health", "/admin/health/"):
        assert simple.admin(path).status_code == 404, path
    for path, meant in (("/chat/completions", "/v1/chat/completions"), ("/v1/v1/models", "/v1/models")):
        answer = httpx.post(simple.url + path, content=CHAT)
        assert answer.status_code == 404 and meant in answer.json()["error"]["message"]
    assert not re.search(r"/v1//", "".join(simple.metrics()))


PAGE = "https://app.example"
ASKED = "authorization,content-type,x-stainless-os,x-stainless-retry-count,anthropic-version"


def cors_of(answer):
    return {k.lower(): v for k, v in answer.headers.items() if k.lower().startswith("access-control-")}


def test_without_a_list_of_origins_there_is_nothing_for_browsers(simple):
    """Naive variant: `*` for everybody, as the product before did."""
    for method in ("OPTIONS", "GET"):
        answer = httpx.request(method, simple.url + "/v1/models", headers={"Origin": PAGE, "Access-Control-Request-Method": "GET"})
        assert cors_of(answer) == {}, answer.headers
    assert httpx.options(simple.url + "/v1/models", headers={"Origin": PAGE, "Access-Control-Request-Method": "GET"}).status_code == 405


def test_listed_origins_may_use_the_client_api_from_a_browser(stack, engines):
    """Preflights are answered without a key and allow what SDKs send; every answer names the origin exactly once, errors and streams
    included, although the engine says so, too; other origins get nothing, and /admin is never opened.

    Naive variants: the engine's fields are passed on beside ours (browsers refuse two); errors lack the field, and a page cannot read
    why it was refused; the origin is echoed unchecked.
    """
    engine = engines(lambda chat: chat.send(whole(completion(), fields=b"Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: x\r\n")) or True)
    stack.start_router("--cors-origins", PAGE + ",http://localhost:3000")
    stack.start_agent(engine)
    url = stack.url + "/v1/chat/completions"
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ASKED}
    preflight = httpx.options(url, headers={"Origin": PAGE, **ask})
    assert preflight.status_code == 204 and preflight.content == b""
    said = cors_of(preflight)
    assert said["access-control-allow-origin"] == PAGE and said["access-control-allow-headers"] == ASKED
    assert "POST" in said["access-control-allow-methods"] and int(said["access-control-max-age"]) > 0
    for body, status in ((CHAT, 200), (b"{", 400), (b'{"model":"nobody"}', 404)):
        answer = httpx.post(url, content=body, headers={"Origin": PAGE})
        assert answer.status_code == status
        assert answer.headers.get_list("access-control-allow-origin") == [PAGE] and "Origin" in answer.headers["vary"]
        assert "Retry-After" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-headers" not in answer.headers
    for origin in ("https://evil.example", "null", PAGE + ".evil"):
        assert cors_of(httpx.post(url, content=CHAT, headers={"Origin": origin})) == {}
        assert httpx.options(url, headers={"Origin": origin, **ask}).status_code == 405
    assert cors_of(stack.admin("/admin/health")) == {}
    assert cors_of(httpx.options(stack.url + "/admin/health", headers={"Origin": PAGE, **ask})) == {}
