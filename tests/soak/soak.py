"""The long form of the memory tests (./dev soak): resident memory after many requests of mixed kinds, of idle streams and
connections, and of bodies in flight. Prints a table and writes it with --out.

    soak.py [--requests 200000] [--first 50000] [--streams 10000] [--out FILE]
"""
import argparse
import datetime
import pathlib
import platform
import resource
import secrets
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from parts import bodies_in_flight, idle_connections, idle_streams, settled_rss, wait_for_rest  # noqa: E402
from conftest import Stack  # noqa: E402
from load import Load  # noqa: E402

MIB = 1 << 20
LIMITS = {"growth": 1.10, "stream": 32 * 1024, "connection": 8 * 1024, "body": 1.25}


def start(folder, *router):
    folder.mkdir()
    stack = Stack(folder)
    stack.engine = stack.start_engine("--model", "sim-model", "--max-num-seqs", "20000", "--kv-tokens", "1000000000",
                                      "--step-ms", "1")
    stack.start_router("--max-concurrent", "1000", *router)
    stack.agent = stack.start_agent(stack.engine, "--capacity", "20000")
    return stack


def soak(stack, first, total, say):
    """[(requests, router bytes, agent bytes)], the driver, and lease drift."""
    load = Load(stack.router.said["http"])
    rows = []
    for upto in range(first, total + 1, first):
        begin = time.monotonic()
        load.run_to(upto)
        took = time.monotonic() - begin
        wait_for_rest(stack)
        rows.append((load.done, settled_rss(stack.router.pid), settled_rss(stack.agent.pid)))
        say(f"{load.done} requests ({first / took:.0f}/s): router {rows[-1][1] / MIB:.1f} MiB, agent {rows[-1][2] / MIB:.1f} MiB")
    return rows, load, stack.metric("hivenet_router_lease_drift")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--requests", type=int, default=200_000)
    p.add_argument("--first", type=int, default=50_000)
    p.add_argument("--streams", type=int, default=10_000)
    p.add_argument("--out")
    a = p.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    lines, failures = [], []

    def row(what, value, limit, text):
        ok = value <= limit
        lines.append(f"| {what} | {text} | {'yes' if ok else '**no**'} |")
        print(lines[-1], flush=True)
        if not ok:
            failures.append(what)

    with tempfile.TemporaryDirectory(prefix=f"soak-{secrets.token_hex(3)}-") as folder:
        # Opening so many streams takes a slow machine longer than one request may take.
        stack = start(pathlib.Path(folder, "held"), "--request-timeout", "15m")
        try:
            each = idle_streams(stack, a.streams)
            row(f"{a.streams} idle streams, resident bytes each in the router, at most 32 KiB", each["router"], LIMITS["stream"],
                f"{each['router'] / 1024:.1f} KiB (agent {each['agent'] / 1024:.1f} KiB)")
            kept, alone, beside = idle_connections(stack, a.streams)
            row(f"{a.streams} kept connections after an answer, resident bytes each, at most 8 KiB", kept, LIMITS["connection"], f"{kept / 1024:.1f} KiB")
            row("/health beside them, median, at most twice what it takes alone and 1 ms", beside, 2 * alone + 1, f"{beside:.2f} ms, alone {alone:.2f} ms")
            grown, counted = bodies_in_flight(stack, 12, 10 * MIB - 1000)
            row("12 bodies of 10 MiB in flight, resident bytes over body bytes, at most 1.25", grown, LIMITS["body"],
                f"{grown:.3f}, counted {counted:.3f}")
        finally:
            stack.stop()
        stack = start(pathlib.Path(folder, "mixed"))
        try:
            rows, load, drift = soak(stack, a.first, a.requests, lambda s: print(s, flush=True))
            for n, router, agent in rows:
                lines.append(f"| resident after {n} mixed requests | router {router / MIB:.1f} MiB, agent {agent / MIB:.1f} MiB | |")
            growth = rows[-1][1] / rows[0][1]
            row(f"after {rows[-1][0]} over after {rows[0][0]}, router, at most 1.1", growth, LIMITS["growth"], f"{growth:.3f}")
            agent_growth = rows[-1][2] / rows[0][2]
            row("the same, agent", agent_growth, LIMITS["growth"], f"{agent_growth:.3f}")
            row("lease drift, 0", abs(drift), 0, f"{drift:.0f}")
            row("answers that a well-behaved client should not have had, 0", sum(load.troubles.values()), 0, str(dict(load.troubles) or 0))
            kinds = ", ".join(f"{k} {v}" for k, v in sorted(load.count_by_kind().items()))
        finally:
            stack.stop()
    if a.out:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        pathlib.Path(a.out).write_text("\n".join([
            "# Memory of router and agent", "",
            f"{datetime.date.today()}, commit {commit}, {cpu}, {platform.system()} {platform.release()}. Router with one worker, one agent over "
            "ZeroMQ with CURVE, the simulator as engine; resident memory (VmRSS) of the processes, the least of some readings.", "",
            f"Command: `./dev soak --requests {a.requests} --first {a.first} --streams {a.streams}`", "",
            "| what | measured | within its limit |", "|---|---|---|", *lines, "", f"Requests by kind: {kinds}.", ""]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
