"""The processes of the end-to-end tests, for the frameworks that ./dev clients runs."""
import importlib.util
import pathlib
import sys

import pytest

# The end-to-end tests' own conftest.py, under a name that this file does not take.
spec = importlib.util.spec_from_file_location("processes", pathlib.Path(__file__).parents[2] / "conftest.py")
processes = importlib.util.module_from_spec(spec)
sys.modules["processes"] = processes
spec.loader.exec_module(processes)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    s = processes.Stack(tmp_path_factory.mktemp("frameworks"))
    try:
        s.start_router()
        s.engine = s.start_engine("--model", "sim-model", "--tokens", "6")
        embedder = s.start_engine("--model", "sim-embed")
        s.start_agent(s.engine, identity="llm.key")
        s.start_agent(embedder, "--capability", "embedding", identity="embed.key")
        yield s
    finally:
        s.stop()


@pytest.fixture(autouse=True)
def healthy(fleet):
    fleet.engine.faults()
    yield
    fleet.engine.faults()
