"""What the soak and its short forms in the end-to-end tests share: measuring a process, and holding many streams open."""
import asyncio
import http.client
import json
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from conftest import wait_for  # noqa: E402
from load import Client, chat, head  # noqa: E402


def rss(pid):
    """Resident bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


def settled_rss(pid, seconds=3.0):
    """The smallest of some readings: an allocator returns pages a little late."""
    end = time.monotonic() + seconds
    least = rss(pid)
    while time.monotonic() < end:
        time.sleep(0.1)
        least = min(least, rss(pid))
    return least


def at_rest(stack):
    """Nothing under way, nothing held."""
    health = stack.admin("/admin/health").json()
    busy = sum(row["status"]["active_requests"] for row in stack.table().values())
    return (health["in_flight"] == 0 and busy == 0 and stack.metric("hivenet_router_memory_held_bytes") < 1 << 20
            and stack.metric("hivenet_router_link_streams_open") == 0)


def wait_for_rest(stack, limit=30):
    wait_for("the router is at rest", lambda: at_rest(stack), limit=limit, pause=0.1)


async def _held(address, count, request, until, at_once=64):
    host, port = address.rsplit(":", 1)
    gate = asyncio.Semaphore(at_once)

    async def one():
        async with gate:
            c = Client(host, int(port))
            await c.connect()
            await c.send(request)
            await asyncio.wait_for(c.reader.readuntil(until), 60)
            return c

    return await asyncio.gather(*(one() for _ in range(count)))


class Held:
    """`count` connections that have sent `request`, seen `until` in the answer, and stay open until the block ends."""

    def __init__(self, address, count, request, until):
        self.what = address, count, request, until
        self.loop = asyncio.new_event_loop()

    def __enter__(self):
        self.clients = self.loop.run_until_complete(_held(*self.what))
        return self

    def __exit__(self, *_):
        async def close():
            for c in self.clients:
                c.close(hard=True)
        self.loop.run_until_complete(close())
        self.loop.close()


def idle_streams(stack, count):
    """{who: bytes of resident memory a stream that has sent one event and is silent}."""
    stack.engine.faults(hold_after=1)
    who = {"router": stack.router.pid, "agent": stack.agent.pid}
    before = {name: settled_rss(pid, 1) for name, pid in who.items()}
    with Held(stack.router.said["http"], count, chat(True, 5), b'"content":"token '):
        wait_for("all are open", lambda: stack.metric("hivenet_router_link_streams_open", worker="0") == count)
        after = {name: settled_rss(pid, 1) for name, pid in who.items()}
    stack.engine.faults()
    wait_for_rest(stack, limit=60)
    return {name: (after[name] - before[name]) / count for name in who}


def health_ms(address, asked=200):
    """Median milliseconds of /health on one kept connection."""
    host, port = address.rsplit(":", 1)
    client = http.client.HTTPConnection(host, int(port), timeout=10)
    took = []
    for _ in range(asked):
        began = time.monotonic()
        client.request("GET", "/health")
        assert client.getresponse().read()
        took.append(1000 * (time.monotonic() - began))
    client.close()
    return statistics.median(took)


def idle_connections(stack, count):
    """Resident bytes in the router of a kept connection after one answered chat; /health in ms without and with them."""
    address = stack.router.said["http"]
    before, alone = settled_rss(stack.router.pid, 1), health_ms(address)
    with Held(address, count, chat(False, 1), b'"total_tokens"'):
        wait_for_rest(stack)
        after, beside = settled_rss(stack.router.pid, 2), health_ms(address)
    return (after - before) / count, alone, beside


def bodies_in_flight(stack, count, size):
    """Resident growth of the router over the bytes of `count` bodies that an engine has and does not answer."""
    stack.engine.faults(hang=True)
    body = json.dumps({"model": "sim-model", "messages": [{"role": "user", "content": "x" * size}]}).encode()
    request = head("POST", "/v1/chat/completions", len(body), "Content-Type: application/json") + body
    host, port = stack.router.said["http"].rsplit(":", 1)
    before = settled_rss(stack.router.pid, 1)

    async def run():
        clients = [Client(host, int(port)) for _ in range(count)]
        for c in clients:
            await c.send(request)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: wait_for(
            "the engine has them", lambda: stack.engine.state()["chats"] >= stack.chats_before + count, limit=60))
        after = await loop.run_in_executor(None, settled_rss, stack.router.pid, 1)
        held = stack.metric("hivenet_router_memory_held_bytes")
        for c in clients:
            c.close(hard=True)
        return after, held

    stack.chats_before = stack.engine.state()["chats"]
    after, held = asyncio.run(run())
    stack.engine.faults()
    wait_for_rest(stack)
    return (after - before) / (count * len(body)), held / (count * len(body))
