"""The audit line against the real processes: what stands in it, and a file that others rotate, delete or do not read.

The naive variants these fail on: a line at HEAD instead of at the end, none for an early refusal, a write on the request's
path (a pipe nobody reads would stop the router), a file that is opened once, X-Forwarded-For believed from anyone.
"""
import datetime
import hashlib
import json
import os
import re
import signal
import socket
import time

import httpx
import pytest
from conftest import ADMIN_KEY, wait_for

FIELDS = ["log_type", "level", "trace_id", "request_id", "tenant_id", "key_id", "model", "status_code", "latency_ms", "input_tokens",
          "output_tokens", "agent_id", "error_code", "source_ip", "ts"]
ID = "0b5f6c1e-aaaa-4000-8000-{:012d}"
KEY = "sk-hivenet-acme-key-of-the-end-to-end-tests"


class Trail:
    def __init__(self, stack):
        self.stack, self.path = stack, stack.folder / "audit.jsonl"

    def of(self, request_id):
        found = wait_for(f"audit line of {request_id}", lambda: [l for l in self.stack.audit() if l["request_id"] == request_id])
        assert len(found) == 1
        return found[0]


@pytest.fixture
def trail(simple):
    simple.trail = Trail(simple)
    return simple


def request_id(number):
    return {"X-Request-ID": ID.format(number)}


def expect(line, **values):
    assert {k: line[k] for k in values} == values, line


def test_a_line_has_its_fields_in_their_order_and_tells_the_truth(trail):
    began = time.time()
    answer = trail.chat(headers=request_id(1), max_tokens=5)
    usage = answer.json()["usage"]
    line = trail.trail.of(ID.format(1))
    assert list(line)[:15] == FIELDS
    assert None not in line.values()
    expect(line, log_type="audit", level="info", trace_id="", tenant_id="default", key_id="", model="sim-model", status_code=200,
           input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"], agent_id=trail.agent.peer_id, error_code="",
           source_ip="127.0.0.1", ended="completed", estimated=False)
    started = datetime.datetime.fromisoformat(line["ts"])
    assert abs(started.timestamp() - began) < 5 and started.utcoffset() in (datetime.timedelta(hours=1), datetime.timedelta(hours=2))
    assert trail.trail.path.stat().st_mode & 0o027 == 0
    # The route's text, a body and headers are nobody's business here.
    assert "hello" not in trail.trail.path.read_text()


def test_every_way_to_end_has_its_line(trail):
    post = lambda n, **kw: httpx.post(trail.url + "/v1/chat/completions", headers=request_id(n), timeout=10, **kw)
    post(1, content=b"{")
    post(2, json={"model": "nobody", "messages": []})
    post(3, content=b"x" * 11_000_000)
    httpx.get(trail.url + "/v1/nothing", headers=request_id(4))
    httpx.get(trail.url + "/v1/models", headers=request_id(5))
    httpx.get(trail.url + "/admin/health", headers=request_id(6))
    trail.admin("/admin/health")
    trail.engine.faults(status=400, body='{"error":{"message":"bad"}}')
    trail.chat(headers=request_id(7))
    httpx.get(trail.url + "/health", headers=request_id(8))
    httpx.request("OPTIONS", trail.url + "/v1/models", headers=request_id(9))
    httpx.get(trail.url + "/v1/models/nobody", headers=request_id(10))
    httpx.get(trail.url + "/admin/nothing", headers=request_id(11))
    wanted = {1: (400, "request_invalid", "", "rejected_request"), 2: (404, "model_not_found", "nobody", "rejected_no_agent"),
              3: (413, "request_too_large", "", "rejected_request"), 4: (404, "not_found", "", "rejected_request"),
              5: (200, "", "", "completed"), 6: (401, "unauthorized", "", "rejected_auth"), 7: (400, "invalid_parameter", "sim-model", "rejected_by_engine"),
              10: (404, "model_not_found", "", "rejected_request"), 11: (404, "model_not_found", "", "rejected_request")}
    for number, (status, code, model, ended) in wanted.items():
        line = trail.trail.of(ID.format(number))
        expect(line, status_code=status, error_code=code, model=model, ended=ended, level="info" if status < 400 else "error", input_tokens=0,
               output_tokens=0, agent_id=trail.agent.peer_id if number == 7 else "")
        expect(line, tenant_id="" if number in (4, 6, 11) else "default")
    assert wait_for("the admin's line", lambda: [l for l in trail.audit() if l["tenant_id"] == "admin"])
    assert not {ID.format(8), ID.format(9)} & {l["request_id"] for l in trail.audit()}


def test_a_head_that_never_became_a_request_has_a_line_too(trail):
    """Naive variant: the line is written by whatever answers requests, and this was none: whoever probes the edge leaves no trace."""
    host, port = trail.url[7:].split(":")
    heads = {b"no request at all\r\n\r\n": 400, b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n": 431,
             b"GET / HTTP/2.5\r\nHost: x\r\n\r\n": 505,
             b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": 400}
    for head, status in heads.items():
        with socket.create_connection((host, int(port)), timeout=10) as s:
            s.sendall(head)
            answer = b""
            while piece := s.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
        name = re.search(rb"\r\nX-Request-ID: (\S+)\r\n", answer).group(1).decode()
        expect(trail.trail.of(name), level="error", status_code=status, tenant_id="", key_id="", model="", agent_id="", error_code="request_invalid",
               source_ip="127.0.0.1", ended="rejected_request")
    assert trail.metric("http_server_heads_refused_total") == len(heads)
    assert trail.metric("http_server_request_duration_seconds_count", method="OTHER", route="unmatched", status_code="400") == 2


def test_a_stream_is_written_when_it_is_over_with_its_real_tokens(trail):
    trail.engine.faults(step_ms=100)
    body = {"model": "sim-model", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 30,
            "stream_options": {"include_usage": True}}
    with httpx.stream("POST", trail.url + "/v1/chat/completions", json=body, headers=request_id(1), timeout=10) as answer:
        data = answer.iter_lines()
        next(data)
        assert not [l for l in trail.audit() if l["request_id"] == ID.format(1)]
        for _ in data:
            pass
    line = trail.trail.of(ID.format(1))
    expect(line, status_code=200, output_tokens=30, estimated=False, ended="completed")
    assert line["latency_ms"] >= 2000
    # Without include_usage there are tokens all the same, told to the router alone or counted by it.
    del body["stream_options"]
    trail.engine.faults()
    httpx.post(trail.url + "/v1/chat/completions", json=body, headers=request_id(2), timeout=10).raise_for_status()
    line = trail.trail.of(ID.format(2))
    expect(line, ended="completed")
    assert line["output_tokens"] > 0 and line["input_tokens"] > 0


def test_who_leaves_is_499_and_what_was_streamed_is_counted(trail):
    trail.engine.faults(first_token_ms=3000)
    body = json.dumps({"model": "sim-model", "messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 500}).encode()
    host, port = trail.url.removeprefix("http://").split(":")

    def send(number):
        s = socket.create_connection((host, int(port)), timeout=5)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nX-Request-ID: " + ID.format(number).encode() +
                  b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        return s

    s = send(1)
    wait_for("at the engine", lambda: trail.row(trail.agent.peer_id)["status"]["active_requests"] == 1)
    s.close()
    expect(trail.trail.of(ID.format(1)), status_code=499, error_code="client_gone", ended="client_gone", agent_id=trail.agent.peer_id,
           input_tokens=0, output_tokens=0)
    trail.engine.faults(first_token_ms=0, step_ms=5)
    s = send(2)
    seen = b""
    while seen.count(b"data: ") < 10:
        seen += s.recv(65536)
    s.close()
    line = trail.trail.of(ID.format(2))
    expect(line, status_code=499, ended="client_gone", estimated=True)
    assert line["output_tokens"] > 0 and line["input_tokens"] > 0


def test_a_deadline_names_the_agent_in_flight(stack):
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--request-timeout", "1s")
    agent = stack.start_agent(stack.engine)
    stack.engine.faults(first_token_ms=5000)
    assert stack.chat(headers=request_id(1)).status_code == 504
    expect(Trail(stack).of(ID.format(1)), status_code=504, error_code="request_timeout", ended="deadline",
           agent_id=agent.peer_id, input_tokens=0, output_tokens=0)


def test_tenant_and_key_stand_in_the_line_and_the_key_does_not(stack):
    stack.engine = stack.start_engine("--model", "sim-model")
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (stack.folder / "auth.yaml").write_text(f"api:\n  mode: api-key\n  keys: [{{key_hash: {digest}, metadata: {{name: n, owner: acme}}, models: [sim-model]}}]\n")
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml")
    stack.start_agent(stack.engine)
    trail = Trail(stack)
    bearer = {"Authorization": f"Bearer {KEY}"}
    stack.chat(headers={**request_id(1), **bearer})
    stack.chat(headers={**request_id(2), **bearer}, model="another")
    stack.chat(headers={**request_id(3), "Authorization": "Bearer wrong-key"})
    httpx.get(stack.url + "/v1/models", headers={**request_id(4), **bearer})
    who = {"tenant_id": "acme", "key_id": digest[:12]}
    expect(trail.of(ID.format(1)), status_code=200, **who)
    expect(trail.of(ID.format(2)), status_code=403, error_code="model_forbidden", model="another", agent_id="", ended="rejected_auth", **who)
    expect(trail.of(ID.format(3)), status_code=401, error_code="unauthorized", tenant_id="", key_id="", model="", ended="rejected_auth")
    expect(trail.of(ID.format(4)), status_code=200, **who)
    text = trail.path.read_text()
    for secret in (KEY, digest, "wrong-key", ADMIN_KEY):
        assert secret not in text


def test_a_forwarded_address_counts_only_from_a_trusted_proxy(stack):
    stack.start_router()
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9"}
    httpx.get(stack.url + "/v1/models", headers={**request_id(1), **forged})
    expect(Trail(stack).of(ID.format(1)), source_ip="127.0.0.1")
    stack.router.stop()
    stack.start_router("--trusted-proxies", "127.0.0.0/8,10.0.0.0/8")
    httpx.get(stack.url + "/v1/models", headers={**request_id(2), "X-Forwarded-For": "6.6.6.6, 203.0.113.9, 10.1.2.3"})
    expect(Trail(stack).of(ID.format(2)), source_ip="203.0.113.9")


def test_rotation_by_rename_and_signal_by_copytruncate_and_by_deletion_loses_no_line(trail):
    path, old = trail.trail.path, trail.folder / "old.jsonl"
    number = 0

    def ask():
        nonlocal number
        number += 1
        httpx.get(trail.url + "/v1/models", headers=request_id(number))
        wait_for("written", lambda: ID.format(number) in (path.read_text() if path.exists() else "") + (old.read_text() if old.exists() else ""))

    opened = lambda: trail.metric("hivenet_router_audit_opened_total")
    for signals in (signal.SIGHUP, signal.SIGUSR1):
        ask()
        path.rename(old)
        before = opened()
        trail.router.child.send_signal(signals)
        wait_for("reopened", lambda: opened() == before + 1)
        ask()
        assert [l["request_id"] for l in trail.audit(path)] == [ID.format(number)]
    os.truncate(path, 0)
    ask()
    assert [l["request_id"] for l in trail.audit(path)] == [ID.format(number)]
    path.unlink()
    old.unlink()
    ask()
    assert [l["request_id"] for l in trail.audit(path)] == [ID.format(number)]
    assert trail.metric("hivenet_router_audit_lines_dropped_total") == 0
    assert "policy loaded" not in trail.router.log(), "SIGHUP found no policy file to load"


def test_a_pipe_nobody_reads_and_a_full_disk_stop_no_request(stack):
    stack.engine = stack.start_engine("--model", "sim-model")
    for kind in ("pipe", "disk"):
        target = stack.folder / kind
        os.mkfifo(target) if kind == "pipe" else target.symlink_to("/dev/full")
        stack.start_router("--audit-queue-bytes", "64KiB", env={"HIVENET_ROUTER_AUDIT_LOG_PATH": str(target)})
        with httpx.Client(base_url=stack.url) as client:
            for _ in range(400):
                assert client.get("/v1/models").status_code == 200
        if kind == "disk":
            assert stack.metric("hivenet_router_audit_lines_dropped_total", reason="queue_full") > 0
            wait_for("its writer's errors", lambda: stack.metric("hivenet_router_audit_write_errors_total") > 0)
        began = time.monotonic()
        assert stack.router.stop() == 0
        assert time.monotonic() - began < 8
        assert "audit" in stack.router.log() if kind == "disk" else True


def test_the_last_lines_are_written_before_the_router_ends(trail):
    for number in range(1, 30):
        httpx.get(trail.url + "/v1/models", headers=request_id(number))
    assert trail.router.stop() == 0
    text = trail.trail.path.read_text()
    assert text.endswith("\n") and len([json.loads(line) for line in text.splitlines()]) >= 29


def test_no_file_means_stdout_and_required_means_no_start(stack):
    impossible = {"HIVENET_ROUTER_AUDIT_LOG_PATH": "/proc/none/audit.jsonl"}
    stack.start_router(env=impossible)
    httpx.get(stack.url + "/v1/models", headers=request_id(1))
    wait_for("on stdout", lambda: ID.format(1) in stack.router.out_path.read_text())
    assert "lines go to stdout" in stack.router.log()
    stack.router.stop()
    with pytest.raises(AssertionError, match="cannot be opened"):
        stack.start_router("--audit-required", env=impossible)
    stack.start_router(env={"HIVENET_ROUTER_AUDIT_LOG_PATH": "off"})
    httpx.get(stack.url + "/v1/models", headers=request_id(2))
    assert "audit_lines_total" not in httpx.get(stack.metrics_url).text
