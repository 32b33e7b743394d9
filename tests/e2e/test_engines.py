"""What the agent makes of an engine's pages: readiness, models that come and change, engines that nobody knows by name."""
import http.server
import json
import threading

import pytest

from conftest import wait_for

FAST = ("--health-check-interval", "50ms", "--model-check-interval", "50ms")


def models(stack, agent):
    return stack.row(agent.peer_id)["metadata"]["models"]


def test_an_engine_that_is_well_but_lists_no_models_is_not_registered_until_it_does(stack):
    engine = stack.start_engine()
    engine.faults(models=[])
    stack.start_router()
    agent = stack.start_agent(engine, *FAST, wait=False)
    wait_for("it says why", lambda: "lists no models" in agent.log())
    assert agent.peer_id not in stack.table()
    engine.faults()
    wait_for("routable", lambda: stack.row(agent.peer_id)["status"]["routable"])
    engine.faults(models=[])
    wait_for("out again", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"])
    engine.faults()
    wait_for("in again", lambda: stack.row(agent.peer_id)["status"]["routable"])
    assert stack.chat(max_tokens=1).status_code == 200


def test_changed_models_are_told_to_a_linked_router(stack):
    engine = stack.start_engine("--model", "sim-model", "--model", "second")
    stack.start_router()
    engine.faults(models=["sim-model"])
    agent = stack.start_agent(engine, *FAST)
    assert models(stack, agent) == ["sim-model"]
    assert stack.chat(model="second").status_code in (404, 503)
    engine.faults(models=["sim-model", "second"])
    wait_for("both are known", lambda: models(stack, agent) == ["sim-model", "second"])
    assert stack.chat(model="second", max_tokens=1).status_code == 200
    engine.faults(models=["second"])
    wait_for("the first is gone", lambda: models(stack, agent) == ["second"])
    assert stack.chat(max_tokens=1).status_code in (404, 503)
    assert stack.chat(model="second", max_tokens=1).status_code == 200


def test_models_that_changed_while_the_link_was_down_are_told_when_it_is_back(stack):
    engine = stack.start_engine("--model", "sim-model", "--model", "second")
    stack.start_router()
    engine.faults(models=["sim-model"])
    agent = stack.start_agent(engine, *FAST)
    http_address, link = stack.router.said["http"], stack.link
    assert stack.router.stop() == 0
    engine.faults(models=["second"])
    wait_for("the agent has seen it", lambda: "first 'second'" in agent.log())
    stack.start_router(http=http_address, link=link)
    wait_for("registered", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=20)
    assert models(stack, agent) == ["second"]
    assert stack.chat(model="second", max_tokens=1).status_code == 200
    assert stack.chat(max_tokens=1).status_code in (404, 503)


def test_a_full_engine_whose_health_page_starves_stays_in(stack):
    engine = stack.start_engine()
    stack.start_router()
    agent = stack.start_agent(engine, *FAST, "--backend-failure-threshold", "1")
    engine.faults(step_ms=50)
    done = {}
    thread = threading.Thread(target=lambda: done.update(answer=stack.chat(stream=True, max_tokens=125)))
    thread.start()
    wait_for("it runs", lambda: engine.state()["running"] == 1)
    engine.faults(step_ms=50, health="hang")
    thread.join(30)
    assert done["answer"].status_code == 200 and done["answer"].text.endswith("data: [DONE]\n\n")
    assert stack.row(agent.peer_id)["status"]["backend_healthy"], agent.log()
    assert "not ready" not in agent.log()


class Plain(http.server.BaseHTTPRequestHandler):
    """A server with /v1/models and chat and nothing else: no health, no metrics."""
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models" and self.server.listed:
            return self.answer(200, {"object": "list", "data": [{"id": "plain-model", "object": "model",
                                                                          "owned_by": self.server.owner}]})
        if self.path == "/deep/health":
            return self.answer(200 if self.server.well else 500, {})
        return self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refusal:
            return self.answer(*self.server.refusal)
        usage = {"usage": {"prompt_tokens": 41, "completion_tokens": 2, "total_tokens": 43}} if self.server.counts else {}
        self.answer(200, {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}], **usage})

    def log_message(self, *_):
        pass


@pytest.fixture
def plain():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    server.daemon_threads = True
    server.listed, server.well, server.refusal, server.owner, server.counts = True, True, None, "somebody", True
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", ["custom", "openai"])
def test_any_server_with_openais_routes_can_be_an_engine(stack, plain, kind):
    stack.start_router()
    agent = stack.start_agent(plain.url, *FAST, kind=kind)
    row = stack.row(agent.peer_id)
    assert row["metadata"]["engine"] == kind and row["metadata"]["models"] == ["plain-model"]
    assert stack.chat(model="plain-model").json()["choices"][0]["message"]["content"] == "hi"
    plain.refusal = (400, {"object": "error", "message": "flat", "type": "BadRequestError", "code": 400})
    assert stack.chat(model="plain-model").status_code == 400
    plain.refusal = (302, {"moved": True})
    answer = stack.chat(model="plain-model")
    assert answer.status_code == 502 and "302" in answer.json()["error"]["message"], answer.text
    plain.refusal, plain.listed = None, False
    wait_for("out", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"])
    plain.listed = True
    wait_for("in", lambda: stack.row(agent.peer_id)["status"]["routable"])
    assert "metrics page" not in agent.log(), "none is required"


def test_a_custom_engine_without_a_list_serves_the_named_model_by_its_health_url(stack, plain):
    plain.listed = False
    stack.start_router()
    agent = stack.start_agent(plain.url, *FAST, "--model", "plain-model", "--health-url", plain.url + "/deep/health", kind="custom")
    assert stack.chat(model="plain-model").status_code == 200
    plain.well = False
    wait_for("out", lambda: not stack.row(agent.peer_id)["status"]["backend_healthy"])
    plain.well = True
    wait_for("in", lambda: stack.row(agent.peer_id)["status"]["routable"])


# A naive router books Infinity's characters as tokens, four times too many.
@pytest.mark.parametrize("owner, tokens", [("somebody", 41), ("infinity", 11)])
def test_usage_that_counts_characters_is_no_count_of_tokens(stack, plain, owner, tokens):
    plain.owner = owner
    stack.start_router()
    agent = stack.start_agent(plain.url, *FAST, kind="openai")
    answer = stack.chat(model="plain-model")
    assert answer.json()["usage"]["prompt_tokens"] == 41, "the client gets what the engine said"
    wait_for("counted", lambda: stack.row(agent.peer_id)["universal"]["input_tokens_total"] == tokens)


# Estimates are tokens already, whatever the engine would have counted.
@pytest.mark.parametrize("owner", ["somebody", "infinity"])
def test_an_answer_without_usage_is_estimated_alike_for_every_engine(stack, plain, owner):
    plain.owner, plain.counts = owner, False
    stack.start_router()
    agent = stack.start_agent(plain.url, *FAST, kind="openai")
    stack.chat(model="plain-model", messages=[{"role": "user", "content": "x" * 400}])
    wait_for("counted", lambda: stack.row(agent.peer_id)["universal"]["input_tokens_total"] == 104)
