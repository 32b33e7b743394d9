"""Row 17, the link's half: peers without the secret, and bytes that an agent has sent before, get nowhere and cost little.

(The HTTP half is ../e2e/test_hostile.py. What an agent that knows the secret may send is link_session.* and its fuzz target.)
"""
import os
import socket
import threading

import httpx

from conftest import wait_for


def memory_kib(process):
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


class Recorder:
    """A port that forwards to another and keeps what was sent there, a list a connection."""

    def __init__(self, to):
        host, port = to.rsplit(":", 1)
        self.to, self.sent = (host, int(port)), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to)
            except OSError:
                return
            pieces = []
            self.sent.append(pieces)
            threading.Thread(target=self.carry, args=(near, far, pieces), daemon=True).start()
            threading.Thread(target=self.carry, args=(far, near, []), daemon=True).start()

    @staticmethod
    def carry(a, b, pieces):
        try:
            while data := a.recv(65536):
                pieces.append(data)
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_what_an_agent_has_sent_says_nothing_when_it_is_sent_again(stack):
    """Naive variant: a proof that is good for ever, or for any connection: whoever has listened once is an agent."""
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--remove-after", "2s", "--unhealthy-after", "1s", "--heartbeat-interval", "200ms", "--health-check-interval", "200ms")
    line = Recorder(stack.link)
    agent = stack.start_agent(stack.engine, link=line.address)
    assert stack.chat(max_tokens=1).status_code == 200
    registered = stack.router.log().count(" registered: engine ")
    assert agent.stop() == 0
    wait_for("it is gone", lambda: stack.chat(max_tokens=1).status_code in (404, 503), limit=20)
    recorded = [pieces for pieces in line.sent if pieces]
    assert recorded and sum(map(len, recorded[0])) > 500, "hello, proof and a request's answer were recorded"
    before = descriptors(stack.router)
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
    wait_for("nothing is left of it", lambda: descriptors(stack.router) <= before + 2)
    line.listener.close()


def test_agents_without_the_secret_get_nowhere_and_disturb_nobody(simple):
    """Naive variant: a peer is given a record, or a place in the table, before it has proved anything."""
    before, rss = descriptors(simple.router), memory_kib(simple.router)
    strangers = [simple.start_agent(simple.engine, identity=f"stranger-{n}.key", secret=f"{n}" * 40, wait=False) for n in range(5)]
    stop, bad = threading.Event(), []

    def load():
        while not stop.is_set():
            answer = simple.chat(max_tokens=1)
            if answer.status_code != 200:
                bad.append(answer.text)

    worker = threading.Thread(target=load)
    worker.start()
    try:
        for stranger in strangers:
            wait_for("it is told no", lambda s=stranger: "secret" in s.log().lower(), limit=20)
    finally:
        stop.set()
        worker.join()
    assert not bad
    assert list(simple.table()) == [simple.agent.peer_id]
    assert not any(stranger.peer_id in httpx.get(simple.metrics_url).text for stranger in strangers)
    for stranger in strangers:
        stranger.kill()
    wait_for("nothing is left of them", lambda: descriptors(simple.router) <= before + 4, limit=20)
    assert memory_kib(simple.router) - rss < 20_000
