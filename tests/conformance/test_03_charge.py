"""Row 3: load is charged with the choice, on every route that reaches an engine, and nothing but the request's end takes it back."""
import signal
import threading

import pytest

from conftest import at_rest, wait_for
from raw import ROLE, SSE, Client, completion, say, whole

# Everything that can reach an engine: route, what the model must do, body.
ROUTES = [
    ("/v1/chat/completions", "llm", '{"model":"sim-model","messages":[]}'),
    ("/v1/completions", "llm", '{"model":"sim-model","prompt":"x"}'),
    ("/v1/responses", "llm", '{"model":"sim-model","input":"x"}'),
    ("/v1/messages", "llm", '{"model":"sim-model","max_tokens":5,"messages":[]}'),
    ("/v1/messages/count_tokens", "llm", '{"model":"sim-model","messages":[]}'),
    ("/v1/embeddings", "embedding", '{"model":"sim-model","input":"x"}'),
    ("/v1/rerank", "reranker", '{"model":"sim-model","query":"x","documents":["y"]}'),
    ("/v1/tokenize", "llm", '{"model":"sim-model","prompt":"x"}'),
    ("/v1/images/generations", "llm", '{"model":"sim-model","prompt":"x"}'),
]
BUILT_IN = 7  # the others an operator has to allow


def load(stack, agent):
    return stack.row(agent.peer_id)["status"]["active_requests"]


class Held:
    """Answers that begin and go on until they are let go."""

    def __init__(self):
        self.go = threading.Event()

    def __call__(self, chat):
        chat.send(SSE)
        chat.chunk(ROLE, say("a"))
        self.go.wait(30)
        chat.chunk(b"data: [DONE]\n\n")
        chat.last_chunk()


def begin(stack, count):
    clients = [Client(stack, stream=True) for _ in range(count)]
    for c in clients:
        assert c.until(lambda c: b'"a"' in c.payload)
    return clients


def let_go(stack, held, clients):
    held.go.set()
    for c in clients:
        with c:
            assert c.finish().complete
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_burst_is_spread_by_what_was_chosen_not_by_what_was_answered(stack, engines):
    """Three agents have ten requests each, a fourth comes with none, then 30 requests at the same moment: 15 for each of the four.

    Naive variant: the load counts from the engine's head (or from a report of the agent): the newcomer looks idle to the whole burst
    and gets all it can hold.
    """
    gate = threading.Event()
    fleet = [engines(lambda chat: (gate.wait(20), chat.send(whole(completion())))[1]) for _ in range(4)]
    stack.start_router("--max-concurrent", "100")
    for i, e in enumerate(fleet[:3]):
        stack.start_agent(e, "--capacity", "20", identity=f"{i}.key")
    clients = [Client(stack) for _ in range(30)]
    wait_for("all have arrived", lambda: [len(e.chats) for e in fleet] == [10, 10, 10, 0])
    stack.start_agent(fleet[3], "--capacity", "20", identity="3.key")
    clients += [Client(stack) for _ in range(30)]
    wait_for("all have arrived", lambda: sum(len(e.chats) for e in fleet) == 60)
    assert [len(e.chats) for e in fleet] == [15, 15, 15, 15]
    gate.set()
    for c in clients:
        with c:
            assert c.finish().status == 200
    wait_for("everything is returned", lambda: at_rest(stack))


@pytest.mark.parametrize("path,capability,body", ROUTES)
def test_every_route_charges_and_keeps_to_the_capacity(stack, engines, path, capability, body):
    """Naive variant: a route of its own that asks for an agent without taking its slot."""
    gate = threading.Event()
    engine = engines(lambda chat: (gate.wait(10), chat.send(whole(completion())))[1])
    allowed = ["--allow-route", "tokenize", "--allow-route", "images/generations=llm"] if path in [r[0] for r in ROUTES[BUILT_IN:]] else []
    stack.start_router(*allowed)
    agent = stack.start_agent(engine, "--capacity", "2", "--capability", capability, *allowed)
    clients = [Client(stack, path=path, body=body) for _ in range(3)]
    wait_for("two have it", lambda: len(engine.chats) == 2)
    wait_for("the third waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    assert load(stack, agent) == 2 and len(engine.chats) == 2
    gate.set()
    for c in clients:
        with c:
            assert c.finish().status == 200, c.payload
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_renewal_of_the_session_keeps_the_load(stack, engines):
    """With a session of 301 s the router asks for the proof again after one second, while streams run.

    Naive variant: a renewal registers the agent anew, with no load.
    """
    held = Held()
    stack.start_router("--session-ttl", "301s")
    agent = stack.start_agent(engines(held), "--capacity", "3")
    clients = begin(stack, 3)
    links = stack.metric("hivenet_router_link_links_welcomed_total")
    renewals = stack.metric("hivenet_router_link_renewals_total")
    wait_for("a renewal with three streams", lambda: stack.metric("hivenet_router_link_renewals_total") > renewals, limit=5)
    assert load(stack, agent) == 3
    assert stack.metric("hivenet_router_link_links_welcomed_total") == links, "no new link: the session was renewed on the old one"
    waiting = Client(stack, stream=True)
    wait_for("a fourth waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    let_go(stack, held, [*clients, waiting])


def test_a_health_flip_keeps_the_load(stack, engines):
    """Naive variant: an agent that comes back healthy starts from zero."""
    held = Held()
    engine = engines(held)
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "3", "--health-check-interval", "50ms", "--backend-failure-threshold", "1")
    clients = begin(stack, 2)
    engine.health = b"500 Sick"
    wait_for("it is out", lambda: not stack.row(agent.peer_id)["status"]["routable"], limit=5)
    assert load(stack, agent) == 2
    assert stack.row(agent.peer_id)["status"]["backend_reason"] == "{}", "what the health page said"
    engine.models = ["sim-model", "another"]  # comes with its return: a registration with other models
    engine.health = b"200 OK"
    wait_for("it is back", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=5)
    assert "backend_reason" not in stack.row(agent.peer_id)["status"]
    wait_for("with its new model", lambda: any(m["id"] == "another" for m in stack.admin("/v1/models").json()["data"]), limit=5)
    assert load(stack, agent) == 2
    clients += begin(stack, 1)
    waiting = Client(stack, stream=True)
    wait_for("a fourth waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    let_go(stack, held, [*clients, waiting])


def test_a_registration_anew_neither_keeps_a_dead_load_nor_goes_below_zero(stack, engines):
    """The agent is killed with three streams and starts again at once; then it takes exactly its capacity.

    Naive variants: the new registration sets the load to zero and the old streams' ends take it below; or the old streams' load
    stays for ever.
    """
    held = Held()
    engine = engines(held)
    stack.start_router()
    agent = stack.start_agent(engine, "--capacity", "3")
    clients = begin(stack, 3)
    agent.kill()
    again = stack.start_agent(engine, "--capacity", "3")
    assert again.peer_id == agent.peer_id
    for c in clients:
        with c:
            assert not c.to_end().complete and b"agent_disconnected" in c.payload
    wait_for("no load is left", lambda: load(stack, again) == 0, limit=5)
    clients = begin(stack, 3)
    assert load(stack, again) == 3
    waiting = Client(stack, stream=True)
    wait_for("a fourth waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    let_go(stack, held, [*clients, waiting])


def test_an_agent_frozen_out_and_back_takes_exactly_its_capacity(stack, engines):
    """SIGSTOP loses the link with its streams, SIGCONT brings the same process back on a new one.

    Naive variant: the late answers of the old link return slots a second time.
    """
    held = Held()
    stack.start_router()
    agent = stack.start_agent(engines(held), "--capacity", "3")
    clients = begin(stack, 2)
    agent.child.send_signal(signal.SIGSTOP)
    wait_for("it is out", lambda: not stack.row(agent.peer_id)["status"]["routable"], limit=8)
    wait_for("and its streams with it", lambda: load(stack, agent) == 0)
    agent.child.send_signal(signal.SIGCONT)
    wait_for("it is back", lambda: stack.row(agent.peer_id)["status"]["routable"], limit=20)
    for c in clients:
        with c:
            c.to_end()
    clients = begin(stack, 3)
    assert load(stack, agent) == 3
    waiting = Client(stack, stream=True)
    wait_for("a fourth waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)
    let_go(stack, held, [*clients, waiting])
