"""LangChain's OpenAI and Anthropic models through the router."""
import anthropic
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from processes import wait_for


@tool
def look_up(text: str) -> str:
    """Looks a text up."""
    return "found " + text


def of_openai(url, **more):
    return ChatOpenAI(**{"base_url": url + "/v1", "api_key": "none", "model": "sim-model", "max_retries": 0, **more})


MAKERS = {
    "openai": lambda url, **more: of_openai(url, stream_usage=True, **more),
    "openai-responses": lambda url, **more: of_openai(url, use_responses_api=True, **more),
    "anthropic": lambda url, **more: ChatAnthropic(**{"base_url": url, "api_key": "none", "model": "sim-model", "max_retries": 0,
                                                      "max_tokens": 6, **more}),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.fixture
def model(make, fleet):
    return make(fleet.url)


def test_invoke_and_stream_with_usage(model):
    answer = model.invoke("hello")
    assert answer.text == "token " * 6 and answer.usage_metadata["output_tokens"] == 6
    parts = list(model.stream("hello"))
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert len(parts) > 6 and total.text == "token " * 6 and total.usage_metadata["output_tokens"] == 6


def test_a_tool_is_called_and_its_answer_taken(model):
    bound = model.bind_tools([look_up])
    asked = [HumanMessage("look the river up")]
    call = bound.invoke(asked)
    assert call.tool_calls[0]["name"] == "look_up" and call.tool_calls[0]["args"] == {"text": "token " * 6}
    result = look_up.invoke(call.tool_calls[0]["args"])
    final = bound.invoke([*asked, call, ToolMessage(result, tool_call_id=call.tool_calls[0]["id"])])
    assert final.text == "token " * 6 and not final.tool_calls


def test_embeddings(fleet):
    embeddings = OpenAIEmbeddings(base_url=fleet.url + "/v1", api_key="none", model="sim-embed", check_embedding_ctx_length=False)
    assert [len(v) for v in embeddings.embed_documents(["a", "b"])] == [8, 8]


def test_leaving_a_stream_ends_the_engines_request(make, fleet):
    """Naive variant: the router reads on for nobody, and the GPU works to the last token."""
    fleet.engine.faults(step_ms=50)
    before = fleet.engine.state()["aborted"]
    parts = make(fleet.url, max_tokens=500).stream("hello")
    next(parts)
    parts.close()
    wait_for("the engine's request is aborted", lambda: fleet.engine.state()["aborted"] == before + 1, limit=3)


def test_what_the_router_could_not_save_is_tried_again(make, fleet):
    """Naive variant: a status that tells the SDK not to repeat."""
    before = fleet.engine.state()["chats"]
    fleet.engine.faults(status=500, count=1)
    assert make(fleet.url, max_retries=2).invoke("hello").text == "token " * 6
    assert fleet.engine.state()["chats"] == before + 2


ERRORS = {"openai": openai, "openai-responses": openai, "anthropic": anthropic}


@pytest.mark.parametrize("kind", MAKERS)
def test_errors_come_through(kind, fleet):
    """Naive variant: a broken stream ends like a whole one, and half an answer is taken for it."""
    with pytest.raises(ERRORS[kind].NotFoundError):
        MAKERS[kind](fleet.url, model="nobody").invoke("x")
    fleet.engine.faults(status=500)
    with pytest.raises(ERRORS[kind].InternalServerError):
        MAKERS[kind](fleet.url).invoke("x")
    fleet.engine.faults(cut_after=4)
    with pytest.raises(ERRORS[kind].APIError):
        list(MAKERS[kind](fleet.url).stream("x"))
