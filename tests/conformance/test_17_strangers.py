"""Row 17, the link's half: peers without the secret, and bytes that an agent has sent before, get nowhere and cost little.

(The HTTP half is ../e2e/test_hostile.py. What an agent that knows the secret may send is link_session.* and its fuzz target.)
"""
import socket

import httpx

from cable import Line
from conftest import wait_for


def test_what_an_agent_has_sent_says_nothing_when_it_is_sent_again(stack):
    """Naive variant: a proof that is good for ever, or for any connection: whoever has listened once is an agent."""
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--remove-after", "2s", "--unhealthy-after", "1s", "--heartbeat-interval", "200ms", "--health-check-interval", "200ms")
    line = Line(stack.link, keep=True)
    agent = stack.start_agent(stack.engine, link=line.address)
    assert stack.chat(max_tokens=1).status_code == 200
    registered = stack.router.log().count(" registered: engine ")
    assert agent.stop() == 0
    wait_for("it is gone", lambda: stack.chat(max_tokens=1).status_code in (404, 503), limit=20)
    recorded = [pieces for pieces in line.sent if pieces]
    assert recorded and sum(map(len, recorded[0])) > 500, "hello, proof and a request's answer were recorded"
    before = stack.router.descriptors()
    host, port = stack.link.rsplit(":", 1)
    for _ in range(5):
        for pieces in recorded:
            for paced in (False, True):
                with socket.create_connection((host, int(port)), timeout=10) as s:
                    s.settimeout(0.2)
                    try:
                        for piece in pieces if paced else [b"".join(pieces)]:
                            s.sendall(piece)
                            s.recv(65536)
                    except OSError:
                        pass
    assert stack.chat(max_tokens=1).status_code in (404, 503)
    assert not [row for row in stack.table().values() if row["status"]["routable"]]
    assert stack.router.log().count(" registered: engine ") == registered and stack.router.child.poll() is None
    wait_for("nothing is left of it", lambda: stack.router.descriptors() <= before + 2)
    line.close()


def test_agents_without_the_secret_get_nowhere_and_disturb_nobody(simple, load_of):
    """Naive variant: a peer is given a record, or a place in the table, before it has proved anything."""
    before, rss = simple.router.descriptors(), simple.router.memory_kib()
    strangers = [simple.start_agent(simple.engine, identity=f"stranger-{n}.key", secret=f"{n}" * 40, wait=False) for n in range(5)]
    load = load_of(clients=2)
    for stranger in strangers:
        wait_for("it is told no", lambda s=stranger: "secret" in s.log().lower(), limit=20)
    load.more()
    load.stop()
    assert list(simple.table()) == [simple.agent.peer_id]
    assert not any(stranger.peer_id in httpx.get(simple.metrics_url).text for stranger in strangers)
    for stranger in strangers:
        stranger.kill()
    wait_for("nothing is left of them", lambda: simple.router.descriptors() <= before + 4, limit=20)
    assert simple.router.grown_kib(rss) < 20_000
