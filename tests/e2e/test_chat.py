"""The one path: a chat completion through router and agent to an engine and back."""
import concurrent.futures
import hashlib
import json
import socket

import httpx
import pytest

from conftest import wait_for


def test_buffered_answer_is_the_engines_own(simple):
    answer = simple.chat(max_tokens=3)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "token " * 3
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["x-request-id"]


def test_streamed_bytes_are_identical_to_what_the_engine_sends(simple):
    body = {"model": "sim-model", "stream": True, "max_tokens": 20, "messages": [{"role": "user", "content": "x"}]}
    direct = httpx.post(simple.engine.url + "/v1/chat/completions", json=body).text
    relayed = httpx.post(simple.url + "/v1/chat/completions", json=body)
    same = lambda text: [l for l in text.replace("chatcmpl-sim-1", "ID").replace("chatcmpl-sim-2", "ID").split("\n")]
    assert same(relayed.text) == same(direct)
    assert relayed.headers["content-type"].startswith("text/event-stream")
    assert relayed.headers["cache-control"] == "no-cache, no-transform"
    assert relayed.headers["x-accel-buffering"] == "no"


def test_request_bytes_reach_the_engine_untouched(simple):
    odd = b' {"messages":[{"role":"user","content":"\\u00e9\\n  spaces   kept"}],\n"model" : "sim-model", "max_tokens":1,"x":[1e2, 3.0]}\n'
    answer = httpx.post(simple.url + "/v1/chat/completions?debug=1", content=odd, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    seen = simple.engine.requests()[-1]
    assert seen["body_sha256"] == hashlib.sha256(odd).hexdigest()
    assert seen["path"] == "/v1/chat/completions?debug=1"


def test_client_credentials_never_reach_the_engine(simple):
    secret = "sk-client-secret-value"
    simple.chat(max_tokens=1, headers={"Authorization": f"Bearer {secret}", "Cookie": f"s={secret}", "X-API-Key": secret, "Api-Key": secret,
                                       "Proxy-Authorization": secret, "Connection": "X-Hop", "X-Hop": secret, "X-Kept": "yes"})
    headers = simple.engine.requests()[-1]["headers"]
    assert secret not in json.dumps(headers)
    assert headers["x-kept"] == "yes"
    assert headers["accept-encoding"] == "identity"


def test_request_id_is_kept_when_it_is_a_uuid_and_travels_to_the_engine(simple):
    mine = "0b6f4c1e-2d1c-4f6e-9d55-0123456789ab"
    answer = simple.chat(max_tokens=1, headers={"X-Request-ID": mine})
    assert answer.headers["x-request-id"] == mine
    assert simple.engine.requests()[-1]["headers"]["x-request-id"] == mine
    assert simple.chat(max_tokens=1, headers={"X-Request-ID": "not-a-uuid"}).headers["x-request-id"] != "not-a-uuid"


BAD = [
    (b"", 400, "request_invalid"),
    (b"{", 400, "request_invalid"),
    (b"[]", 400, "request_invalid"),
    (b'{"messages":[]}', 400, "request_invalid"),
    (b'{"model":""}', 400, "request_invalid"),
    (b'{"model":7}', 400, "request_invalid"),
    (b'{"model":"' + b"m" * 300 + b'"}', 400, "request_invalid"),
    (b'{"model":"sim-model","model":"other"}', 400, "request_invalid"),
    (b'{"model":"sim-model"} trailing', 400, "request_invalid"),
    (b'{"model":"nobody-serves-this","messages":[]}', 404, "model_not_found"),
]


@pytest.mark.parametrize("body,status,code", BAD)
def test_bad_bodies_get_the_envelope_and_never_reach_an_engine(simple, body, status, code):
    answer = httpx.post(simple.url + "/v1/chat/completions", content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["source"]) == (status, code, "router")
    assert error["message"] and answer.headers["x-request-id"] == error["request_id"]
    assert simple.engine.state()["chats"] == 0


def test_the_body_limit_is_exact(simple):
    frame = b'{"model":"sim-model","max_tokens":1,"messages":[{"role":"user","content":"%s"}]}'
    room = 10 * 1024 * 1024 - len(frame) + 2
    fits = frame.replace(b"%s", b"a" * room)
    assert len(fits) == 10 * 1024 * 1024
    assert httpx.post(simple.url + "/v1/chat/completions", content=fits, timeout=60).status_code == 200
    assert simple.engine.requests()[-1]["body_sha256"] == hashlib.sha256(fits).hexdigest()
    over = httpx.post(simple.url + "/v1/chat/completions", content=frame.replace(b"%s", b"a" * (room + 1)), timeout=60)
    assert over.status_code == 413
    assert over.json()["error"]["code"] == "request_invalid" and "too large" in over.json()["error"]["message"]

    def chunks():
        for _ in range(11):
            yield b"a" * 1024 * 1024

    assert httpx.post(simple.url + "/v1/chat/completions", content=chunks(), timeout=60).status_code == 413


def test_routes_that_do_not_exist(simple):
    for method, path, status in [("GET", "/v1/chat/completions", 405), ("POST", "/chat/completions", 404), ("GET", "/", 404),
                                 ("POST", "/v1/load_lora_adapter", 404), ("GET", "/metrics", 404)]:
        answer = httpx.request(method, simple.url + path)
        assert answer.status_code == status, path
        assert answer.json()["error"]["code"]
    assert "/v1/chat/completions" in httpx.post(simple.url + "/chat/completions").json()["error"]["message"]


def test_models_and_health(simple):
    models = httpx.get(simple.url + "/v1/models").json()
    assert [m["id"] for m in models["data"]] == ["sim-model"]
    assert models["data"][0]["agents"]["healthy"] == 1
    one = httpx.get(simple.url + "/v1/models/sim-model").json()
    assert one["agents"]["list"][0]["peer_id"] == simple.agent.peer_id
    missing = httpx.get(simple.url + "/v1/models/sim-modle")
    assert missing.status_code == 404 and "sim-model" in missing.json()["error"]["message"]
    assert httpx.get(simple.url + "/health").json() == {"status": "ok"}
    assert httpx.head(simple.url + "/health").status_code == 200


def test_every_model_the_engine_lists_is_routable_and_shares_the_slots(stack):
    engine = stack.start_engine("--model", "base", "--model", "lora/one")
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "1")
    assert {m["id"] for m in httpx.get(stack.url + "/v1/models").json()["data"]} == {"base", "lora/one"}
    engine.faults(first_token_ms=1500)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(stack.chat, model="base", max_tokens=1)
        wait_for("the slot is taken", lambda: stack.row(agent.peer_id)["status"]["active_requests"] == 1)
        second = pool.submit(stack.chat, model="lora/one", max_tokens=1)
        wait_for("the other model waits for it", lambda: stack.admin("/admin/health").json()["lines"]["capacity"]["models"]["lora/one"] == 1)
        assert first.result().status_code == second.result().status_code == 200
    assert engine.state()["served"] == 2


def test_model_flag_narrows_what_is_routable(stack):
    engine = stack.start_engine("--model", "base", "--model", "other")
    stack.start_router()
    stack.start_agent(engine, "--model", "other")
    assert [m["id"] for m in httpx.get(stack.url + "/v1/models").json()["data"]] == ["other"]
    assert stack.chat(model="base").status_code == 404


def test_engine_refusals_keep_their_body_and_are_not_retried(simple):
    body = '{"error":{"message":"max_tokens is too large for this context length","type":"BadRequestError","param":"max_tokens","code":400}}'
    for status in (400, 404, 413, 415, 422):
        simple.engine.faults(status=status, body=body)
        answer = simple.chat()
        assert (answer.status_code, answer.text) == (status, body)
    assert simple.engine.state()["chats"] == 5
    row = simple.row(simple.agent.peer_id)["universal"]
    assert row["failed_requests_total"] == 0


def test_an_engine_that_fails_is_said_truthfully(simple):
    simple.engine.faults(status=500)
    answer = simple.chat()
    assert answer.status_code == 502 and answer.json()["error"]["code"] == "backend_error"
    assert answer.json()["error"]["source"] == "backend" and "simulated failure" in answer.json()["error"]["message"]
    simple.engine.faults(status=503)
    answer = simple.chat()
    assert answer.status_code == 503 and answer.json()["error"]["code"] == "backend_unavailable"
    assert int(answer.headers["retry-after"]) >= 1


def test_an_engine_that_dies_mid_stream_ends_in_one_error_event_and_no_done(simple):
    simple.engine.faults(cut_after=3)
    with socket.create_connection(tuple(simple.url[7:].split(":"))) as s:
        s.settimeout(10)
        body = json.dumps({"model": "sim-model", "stream": True, "max_tokens": 9, "messages": []}).encode()
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        raw = b""
        while part := s.recv(65536):
            raw += part
    text = raw.decode()
    assert text.count('"content":"token "') == 3
    assert text.count('data: {"error"') == 1 and "[DONE]" not in text
    assert not raw.endswith(b"0\r\n\r\n"), "the chunked body must not end cleanly"


def test_an_error_event_before_content_is_retried_on_another_agent(stack):
    bad, good = stack.start_engine(), stack.start_engine()
    stack.start_router()
    stack.start_agent(bad, identity="a.key")
    stack.start_agent(good, identity="b.key")
    bad.faults(error_after=0)
    for _ in range(6):
        answer = stack.chat(stream=True, max_tokens=2)
        assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n") and "error" not in answer.text
    assert good.state()["served"] == 6


def test_keep_alive_connection_serves_many_requests(simple):
    with httpx.Client() as client:
        for i in range(20):
            answer = client.post(simple.url + "/v1/chat/completions",
                                 json={"model": "sim-model", "messages": [], "max_tokens": 1, "stream": i % 2 == 1})
            assert answer.status_code == 200
    assert simple.row(simple.agent.peer_id)["status"]["active_requests"] == 0
