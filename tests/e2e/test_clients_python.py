"""The official OpenAI and Anthropic SDKs for Python against router, agents and simulated engines."""
import json
import time

import anthropic
import openai
import pytest

from conftest import Stack, wait_for

MESSAGES = [{"role": "user", "content": "write about the river"}]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
FUNCTION = {"name": "look_up", "description": "looks up", "parameters": SCHEMA}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    s = Stack(tmp_path_factory.mktemp("clients"))
    try:
        s.start_router("--max-request-bytes", "100000", "--allow-route", "audio/transcriptions")
        s.llm = s.start_engine("--model", "sim-model", "--tokens", "6")
        s.embedder = s.start_engine("--model", "sim-embed")
        s.agent = s.start_agent(s.llm, identity="llm.key")
        s.start_agent(s.embedder, "--capability", "embedding", identity="embed.key")
        yield s
    finally:
        s.stop()


@pytest.fixture(autouse=True)
def healthy(fleet):
    fleet.llm.faults()
    yield
    fleet.llm.faults()


@pytest.fixture
def gpt(fleet):
    return openai.OpenAI(base_url=fleet.url + "/v1", api_key="none", max_retries=0, timeout=20)


@pytest.fixture
def claude(fleet):
    return anthropic.Anthropic(base_url=fleet.url, api_key="none", max_retries=0, timeout=20)


def aborted_after(fleet, leave):
    """leave() ends a call under way; the engine's request must end with it."""
    fleet.llm.faults(step_ms=50)
    before = fleet.llm.state()["aborted"]
    leave()
    wait_for("the engine's request is aborted", lambda: fleet.llm.state()["aborted"] == before + 1, limit=3)


# --- OpenAI

def test_openai_models(gpt):
    listed = {m.id: m for m in gpt.models.list()}
    assert set(listed) == {"sim-model", "sim-embed"} and listed["sim-model"].owned_by == "hivenet"
    assert gpt.models.retrieve("sim-model").id == "sim-model"


def test_openai_chat_buffered_and_streamed(gpt):
    answer = gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=4)
    assert answer.choices[0].message.content == "token " * 4 and answer.usage.completion_tokens == 4
    text, usage = "", None
    for chunk in gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=4, stream=True, stream_options={"include_usage": True}):
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        usage = chunk.usage or usage
    assert text == "token " * 4 and usage.completion_tokens == 4
    chunks = list(gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=4, stream=True))
    assert all(c.choices and c.usage is None for c in chunks) and chunks[-1].choices[0].finish_reason == "length"


def test_openai_tools_round_trip(gpt):
    tools = [{"type": "function", "function": FUNCTION}]
    call = gpt.chat.completions.create(model="sim-model", messages=MESSAGES, tools=tools).choices[0].message
    assert json.loads(call.tool_calls[0].function.arguments) == {"text": "token " * 6}
    pieces = [c.choices[0].delta.tool_calls[0] for c in gpt.chat.completions.create(model="sim-model", messages=MESSAGES, tools=tools, stream=True)
              if c.choices and c.choices[0].delta.tool_calls]
    assert pieces[0].function.name == "look_up"
    assert json.loads("".join(p.function.arguments or "" for p in pieces)) == {"text": "token " * 6}
    told = MESSAGES + [call.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "found"}]
    assert gpt.chat.completions.create(model="sim-model", messages=told, tools=tools).choices[0].message.content == "token " * 6


def test_openai_completions_responses_embeddings_and_audio(gpt):
    assert gpt.completions.create(model="sim-model", prompt="once", max_tokens=2).choices[0].text == "token token "
    assert "".join(c.choices[0].text for c in gpt.completions.create(model="sim-model", prompt="once", max_tokens=2, stream=True)) == "token token "
    response = gpt.responses.create(model="sim-model", input="hello", max_output_tokens=3)
    assert response.output_text == "token " * 3 and response.usage.output_tokens == 3
    kinds = [e.type for e in gpt.responses.create(model="sim-model", input="hello", max_output_tokens=3, stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and kinds.count("response.output_text.delta") == 3
    call = gpt.responses.create(model="sim-model", input="hello", tools=[{"type": "function", "strict": False, **FUNCTION}]).output[0]
    assert (call.type, call.name) == ("function_call", "look_up")
    vectors = gpt.embeddings.create(model="sim-embed", input=["a", "b"])  # asks for base64 and unpacks it
    assert len(vectors.data[1].embedding) == 8 and vectors.usage.prompt_tokens == 2
    assert gpt.audio.transcriptions.create(model="sim-model", file=("a.wav", b"sound")).text.startswith("heard ")


def test_openai_errors_have_their_class(fleet, gpt):
    def chat(**more):
        return gpt.chat.completions.create(**{"model": "sim-model", "messages": MESSAGES, **more})

    with pytest.raises(openai.NotFoundError) as missing:
        chat(model="no-such-model")
    assert (missing.value.code, missing.value.type) == ("model_not_found", "not_found_error")
    assert missing.value.request_id == missing.value.body["request_id"]
    with pytest.raises(openai.BadRequestError, match="sim-embed"):
        chat(model="sim-embed")
    with pytest.raises(openai.BadRequestError, match="max_tokens"):  # the engine's own words
        chat(max_tokens=-1)
    with pytest.raises(openai.APIStatusError) as large:
        chat(messages=[{"role": "user", "content": "x" * 100_000}])
    assert large.value.status_code == 413
    with pytest.raises(openai.NotFoundError, match="no such route"):
        gpt.moderations.create(input="x")
    fleet.llm.faults(status=500)
    with pytest.raises(openai.InternalServerError) as failed:
        chat()
    assert (failed.value.status_code, failed.value.code) == (502, "backend_error")
    fleet.llm.faults(hang=True)
    with pytest.raises(openai.APITimeoutError):
        gpt.with_options(timeout=0.3).chat.completions.create(model="sim-model", messages=MESSAGES)


@pytest.mark.parametrize("start", [
    lambda c: c.chat.completions.create(model="sim-model", messages=MESSAGES, stream=True),
    lambda c: c.completions.create(model="sim-model", prompt="x", stream=True),
    lambda c: c.responses.create(model="sim-model", input="x", stream=True),
], ids=["chat", "completions", "responses"])
def test_openai_a_broken_stream_raises(fleet, gpt, start):
    fleet.llm.faults(cut_after=2)
    with pytest.raises(openai.APIError) as broken:
        for _ in start(gpt):
            pass
    assert broken.value.body["code"] == "backend_error"


def test_openai_leaving_a_stream_ends_the_engines_request(fleet, gpt):
    def leave():
        stream = gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=500, stream=True)
        next(iter(stream))
        stream.close()
    aborted_after(fleet, leave)


def test_openai_retries_what_the_router_could_not_save(fleet, gpt):
    before = fleet.llm.state()["chats"]
    fleet.llm.faults(status=500, count=1)
    answer = gpt.with_options(max_retries=2).chat.completions.create(model="sim-model", messages=MESSAGES)
    assert answer.choices[0].message.content and fleet.llm.state()["chats"] == before + 2
    with pytest.raises(openai.BadRequestError):  # and nothing that cannot get better
        gpt.with_options(max_retries=2).chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=-1)
    assert fleet.llm.state()["chats"] == before + 3


# --- Anthropic

def test_anthropic_messages_buffered_and_streamed(claude):
    answer = claude.messages.create(model="sim-model", max_tokens=4, messages=MESSAGES)
    assert answer.content[0].text == "token " * 4 and answer.usage.output_tokens == 4
    with claude.messages.stream(model="sim-model", max_tokens=4, messages=MESSAGES) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "token " * 4 and final.usage.output_tokens == 4 and final.stop_reason == "max_tokens"


def test_anthropic_tools_round_trip(claude):
    tools = [{"name": "look_up", "input_schema": SCHEMA}]
    with claude.messages.stream(model="sim-model", max_tokens=6, messages=MESSAGES, tools=tools) as stream:
        call = stream.get_final_message()
    assert call.stop_reason == "tool_use" and call.content[0].input == {"text": "token " * 6}
    told = MESSAGES + [{"role": "assistant", "content": [call.content[0].model_dump(include={"type", "id", "name", "input"})]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.content[0].id, "content": "found"}]}]
    assert claude.messages.create(model="sim-model", max_tokens=2, messages=told, tools=tools).content[0].text == "token token "


def test_anthropic_count_tokens_and_models(claude):
    assert claude.messages.count_tokens(model="sim-model", messages=MESSAGES).input_tokens > 0
    page = claude.models.list(limit=1000)
    assert [m.id for m in page] == ["sim-embed", "sim-model"] and page.data[0].type == "model" and page.data[0].created_at.year >= 2025
    assert claude.models.retrieve("sim-model").display_name == "sim-model"


def test_anthropic_errors_have_their_class(fleet, claude):
    def message(**more):
        return claude.messages.create(**{"model": "sim-model", "max_tokens": 4, "messages": MESSAGES, **more})

    with pytest.raises(anthropic.NotFoundError) as missing:
        message(model="no-such-model")
    assert missing.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="sim-embed"):
        message(model="sim-embed")
    with pytest.raises(anthropic.APIStatusError) as large:
        message(messages=[{"role": "user", "content": "x" * 100_000}])
    assert large.value.status_code == 413 and large.value.body["error"]["type"] == "request_too_large"
    fleet.llm.faults(status=500)
    with pytest.raises(anthropic.InternalServerError) as failed:
        message()
    assert failed.value.body["error"]["type"] == "api_error"
    fleet.llm.faults(hang=True)
    with pytest.raises(anthropic.APITimeoutError):
        claude.with_options(timeout=0.3).messages.create(model="sim-model", max_tokens=4, messages=MESSAGES)


def test_anthropic_a_broken_stream_raises(fleet, claude):
    fleet.llm.faults(cut_after=2)
    with pytest.raises(anthropic.APIStatusError) as broken:
        with claude.messages.stream(model="sim-model", max_tokens=6, messages=MESSAGES) as stream:
            stream.get_final_message()
    assert broken.value.body["error"]["code"] == "backend_error"


def test_anthropic_leaving_a_stream_ends_the_engines_request(fleet, claude):
    def leave():
        with claude.messages.stream(model="sim-model", max_tokens=500, messages=MESSAGES) as stream:
            next(iter(stream))
    aborted_after(fleet, leave)


def test_anthropic_retries_what_the_router_could_not_save(fleet, claude):
    before = fleet.llm.state()["chats"]
    fleet.llm.faults(status=500, count=1)
    start = time.monotonic()
    assert claude.with_options(max_retries=2).messages.create(model="sim-model", max_tokens=2, messages=MESSAGES).content
    assert fleet.llm.state()["chats"] == before + 2 and time.monotonic() - start < 5
