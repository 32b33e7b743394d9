"""LangChain's OpenAI and Anthropic models through the router."""
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


@tool
def look_up(text: str) -> str:
    """Looks a text up."""
    return "found " + text


MAKERS = {
    "openai": lambda url: ChatOpenAI(base_url=url + "/v1", api_key="none", model="sim-model", max_retries=0, stream_usage=True),
    "openai-responses": lambda url: ChatOpenAI(base_url=url + "/v1", api_key="none", model="sim-model", max_retries=0, use_responses_api=True),
    "anthropic": lambda url: ChatAnthropic(base_url=url, api_key="none", model="sim-model", max_retries=0, max_tokens=6),
}


@pytest.fixture(params=MAKERS)
def model(request, fleet):
    return MAKERS[request.param](fleet.url)


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


def test_errors_come_through(fleet):
    with pytest.raises(openai.NotFoundError):
        ChatOpenAI(base_url=fleet.url + "/v1", api_key="none", model="nobody", max_retries=0).invoke("x")
    fleet.engine.faults(cut_after=2)
    with pytest.raises(openai.APIError):
        list(MAKERS["openai"](fleet.url).stream("x"))
