"""POST /admin/explain: what it says is what then happens, and it names what keeps each agent out."""
import uuid

import httpx

from conftest import ADMIN_KEY, wait_for

CHAT = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


def explain(stack, body, headers=None, **query):
    key = {"Authorization": f"Bearer {ADMIN_KEY}"}
    return httpx.post(stack.url + "/admin/explain", headers={**key, **(headers or {})}, json=body, params=query, timeout=10)


def agents(step):
    return {a["machine"]: a for a in step["agents"]}


def start(stack, policy, *machines):
    file = stack.folder / "policy.yaml"
    file.write_text(policy)
    stack.start_router("--policy-file", file)
    return [stack.start_agent(stack.start_engine(), "--machine", m, "--region", "eu" if m != "far" else "us", identity=f"{m}.key")
            for m in machines]


def test_a_request_is_explained_and_then_served_as_said(stack):
    start(stack, "routing_policy: {strategy: least-loaded, match: {region: eu}}\n", "near", "far")
    said = explain(stack, CHAT).json()
    assert said["policy"]["name"] == "global" and said["outcome"]["result"] == "served"
    step = said["steps"][0]
    assert step["name"] == "routing_policy" and step["strategy"] == "least-loaded" and step["empty"] is None
    near, far = agents(step)["near"], agents(step)["far"]
    assert near["fate"] == "chosen" and said["outcome"]["agent"] == near["peer_id"]
    assert far["gate"] == {"number": 4, "name": "match", "reason": 'region(got="us",want="eu")'}
    assert "region" in far["would_have_to_change"]

    wanted = str(uuid.uuid4())
    assert stack.chat(max_tokens=1, headers={"X-Request-ID": wanted}).status_code == 200
    wait_for("the request is over", lambda: explain(stack, {"request_id": wanted}).status_code == 200)
    past = explain(stack, {"request_id": wanted}).json()
    assert past["then"]["agent"] == near["peer_id"] and past["then"]["status"] == 200 and past["then"]["ended"] == "completed"
    assert past["then"]["attempts"] == 1 and past["then"]["duration_ms"] > 0
    assert past["outcome"]["agent"] == near["peer_id"]
    assert "hi" not in str(past["then"]), "no text of the request is kept"


def test_the_chosen_one_has_the_least_score_of_a_strategy_that_tells_one(stack):
    stack.start_router()
    for i in range(3):
        stack.start_agent(stack.start_engine("--step-ms", "50"), identity=f"{i}.key")
    with httpx.stream("POST", stack.url + "/v1/chat/completions", json={**CHAT, "max_tokens": 2000, "stream": True}, timeout=20) as held:
        assert held.status_code == 200
        said = explain(stack, CHAT).json()
    scores = {a["peer_id"]: a["score"] for a in said["steps"][0]["agents"]}
    assert len(scores) == 3 and scores[said["outcome"]["agent"]] == min(scores.values()) < max(scores.values()), "one of them is at work"


def test_a_gate_shows_value_and_threshold_and_the_reason_of_the_exhaustion_line(stack):
    start(stack, "routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gte: 0.001}}}\n", "a")
    assert explain(stack, CHAT).json()["outcome"]["result"] == "served", "no sample yet: missing passes"
    assert stack.chat(max_tokens=1).status_code == 200
    wait_for("the sample counts", lambda: explain(stack, CHAT).json()["outcome"]["step"] is None)
    said = explain(stack, CHAT).json()
    assert said["outcome"]["reason"] == "routing_policy: gate[7] exclude_if [srtt=1]"
    a = said["steps"][0]["agents"][0]
    (rule,) = a["rules"]
    assert rule["field"] == "srtt" and rule["threshold"] == 0.001 and rule["value"] > 0.001 and rule["violated"]
    assert "srtt_ms must not be gte" in a["would_have_to_change"]
    refused = stack.chat(max_tokens=1)
    assert refused.status_code == 503
    assert 'reason=routing_policy: gate[7] exclude_if [srtt=1]' in stack.router.log()


def test_bad_questions_are_answered_clearly(stack):
    start(stack, "routing_policy: {strategy: least-loaded}\n", "a")
    for body, query, status, words in (
            ({"request_id": str(uuid.uuid4())}, {}, 404, "--explain-requests"),
            ({"messages": []}, {}, 400, "model"),
            (CHAT, {"route": "/v1/nope"}, 400, "route"),
            (CHAT, {"rout": "x"}, 400, "unknown parameter 'rout'"),
            (CHAT, {"priority": "high"}, 400, "whole number"), (CHAT, {"priority": "-1001"}, 400, "between -1000 and 1000"),
            (CHAT, {"tenant": "t" * 201}, 400, "at most 200 bytes"), (CHAT, {"session": "s" * 257}, 400, "at most 256 bytes")):
        answer = explain(stack, body, **query)
        assert answer.status_code == status and words in answer.json()["error"], (body, query, answer.text)
    answer = httpx.post(stack.url + "/admin/explain?tenant=%ff", headers={"Authorization": f"Bearer {ADMIN_KEY}"}, json=CHAT)
    assert answer.status_code == 400 and "tenant must be UTF-8" in answer.json()["error"]
    assert explain(stack, {**CHAT, "model": "other"}).json()["outcome"]["result"] == "no agent serves this model"
    step = explain(stack, CHAT, route="/v1/embeddings").json()["steps"][0]
    assert step["agents"][0]["gate"]["name"] == "capability"


def test_an_alias_is_explained_as_the_model_that_it_is(stack):
    config = stack.folder / "router.yaml"
    config.write_text("model_aliases: {gpt: sim-model}\n")
    stack.start_router("--config", config)
    stack.start_agent(stack.start_engine())
    said = explain(stack, {**CHAT, "model": "gpt"}).json()
    assert said["request"]["model"] == "sim-model" and said["outcome"]["result"] == "served"


def test_headers_of_the_question_are_those_of_the_request(stack):
    """Which agent a session or a tenant's header leads to stands in the answer before any request was sent.

    Naive variant: the question has no header fields, and every session is said to go where none goes.
    """
    start(stack, "routing_policy: {strategy: {name: consistent-hash, options: {header: x-user}}}\n", "a", "b", "c")
    users = [f"user-{i}" for i in range(12)]

    def said(user, name="X-User"):
        return explain(stack, CHAT, headers={name: user}).json()["outcome"]["agent"]

    expected = {user: said(user) for user in users}
    assert len(set(expected.values())) > 1, "twelve users do not all go to one agent of three"
    for user in users:
        asked = str(uuid.uuid4())
        assert stack.chat(max_tokens=1, headers={"X-User": user, "X-Request-ID": asked}).status_code == 200
        wait_for("the request is over", lambda: explain(stack, {"request_id": asked}).status_code == 200)
        assert explain(stack, {"request_id": asked}).json()["then"]["agent"] == expected[user]


def test_of_a_past_request_it_is_said_what_is_missing_and_a_session_can_be_told(stack):
    start(stack, "routing_policy: {strategy: consistent-hash}\n", "a", "b", "c")
    for i in range(8):
        asked = str(uuid.uuid4())
        assert stack.chat(max_tokens=1, headers={"X-Session-ID": f"s{i}", "X-Request-ID": asked}).status_code == 200
        wait_for("the request is over", lambda: explain(stack, {"request_id": asked}).status_code == 200)
        assert explain(stack, {"request_id": asked}).json()["request"]["not_kept"] == ["session", "priority", "headers", "prompt"]
        past = explain(stack, {"request_id": asked}, session=f"s{i}", priority=0).json()
        assert past["request"]["not_kept"] == ["headers", "prompt"]
        assert past["outcome"]["agent"] == past["then"]["agent"]
    assert "not_kept" not in explain(stack, CHAT).json()["request"]


def test_routes_that_were_allowed_are_explained(stack):
    stack.start_router("--allow-route", "tokenize", "--allow-route", "images/generations=embedding")
    stack.start_agent(stack.start_engine())
    said = explain(stack, CHAT, route="/v1/tokenize").json()
    assert (said["request"]["route"], said["request"]["capability"]) == ("/v1/tokenize", "any")
    assert said["outcome"]["result"] == "served"
    assert explain(stack, CHAT, route="/v1/images/generations").json()["steps"][0]["agents"][0]["gate"]["name"] == "capability"
    assert explain(stack, CHAT, route="/v1/detokenize").status_code == 400
    asked = str(uuid.uuid4())
    httpx.post(stack.url + "/v1/tokenize", json={"model": "sim-model", "prompt": "hi"}, headers={"X-Request-ID": asked}, timeout=10)
    wait_for("the request is over", lambda: explain(stack, {"request_id": asked}).status_code == 200)
    assert explain(stack, {"request_id": asked}).json()["request"]["capability"] == "any"
