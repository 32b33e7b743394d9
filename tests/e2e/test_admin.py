"""What an operator sees: admin API, metrics, plugins, configuration."""
import json
import shutil
import socket
import subprocess

import httpx
import pytest

from conftest import ADMIN_KEY, BIN, BUILD, wait_for


def test_admin_answers_only_to_its_key(simple):
    for key in (None, "wrong", ADMIN_KEY + "x", ""):
        answer = simple.admin("/admin/health", key=key)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="hivenet-router"'
        assert answer.json()["error"]["code"] == "unauthorized"
    assert httpx.get(simple.url + "/admin/health", headers={"Authorization": f"bearer   {ADMIN_KEY}"}).status_code == 200
    assert simple.admin("/admin/nothing").status_code == 404


def test_without_an_admin_key_everything_is_closed(stack):
    stack.start_router(env={"HIVENET_ROUTER_ADMIN_API_KEYS": ""})
    assert stack.admin("/admin/health", key=None).status_code == 401
    assert stack.admin("/admin/routing-table", key="anything").status_code == 401
    assert "HIVENET_ROUTER_ADMIN_API_KEYS" in stack.router.log()
    assert httpx.get(stack.url + "/health").status_code == 200


def test_health_shows_every_line(simple):
    health = simple.admin("/admin/health").json()
    assert health["status"] == "healthy" and health["total_agents"] == health["healthy_agents"] == 1
    assert set(health["lines"]) == {"reading_body", "forward_slot", "selecting", "capacity", "forwarding", "streaming", "storage_jobs"}
    agent = health["agents"][0]
    assert set(agent) == {"peer_id", "model", "engine", "version", "capacity", "region", "is_healthy", "last_seen"}


def test_a_row_of_the_routing_table_has_all_its_parts(simple):
    simple.chat(max_tokens=2)

    def whole():
        row = simple.row(simple.agent.peer_id)
        return row if "running_requests" in row.get("engine", {}) and "hardware" in row else None

    row = wait_for("what the agent measures", whole)
    assert row["metadata"]["model"] == "sim-model" and row["metadata"]["engine"] == "vllm" and row["metadata"]["capacity"] == 10
    assert row["status"]["healthy"] and row["status"]["backend_healthy"]
    assert row["universal"]["successful_requests_total"] == 1 and row["universal"]["output_tokens_total"] == 2
    assert row["hardware"]["memory"]["total_bytes"] > 0
    assert simple.admin("/admin/agents/" + simple.agent.peer_id).json()["peer_id"] == simple.agent.peer_id
    assert simple.admin("/admin/agents/nobody").status_code == 404
    listed = simple.admin("/admin/agents").json()
    assert listed["total"] == 1 and [a["peer_id"] for a in listed["agents"]] == [simple.agent.peer_id]
    assert set(listed["agents"][0]) == set(row)


def test_head_answers_as_get_without_a_body(simple):
    admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with socket.create_connection(simple.url[7:].split(":")) as wire:  # one connection: a body would be taken for the next answer
        file = wire.makefile("rb")
        for path in ("/health", "/health/ready", "/v1/models", "/v1/models/sim-model", "/admin/health", "/admin/routing-table", "/admin/agents",
                     "/admin/agents/" + simple.agent.peer_id, "/admin/agents/nobody", "/admin/models", "/admin/models/sim-model",
                     "/admin/storage", "/admin/plugins", "/admin/plugins/gate_srtt"):
            got = httpx.get(simple.url + path, headers=admin)
            wire.sendall(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n".encode())
            status = file.readline().split()[1]
            fields = {}
            while (line := file.readline().strip()):
                name, value = line.decode().split(": ", 1)
                fields[name.lower()] = value
            assert int(status) == got.status_code == (404 if path.endswith("nobody") else 200), path
            assert fields["content-type"] == got.headers["content-type"], path
            assert int(fields["content-length"]) > 0, path
    for path in ("/admin/metrics/reset", "/v1/chat/completions"):
        assert httpx.head(simple.url + path, headers=admin).status_code == 405, path


def test_storage_page(simple):
    page = simple.admin("/admin/storage").json()
    assert page["backend"] == "lmdb" and page["gc_interval"] == "5s"
    assert set(page["mem_db"]) == {"metadata_count", "univ_punctual_count", "eng_punctual_count", "hardware_snapshot_count"}
    assert page["disk_db"]["entry_ttl_days"] == 30 and page["disk_db"]["map_size_bytes"] > 0


def test_plugins_page(simple):
    listed = {p["name"]: p for p in simple.admin("/admin/plugins").json()["plugins"]}
    for name in ("strategy_least_loaded", "strategy_power_of_two", "strategy_peak_ewma",
                 "strategy_token_load", "strategy_prefix_affinity", "strategy_consistent_hash", "gate_srtt", "gate_hardware", "gate_engine", "gate_reliability", "storage_lmdb", "storage_memory",
                 "transport_zmq", "transport_inproc", "engine_vllm", "engine_llamacpp"):
        assert listed[name]["state"] == "loaded", listed[name]
        assert len(listed[name]["sha256"]) == 64 and listed[name]["mapped"]
    assert simple.admin("/admin/plugins/gate_srtt").json()["name"] == "gate_srtt"
    assert simple.admin("/admin/plugins/nope").status_code == 404


def test_the_exposition_passes_promtool_and_counts(simple):
    for i in range(3):
        simple.chat(stream=i == 0, max_tokens=1)
    simple.chat(model="nobody")
    text = httpx.get(simple.metrics_url).text
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    # 3 = lint only: two names are fixed by existing dashboards and end in an abbreviated unit.
    findings = [line for line in (check.stdout + check.stderr).splitlines() if line]
    assert check.returncode in (0, 3), findings
    assert all("_ms metric names should not contain abbreviated units" in line and ("_srtt_" in line or "_rttvar_" in line)
               for line in findings), findings
    assert simple.metric("http_server_request_duration_seconds_count", method="POST", route="/v1/chat/completions", status_code="200") == 3
    assert simple.metric("http_server_request_duration_seconds_count", route="/v1/chat/completions", status_code="404") == 1
    assert simple.metric("hivenet_router_agent_requests_success_total", peer_id=simple.agent.peer_id) == 3
    assert simple.metric("hivenet_router_routing_agent_healthy", peer_id=simple.agent.peer_id) == 1
    assert simple.metric("hivenet_router_policy_primary_routed_total", model="sim-model") == 3
    assert simple.metric("process_resident_memory_bytes") > 1e6
    assert simple.metric("hivenet_router_plugin_info", kind="strategy", component="least-loaded") == 1
    for kind, component in (("strategy", "least-loaded"), ("transport", "zmq"), ("storage", "lmdb")):
        assert simple.metric("hivenet_router_plugin_calls_total", kind=kind, component=component) > 0, kind
        assert simple.metric("hivenet_router_plugin_errors_total", kind=kind, component=component) == 0, kind
        assert simple.metric("hivenet_router_plugin_call_seconds_count", kind=kind, component=component) > 0, kind
    assert simple.metric("http_server_connections_accepted_total") > 0 and simple.metric("hivenet_router_history_read_errors_total") == 0
    assert 'model="nobody"' not in text, "a caller's text never becomes a label"


def test_the_metrics_listener_refuses_in_json_and_answers_head_without_a_body(stack):
    """Naive variant: 404 whatever is wrong, in words that no client parses."""
    stack.start_router()
    listener = stack.metrics_url.removesuffix("/metrics")
    with httpx.Client() as client:  # one connection: a body would be taken for the next answer
        headed, got = client.head(stack.metrics_url), client.get(stack.metrics_url)
        assert (headed.status_code, headed.content, got.status_code) == (200, b"", 200)
        assert headed.headers["content-type"] == got.headers["content-type"] and int(headed.headers["content-length"]) > 1000
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            answer = client.request(method, stack.metrics_url)
            assert (answer.status_code, answer.headers["allow"], answer.json()) == (405, "GET, HEAD", {"error": "this path answers to GET, HEAD"}), method
        for path in ("/", "/metrics/", "/health", "/admin/health"):
            answer = client.get(listener + path)
            assert (answer.status_code, answer.json()) == (404, {"error": "this listener serves GET /metrics"}), path
            assert answer.headers["content-type"].startswith("application/json") and "allow" not in answer.headers


def test_power_of_two_is_a_strategy_by_file_alone(stack):
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {strategy: power-of-two}\n")
    engines = [stack.start_engine() for _ in range(3)]
    stack.start_router("--policy-file", policy)
    for i, e in enumerate(engines):
        stack.start_agent(e, identity=f"{i}.key")
    for _ in range(60):
        assert stack.chat(max_tokens=1).status_code == 200
    assert all(e.state()["served"] >= 5 for e in engines)


def run(*args, env=None, cwd=None):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **(env or {})}, cwd=cwd)


def test_check_and_print_config(tmp_path):
    good = tmp_path / "router.yaml"
    good.write_text("queue_size: 7\nhttp_port: 127.0.0.1:0\n")
    assert run(BIN / "hivenet-router", "check", good).returncode == 0
    shown = run(BIN / "hivenet-router", "--config", good, "--max-concurrent", "9", "--print-config",
                env={"HIVENET_ROUTER_QUEUE_DEPTH": "3"})
    assert shown.returncode == 0, shown.stderr
    for piece in ("queue_size: 7", "router.yaml:1", "max_concurrent: 9", "--max-concurrent", "queue_depth: 3", "HIVENET_ROUTER_QUEUE_DEPTH"):
        assert piece in shown.stdout, piece
    bad = tmp_path / "bad.yaml"
    bad.write_text("queue_siz: 7\nmax_concurrent: zero\n")
    refused = run(BIN / "hivenet-router", "check", bad)
    assert refused.returncode != 0
    for piece in ("bad.yaml:1", "queue_siz", "queue_size", "bad.yaml:2", "max_concurrent"):
        assert piece in refused.stderr, refused.stderr
    assert run(BIN / "hivenet-router", "--queue-size", "x").returncode == 2
    assert run(BIN / "hivenet-router", env={"HIVENET_ROUTER_QUEUE_SIZE": "x"}).returncode != 0


def test_plugins_list_of_the_command_line():
    table = run(BIN / "hivenet-router", "plugins", "list")
    assert table.returncode == 0 and "gate_srtt" in table.stdout
    listed = json.loads(run(BIN / "hivenet-router", "plugins", "list", "--json").stdout)
    assert {p["name"] for p in listed["plugins"]} >= {"gate_srtt", "engine_llamacpp"}
    assert run(BIN / "hivenet-router", "plugins", "show", "nope").returncode == 1


def test_a_plugin_that_is_not_enabled_is_named_where_it_is_missed(tmp_path):
    config = tmp_path / "router.yaml"
    policy = tmp_path / "policy.yaml"
    policy.write_text("routing_policy: {strategy: least-loaded, exclude_if: {gpu_temperature_c: {gt: 85}}}\n")
    names = [p.stem for p in (BUILD / "plugins").glob("*.so") if p.stem != "gate_hardware"]
    config.write_text(f"plugins: {{enable: [{', '.join(names)}]}}\npolicy_file: {policy}\nhttp_port: 127.0.0.1:0\nmetrics_port: 127.0.0.1:0\ndisk_db_path: {tmp_path / 'db'}\n")
    refused = run(BIN / "hivenet-router", "--config", config, cwd=tmp_path)
    assert refused.returncode == 1
    assert "gpu_temperature_c" in refused.stderr and "gate_hardware" in refused.stderr


@pytest.mark.parametrize("args,words", [
    (("--http-port", "nonsense"), ["http-port"]),
    (("--unhealthy-after", "40s"), ["unhealthy-after", "remove-after"]),
    (("--max-concurrent", "0"), ["max-concurrent"]),
    (("--session-ttl", "1m"), ["session-ttl"]),
])
def test_impossible_settings_are_refused(args, words, tmp_path):
    refused = run(BIN / "hivenet-router", *args, cwd=tmp_path)
    assert refused.returncode != 0
    for w in words:
        assert w in refused.stderr


def test_a_taken_port_is_a_start_failure(simple, tmp_path):
    refused = run(BIN / "hivenet-router", "--http-port", simple.url[7:], "--metrics-port", "127.0.0.1:0", "--disk-db-path", tmp_path / "x",
                  cwd=tmp_path)
    assert refused.returncode == 1 and "http-port" in refused.stderr


def test_promtool_is_there():
    assert shutil.which("promtool")
