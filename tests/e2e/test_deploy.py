"""The unit files: systemd understands every line, the sandbox stays as tight as docs/hardening.md says, and what they start is installed."""
import os
import pathlib
import re
import secrets
import shlex
import subprocess
import sys

import pytest

from conftest import BIN, BUILD, Process, wait_for

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


def installed(prefix, umask):
    """The page's own command, with this build and this prefix, by somebody with that umask."""
    line = re.search(r"^\./dev build && (cmake --install build/release --prefix /usr)\b", PAGE, re.M)
    assert line, "docs/hardening.md does not say how the programs come to /usr/bin"
    told = {"build/release": str(BUILD), "/usr": str(prefix)}
    done = subprocess.run([told.get(word, word) for word in shlex.split(line[1])], capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: os.umask(umask))
    assert done.returncode == 0, done.stdout + done.stderr
    return prefix


@pytest.mark.parametrize("umask", (0o002, 0o077), ids=lambda u: f"{u:03o}")
def test_an_installed_tree_holds_what_the_units_start_and_every_plugin_and_needs_no_path(tmp_path, umask):
    """Naive variant: programs without their plugins; folders as the umask has them, which the loader refuses (002) or the service cannot
    read (077); an rpath of the build."""
    prefix = installed(tmp_path / "usr", umask)
    for unit in UNITS:
        for program in re.findall(r"^Exec\w+=/usr/(bin/hivenet-\S+)", unit.read_text(), re.M):
            assert (prefix / program).stat().st_mode & 0o777 == 0o755, program
    plugins = prefix / "lib" / "hivenet-router" / "plugins"
    names = {p.name for p in (TOP / "plugins").iterdir() if (p / "CMakeLists.txt").is_file()}
    assert {p.name for p in plugins.iterdir()} == {n + end for n in names for end in (".so", ".plugin.json")}
    assert {oct(p.stat().st_mode & 0o777) for p in (plugins, plugins.parent)} == {"0o755"}
    assert {oct(p.stat().st_mode & 0o777) for p in plugins.iterdir()} == {"0o644"}
    for file in [*(prefix / "bin").iterdir(), *plugins.glob("*.so")]:
        dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, timeout=60, check=True).stdout
        assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), file
    for program in ("hivenet-router", "hivenet-agent"):
        listed = subprocess.run([prefix / "bin" / program, "plugins", "list"], capture_output=True, text=True, timeout=60, check=True,
                                env={**os.environ, "HIVENET_ROUTER_JWT_SECRET": secrets.token_hex(32)}).stdout
        assert set(re.findall(r"^(\w+) +loaded\b", listed, re.M)) == names, listed


def test_an_installed_router_and_agent_serve_without_being_told_where_anything_is(stack, tmp_path):
    prefix = installed(tmp_path / "usr", 0o022)
    engine = stack.start_engine("--model", "sim-model")
    env = {"HIVENET_ROUTER_JWT_SECRET": stack.secret, "HIVENET_ROUTER_AUDIT_LOG_PATH": str(stack.folder / "audit.jsonl")}
    router = stack.keep(Process("router", [prefix / "bin" / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0",
                                           "--link-listen", "127.0.0.1:0", "--disk-db-path", stack.folder / "db"], stack.folder, env))
    said = router.ready()
    stack.url = "http://" + said["http"]
    stack.keep(Process("agent", [prefix / "bin" / "hivenet-agent", "--backend-url", engine.url, "--router", said["link"][0],
                                 "--identity-path", stack.folder / "agent.key"], stack.folder, env))
    wait_for("it serves", lambda: stack.chat(max_tokens=1).status_code == 200)
    mapped = pathlib.Path(f"/proc/{router.pid}/maps").read_text()
    assert str(prefix / "lib" / "hivenet-router" / "plugins" / "transport_zmq.so") in mapped
