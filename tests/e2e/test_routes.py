"""Every client route: what reaches the engine, what comes back, tokens, capabilities, errors in the route's dialect."""
import base64
import hashlib
import json
import socket
import struct
import time

import httpx
import pytest

from conftest import ADMIN_KEY, BIN, Process, Stack


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A router with extra routes, and an agent of each capability."""
    s = Stack(tmp_path_factory.mktemp("routes"))
    try:
        s.start_router("--allow-route", "audio/transcriptions", "--allow-route", "audio/speech", "--allow-route", "tokenize",
                       "--allow-route", "score", "--allow-route", "rerank_v9=reranker", "--allow-route", "detokenize")
        s.llm = s.start_engine("--model", "sim-model", "--tokens", "5")
        s.embedder = s.start_engine("--model", "sim-embed")
        s.reranker = s.start_engine("--model", "sim-rerank")
        s.llm_agent = s.start_agent(s.llm, identity="llm.key")
        s.start_agent(s.embedder, "--capability", "embedding", identity="embed.key")
        s.start_agent(s.reranker, "--capability", "reranker", identity="rerank.key")
        yield s
    finally:
        s.stop()


@pytest.fixture(autouse=True)
def healthy(request):
    yield
    if "fleet" in request.fixturenames:
        request.getfixturevalue("fleet").llm.faults()


def post(stack, path, body, **kw):
    return httpx.post(stack.url + path, json=body, timeout=30, **kw)


def tokens(stack, engine):
    """(input, output) that the agent of this engine has been counted."""
    row = next(r for r in stack.table().values() if r["metadata"]["model"] == engine)
    return row["universal"]["input_tokens_total"], row["universal"]["output_tokens_total"]


def events(text):
    """[(event name or None, data)] of a stream; every event must be whole."""
    assert text.endswith("\n\n"), text[-80:]
    out = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        out.append((fields.get("event"), fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])))
    return out


MESSAGES = [{"role": "user", "content": "hello"}]
GENERATING = {
    "/v1/chat/completions": {"model": "sim-model", "messages": MESSAGES},
    "/v1/completions": {"model": "sim-model", "prompt": "hello"},
    "/v1/messages": {"model": "sim-model", "messages": MESSAGES, "max_tokens": 5},
    "/v1/responses": {"model": "sim-model", "input": "hello"},
}


@pytest.mark.parametrize("path", GENERATING)
def test_a_generating_route_relays_request_and_answer_untouched_and_counts_tokens(fleet, path):
    body = json.dumps({**GENERATING[path], "odd": [1e2, "\u00e9"]}).replace(",", " ,").encode()
    before = tokens(fleet, "sim-model")
    answer = httpx.post(fleet.url + path + "?beta=true", content=body, headers={"Content-Type": "application/json", "anthropic-beta": "x-1"})
    assert answer.status_code == 200
    seen = fleet.llm.requests()[-1]
    assert (seen["path"], seen["body_sha256"]) == (path + "?beta=true", hashlib.sha256(body).hexdigest())
    assert seen["headers"]["anthropic-beta"] == "x-1"
    usage = answer.json()["usage"]
    told = usage.get("prompt_tokens", usage.get("input_tokens")), usage.get("completion_tokens", usage.get("output_tokens"))
    assert told[1] == 5
    after = tokens(fleet, "sim-model")
    assert (after[0] - before[0], after[1] - before[1]) == told


@pytest.mark.parametrize("path", GENERATING)
def test_a_streams_bytes_are_the_engines_and_its_tokens_are_counted(fleet, path):
    before = tokens(fleet, "sim-model")
    body = {**GENERATING[path], "stream": True}
    relayed = post(fleet, path, body)
    counted = [b - a for a, b in zip(before, tokens(fleet, "sim-model"))]
    direct = httpx.post(fleet.llm.url + path, json=body)

    number = fleet.llm.state()["chats"]

    def text(answer, own):
        return answer.text.replace(f"sim-{own}", "sim-N").replace(f"sim_{own}", "sim_N")

    assert text(relayed, number - 1) == text(direct, number)
    assert relayed.headers["content-type"].startswith("text/event-stream")
    assert relayed.headers["x-accel-buffering"] == "no"
    assert counted[1] == 5 and counted[0] > 0


def test_usage_is_asked_for_and_kept_from_the_client_unless_it_asked_itself(fleet):
    for path in ("/v1/chat/completions", "/v1/completions"):
        body = {**GENERATING[path], "stream": True}
        answer = post(fleet, path, body)
        assert "usage" not in answer.text and answer.text.endswith("data: [DONE]\n\n")
        sent = json.loads(fleet.llm.requests()[-1]["body"])
        assert sent.pop("stream_options") == {"include_usage": True} and sent == body
        asked = post(fleet, path, {**body, "stream_options": {"include_usage": True}})
        assert events(asked.text)[-2][1]["usage"]["completion_tokens"] == 5
        refused = post(fleet, path, {**body, "stream_options": {"include_usage": False}})
        assert "usage" not in refused.text
        assert json.loads(fleet.llm.requests()[-1]["body"])["stream_options"] == {"include_usage": False}


def test_usage_is_not_asked_for_when_the_operator_says_so(stack):
    engine = stack.start_engine()
    stack.start_router("--stream-usage", "leave")
    stack.start_agent(engine)
    body = json.dumps({**GENERATING["/v1/chat/completions"], "stream": True}).encode()
    assert httpx.post(stack.url + "/v1/chat/completions", content=body).status_code == 200
    assert engine.requests()[-1]["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_count_tokens_is_answered_and_counts_for_nothing(fleet):
    before = tokens(fleet, "sim-model")
    answer = post(fleet, "/v1/messages/count_tokens", {"model": "sim-model", "messages": MESSAGES})
    assert answer.status_code == 200 and answer.json()["input_tokens"] > 0
    assert tokens(fleet, "sim-model") == before


def test_embeddings_as_floats_and_base64(fleet):
    before = tokens(fleet, "sim-embed")
    body = {"model": "sim-embed", "input": ["one", "two"]}
    floats = post(fleet, "/v1/embeddings", body).json()
    packed = post(fleet, "/v1/embeddings", {**body, "encoding_format": "base64"}).json()
    assert [d["index"] for d in floats["data"]] == [0, 1]
    for a, b in zip(floats["data"], packed["data"]):
        assert list(struct.unpack("<8f", base64.b64decode(b["embedding"]))) == a["embedding"]
    used = floats["usage"]["prompt_tokens"] + packed["usage"]["prompt_tokens"]
    assert tokens(fleet, "sim-embed") == (before[0] + used, before[1])


def test_tokens_of_an_answer_too_large_to_hold_are_counted(fleet):
    before = tokens(fleet, "sim-embed")
    answer = post(fleet, "/v1/embeddings", {"model": "sim-embed", "input": "large", "dimensions": 300_000})
    assert len(answer.content) > 2_000_000 and "content-length" not in answer.headers
    assert tokens(fleet, "sim-embed")[0] == before[0] + answer.json()["usage"]["prompt_tokens"]


def test_rerank(fleet):
    before = tokens(fleet, "sim-rerank")
    answer = post(fleet, "/v1/rerank", {"model": "sim-rerank", "query": "q", "documents": ["a", "b", "c"], "top_n": 2}).json()
    scores = [r["relevance_score"] for r in answer["results"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    assert tokens(fleet, "sim-rerank")[0] == before[0] + answer["usage"]["prompt_tokens"]


def test_tool_calls_pass_in_every_dialect(fleet):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    function = {"name": "look_up", "parameters": schema}
    chat = post(fleet, "/v1/chat/completions", {**GENERATING["/v1/chat/completions"], "tools": [{"type": "function", "function": function}]}).json()
    call = chat["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "look_up" and json.loads(call["arguments"])["text"]
    message = post(fleet, "/v1/messages", {**GENERATING["/v1/messages"], "tools": [{"name": "look_up", "input_schema": schema}]}).json()
    assert message["stop_reason"] == "tool_use" and message["content"][0]["input"]["text"]
    response = post(fleet, "/v1/responses", {**GENERATING["/v1/responses"], "tools": [{"type": "function", **function}]}).json()
    assert response["output"][0]["type"] == "function_call"


# --- routes allowed by name

def test_a_form_is_routed_by_its_model_field_and_passed_on_untouched(fleet):
    sound = bytes(range(256)) * 40
    answer = httpx.post(fleet.url + "/v1/audio/transcriptions", data={"model": "sim-model", "language": "en"},
                        files={"file": ("a.wav", sound, "audio/wav")}, timeout=30)
    assert answer.status_code == 200 and answer.json()["text"].startswith("heard ")
    seen = fleet.llm.requests()[-1]
    assert seen["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert seen["body_bytes"] == int(answer.json()["text"].split()[1]) > len(sound)
    for data, says in (({"language": "en"}, "missing"), ({"model": ["sim-model", "other"]}, "twice"), ({"model": "nobody"}, "nobody")):
        refused = httpx.post(fleet.url + "/v1/audio/transcriptions", data=data, files={"file": ("a.wav", b"x")})
        assert refused.status_code in (400, 404) and says in refused.json()["error"]["message"], data
    assert httpx.post(fleet.url + "/v1/audio/transcriptions", content=b"junk",
                      headers={"Content-Type": "multipart/form-data; boundary=x"}).status_code == 400
    # What another reader of forms could take for another model: a name said twice, a second Content-Type, the query string.
    twice = b'--x\r\nContent-Disposition: form-data; name="a"; name="model"\r\n\r\nbig\r\n--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nsim-model\r\n--x--\r\n'
    once, kind = twice.replace(b'; name="model"\r\n\r\nbig', b"\r\n\r\nbig"), ("Content-Type", "multipart/form-data; boundary=x")
    seen = len(fleet.llm.requests())
    for query, body, more, says in (("", twice, [], "twice"), ("", once, [("content-type", "multipart/form-data; boundary=y")], "twice"), ("?model=big", once, [], "query")):
        refused = httpx.post(fleet.url + "/v1/audio/transcriptions" + query, content=body, headers=[kind, *more])
        assert refused.status_code == 400 and says in refused.json()["error"]["message"], (says, refused.text)
    assert len(fleet.llm.requests()) == seen
    assert httpx.post(fleet.url + "/v1/audio/transcriptions?mode=x", content=once, headers=[kind]).status_code == 200
    # Only routes that take forms read them.
    assert httpx.post(fleet.url + "/v1/embeddings", data={"model": "sim-embed"}, files={"file": ("a", b"x")}).status_code == 400


def test_an_allowed_route_reaches_the_engines_own_path(fleet):
    answer = post(fleet, "/v1/tokenize", {"model": "sim-embed", "prompt": "any capability will do"})
    assert answer.status_code == 200 and answer.json()["count"] > 0
    assert fleet.embedder.requests()[-1]["path"] == "/tokenize"
    assert post(fleet, "/v1/score", {"model": "sim-rerank", "text_1": "q", "text_2": ["a", "b"]}).json()["data"][1]["object"] == "score"
    speech = post(fleet, "/v1/audio/speech", {"model": "sim-model", "input": "say", "voice": "x"})
    assert speech.headers["content-type"] == "audio/wav" and speech.content.startswith(b"RIFF") and len(speech.content) == 4 + 3 * 64
    # The engine has no such route: its own 404, not ours.
    lacking = post(fleet, "/v1/detokenize", {"model": "sim-model", "tokens": [1]})
    assert (lacking.status_code, lacking.json()) == (404, {"detail": "Not Found"})


def test_an_agent_refuses_a_route_that_only_its_router_allows(stack, fleet):
    refused = post(fleet, "/v1/rerank_v9", {"model": "sim-rerank", "query": "q", "documents": ["a"]})
    assert refused.status_code == 503 and "--allow-route" in refused.json()["error"]["message"]
    engine = stack.start_engine()
    stack.start_router("--allow-route", "rerank_v9=llm")
    stack.start_agent(engine, "--allow-route", "rerank_v9=llm")
    answer = post(stack, "/v1/rerank_v9", {"model": "sim-model"})
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


def test_what_nobody_allowed_is_not_there_and_control_paths_cannot_be_allowed(fleet, tmp_path):
    for path in ("/v1/audio/translations", "/v1/classify", "/tokenize", "/v1/load_lora_adapter", "/v1/sleep", "/v1/files"):
        answer = post(fleet, path, {"model": "sim-model"})
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found", path
    assert httpx.get(fleet.url + "/v1/tokenize").headers["allow"] == "POST"
    for name in ("load_lora_adapter=llm", "../metrics=llm", "sleep=any", "nonsense"):
        router = Process("router", [BIN / "hivenet-router", "--allow-route", name], tmp_path)
        assert router.child.wait(10) != 0 and "allow-route" in router.log()


# --- capabilities

@pytest.mark.parametrize("path,model", [("/v1/embeddings", "sim-model"), ("/v1/rerank", "sim-embed"), ("/v1/chat/completions", "sim-embed"),
                                        ("/v1/messages", "sim-rerank"), ("/v1/responses", "sim-embed"), ("/v1/score", "sim-model")])
def test_a_model_that_cannot_do_what_a_route_does_is_the_clients_mistake(fleet, path, model):
    before = fleet.llm.state()["chats"] + fleet.embedder.state()["chats"] + fleet.reranker.state()["chats"]
    answer = post(fleet, path, {"model": model, "input": "x", "messages": MESSAGES})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "request_invalid" and error["type"] == "invalid_request_error" and model in error["message"]
    assert fleet.llm.state()["chats"] + fleet.embedder.state()["chats"] + fleet.reranker.state()["chats"] == before


def test_models_say_what_they_can_do_and_speak_anthropic_to_its_clients(fleet):
    plain = httpx.get(fleet.url + "/v1/models").json()
    assert {m["id"]: m["capability"] for m in plain["data"]} == {"sim-model": "llm", "sim-embed": "embedding", "sim-rerank": "reranker"}
    assert "has_more" not in plain and "type" not in plain["data"][0]
    anthropic = {"anthropic-version": "2023-06-01"}
    listed = httpx.get(fleet.url + "/v1/models?limit=1000", headers=anthropic).json()
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("sim-embed", "sim-rerank", False)
    assert {m["type"] for m in listed["data"]} == {"model"} and listed["data"][0]["object"] == "model"
    assert httpx.get(fleet.url + "/v1/models/sim-model", headers=anthropic).json()["display_name"] == "sim-model"
    assert httpx.get(fleet.url + "/v1/models/nobody", headers=anthropic).json()["type"] == "error"


# --- errors in the route's dialect

@pytest.mark.parametrize("path", GENERATING)
def test_errors_before_a_stream_have_the_envelope_of_the_route(fleet, path):
    fleet.llm.faults(status=500)
    cases = [({"model": "nobody"}, 404, "model_not_found", "not_found_error"), ({}, 400, "request_invalid", "invalid_request_error"),
             ({**GENERATING[path], "stream": True}, 502, "backend_error", "api_error")]
    for body, status, code, kind in cases:
        answer = post(fleet, path, body)
        said = answer.json()
        assert (answer.status_code, said["error"]["code"], said["error"]["type"]) == (status, code, kind)
        assert said.get("type") == ("error" if path == "/v1/messages" else None)
        assert said["error"]["request_id"] == answer.headers["x-request-id"]
    wrong = httpx.get(fleet.url + path)
    assert wrong.status_code == 405 and wrong.headers["allow"] == "POST"
    assert wrong.json().get("type") == ("error" if path == "/v1/messages" else None)


@pytest.mark.parametrize("path", GENERATING)
def test_a_stream_that_breaks_ends_in_one_error_event_of_the_routes_dialect(fleet, path):
    fleet.llm.faults(cut_after=2)
    body = json.dumps({**GENERATING[path], "stream": True}).encode()
    with socket.create_connection(tuple(fleet.url[7:].split(":"))) as s:
        s.settimeout(10)
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
        raw = b""
        while part := s.recv(65536):
            raw += part
    assert not raw.endswith(b"0\r\n\r\n"), "the chunked body must not end cleanly"
    lines = [l for l in raw.decode().split("\r\n\r\n", 1)[1].replace("\r\n", "\n").split("\n") if l.startswith(("event: ", "data: "))]
    assert "data: [DONE]" not in lines
    name, data = (lines[-2], json.loads(lines[-1][6:]))
    if path in ("/v1/messages", "/v1/responses"):
        assert name == "event: error" and data["type"] == "error"
    assert data["error"]["code"] == "backend_error"
    if path == "/v1/responses":
        assert data["code"] == "backend_error" and data["message"]
    assert sum(json.loads(l[6:]).get("error") is not None for l in lines if l.startswith("data: ")) == 1


@pytest.mark.parametrize("path", GENERATING)
def test_an_engines_refusal_keeps_its_status_and_body_on_every_route(fleet, path):
    body = '{"error":{"message":"the wording a client recovers by","type":"invalid_request_error","param":null,"code":400}}'
    fleet.llm.faults(status=400, body=body)
    answer = post(fleet, path, GENERATING[path])
    assert (answer.status_code, answer.text) == (400, body)


# --- /admin

def test_an_admin_request_without_a_key_is_refused_before_its_body_is_read(fleet):
    with socket.create_connection(tuple(fleet.url[7:].split(":"))) as s:
        s.settimeout(10)
        s.sendall(b"POST /admin/metrics/reset HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
        start = time.monotonic()
        answer = s.recv(65536)
    assert answer.startswith(b"HTTP/1.1 401 ") and time.monotonic() - start < 5


def test_an_admin_request_that_is_not_finished_ends_by_the_deadline(stack):
    stack.start_router("--request-timeout", "500ms")
    with socket.create_connection(tuple(stack.url[7:].split(":"))) as s:
        s.settimeout(10)
        s.sendall(b"PUT /admin/policy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nhalf" % ADMIN_KEY.encode())
        answer = s.recv(65536)
    assert answer.startswith(b"HTTP/1.1 504 "), answer
