"""The audit log's file: rotated under load, on a disk that is full, in the mode `block`.

The naive variants these fail on: a line written twice or cut when its file is replaced, an error of the disk that loses the line, a
wait for room without end.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time
import uuid

import httpx
import pytest
from conftest import wait_for


def lines(path):
    text = path.read_text() if path.exists() else ""
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_rotation_under_load_loses_no_line_and_writes_none_twice(stack):
    stack.start_router()
    path, stop, asked = stack.folder / "audit.jsonl", threading.Event(), [[] for _ in range(4)]

    def load(mine):
        with httpx.Client(base_url=stack.url, timeout=10) as client:
            while not stop.is_set():
                name = str(uuid.uuid4())
                assert client.get("/v1/models", headers={"X-Request-ID": name}).status_code == 200
                mine.append(name)

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
    assert stack.router.stop() == 0
    seen = [line["request_id"] for file in [*rotated, path] for line in lines(file)]
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
    path = stack.folder.__class__(seen_by_router) / "audit.jsonl"
    names = []

    def ask(count):
        with httpx.Client(base_url=stack.url, timeout=10) as client:
            for _ in range(count):
                names.append(str(uuid.uuid4()))
                assert client.get("/v1/models", headers={"X-Request-ID": names[-1]}).status_code == 200

    ask(3)
    wait_for("the first lines", lambda: len(lines(path)) == 3)
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
    assert [line["request_id"] for line in lines(path)] == names
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
    assert "requests wait with them" in stack.router.log()
    began = time.monotonic()
    assert stack.router.stop() == 0
    assert time.monotonic() - began < 8
