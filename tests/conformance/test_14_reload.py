"""Row 14: a policy that is read anew cuts no stream, loses no count, and rules from the next request on. (Row 3: nothing resets load.)
A bad one: ../e2e/test_hostile.py. Keys: ../e2e/test_auth.py. Drains: ../e2e/test_drain.py."""
import threading

from conftest import at_rest, audit_of, told, wait_for
from raw import DONE, ROLE, SSE, STOP, Client, say

ANYWHERE = "routing_policy:\n  strategy: least-loaded\n"
EU_ONLY = "routing_policy:\n  strategy: least-loaded\n  match: {region: EU}\n"
NOWHERE = "routing_policy:\n  strategy: least-loaded\n  match: {region: AP}\n"


def test_a_good_policy_at_a_sighup_cuts_no_stream_keeps_the_load_and_rules_at_once(stack, engines):
    """Four streams run, two an agent, then a fifth, and one more waits for a slot that its policy allows. The policy changes under them.

    Naive variants: a reload begins with everything anew, streams included; the pools are rebuilt and the load counts start at 0, so that
    more than the capacity is sent; a stream that ends under the new policy gives its slot back to a pool that is gone; the new rule
    holds from a restart on.
    """
    go_on = threading.Event()

    def answer(chat):
        chat.send(SSE)
        chat.chunk(ROLE, say("a"))
        go_on.wait(20)
        chat.chunk(say("b"), STOP, DONE)
        chat.last_chunk()
        return True

    policy = stack.folder / "policy.yaml"
    policy.write_text(ANYWHERE)
    europe, other = engines(answer), engines(answer)
    stack.start_router("--policy-file", policy)
    agents = {"EU": stack.start_agent(europe, "--region", "EU", "--capacity", "3", identity="eu.key"),
              "US": stack.start_agent(other, "--region", "US", "--capacity", "3", identity="us.key")}
    loads = lambda: {name: stack.row(a.peer_id)["status"]["active_requests"] for name, a in agents.items()}

    def reload(text):
        policy.write_text(text)
        stack.router.hangup("policy loaded")

    running = [Client(stack, stream=True) for _ in range(4)]
    for client in running:
        assert client.until(lambda c: b'"a"' in c.payload)
    assert loads() == {"EU": 2, "US": 2}

    reload(EU_ONLY)
    assert loads() == {"EU": 2, "US": 2}
    running.append(Client(stack, stream=True))  # the only free slot that the new rule allows
    assert running[-1].until(lambda c: b'"a"' in c.payload)
    assert loads() == {"EU": 3, "US": 2} and (len(europe.chats), len(other.chats)) == (3, 2)
    parked = Client(stack, stream=True)  # one is free, and the rule is against it
    wait_for("it waits", lambda: stack.metric("hivenet_router_queue_depth", model="sim-model") == 1)

    reload(NOWHERE)
    assert loads() == {"EU": 3, "US": 2}
    with Client(stack, stream=True) as refused:
        assert refused.finish().status == 503
    assert loads() == {"EU": 3, "US": 2} and not any(c.ended or c.complete for c in running)

    go_on.set()
    for client in [*running, parked]:
        client.finish()
        assert client.payload == ROLE + say("a") + say("b") + STOP + DONE and client.complete
        assert told(audit_of(stack, client), "completed", 200, "")
        client.socket.close()
    assert (len(europe.chats), len(other.chats)) == (4, 2), "what waited goes by the policy it came under"
    wait_for("everything is returned", lambda: at_rest(stack))

    reload(ANYWHERE)
    with Client(stack, stream=True) as client:
        assert client.finish().complete
    wait_for("everything is returned", lambda: at_rest(stack))
