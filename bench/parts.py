"""What is measured. A part of rounds: shapes of load on targets, in fresh random order each round. Other parts measure one thing."""
import http.client
import json
import subprocess
import tempfile
import time

import stack

# 29 tokens are 32 events from the simulator: role, tokens, finish, [DONE].
PLAIN = {
    "c1": ["ops", "--connections", "1", "--size", "1024", "--tokens", "16"],
    "c32": ["ops", "--connections", "32", "--size", "1024", "--tokens", "16"],
    "bursts": ["stream", "--streams", "16", "--size", "1024", "--tokens", "29"],
}


def paced(streams, tokens):
    return ["stream", "--streams", str(streams), "--size", "1024", "--tokens", str(tokens), "--stamped", "--ramp", "1.5", "--warm-up", "2.5"]


PACED_ENGINE = ("--max-num-seqs", "20000", "--kv-tokens", "1000000000", "--spread", "--stamp", "--step-ms")
OVERLOAD = {"slots": ["ops", "--connections", "64", "--refused-pause-ms", "200"],
            "overload": ["ops", "--connections", "256", "--refused-pause-ms", "200", "--warm-up", "1"]}
ALL = ["direct", "nginx", "haproxy", "embedded", "hivenet"]

# name -> engine, agents' slots, workers, targets, shapes, seconds of a cell (None = as asked), most rounds, statuses that are no failure.
ROUNDS = {
    "plain": {"shapes": PLAIN, "targets": ALL},
    "paced": {"engine": (*PACED_ENGINE, "50"), "capacity": 20000, "targets": ALL, "seconds": 3,
              "shapes": {"paced200": paced(200, 37), "paced1000": paced(1000, 37)}},
    # Every event of 1,000 streams x 50/s; what is delivered is judged against the bare engine.
    "crowd": {"engine": (*PACED_ENGINE, "20"), "capacity": 20000, "targets": ["direct", "nginx", "embedded", "hivenet"], "seconds": 3,
              "most_rounds": 3, "shapes": {"crowd": paced(1000, 97)}},
    # 64 slots of 50 ms each, asked by as many clients as there are slots and by four times as many.
    "overload": {"engine": ("--max-num-seqs", "64", "--first-token-ms", "50"), "targets": ["embedded", "hivenet"], "refusals": ("429", "503"),
                 "shapes": OVERLOAD},
    "workers2": {"workers": 2, "targets": ["direct", "nginx", "embedded", "hivenet"], "shapes": PLAIN},
    # The rest of the budgets with two workers, once.
    "paced-workers2": {"workers": 2, "engine": (*PACED_ENGINE, "50"), "capacity": 20000, "targets": ["direct", "nginx", "embedded", "hivenet"],
                       "seconds": 3, "most_rounds": 1, "shapes": {"paced200": paced(200, 37), "paced1000": paced(1000, 37)}},
    "crowd-workers2": {"workers": 2, "engine": (*PACED_ENGINE, "20"), "capacity": 20000, "targets": ["direct", "nginx", "embedded", "hivenet"],
                       "seconds": 3, "most_rounds": 1, "shapes": {"crowd": paced(1000, 97)}},
    "overload-workers2": {"workers": 2, "engine": ("--max-num-seqs", "64", "--first-token-ms", "50"), "targets": ["embedded", "hivenet"],
                          "refusals": ("429", "503"), "most_rounds": 1, "shapes": OVERLOAD},
}


def state(programs):
    return json.loads(stack.ask(programs.addresses["direct"], "GET", "/sim/state")[1])


def leave(programs, target, stream):
    """Milliseconds from a client's close to the engine's abort of its request."""
    before = state(programs)
    host, port = programs.addresses[target].rsplit(":", 1)
    client = http.client.HTTPConnection(host, int(port), timeout=5)
    body = json.dumps({"model": stack.MODEL, "stream": stream, "max_tokens": 100000, "messages": [{"role": "user", "content": "hello"}]})
    client.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", "Authorization": "Bearer " + stack.KEY})
    if stream:
        answer = client.getresponse()
        while b"content\":\"t" not in (line := answer.fp.readline()) and line:
            pass
    stack.wait_for("the engine has the request", lambda: state(programs)["running"] == before["running"] + 1, 5)
    sock = client.sock if client.sock is not None else answer.fp.raw._sock
    began = time.monotonic_ns()
    sock.shutdown(2)
    sock.close()
    client.close()
    after = stack.wait_for("the engine's abort", lambda: (s := state(programs))["aborted"] > before["aborted"] and s, 5)
    return (after["aborted_at_ns"] - began) / 1e6


def cancel(targets, rounds, say):
    found = []
    with tempfile.TemporaryDirectory(prefix="hivenet-bench-") as folder:
        programs = stack.Stack(folder, ("--max-num-seqs", "64", "--kv-tokens", "1000000000", "--step-ms", "20"))
        try:
            targets = [t for t in targets if t != "direct"]
            programs.bring_up(targets)
            for target in targets:
                for phase in ("waiting", "streaming"):
                    if target == "haproxy" and phase == "waiting":
                        continue
                    say(f"cancel, {phase}, {target}")
                    found.append({"target": target, "phase": phase, "ms": [leave(programs, target, phase == "streaming") for _ in range(4 * rounds)]})
        finally:
            programs.stop()
    return found


def ready(targets, rounds, say):
    """Milliseconds from exec to the line that says ready, and from the agent's exec to a model that can be asked for."""
    say("ready")
    found = {"router ready": [], "agent routable": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="hivenet-bench-") as folder:
            programs = stack.Stack(folder)
            try:
                programs.bring_up(["hivenet"])
                for _, child in programs.started[:0:-1]:
                    child.terminate()
                    child.wait(5)
                programs.started = programs.started[:1]
                began = time.monotonic_ns()
                child = programs.start("router", stack.BIN / "hivenet-router", "--config", programs.folder / "router.yaml")
                said = programs.ready("router", child)
                found["router ready"].append((time.monotonic_ns() - began) / 1e6)
                agent = programs.configs["agent"].splitlines()
                agent = [f"router: {said['link'][0].split('//')[-1]}" if line.startswith("router:") else line for line in agent]
                programs.write("agent.yaml", "\n".join(agent) + "\n")
                began = time.monotonic_ns()
                programs.start("agent", stack.BIN / "hivenet-agent", "--config", programs.folder / "agent.yaml")
                stack.wait_for("the model is routable", lambda: stack.MODEL.encode() in stack.ask(said["http"], "GET", "/v1/models")[1], 10, 0.005)
                found["agent routable"].append((time.monotonic_ns() - began) / 1e6)
            finally:
                programs.stop()
    return found


def selection(targets, rounds, say):
    program = stack.BIN / "selection_bench"
    say("selection")
    done = subprocess.run([program, "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1",
                           "--benchmark_enable_random_interleaving=true",  # what is compared is measured side by side
                           "--benchmark_format=json"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise stack.Failed(f"selection_bench: {done.stderr[-2000:]}")
    found = []
    for b in json.loads(done.stdout)["benchmarks"]:
        if b.get("error_occurred"):
            raise stack.Failed(f"selection_bench: {b['name']}: {b['error_message']}")
        if b.get("aggregate_name") == "median":
            name, agents = b["run_name"].split("/")
            found.append({"what": name, "agents": int(agents), "median_ns": round(b["cpu_time"], 1), "allocations": b.get("allocations")})
    return found


SINGLE = {"cancel": cancel, "ready": ready, "selection": selection}
