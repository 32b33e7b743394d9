"""Gates over what the router and the engines say of an agent, and what is told when a gate is missing, through the real programs."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import BIN, BUILD, wait_for

FIELDS = """capacity_utilization success_rate srtt consecutive_failures kv_cache_utilization running_requests waiting_requests
    avg_ttft_seconds p90_ttft_seconds avg_itl_seconds p90_itl_seconds gpu_temperature_c gpu_util_percent gpu_vram_used_percent
    memory_used_percent cpu_usage_percent success_rate_5m""".split()


def policy_of(stack, rules, strategy="least-loaded"):
    file = stack.folder / "policy.yaml"
    file.write_text(f"routing_policy: {{exclude_if: {rules}, strategy: {strategy}}}\n")
    return file


def last_exhausted(stack):
    return [line for line in stack.router.log().splitlines() if "policy_exhausted" in line][-1]


@pytest.mark.parametrize("rule,failures", [("consecutive_failures: {gte: 2}", 2), ("success_rate_5m: {lt: 0.5}", 1),
                                           ("success_rate: {lt: 0.5, leave: 0.9}", 1)])
def test_an_agent_that_fails_is_left_out_and_the_log_counts_it_by_the_field(stack, rule, failures):
    engine = stack.start_engine()
    stack.start_router("--policy-file", policy_of(stack, "{%s}" % rule))
    agent = stack.start_agent(engine)
    engine.faults(status=500)
    for _ in range(failures):
        stack.chat(max_tokens=1)
    wait_for("counted", lambda: stack.row(agent.peer_id)["universal"]["consecutive_failures"] == failures)
    assert stack.row(agent.peer_id)["universal"]["success_rate_5m"] == 0
    engine.faults(status=0)
    before = engine.state()["chats"]
    refused = stack.chat(max_tokens=1)
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "no_agents_available"
    assert engine.state()["chats"] == before
    field = rule.split(":")[0]
    assert f"routing_policy: gate[7] exclude_if [{field}=1]" in last_exhausted(stack)


def test_every_field_of_the_registry_may_be_used_and_a_wrong_one_is_told_of_all(stack, tmp_path):
    every = ", ".join(f"{name}: {{gt: 0, leave: -1, max_age: 5s, on_missing: pass}}" for name in FIELDS)
    file = policy_of(stack, "{" + every + "}")
    config = tmp_path / "router.yaml"
    config.write_text(f"policy_file: {file}\ndisk_db_path: {tmp_path / 'db'}\n")
    fine = subprocess.run([BIN / "hivenet-router", "check", config], capture_output=True, text=True)
    assert fine.returncode == 0, fine.stderr
    policy_of(stack, "{kv_cache_utilisation: {gt: 1}}")
    wrong = subprocess.run([BIN / "hivenet-router", "check", config], capture_output=True, text=True)
    assert wrong.returncode == 1 and "did you mean 'kv_cache_utilization'" in wrong.stderr
    available = re.search(r"available: ([^)]*)\)", wrong.stderr)[1].split(", ")
    assert set(FIELDS) <= set(available)


def test_a_deleted_library_is_named_by_the_policy_that_needs_it(tmp_path):
    """The program finds its plugins beside itself, so it gets a tree of its own."""
    for folder, pattern in (("bin", "hivenet-router"), ("plugins", "*.so"), ("plugins", "*.plugin.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        for file in (BUILD / folder).glob(pattern):
            shutil.copy2(file, tmp_path / folder / file.name)
    policy = tmp_path / "policy.yaml"
    policy.write_text("routing_policy: {strategy: least-loaded, exclude_if: {success_rate: {lt: 0.5}}}\n")
    config = tmp_path / "router.yaml"
    config.write_text(f"policy_file: {policy}\ndisk_db_path: {tmp_path / 'db'}\nhttp_port: 127.0.0.1:0\nmetrics_port: 127.0.0.1:0\n")

    def run(*args):
        return subprocess.run([tmp_path / "bin" / "hivenet-router", *args], capture_output=True, text=True, cwd=tmp_path, timeout=30)

    assert run("check", config).returncode == 0
    (tmp_path / "plugins" / "gate_reliability.so").unlink()
    for args in (("check", config), ("--config", config)):
        refused = run(*args)
        assert refused.returncode == 1
        for piece in ("unknown field 'success_rate'", "plugin gate_reliability provides it and is gone", "gate_reliability.so"):
            assert piece in refused.stderr, refused.stderr
    listed = {p["name"]: p for p in json.loads(run("plugins", "list", "--json").stdout)["plugins"]}
    assert listed["gate_reliability"]["state"] == "absent"
    policy.write_text("routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 5}}}\n")
    assert run("check", config).returncode == 0, "what does not need it is not stopped"
