"""Provider fallback: the official SDKs against the router, the router against stand-ins that speak both APIs over TLS."""
import json
import socket
import time
import uuid

import anthropic
import httpx
import openai
import pytest

from cloud import ANTHROPIC_KEY, CALL, OPENAI_KEY, TEXT, Cloud
from conftest import BIN, Process, Stack, wait_for

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "write about the river"}]
USER = MESSAGES[1:]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "look_up", "description": "looks up", "parameters": SCHEMA}}
TOOL = {"name": "look_up", "description": "looks up", "input_schema": SCHEMA}
PNG = "iVBORw0KGgo="
RIVER = "".join(TEXT)
KEYS = {"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY, "HIVENET_ROUTER_ANTHROPIC_API_KEY": ANTHROPIC_KEY}
MODELS = {"openai": "gpt-of-the-policy", "anthropic": "claude-of-the-policy"}


def policy(folder, engine, extra=""):
    file = folder / f"policy-{engine}.yaml"
    file.write_text(f"routing_policy: {{strategy: least-loaded, max_tries: 1}}\nfallback_provider: {{engine: {engine}, model: {MODELS.get(engine, 'm')}}}\n{extra}")
    return file


def start(stack, cloud, engine, *args, url=None, ca=True):
    url = url or cloud.url
    trust = ["--provider-ca-file", cloud.certificate] if ca else []
    # As the two SDKs write their base URLs.
    stack.start_router("--policy-file", policy(stack.folder, engine), "--openai-base-url", url + "/v1", "--anthropic-base-url", url, *trust, *args, env=KEYS)
    return stack


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    made = Cloud(tmp_path_factory.mktemp("cloud"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def routers(cloud, tmp_path_factory):
    """One router a provider, without any agent: every model is unknown."""
    made = {}
    try:
        for engine in MODELS:
            made[engine] = start(Stack(tmp_path_factory.mktemp(engine)), cloud, engine)
        yield made
    finally:
        for s in made.values():
            s.stop()


@pytest.fixture(autouse=True)
def sound(cloud):
    cloud.reset()
    yield
    cloud.released.set()


@pytest.fixture(params=list(MODELS))
def engine(request):
    return request.param


def gpt(s, retries=0):
    return openai.OpenAI(base_url=s.url + "/v1", api_key="of-the-client", max_retries=retries, timeout=20)


def claude(s, retries=0):
    return anthropic.Anthropic(base_url=s.url, api_key="of-the-client", max_retries=retries, timeout=20)


def named():
    """A request id of the test's own, as a header field."""
    return {"X-Request-ID": str(uuid.uuid4())}


def audited(s, request_id):
    request_id = request_id if isinstance(request_id, str) else request_id["X-Request-ID"]

    def line():
        found = [line for line in s.audit() if line["request_id"] == request_id]
        return found and found[0]

    return wait_for(f"audit line of {request_id}", line)


def address(s):
    host, port = s.url.removeprefix("http://").split(":")
    return host, int(port)


def chat_bytes(fields=None, **body):
    text = json.dumps(body).encode()
    more = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items()).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(text) + more + b"\r\n" + text


# --- chat completions

def test_chat_buffered(routers, cloud, engine):
    s = routers[engine]
    raw = gpt(s).chat.completions.with_raw_response.create(model="orig", messages=MESSAGES, temperature=0)
    answer = raw.parse()
    assert answer.choices[0].message.content == RIVER and answer.choices[0].finish_reason == "stop"
    assert answer.model == MODELS[engine] and answer.object == "chat.completion"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (11, 4, 15)
    assert answer.processed_by == f"provider:{engine}"
    assert raw.headers["content-type"] == "application/json" and "set-cookie" not in raw.headers

    sent, = cloud.requests
    assert sent["body"]["model"] == MODELS[engine] and sent["body"]["temperature"] == 0
    if engine == "openai":
        assert sent["path"] == "/v1/chat/completions" and sent["headers"]["authorization"] == f"Bearer {OPENAI_KEY}"
        assert sent["body"]["messages"] == MESSAGES
    else:
        assert sent["path"] == "/v1/messages" and sent["headers"]["x-api-key"] == ANTHROPIC_KEY
        assert sent["headers"]["anthropic-version"] == "2023-06-01" and "authorization" not in sent["headers"]
        assert sent["body"]["system"] == "be brief" and sent["body"]["max_tokens"] == 4096 and sent["body"]["messages"] == USER
    assert "of-the-client" not in json.dumps(sent) and "x-stainless-lang" not in sent["headers"]

    line = audited(s, raw.headers["x-request-id"])
    assert line["agent_id"] == f"provider:{engine}" and line["model"] == "orig" and line["status_code"] == 200
    assert (line["input_tokens"], line["output_tokens"]) == (11, 4)


@pytest.mark.parametrize("asks", [False, True])
def test_chat_streamed(routers, cloud, engine, asks):
    options = {"stream_options": {"include_usage": True}} if asks else {}
    mine = named()
    got = list(gpt(routers[engine]).chat.completions.create(model="orig", messages=MESSAGES, stream=True, extra_headers=mine, **options))
    assert "".join(c.choices[0].delta.content or "" for c in got if c.choices) == RIVER
    assert [c.choices[0].finish_reason for c in got if c.choices][-1] == "stop"
    usage = [c.usage for c in got if c.usage]
    assert [(u.prompt_tokens, u.completion_tokens) for u in usage] == ([(11, 4)] if asks else [])
    line = audited(routers[engine], mine)
    assert (line["input_tokens"], line["output_tokens"], line["agent_id"]) == (11, 4, f"provider:{engine}"), "counted whether or not the client asked"


@pytest.mark.parametrize("stream", [False, True])
def test_chat_tools(routers, cloud, engine, stream):
    client = gpt(routers[engine])
    history = [*USER, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{\"text\": \"sea\"}"}},
        {"id": "b", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "salt"}, {"role": "tool", "tool_call_id": "b", "content": "water"}]
    with client.chat.completions.stream(model="orig", messages=history, tools=[FUNCTION]) if stream else NoStream(
            client.chat.completions.create(model="orig", messages=history, tools=[FUNCTION])) as answer:
        choice = answer.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls"
    call, = choice.message.tool_calls
    assert call.function.name == "look_up" and json.loads(call.function.arguments) == CALL["arguments"]
    if engine == "anthropic":
        sent = cloud.requests[-1]["body"]
        assert sent["tools"] == [TOOL]
        assert [b["type"] for b in sent["messages"][1]["content"]] == ["tool_use", "tool_use"]
        assert [b["content"] for b in sent["messages"][2]["content"]] == ["salt", "water"]


class NoStream:
    def __init__(self, answer):
        self.answer = answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def get_final_completion(self):
        return self.answer

    get_final_message = get_final_completion


# --- messages

@pytest.mark.parametrize("stream", [False, True])
def test_messages_with_tools_images_and_system(routers, cloud, engine, stream):
    client = claude(routers[engine])
    content = [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]
    mine = named()
    asked = {"model": "orig", "max_tokens": 50, "system": "be brief", "messages": [{"role": "user", "content": content}], "tools": [TOOL], "extra_headers": mine}
    with client.messages.stream(**asked) if stream else NoStream(client.messages.create(**asked)) as answer:
        if stream:
            assert "".join(answer.text_stream) == RIVER
        done = answer.get_final_message()
    assert done.model == MODELS[engine] and done.role == "assistant" and done.stop_reason == "tool_use"
    text, tool = done.content
    assert text.text == RIVER and tool.name == "look_up" and tool.input == CALL["arguments"]
    assert done.usage.output_tokens == 4
    assert done.usage.input_tokens == 11
    sent = cloud.requests[-1]["body"]
    if engine == "openai":
        assert sent["messages"][0] == {"role": "system", "content": "be brief"} and sent["max_completion_tokens"] == 50
        assert sent["messages"][1]["content"][1]["image_url"]["url"] == "data:image/png;base64," + PNG
        assert sent["tools"] == [FUNCTION]
    line = audited(routers[engine], mine)
    assert (line["input_tokens"], line["output_tokens"], line["agent_id"]) == (11, 4, f"provider:{engine}")


def test_anthropics_own_api_passes_byte_for_byte(routers, cloud):
    s = routers["anthropic"]
    body = '{ "max_tokens":9,"model" : "orig","stream":true,"messages":[{"role":"user","content":"x"}],"top_k":1.0 }'
    with httpx.stream("POST", s.url + "/v1/messages?beta=true", content=body, headers={"anthropic-beta": "some-2026", "content-type": "application/json"}) as r:
        text = r.read().decode()
    assert r.status_code == 200 and text.startswith("event: message_start\ndata: ") and text.endswith('"type":"message_stop"}\n\n')
    assert cloud.requests[0]["headers"]["anthropic-beta"] == "some-2026"


# --- what does not go there

def test_other_routes_are_not_for_providers(routers, cloud, engine):
    s = routers[engine]
    body = {"model": "orig", "messages": USER, "input": "x", "query": "x", "documents": ["x"]}
    for path in ("/v1/messages/count_tokens", "/v1/embeddings", "/v1/rerank"):
        assert httpx.post(s.url + path, json=body).status_code == 404, path
    assert httpx.post(s.url + "/v1/completions", json={"model": "orig", "prompt": "x"}).status_code == (404 if engine == "anthropic" else 502)
    assert [r["path"] for r in cloud.requests] == ([] if engine == "anthropic" else ["/v1/completions"])


def test_what_cannot_be_translated_is_refused_before_any_call(routers, cloud):
    with pytest.raises(openai.InternalServerError, match="non-system message"):
        gpt(routers["anthropic"]).chat.completions.create(model="orig", messages=MESSAGES[:1])
    with pytest.raises(openai.InternalServerError, match="n > 1"):
        gpt(routers["anthropic"]).chat.completions.create(model="orig", messages=USER, n=2)
    assert cloud.requests == []


def test_agents_come_first_and_their_last_error_is_kept(stack, cloud):
    start(stack, cloud, "openai", "--queue-depth", "0")
    sim = stack.start_engine("--model", "sim-model")
    stack.start_agent(sim, "--capacity", "1")
    assert stack.chat().status_code == 200 and cloud.requests == []
    sim.faults(step_ms=100)
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json={"model": "sim-model", "messages": USER, "stream": True, "max_tokens": 200}, timeout=20):
        full = stack.chat()  # the one slot is taken
        assert full.status_code == 200 and full.json()["processed_by"] == "provider:openai"
    wait_for("the slot is free", lambda: not sim.state()["running"] and not any(r["status"]["active_requests"] for r in stack.table().values()))
    assert stack.metric("hivenet_router_policy_provider_fallback_total", model="sim-model") == 1
    assert stack.metric("hivenet_router_routing_requests_routed_total", region="cloud", engine="openai", model=MODELS["openai"]) == 1
    assert stack.metric("http_client_request_duration_seconds_count", provider="openai", status_code="200") == 1
    metrics = stack.metrics()
    assert not [k for k in metrics if k.startswith("hivenet_router_policy_exhausted_total")], "a provider answered"
    assert "policy_exhausted request_id=" in stack.router.log(), "the drained chain is told all the same"
    sim.faults(status=500)
    cloud.fault = 500
    failed = stack.chat()
    assert failed.status_code == 502 and failed.json()["error"]["code"] == "backend_error" and failed.json()["error"]["source"] == "backend"
    message = failed.json()["error"]["message"]
    assert message.startswith("provider openai answered HTTP 500; before that: ") and "words of the provider" not in message
    assert stack.metric("hivenet_router_policy_exhausted_total", model="sim-model") == 1
    assert stack.metric("hivenet_router_routing_requests_failed_total", region="cloud", engine="openai") == 1
    log = stack.router.log()
    assert "words of the provider about [key]" in log and OPENAI_KEY not in log


# --- failures

@pytest.mark.parametrize("fault,status", [(500, 502), (401, 502), (404, 502), (429, 502), ("empty", 502), ("no credit", 502), (400, 400), (413, 413)])
def test_refusals(routers, cloud, engine, fault, status):
    cloud.fault = fault
    s = routers[engine]
    for dialect, call in (("openai", lambda: gpt(s).chat.completions.create(model="orig", messages=USER)),
                          ("anthropic", lambda: claude(s).messages.create(model="orig", max_tokens=5, messages=USER))):
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as error:
            call()
        assert error.value.status_code == status, dialect
        line = audited(s, error.value.response.headers["x-request-id"])
        assert (line["agent_id"], line["status_code"]) == (f"provider:{engine}", status), "who refused and whose fault it was stands in the audit"
        told = error.value.body["error"] if "error" in error.value.body else error.value.body
        assert told["source"] == "backend" and "words of the provider" not in told["message"]
        if isinstance(fault, int):
            assert f"provider {engine} answered HTTP {fault}" in told["message"]
    assert len(cloud.requests) == 2, "one call a request, no retry"


def test_an_error_event_is_an_answer_only_after_content(routers, cloud, engine):
    cloud.fault = "early error"
    with pytest.raises(openai.InternalServerError, match="reported an error|broke off"):
        gpt(routers[engine]).chat.completions.create(model="orig", messages=USER, stream=True)
    log = wait_for("the provider's words", lambda: "words of the provider about [key]" in routers[engine].router.log() and routers[engine].router.log())
    assert KEYS[f"HIVENET_ROUTER_{engine.upper()}_API_KEY"] not in log
    cloud.fault = "error"
    seen, mine = [], named()
    with pytest.raises(openai.APIError) as error:
        for piece in gpt(routers[engine]).chat.completions.create(model="orig", messages=USER, stream=True, extra_headers=mine):
            seen += [piece.choices[0].delta.content]
    assert TEXT[0] in seen
    if engine == "anthropic":
        assert "provider anthropic broke off its answer" in str(error.value)
    assert audited(routers[engine], mine)["error_code"] == "backend_error"


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_cut_stream_ends_with_an_error_and_no_clean_end(routers, cloud, engine, dialect):
    cloud.fault = "cut"
    s = routers[engine]
    path, body = ("/v1/chat/completions", {"model": "orig", "messages": USER}) if dialect == "openai" else ("/v1/messages", {"model": "orig", "max_tokens": 5, "messages": USER})
    text = ""
    with pytest.raises(httpx.TransportError), httpx.stream("POST", s.url + path, json={**body, "stream": True}, timeout=20) as r:
        assert r.status_code == 200
        for piece in r.iter_text():
            text += piece
    assert TEXT[0].strip() in text and f"provider {engine} broke off its answer" in text
    assert "[DONE]" not in text and "message_stop" not in text
    assert ("event: error" in text) == (dialect == "anthropic")


SPOKEN = {"openai": ("/v1/chat/completions", {"model": "orig", "messages": USER, "stream": True}),
          "anthropic": ("/v1/messages", {"model": "orig", "max_tokens": 5, "messages": USER, "stream": True})}


@pytest.mark.parametrize("events", [b"", b": thinking\n\n", b"data: [DONE]\n\n", b'data: {"foo":1}\n\ndata: [DONE]\n\n', b"data: <html>\n\n"])
@pytest.mark.parametrize("dialect", list(SPOKEN))
def test_a_stream_without_an_answer_in_it_is_502(routers, cloud, engine, dialect, events):
    """Naive variant: what is framed well is an answer."""
    cloud.fault = events
    path, body = SPOKEN[dialect]
    answer = httpx.post(routers[engine].url + path, json=body, timeout=20)
    assert answer.status_code == 502 and f"provider {engine} " in answer.text


@pytest.mark.parametrize("dialect", list(SPOKEN))
def test_a_stream_that_ends_well_but_too_early_has_broken_off(routers, cloud, engine, dialect):
    """Naive variant: the end of the framing is the end of the answer."""
    cloud.fault = "no end"
    path, body = SPOKEN[dialect]
    text = ""
    with pytest.raises(httpx.TransportError), httpx.stream("POST", routers[engine].url + path, json=body, timeout=20) as r:
        assert r.status_code == 200
        for piece in r.iter_text():
            text += piece
    assert TEXT[0].strip() in text and f"provider {engine} broke off its answer" in text
    assert "[DONE]" not in text and "message_stop" not in text


@pytest.mark.parametrize("dialect", list(SPOKEN))
def test_an_error_after_content_tells_no_key(routers, cloud, dialect):
    """The provider's own dialect: its words are passed on. Naive variant: with the key in them."""
    cloud.fault = "error"
    path, body = SPOKEN[dialect]
    with httpx.stream("POST", routers[dialect].url + path, json=body, timeout=20) as r:
        text = r.read().decode()
    assert r.status_code == 200 and "words of the provider about [key]" in text
    assert OPENAI_KEY not in text and ANTHROPIC_KEY not in text


@pytest.mark.parametrize("fault", ["hang", "stall"])
def test_a_client_that_leaves_ends_the_providers_call(routers, cloud, engine, fault):
    cloud.fault = fault
    s, mine = routers[engine], named()
    if fault == "stall":
        stream = gpt(s).chat.completions.create(model="orig", messages=USER, stream=True, extra_headers=mine)
        next(iter(stream))
        stream.close()
    else:
        with socket.create_connection(address(s)) as waiting:
            waiting.sendall(chat_bytes(mine, model="orig", messages=USER))
            wait_for("the provider is asked", lambda: cloud.requests)
    assert cloud.left.wait(3), "the provider's connection is closed"
    assert audited(s, mine)["ended"] == "client_gone"


def test_the_deadline_ends_the_call_and_the_answer_is_504(stack, cloud):
    start(stack, cloud, "openai", "--request-timeout", "1s")
    cloud.fault = "hang"
    answer = stack.chat()
    assert answer.status_code == 504 and answer.json()["error"]["code"] == "request_timeout"
    assert cloud.left.wait(3)
    assert audited(stack, answer.headers["x-request-id"])["agent_id"] == "provider:openai"


def test_a_waiting_call_holds_no_forward_slot(stack, cloud):
    start(stack, cloud, "openai", "--max-concurrent", "1")
    sim = stack.start_engine("--model", "sim-model")
    stack.start_agent(sim)
    cloud.fault = "hang"
    with socket.create_connection(address(stack)) as waiting:
        waiting.sendall(chat_bytes(model="elsewhere", messages=USER))
        wait_for("the provider is asked", lambda: len(cloud.requests) == 1)
        assert stack.chat(timeout=5).status_code == 200
    assert cloud.left.wait(3)


def test_a_call_in_the_cloud_holds_nothing_of_the_models_budget(stack, cloud):
    """Naive variant: what was let in for the fleet is held until the provider's answer ends, and the fleet's own requests are refused."""
    stack.start_router("--policy-file", policy(stack.folder, "openai", "admit_budget_tokens: 1000\nmax_inflight: 5\n"),
                       "--openai-base-url", cloud.url + "/v1", "--provider-ca-file", cloud.certificate, env=KEYS)
    sim = stack.start_engine("--model", "sim-model")
    stack.start_agent(sim)
    sim.faults(status=500)
    cloud.fault = "hang"
    with socket.create_connection(address(stack)) as waiting:
        waiting.sendall(chat_bytes(model="sim-model", messages=USER))
        wait_for("the provider is asked", lambda: len(cloud.requests) == 1)
        metrics = stack.metrics()
        assert [metrics[f'hivenet_router_admission_{name}{{model="sim-model"}}'] for name in ("occupancy_tokens", "inflight_requests")] == [0, 0]
    assert cloud.left.wait(3)


def test_a_client_that_reads_nothing_stops_the_provider(stack, cloud):
    start(stack, cloud, "anthropic")
    cloud.fault = "flood"
    cloud.flooded = 0
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        slow.connect(address(stack))
        slow.sendall(chat_bytes(model="m", messages=USER, stream=True))

        wait_for("the provider's socket takes nothing more", lambda: cloud.flooded and time.monotonic() > cloud.flooded_at + 0.5, limit=20)
        assert stack.metric("hivenet_router_memory_held_bytes") < 8 << 20
    assert cloud.left.wait(5)


def test_a_provider_that_is_down_or_unproven_gets_no_key(stack, cloud):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        start(stack, cloud, "openai", url=f"https://localhost:{reserved.getsockname()[1]}")
        down = stack.chat()
        assert down.status_code == 502 and "provider openai cannot be reached" in down.json()["error"]["message"]
    assert stack.metric("http_client_request_duration_seconds_count", provider="openai", status_code="0") == 1
    stack.stop()
    start(stack, cloud, "openai", ca=False)
    unproven = stack.chat()
    assert unproven.status_code == 502 and cloud.requests == []
    assert "its certificate is refused" in stack.router.log()


# --- configuration

@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("engine,keys,said", [("openai", {}, "HIVENET_ROUTER_OPENAI_API_KEY"), ("anthropic", {"HIVENET_ROUTER_OPENAI_API_KEY": "k"}, "HIVENET_ROUTER_ANTHROPIC_API_KEY"),
                                              ("OpenAI", KEYS, "unknown provider 'OpenAI'")])
def test_a_policy_whose_provider_cannot_be_used_stops_the_start(tmp_path, engine, keys, said, named):
    args = [BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0", "--disk-db-path", tmp_path / "db"]
    if named:
        (tmp_path / "models").mkdir()
        policy(tmp_path / "models", engine, "models: [gpt]\n")
        args += ["--policy-model-dir", tmp_path / "models"]
    else:
        args += ["--policy-file", policy(tmp_path, engine)]
    router = Process("router", args, tmp_path, {"HIVENET_ROUTER_AUDIT_LOG_PATH": "off", **keys})
    try:
        assert router.child.wait(10) != 0
        assert said in router.log()
        assert not named or f"policy-{engine}.yaml" in router.log()
    finally:
        router.kill()


def test_a_document_written_through_the_api_names_a_provider_with_a_key_or_is_refused(stack, cloud):
    stack.start_router("--policy-file", policy(stack.folder, "openai"), "--openai-base-url", cloud.url, "--provider-ca-file", cloud.certificate,
                       env={"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY})
    document = "models: [m]\nrouting_policy: {strategy: least-loaded}\nfallback_provider: {engine: %s, model: m}\n"
    for path in ("/admin/policy/models/m", "/admin/policy"):
        refused = stack.admin(path, method="PUT", content=document % "anthropic")
        assert refused.status_code == 400 and "HIVENET_ROUTER_ANTHROPIC_API_KEY" in refused.json()["error"], path
    assert stack.admin("/admin/policy/models/m", method="PUT", content=document % "openai").status_code == 200


def test_sighup_keeps_the_policy_when_the_new_ones_provider_has_no_key(stack, cloud):
    stack.start_router("--policy-file", policy(stack.folder, "openai"), "--openai-base-url", cloud.url, "--provider-ca-file", cloud.certificate,
                       env={"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY})
    policy(stack.folder, "anthropic").rename(stack.folder / "policy-openai.yaml")
    stack.router.child.send_signal(1)
    wait_for("the refusal is logged", lambda: "HIVENET_ROUTER_ANTHROPIC_API_KEY" in stack.router.log())
    assert stack.chat().json()["processed_by"] == "provider:openai"
