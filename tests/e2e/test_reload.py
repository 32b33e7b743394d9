"""POST /admin/reload: what SIGHUP reads, and an answer that says what came of each part.

The naive variants these fail on: 200 for whatever came of it, one bad file that keeps the good ones out, an answer before the policies
were read, a reload that nobody is named for.
"""
import httpx
import pytest
from conftest import ADMIN_KEY, wait_for
from test_auth import ACME, BETA, auth_yaml, bearer, entry
from test_policies import ANYBODY, NOBODY, reloads

PARTS = {"keys", "link_secrets", "agent_lists", "model_aliases", "policies"}
READER = "an-admin-key-that-may-only-read-0123456789"


@pytest.fixture
def reloadable(stack):
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(ACME, "acme")))
    (stack.folder / "policy.yaml").write_text(ANYBODY)
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", "--policy-file", stack.folder / "policy.yaml",
                       env={"HIVENET_ROUTER_ADMIN_API_KEYS": f"{ADMIN_KEY},ro:{READER}"})
    stack.agent = stack.start_agent(stack.engine)
    return stack


def reload_now(stack, **kw):
    return stack.admin("/admin/reload", "POST", **kw)


def models_with(stack, key):
    return httpx.get(stack.url + "/v1/models", headers=bearer(key)).status_code


def test_everything_is_read_again_and_each_part_is_told(reloadable):
    stack = reloadable
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(BETA, "beta")))
    (stack.folder / "policy.yaml").write_text(NOBODY)
    answer = reload_now(stack)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"status": "reloaded", "parts": dict.fromkeys(PARTS, "ok")}
    assert (models_with(stack, ACME), models_with(stack, BETA)) == (401, 200)
    assert stack.chat(headers=bearer(BETA)).status_code == 503, "nobody matches by the new policy"
    assert reloads(stack, "api", "success") == 1 and reloads(stack, "sighup", "success") == 0
    assert stack.metric("hivenet_router_auth_reload_total", result="success") == 1


def test_a_part_that_is_bad_stays_as_it_was_and_the_answer_says_why(reloadable):
    stack = reloadable
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(BETA, "beta")))
    (stack.folder / "policy.yaml").write_text("routing_policy: {strategy: nonsense}\n")
    answer = reload_now(stack)
    assert answer.status_code == 422, answer.text
    body = answer.json()
    assert set(body["parts"]) == PARTS and [p for p, said in body["parts"].items() if said != "ok"] == ["policies"]
    assert "policy.yaml:1" in body["parts"]["policies"] and body["error"] == "policies: " + body["parts"]["policies"]
    assert stack.chat(headers=bearer(BETA)).status_code == 200, "the keys were good, the policy is the one of before"
    assert reloads(stack, "api", "error") == 1

    (stack.folder / "policy.yaml").unlink()
    (stack.folder / "auth.yaml").write_text("api: {mode: nonsense}\n")
    body = reload_now(stack).json()
    assert {p for p, said in body["parts"].items() if said != "ok"} == {"keys", "policies"}
    assert body["error"].startswith("keys: ") and "; policies: " in body["error"]
    assert stack.chat(headers=bearer(BETA)).status_code == 200


def test_who_reloads_is_let_in_and_named(reloadable):
    stack = reloadable
    assert reload_now(stack, key="").status_code == 401
    assert reload_now(stack, key=READER).status_code == 403
    assert stack.admin("/admin/reload").status_code == 405
    assert reload_now(stack).status_code == 200
    told = wait_for("its audit lines", lambda: (lines := [l for l in stack.audit() if l.get("route") == "/admin/reload" and "admin_key_id" in l])
                    and len(lines) == 3 and lines)
    assert sorted(l["status_code"] for l in told) == [200, 401, 403]
    assert all(l["admin_key_id"] for l in told if l["status_code"] != 401)
