"""The unit files: systemd understands every line, and the sandbox stays as tight as docs/hardening.md says."""
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import BIN, Process, wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
UNITS = sorted((TOP / "deploy" / "systemd").glob("*.service"))
PAGE = (TOP / "docs" / "hardening.md").read_text()


def test_both_programs_have_a_unit():
    assert [u.name for u in UNITS] == ["hivenet-agent.service", "hivenet-router.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.stem)
def test_the_exposure_is_at_most_what_the_page_says(unit):
    """`systemd-analyze security` needs no running systemd. Fails when a line of the sandbox is taken out."""
    told = re.search(rf"\| `{unit.name}` \| (\d+\.\d) \|", PAGE)
    assert told, f"docs/hardening.md gives no exposure of {unit.name}"
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True, timeout=60)
    said = re.search(r"Overall exposure level for .*: (\d+\.\d)", done.stdout)
    assert said, done.stdout + done.stderr
    assert float(said[1]) <= float(told[1])
    assert not re.search(r"(Unknown|Invalid|Failed to parse|ignoring)", done.stderr), done.stderr


# NoNewPrivileges, an empty CapabilityBoundingSet, MemoryDenyWriteExecute (of kernels that know it): without a running systemd.
SANDBOX = """
import ctypes, os, sys
def prctl(*words):
    return ctypes.CDLL(None).prctl(*(ctypes.c_ulong(w) for w in (*words, 0, 0, 0, 0)[:5]))
for capability in range(64):
    prctl(24, capability)
assert prctl(38, 1) == 0
prctl(65, 1)
os.umask(0o077)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_the_programs_serve_without_any_capability_or_memory_that_is_written_and_run(stack):
    """Naive variant: a library that makes code as it runs, a file that only root's capabilities open."""
    engine = stack.start_engine("--model", "sim-model")
    start = [sys.executable, "-c", SANDBOX]
    env = {"HIVENET_ROUTER_JWT_SECRET": stack.secret, "HIVENET_ROUTER_AUDIT_LOG_PATH": str(stack.folder / "audit.jsonl")}
    router = stack.keep(Process("router", [*start, BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0",
                                           "--link-listen", "127.0.0.1:0", "--disk-db-path", stack.folder / "db",
                                           "--identity-path", stack.folder / "router.key"], stack.folder, env))
    said = router.ready()
    stack.url = "http://" + said["http"]
    stack.keep(Process("agent", [*start, BIN / "hivenet-agent", "--backend-url", engine.url, "--router", said["link"][0], "--router-id", said["router_id"],
                                 "--identity-path", stack.folder / "agent.key"], stack.folder, env))
    wait_for("it serves", lambda: stack.chat(max_tokens=1).status_code == 200)
    status = pathlib.Path(f"/proc/{router.pid}/status").read_text()
    assert re.search(r"^CapEff:\s*0+$", status, re.M) and re.search(r"^NoNewPrivs:\s*1$", status, re.M)


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.stem)
def test_flags_of_the_command_lines_exist(unit):
    lines = [line.split("=", 1)[1] for line in unit.read_text().splitlines() if line.startswith("ExecStart")]
    reference = (TOP / "docs" / "reference" / f"settings-{unit.stem.removeprefix('hivenet-')}.md").read_text()
    for flag in re.findall(r"--[\w-]+", " ".join(lines)):
        assert f"`{flag}`" in reference, flag
