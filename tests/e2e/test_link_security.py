"""Secrets that are changed under load, a router with a key of its own, agents that are kicked, revoked or not listed."""
import contextlib
import json
import os
import pathlib
import threading

import httpx
import pytest

from conftest import BIN, Process, wait_for

OLD = "the-old-secret-0123456789abcdef012345"
NEW = "the-new-secret-0123456789abcdef012345"


def secret_file(stack, name, *secrets):
    path = stack.folder / name
    draft = path.with_suffix(".new")
    draft.write_text("".join(s + "\n" for s in secrets))
    draft.chmod(0o600)
    draft.rename(path)
    return path


def routable(stack, agent):
    return agent.peer_id in stack.table() and stack.row(agent.peer_id)["status"]["routable"]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_secret_of_a_running_fleet_is_changed_and_no_request_notices(stack, load_of, workers):
    """A router with --identity-path: every step is a SIGHUP, in the end the old secret opens nothing.

    Naive variants: the router's key hangs on the secret, so all links break; a renewal with another secret is a kick.
    """
    router_file, agent_file = secret_file(stack, "router.secret", OLD), secret_file(stack, "agent.secret", OLD)
    engine = stack.start_engine("--model", "sim-model", "--step-ms", "5")
    router = stack.start_router("--jwt-secret-file", router_file, "--identity-path", stack.folder / "router.key", "--workers", workers)
    pin = ("--router-id", router.said["router_id"], "--jwt-secret-file", agent_file)
    agents = [stack.start_agent(engine, *pin, identity=f"{i}.key") for i in range(2)]
    load = load_of()
    load.more()
    links = stack.metric("hivenet_router_link_links_welcomed_total")

    secret_file(stack, "agent.secret", NEW, OLD)
    for agent in agents:
        agent.hangup("2 shared secret(s) read again")
    load.more()
    secret_file(stack, "router.secret", NEW, OLD)
    router.hangup("2 shared secret(s) accepted")
    wait_for("all links prove the new one", lambda: router.log().count("proves secret 1 of 2 now") == len(agents) * workers)
    load.more()
    secret_file(stack, "router.secret", NEW)
    router.hangup("1 shared secret(s) accepted")
    secret_file(stack, "agent.secret", NEW)
    for agent in agents:
        agent.hangup("1 shared secret(s) read again")
    load.more()
    load.stop()
    assert stack.metric("hivenet_router_link_links_welcomed_total") == links, "no link was made anew"
    assert stack.metric("hivenet_router_link_kicked_total") == 0

    stack.start_agent(engine, *pin, identity="new.key")
    secret_file(stack, "late.secret", OLD)
    late = stack.start_agent(engine, "--router-id", router.said["router_id"], "--jwt-secret-file", stack.folder / "late.secret",
                             identity="late.key", wait=False)
    wait_for("it is told", lambda: "ends the link: bad_secret: the proof does not match any of the router's shared secrets" in late.log())
    assert OLD not in late.log() + router.log() and NEW not in late.log() + router.log()


def test_without_a_key_of_its_own_the_router_takes_the_new_secret_at_a_sighup_and_its_key_at_the_next_start(stack, load_of):
    """Naive variant: a SIGHUP changes the router's key under its agents."""
    router_file, agent_file = secret_file(stack, "router.secret", OLD), secret_file(stack, "agent.secret", OLD)
    engine = stack.start_engine("--model", "sim-model")
    router = stack.start_router("--jwt-secret-file", router_file)
    agent = stack.start_agent(engine, env={"HIVENET_ROUTER_JWT_SECRET": "", "HIVENET_ROUTER_JWT_SECRET_FILE": str(agent_file)})
    load = load_of(clients=2)
    secret_file(stack, "agent.secret", NEW, OLD)
    agent.hangup("2 shared secret(s) read again")
    secret_file(stack, "router.secret", NEW, OLD)
    router.hangup("2 shared secret(s) accepted")
    wait_for("it proves the new one", lambda: "proves secret 1 of 2 now" in router.log())
    load.more()
    load.stop()
    http, link = router.said["http"], stack.link
    assert router.stop() == 0
    # The previous secret in a place of its own.
    router = stack.start_router(http=http, link=link, env={"HIVENET_ROUTER_JWT_SECRET": NEW, "HIVENET_ROUTER_JWT_SECRET_PREVIOUS": OLD})
    wait_for("it is back under the new key", lambda: routable(stack, agent), limit=20)
    assert stack.chat(max_tokens=1).status_code == 200


def test_a_bad_secret_file_changes_nothing(stack):
    """Naive variant: a file that cannot be read is an empty list."""
    path = secret_file(stack, "both.secret", OLD)
    engine = stack.start_engine("--model", "sim-model")
    router = stack.start_router("--jwt-secret-file", path)
    agent = stack.start_agent(engine, "--jwt-secret-file", path)
    for broken in (lambda: secret_file(stack, "both.secret", "short"), lambda: path.unlink()):
        broken()
        router.hangup("the shared secrets stay as they were")
        agent.hangup("the shared secrets stay as they were")
        assert stack.chat(max_tokens=1).status_code == 200
    assert "short" not in router.log().replace("shorter", "")


def test_a_router_that_is_not_the_pinned_one_gets_nothing(stack):
    """Whoever has the secret can derive a router's key, but not the key of a router's own.

    Naive variant: the secret alone makes a router: every host of an agent can be one.
    """
    stack.start_router()  # knows the secret, has the key that is derived from it
    engine = stack.start_engine("--model", "sim-model")
    agent = stack.start_agent(engine, "--router-id", "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB", wait=False)
    wait_for("one line says it", lambda: "refused the handshake: it is not the router that --router-id names" in agent.log())
    assert stack.table() == {}
    assert stack.metric("hivenet_router_link_frames_total", direction="in") == 0


def test_a_kicked_agent_is_back_and_its_stream_says_why_it_ended(simple):
    simple.engine.faults(step_ms=50)
    came = []

    def read():
        body = {"model": "sim-model", "stream": True, "max_tokens": 400, "messages": [{"role": "user", "content": "hello"}]}
        with httpx.stream("POST", simple.url + "/v1/chat/completions", json=body, timeout=30) as answer:
            with contextlib.suppress(httpx.RemoteProtocolError):  # cut: the error event comes before that
                for text in answer.iter_text():
                    came.append(text)

    thread = threading.Thread(target=read)
    thread.start()
    wait_for("content has come", lambda: '"content"' in "".join(came))
    peer = simple.agent.peer_id
    answer = simple.admin(f"/admin/agents/{peer}/kick", "POST")
    assert answer.status_code == 200 and answer.json() == {"peer_id": peer, "kicked": True}
    thread.join(20)
    last = "".join(came).strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "agent_disconnected", last
    wait_for("the engine is free", lambda: simple.engine.state()["running"] == 0)
    wait_for("it is back", lambda: routable(simple, simple.agent))
    assert "ends the link: kicked: the operator ended this session" in simple.agent.log()
    simple.engine.faults()
    assert simple.chat(max_tokens=1).status_code == 200
    assert simple.admin("/admin/agents/nobody/kick", "POST").status_code == 404
    assert simple.admin(f"/admin/agents/{peer}/kick", "POST", key=None).status_code == 401
    assert simple.admin(f"/admin/agents/{peer}/kick").status_code in (404, 405)


def test_a_revoked_agent_is_out_at_once_and_stays_out_over_restarts(simple):
    """Naive variants: it is in again with its next connection, or with the router's next start."""
    peer = simple.agent.peer_id
    engine = simple.engine
    other = simple.start_agent(engine, identity="other.key")
    assert simple.admin(f"/admin/agents/{peer}/revoked", "PUT", json={"reason": "stolen"}).status_code == 200
    assert peer not in simple.table(), "at once"
    listed = simple.admin("/admin/agents/revoked").json()
    assert listed["count"] == 1 and listed["revoked"][0]["peer_id"] == peer and listed["revoked"][0]["reason"] == "stolen"
    wait_for("it is told", lambda: "ends the link: revoked: the operator has revoked this identity" in simple.agent.log())
    assert simple.chat(max_tokens=1).status_code == 200 and list(simple.table()) == [other.peer_id]
    assert simple.admin(f"/admin/agents/{peer}/revoked", "PUT").status_code == 200, "once more is no mistake"
    for path, method, body in ((f"/admin/agents/{peer}x/revoked", "PUT", ""), (f"/admin/agents/{peer}/revoked", "PUT", "[1]")):
        assert simple.admin(path, method, content=body).status_code == 400

    http, link = simple.router.said["http"], simple.link
    simple.router.kill()
    simple.start_router(http=http, link=link)
    wait_for("the other one is back", lambda: routable(simple, other), limit=20)
    wait_for("it is refused in the handshake", lambda: f"refuses this agent's identity: {peer} is revoked there" in simple.agent.log(), limit=40)
    assert peer not in simple.table()
    assert simple.admin(f"/admin/agents/{peer}/revoked", "DELETE").status_code == 200
    wait_for("it may come back", lambda: routable(simple, simple.agent), limit=40)
    assert simple.admin(f"/admin/agents/{peer}/revoked", "DELETE").status_code == 404


def test_files_say_who_may_be_an_agent_and_for_which_models(stack):
    """Naive variant: whoever has the secret may serve any model, and gets its prompts."""
    engine = stack.start_engine("--model", "sim-model")
    revoked, listed = stack.folder / "revoked", stack.folder / "agents"
    revoked.write_text("")
    listed.write_text("# nobody yet\n")
    router = stack.start_router("--revoked-agents-file", revoked, "--agents-file", listed)
    agent = stack.start_agent(engine, wait=False)
    wait_for("it is told", lambda: "ends the link: unlisted: this identity is not in the router's list of agents" in agent.log())
    agent.stop()
    listed.write_text(f"{agent.peer_id} another-model\n")
    router.hangup("shared secret(s) accepted")
    agent = stack.start_agent(engine, wait=False)
    wait_for("it is told", lambda: "does not let this one serve model 'sim-model'" in agent.log())
    agent.stop()
    listed.write_text(f"{agent.peer_id} another-model sim-model\n")
    router.hangup("shared secret(s) accepted")
    agent = stack.start_agent(engine)
    assert stack.chat(max_tokens=1).status_code == 200
    revoked.write_text("not a peer id\n")
    router.hangup("the lists of agents stay as they were")
    assert routable(stack, agent)
    revoked.write_text(agent.peer_id + "\n")
    router.hangup("is put out: revoked")
    wait_for("it is out", lambda: agent.peer_id not in stack.table())
    answer = stack.admin(f"/admin/agents/{agent.peer_id}/revoked", "DELETE")
    assert answer.status_code == 409 and str(revoked) in answer.json()["error"]


def test_two_processes_do_not_share_an_identity_file(simple):
    """Naive variant: both run and throw each other out for ever."""
    second = simple.keep(Process("agent", [BIN / "hivenet-agent", "--backend-url", simple.engine.url, "--router", simple.link,
                                           "--identity-path", simple.folder / "agent.key"], simple.folder,
                                 {"HIVENET_ROUTER_JWT_SECRET": simple.secret}))
    assert second.child.wait(10) != 0
    assert "another process on this machine runs with it" in second.log()
    assert simple.chat(max_tokens=1).status_code == 200


def test_a_wrong_secret_is_one_clear_line_on_the_agent(simple):
    """Naive variant: it waits in silence, or prints a timeout."""
    wrong = simple.start_agent(simple.engine, identity="wrong.key", secret=NEW, wait=False)
    line = "refused the handshake: the shared secret differs from the router's"
    wait_for("it says so", lambda: line in wrong.log())
    said = [each for each in wrong.log().splitlines() if line in each]
    assert NEW not in wrong.log() and simple.secret not in wrong.log()
    assert simple.link in said[0]
    assert wrong.peer_id not in simple.table()


def listeners_of(pid):
    """Addresses, as /proc writes them, of the TCP sockets on which a process listens."""
    own = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            own.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    rows = [line.split() for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


def test_an_agent_listens_nowhere(simple):
    """Naive variant, that of the Go product: a port on every interface on which the agent serves whoever comes."""
    assert simple.chat(max_tokens=1).status_code == 200
    assert listeners_of(simple.agent.pid) == []
    assert len(listeners_of(simple.router.pid)) >= 3, "the search finds clients', metrics' and the link's"


def test_agents_that_come_and_go_all_the_time_leave_nothing_behind(simple):
    """Naive variant: a descriptor, a peer or a pool of every connection that ever was."""
    peer = simple.agent.peer_id
    before, links = simple.router.descriptors(), simple.metric("hivenet_router_link_links_welcomed_total")
    at_agent = simple.agent.descriptors()
    for i in range(8):
        wait_for("it is there", lambda: simple.admin(f"/admin/agents/{peer}/kick", "POST").status_code == 200)
        wait_for("it is back", lambda: simple.metric("hivenet_router_link_links_welcomed_total") == links + i + 1, limit=20)
    wait_for("the router has no descriptor more", lambda: simple.router.descriptors() <= before + 2)
    wait_for("nor has the agent", lambda: simple.agent.descriptors() <= at_agent + 2)
    wait_for("it serves", lambda: routable(simple, simple.agent))
    assert len(simple.table()) == 1 and simple.chat(max_tokens=1).status_code == 200
