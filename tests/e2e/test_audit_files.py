"""Files and changes: the audit log rotated under load, on a disk that is full, in the mode `block`; changes under /admin in it;
and a log that nobody reads.

The naive variants these fail on: a line written twice or cut when its file is replaced, an error of the disk that loses the line, a
wait for room without end, a handler that forgot to write its change down, a plain write to stderr.
"""
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import uuid

import httpx
import pytest
from conftest import ADMIN_KEY, wait_for

POLICY = "routing_policy: {strategy: least-loaded}\n"


def whole(stack, path):
    """The lines of a file that nobody writes to any more: the last one has its end, too."""
    assert not path.exists() or path.read_text()[-1:] in ("", "\n")
    return stack.audit(path)


def test_rotation_under_load_loses_no_line_and_writes_none_twice(stack):
    stack.start_router()
    path, stop = stack.folder / "audit.jsonl", threading.Event()
    asked, failed = [[] for _ in range(4)], []

    def load(mine):
        try:
            with httpx.Client(base_url=stack.url, timeout=10) as client:
                while not stop.is_set():
                    name = str(uuid.uuid4())
                    assert client.get("/v1/models", headers={"X-Request-ID": name}).status_code == 200
                    mine.append(name)
        except Exception as error:  # of whatever kind: it ends this thread, and would fail nothing
            failed.append(repr(error))

    threads = [threading.Thread(target=load, args=(mine,)) for mine in asked]
    for t in threads:
        t.start()
    rotated = []
    for number in range(20):
        wait_for("lines to rotate", lambda: path.exists() and path.stat().st_size > 4096)
        rotated.append(stack.folder / f"audit.{number}")
        path.rename(rotated[-1])
        if number % 3 < 2:  # else nobody tells the router
            stack.router.child.send_signal((signal.SIGUSR1, signal.SIGHUP)[number % 3])
    stop.set()
    for t in threads:
        t.join()
    assert not failed, failed
    assert all(asked) and stack.router.stop() == 0
    seen = [line["request_id"] for file in [*rotated, path] for line in whole(stack, file)]
    wanted = [name for mine in asked for name in mine]
    assert len(wanted) > 100 and len(seen) == len(set(seen))
    assert set(wanted) <= set(seen)


@pytest.fixture
def small_disk(stack):
    """A folder that is a file system of 256 KiB to the router alone, and what it is started under."""
    folder = stack.folder / "small"
    folder.mkdir()
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=256k tmpfs '{folder}'"
    tried = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {tried.stderr.strip()}")
    return folder, [*unshare, "sh", "-c", f'{mount} && exec "$0" "$@"']


def test_lines_wait_for_a_disk_that_is_full_and_are_all_written_when_it_has_room(stack, small_disk):
    folder, under = small_disk
    stack.start_router(env={"HIVENET_ROUTER_AUDIT_LOG_PATH": str(folder / "audit.jsonl")}, under=under)
    seen_by_router = f"/proc/{stack.router.pid}/root{folder}"
    path = pathlib.Path(seen_by_router) / "audit.jsonl"
    names = []

    def ask(count):
        with httpx.Client(base_url=stack.url, timeout=10) as client:
            for _ in range(count):
                names.append(str(uuid.uuid4()))
                assert client.get("/v1/models", headers={"X-Request-ID": names[-1]}).status_code == 200

    ask(3)
    wait_for("the first lines", lambda: len(stack.audit(path)) == 3)
    filler = path.with_name("filler")
    with open(filler, "wb", buffering=0) as out, pytest.raises(OSError, match="No space"):
        while out.write(b"x" * 4096):
            pass
    ask(300)
    wait_for("errors", lambda: stack.metric("hivenet_router_audit_write_errors_total") > 2)
    assert path.stat().st_size < 256 * 1024
    assert stack.metric("hivenet_router_audit_queue_bytes") > 0
    assert len(re.findall(r"audit: .*No space left on device", stack.router.log())) == 1, "one line a minute"
    filler.unlink()
    wait_for("all of them", lambda: path.read_text().count("\n") == len(names))
    assert [line["request_id"] for line in whole(stack, path)] == names
    assert stack.metric("hivenet_router_audit_lines_dropped_total") == 0


def test_block_waits_for_the_file_once_and_a_dead_one_does_not_stop_the_router(stack):
    target = stack.folder / "audit.jsonl"
    target.symlink_to("/dev/full")
    stack.start_router("--audit-queue-bytes", "64KiB", "--audit-overflow", "block", "--audit-block-limit", "500ms", "--workers", "1")
    began = time.monotonic()
    with httpx.Client(base_url=stack.url, timeout=20) as client:
        for _ in range(400):
            assert client.get("/v1/models").status_code == 200
    assert 0.5 <= time.monotonic() - began < 15
    assert stack.metric("hivenet_router_audit_blocked_total") == 1
    assert stack.metric("hivenet_router_audit_blocked_seconds_total") >= 0.5
    assert stack.metric("hivenet_router_audit_lines_dropped_total", reason="queue_full") > 0
    wait_for("its writer says so", lambda: "requests wait with them" in stack.router.log())
    began = time.monotonic()
    assert stack.router.stop() == 0
    assert time.monotonic() - began < 8


def test_a_change_under_admin_says_who_asked_for_what_and_what_came_of_it(simple):
    path = simple.folder / "audit.jsonl"
    actions = lambda: [line for line in simple.audit() if line["log_type"] == "admin_audit"]
    peer = simple.agent.peer_id
    ids = [str(uuid.uuid4()) for _ in range(9)]

    def ask(number, method, target, **more):
        headers = {"X-Request-ID": ids[number], "Authorization": f"Bearer {more.pop('key', ADMIN_KEY)}"}
        return httpx.request(method, simple.url + target, headers=headers, timeout=10, **more)

    ask(0, "PUT", "/admin/policy/models/a%2Fb", content=f"models: [words-of-the-body]\n{POLICY}")
    ask(1, "PUT", "/admin/policy/models/a%2Fb", content="words-of-the-body: [")
    ask(2, "DELETE", "/admin/policy/models/a%2Fb")
    ask(3, "POST", f"/admin/agents/{peer}/drain")
    ask(4, "DELETE", f"/admin/agents/{peer}/drain")
    ask(5, "POST", "/admin/metrics/reset")
    ask(6, "PUT", "/admin/policy", content=POLICY, key="a-key-that-opens-nothing")
    # Questions, whatever they are asked with.
    for method, target in (("GET", "/admin/policy"), ("HEAD", "/admin/agents"), ("PUT", "/admin/no-such-route")):
        ask(7, method, target)
    ask(7, "POST", "/admin/explain", json={"model": "sim-model"})
    ask(8, "DELETE", "/admin/policy")
    # A change has its line before its request has.
    wait_for("both lines of the last one", lambda: len([line for line in simple.audit() if line["request_id"] == ids[8]]) == 2)
    who = hashlib.sha256(ADMIN_KEY.encode()).hexdigest()[:12]
    drain, named = "/admin/agents/:peer_id/drain", "/admin/policy/models/*name"
    seen = [(a["method"], a["route"], a["target"], a["status_code"], a["admin_key_id"]) for a in actions()]
    assert seen[:8] == [("PUT", named, "a/b", 200, who), ("PUT", named, "a/b", 400, who), ("DELETE", named, "a/b", 200, who),
                        ("POST", drain, peer, 200, who), ("DELETE", drain, peer, 200, who), ("POST", "/admin/metrics/reset", "", 200, who),
                        ("PUT", "/admin/policy", "", 401, ""), ("DELETE", "/admin/policy", "", 200, who)]
    assert len(seen) == 8
    for number, action in zip((*range(7), 8), actions()):
        assert action["request_id"] == ids[number] and action["source_ip"] == "127.0.0.1" and None not in action.values()
        own = [l for l in simple.audit() if l["request_id"] == ids[number] and l["log_type"] == "audit"]
        assert len(own) == 1, "the request's own line"
    text = path.read_text()
    for secret in (ADMIN_KEY, "a-key-that-opens-nothing", "words-of-the-body"):
        assert secret not in text


def test_a_log_that_nobody_reads_stops_no_request(stack):
    fifo = stack.folder / "log"
    os.mkfifo(fifo)
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router(env={"HIVENET_ROUTER_LOG_LEVEL": "debug"}, under=["sh", "-c", f'exec "$0" "$@" 2<>"{fifo}"'])
    stack.start_agent(stack.engine)
    deadline = time.monotonic() + 60
    with httpx.Client(base_url=stack.url, timeout=10) as client:
        body = {"model": "sim-model", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        while stack.metric("hivenet_router_log_lines_lost_total") == 0:
            assert time.monotonic() < deadline, "the log is not full yet"
            for _ in range(50):
                assert client.post("/v1/chat/completions", json=body).status_code == 200
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert stack.router.stop() == 0


def test_a_log_on_a_full_disk_stops_no_request(stack):
    """Naive variants: a line that cannot be written ends the program, or the writer tries for ever; what was lost is counted nowhere."""
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router(env={"HIVENET_ROUTER_LOG_LEVEL": "debug"}, under=["sh", "-c", 'exec "$0" "$@" 2>/dev/full'])
    stack.start_agent(stack.engine)
    lost = stack.metric("hivenet_router_log_lines_lost_total")
    assert lost > 0, "of the start already"
    assert stack.chat(max_tokens=1).status_code == 200 and stack.chat(stream=True, max_tokens=1).text.endswith("data: [DONE]\n\n")
    wait_for("the lines of the requests are counted", lambda: stack.metric("hivenet_router_log_lines_lost_total") > lost)
    assert stack.router.stop() == 0
