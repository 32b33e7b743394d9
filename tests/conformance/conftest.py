"""The stack of the end-to-end tests, with engines, clients and cables made by hand (raw.py, cable.py)."""
import importlib.util
import pathlib
import sys

import pytest

_path = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_stack", _path)
e2e = importlib.util.module_from_spec(_spec)
sys.modules["e2e_stack"] = e2e
_spec.loader.exec_module(e2e)

ADMIN_KEY, BIN, BY_NATURE, SANITIZED = e2e.ADMIN_KEY, e2e.BIN, e2e.BY_NATURE, e2e.SANITIZED
Load, Process, Stack, wait_for = e2e.Load, e2e.Process, e2e.Stack, e2e.wait_for
stack, simple, load_of, pytest_runtest_makereport = e2e.stack, e2e.simple, e2e.load_of, e2e.pytest_runtest_makereport

from raw import RawEngine  # noqa: E402: it takes wait_for from here


@pytest.fixture
def engines():
    """Makes engines by hand that end with the test."""
    made = []

    def make(answer=None, **more):
        made.append(RawEngine(answer, **more))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def outcome(stack, name, model="sim-model"):
    """How many requests have ended as `name`."""
    return sum(v for k, v in stack.metrics().items()
               if k.startswith("hivenet_router_routing_requests_finished_total{") and f'outcome="{name}"' in k and f'model="{model}"' in k)


def answered(stack, status):
    """How many requests of clients have been answered with this status."""
    return sum(v for k, v in stack.metrics().items()
               if k.startswith("http_server_request_duration_seconds_count{") and f'status_code="{status}"' in k and 'route="/v1/' in k)


def audit_of(stack, client):
    """The audit line of the request that a client made, found by the id in its answer."""
    wanted = client.fields["x-request-id"]
    found = wait_for(f"the audit line of {wanted}", lambda: [entry for entry in stack.audit() if entry["request_id"] == wanted])
    assert len(found) == 1, found
    return found[0]


def told(entry, ended, status, code):
    """What an audit line says of the end."""
    seen = {k: entry[k] for k in ("ended", "status_code", "error_code")}
    return seen == {"ended": ended, "status_code": status, "error_code": code} or pytest.fail(f"{entry}")


def at_rest(stack):
    """Nothing is held for any request: no slot, no place in a line, no stream of a link."""
    health = stack.admin("/admin/health").json()
    lines = stack.metrics()
    busy = {k: v for k, v in lines.items() if v != 0 and k.startswith(
        ("hivenet_router_requests_in_stage", "hivenet_router_forward_slots_in_use", "hivenet_router_request_queue_length",
         "hivenet_router_queue_depth", "hivenet_router_link_streams_open{", "hivenet_router_link_streams_closing",
         "hivenet_router_agent_active_requests", "hivenet_router_lease_drift"))}
    rows = stack.table().values()
    return (not busy and health["in_flight"] == 0 and health["waiting_capacity"] == 0
            and all(r["status"]["active_requests"] == 0 for r in rows))


def blameless(stack, agent):
    universal = stack.row(agent.peer_id)["universal"]
    return universal["failed_requests_total"] == 0 and universal["consecutive_failures"] == 0
