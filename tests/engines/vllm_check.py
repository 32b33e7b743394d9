"""vLLM on CPU behind router and agent: answers, signals, errors, aborts. Writes what it saw to a page of results."""
import argparse
import datetime
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import httpx
import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from conftest import Process, Stack, wait_for  # noqa: E402

ASK = [{"role": "user", "content": "river and stone"}]
rows = []


def step(what):
    """Notes a check, how long it took and what it saw."""
    def run(check):
        begin = time.monotonic()
        seen = check()
        rows.append((what, f"{time.monotonic() - begin:.2f}", seen))
        print(f"ok  {what}: {seen}", flush=True)
    return run


class Vllm(Process):
    """vLLM starts processes of its own, which outlive it when it is killed: all of its session are ended."""

    def __init__(self, command, folder, env):
        super().__init__("vllm", ["setsid", *command], folder, env)

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        super().kill()


def start_vllm(stack, command, model):
    port = stack.reserve()
    quiet = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
             "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    server = stack.keep(Vllm([
        command, "serve", model, "--host", "127.0.0.1", "--port", port, "--served-model-name", "tiny-llm", "tiny-alias", "--dtype",
        "float32", "--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", "4"], stack.folder, quiet))
    server.url = f"http://127.0.0.1:{port}"
    return server


def page_value(server, name):
    for line in httpx.get(server.url + "/metrics").text.splitlines():
        if line.startswith(name) and not line.startswith("#"):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no series {name}")


def check(stack, server, started):
    agent = stack.start_agent(server.url, "--capacity", "8", wait=False)
    wait_for("vLLM is ready and its agent routable", lambda: server.child.poll() is not None or stack.row(agent.peer_id)["status"]["routable"],
             limit=600, pause=0.5)
    assert server.child.poll() is None, server.log()[-3000:]
    print(f"ready after {time.monotonic() - started:.0f} s", flush=True)
    client = openai.OpenAI(base_url=stack.url + "/v1", api_key="none", max_retries=0, timeout=120)

    def engine():
        return stack.row(agent.peer_id).get("engine", {})

    @step("an agent started before its engine waits for it, and lists both served names")
    def _():
        ids = sorted(m.id for m in client.models.list())
        assert ids == ["tiny-alias", "tiny-llm"], ids
        return ", ".join(ids)

    @step("buffered chat, usage counted")
    def _():
        answer = client.chat.completions.create(model="tiny-llm", messages=ASK, max_tokens=16)
        assert answer.choices[0].message.content and answer.usage.completion_tokens == 16
        return f"{answer.usage.prompt_tokens} + {answer.usage.completion_tokens} tokens"

    @step("streamed chat, usage on request, first text before the end")
    def _():
        begin, first, text, usage = time.monotonic(), None, "", None
        for chunk in client.chat.completions.create(model="tiny-alias", messages=ASK, max_tokens=64, stream=True,
                                                    stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            if chunk.choices and chunk.choices[0].delta.content:
                first = first or time.monotonic() - begin
                text += chunk.choices[0].delta.content
        whole = time.monotonic() - begin
        assert text and usage.completion_tokens == 64 and first < whole / 2
        return f"first text after {first * 1000:.0f} ms of {whole * 1000:.0f} ms"

    @step("all seven signals, recent and lifetime")
    def _():
        names = ["kv_cache_utilization", "running_requests", "waiting_requests"]
        for name in ("ttft", "itl"):
            names += [f"avg_{name}_seconds", f"p90_{name}_seconds", f"lifetime_avg_{name}_seconds", f"lifetime_p90_{name}_seconds"]
        seen = wait_for("every signal is there", lambda: engine() if all(n in engine() for n in names) else None)
        life = page_value(server, "vllm:time_to_first_token_seconds_sum") / page_value(server, "vllm:time_to_first_token_seconds_count")
        assert abs(seen["lifetime_avg_ttft_seconds"] - life) < 1e-6 * max(1, life)
        return f"avg TTFT {seen['avg_ttft_seconds'] * 1000:.0f} ms, p90 ITL {seen['p90_itl_seconds'] * 1000:.1f} ms"

    @step("signals move: 6 streams on 4 sequences run and wait, then end")
    def _():
        ended = []

        def ask():
            for _ in client.chat.completions.create(model="tiny-llm", messages=ASK, max_tokens=400, stream=True):
                pass
            ended.append(1)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        full = wait_for("full", lambda: engine() if engine()["running_requests"] == 4 and engine()["waiting_requests"] == 2
                        and engine()["kv_cache_utilization"] > 0 else None, limit=60)
        for thread in threads:
            thread.join(120)
        assert len(ended) == 6
        wait_for("idle", lambda: engine()["running_requests"] == 0 and engine()["waiting_requests"] == 0)
        return f"4 running, 2 waiting, KV {full['kv_cache_utilization']:.4f}, then 0"

    @step("an aborted stream frees the engine's sequence, and nobody is blamed")
    def _():
        stream = client.chat.completions.create(model="tiny-llm", messages=ASK, max_tokens=1900, stream=True)
        next(iter(stream))
        wait_for("it runs", lambda: page_value(server, "vllm:num_requests_running{") == 1)
        begin = time.monotonic()
        stream.close()
        wait_for("the engine is idle", lambda: page_value(server, "vllm:num_requests_running{") == 0, limit=5)
        took = time.monotonic() - begin
        assert stack.row(agent.peer_id)["universal"]["failed_requests_total"] == 0
        return f"idle {took * 1000:.0f} ms after the client left"

    @step("errors: unknown model, over the context, bad value")
    def _():
        statuses = []
        for wrong in ({"model": "no-such-model"}, {"messages": [{"role": "user", "content": "river " * 9000}]}, {"max_tokens": 0}):
            try:
                client.chat.completions.create(**{"model": "tiny-llm", "messages": ASK, "max_tokens": 4, **wrong})
                raise AssertionError(f"{wrong} was answered")
            except openai.APIStatusError as error:
                statuses.append(error.status_code)
        assert statuses == [404, 400, 400], statuses
        assert stack.row(agent.peer_id)["universal"]["failed_requests_total"] == 0
        return "404, 400, 400"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("--vllm", "--model", "--version", "--result"):
        options.add_argument(name, required=True, type=pathlib.Path if name != "--version" else str)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(pathlib.Path(folder))
        try:
            stack.start_router()
            started = time.monotonic()
            server = start_vllm(stack, given.vllm, given.model)
            check(stack, server, started)
        finally:
            stack.stop()
    given.result.parent.mkdir(exist_ok=True)
    today = datetime.date.today().isoformat()
    lines = [f"vLLM {given.version} on CPU behind router and agent, {today}, by `./dev engines`.", "", "| check | s | seen |", "|---|---|---|"]
    lines += [f"| {what} | {took} | {seen} |" for what, took, seen in rows]
    given.result.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
