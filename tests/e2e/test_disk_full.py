"""The storage (lmdb) on a file system that is full: what cannot be stored is refused whole, requests go on, and all of it is stored
when there is room again. (The audit log's disk is in test_audit_files.py.)

The naive variants these fail on: a key that works although it could not be stored, a write of which a half is there after a restart, a
day's usage that is forgotten when it could not be written the first time, a router that ends or serves nobody, a refusal that speaks of
an input/output error or calls the request wrong.
"""
import os
import pathlib
import subprocess

import httpx
import pytest

from conftest import Process, wait_for
from test_dynamic_keys import DYNAMIC, ONE, TWO, entry, put, status

MANY = 400  # tenants, with names so long that their records need pages which the file does not have yet
BIG = ["m" * 100 + str(n) for n in range(2000)]


class Disk:
    """A file system of 4 MiB in a mount namespace that outlives routers: `folder` as they see it, `seen` as we do."""

    def __init__(self, stack):
        self.folder = stack.folder / "small"
        self.folder.mkdir()
        root = os.geteuid() == 0
        alone = ["unshare", "--mount"] if root else ["unshare", "--map-root-user", "--mount"]
        mount = f"mount -t tmpfs -o size=4m tmpfs '{self.folder}'"
        tried = subprocess.run([*alone, "sh", "-c", mount], capture_output=True, text=True)
        if tried.returncode != 0:
            pytest.skip(f"no file system may be mounted here: {tried.stderr.strip()}")
        holder = stack.keep(Process("disk", [*alone, "sh", "-c", mount + " && echo '{\"ready\":true}' && exec sleep 600"], stack.folder))
        holder.ready()
        self.under = ["nsenter", f"--target={holder.pid}", *([] if root else ["--user", "--preserve-credentials"]), "--mount"]
        self.seen = pathlib.Path(f"/proc/{holder.pid}/root{self.folder}")
        self.filler = self.seen / "filler"

    def fill(self, leave=0):
        with open(self.filler, "ab", buffering=0) as out, pytest.raises(OSError, match="No space"):
            while out.write(b"x" * 4096):
                pass
        os.truncate(self.filler, self.filler.stat().st_size - leave)


@pytest.fixture
def disk(stack):
    return Disk(stack)


def tenant(number):
    return f"tenant-{number:03}-" + "x" * 150


def used(stack):
    return {k: v for k, v in stack.metrics().items() if k.startswith("hivenet_router_tenant_tokens_used_today{")}


def test_what_a_full_disk_refuses_leaves_no_trace_and_is_taken_when_there_is_room(stack, disk):
    starts = []

    def start():
        if starts:
            stack.router.kill()
        starts.append(stack.start_router("--disk-db-path", disk.folder / "db", "--quota-backend", "lmdb", env=DYNAMIC, under=disk.under))
        stack.start_agent(engine, identity=f"{len(starts)}.key")

    def version():
        return stack.admin("/admin/api-keys/version").json()

    def refused():
        answer = put(stack, "big", "3", TWO, allowed_models=BIG)
        assert answer.status_code == 503 and "nothing has changed" in answer.text and "the disk is full" in answer.text, answer.text
        assert version() == {"version": "2", "count": MANY + 1} and stack.admin("/admin/api-keys/big").status_code == 404
        assert (status(stack, ONE), status(stack, TWO)) == (200, 401)

    engine = stack.start_engine("--model", "sim-model", "--tokens", "6")
    start()
    keys = [{"id": f"k{n}", **entry(f"sk-key-{n}", owner=tenant(n), quota={"tokens_per_day": 1000})} for n in range(MANY)]
    assert stack.admin("/admin/api-keys/replace", "POST", json={"version": "1", "keys": keys}).json() == {"ok": True, "count": MANY}
    assert put(stack, "one", "2", ONE).status_code == 200

    disk.fill(leave=3 * 4096)  # room for a part of it
    refused()
    disk.fill()
    refused()
    start()  # on the full disk, after kill -9
    refused()

    body = {"model": "sim-model", "messages": [{"role": "user", "content": "hi"}]}
    with httpx.Client(base_url=stack.url, timeout=20) as client:
        for n in range(MANY):
            assert client.post("/v1/chat/completions", json=body, headers={"x-api-key": f"sk-key-{n}"}).status_code == 200
    wait_for("it is counted", lambda: stack.metric("hivenet_router_quota_backend_errors_total") > 0)
    wait_for("and told", lambda: "tokens used today could not be written; they count in memory and are tried again" in stack.router.log())
    spent = used(stack)
    assert len(spent) == MANY and min(spent.values()) > 0
    refused()

    disk.filler.unlink()
    assert put(stack, "big", "3", TWO, allowed_models=BIG).json() == {"ok": True}
    assert status(stack, TWO) == 200
    entries = lambda: stack.admin("/admin/storage").json()["disk_db"]["entries"]
    # The keys, their version, and what each tenant has used.
    wait_for("what was used is stored", lambda: entries() >= (MANY + 2) + 1 + MANY)
    start()
    assert version() == {"version": "3", "count": MANY + 2}
    assert (status(stack, ONE), status(stack, TWO)) == (200, 200)
    assert used(stack) == spent
    assert stack.metric("hivenet_router_quota_backend_errors_total") == 0


LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def peer_id():
    """Of a new key: base58 of what libp2p puts in front of an Ed25519 key, and the key."""
    pair = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-outform", "DER"], check=True, capture_output=True, timeout=20).stdout
    public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"], input=pair, check=True, capture_output=True, timeout=20)
    number = int.from_bytes(bytes.fromhex("002408011220") + public.stdout[-32:])
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = LETTERS[digit] + text
    return "1" + text


def test_a_revocation_holds_though_the_disk_is_full_and_its_answer_says_for_how_long(stack, disk):
    where = ("--disk-db-path", disk.folder / "db")
    stack.start_router(*where, under=disk.under)
    listed = lambda: {each["peer_id"] for each in stack.admin("/admin/agents/revoked").json()["revoked"]}
    revoke = lambda peer: stack.admin(f"/admin/agents/{peer}/revoked", "PUT", json={"reason": "x" * 1000})
    disk.fill()
    stored = set()
    for _ in range(60):  # the first ones find pages that the file has and does not need
        last = peer_id()
        answer = revoke(last)
        if answer.status_code != 200:
            break
        stored.add(last)
    assert answer.status_code == 503 and "revoked until the router restarts" in answer.text and "the disk is full" in answer.text, answer.text
    assert listed() == stored | {last}
    stack.router.kill()
    stack.start_router(*where, under=disk.under)
    assert listed() == stored
    disk.filler.unlink()
    assert revoke(last).status_code == 200
    stack.router.kill()
    stack.start_router(*where, under=disk.under)
    assert listed() == stored | {last}
