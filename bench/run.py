#!/usr/bin/env python3
"""Measures router + agent against nginx and the bare engine on this machine, interleaved, and writes bench/results/NAME.{json,md}.

Every round measures every shape on every target in a fresh random order; ratios are taken within a round and only then
reduced to a median. Standard library only; ends by itself in under 8 minutes with the default settings.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shlex
import subprocess
import sys
import tempfile
import time

import hot_spots
import stack
import summary

RESULTS = stack.TOP / "bench" / "results"
TARGETS = {"direct": [], "nginx": ["nginx"], "hivenet": ["router", "agent"]}  # and the processes between client and engine

# 29 tokens are 32 events from the simulator: role, tokens, finish, [DONE].
SHAPES = {
    "c1": ["ops", "--connections", "1", "--size", "1024", "--tokens", "16"],
    "c32": ["ops", "--connections", "32", "--size", "1024", "--tokens", "16"],
    "sse16": ["stream", "--streams", "16", "--size", "1024", "--tokens", "29"],
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=stack.TOP)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next(int(line.split()[1]) // 1024 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_mib": memory, "kernel": platform.release(),
            "system": platform.freedesktop_os_release().get("PRETTY_NAME", "")}


def versions():
    package = lambda name: output_of("dpkg-query", "-W", "-f=${Version}", name)
    return {"commit": output_of("git", "rev-parse", "HEAD"), "uncommitted_changes": bool(output_of("git", "status", "--porcelain", "kernel", "plugins", "sdk", "bench/engine_sim", "bench/hivenet_bench")),
            "nginx": output_of("nginx", "-v").split("/")[-1], "compiler": output_of("c++", "--version").splitlines()[0],
            "libzmq": package("libzmq5"), "libsodium": package("libsodium23"), "boost": package("libboost1.81-dev"),
            "mimalloc": package("libmimalloc2.0")}


def busy_s():
    """CPU seconds of everything on the machine, idle and waiting left out."""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / 100


def measure(programs, target, shape, seconds):
    command = [str(stack.BIN / "hivenet-bench"), *SHAPES[shape], "--url", "http://" + programs.addresses[target], "--model", stack.MODEL,
               "--warm-up", "0.3", "--seconds", str(seconds)]
    for name in ["engine", *TARGETS[target]]:
        for number, pid in enumerate(programs.pids[name]):
            command += ["--pid", f"{name}{number or ''}={pid}"]
    busy, began = busy_s(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 20)
    wall = time.monotonic() - began
    busy = busy_s() - busy
    programs.check_alive()
    if done.returncode != 0:
        raise stack.Failed(f"{shlex.join(command)}\nanswered {done.returncode}: {done.stderr}{done.stdout[:2000]}")
    report = json.loads(done.stdout)
    bad = {s: n for s, n in report["statuses"].items() if not s.startswith("2")} | {e: n for e, n in report["errors"].items() if n}
    if bad or report.get("streams_without_done"):
        raise stack.Failed(f"{target} {shape}: not every answer was good: {bad}, streams without [DONE]: {report.get('streams_without_done')}")
    # What others used of the machine meanwhile: all that was busy, less what the measured programs and the generator used.
    ours = (report["cpu_sum"]["us"] + report["generator_cpu"]["us"]) / 1e6 * wall / report["seconds"]
    report["others_cpu_cores"] = round(max(0.0, (busy - ours) / wall), 2)
    return report


def run_rounds(programs, targets, rounds, seconds):
    rows = []
    for number in range(rounds):
        cells = [(target, shape) for target in targets for shape in SHAPES]
        random.shuffle(cells)
        say(f"round {number + 1} of {rounds}")
        for target, shape in cells:
            rows.append({"round": number, "target": target, "shape": shape, "report": measure(programs, target, shape, seconds)})
    return rows


def selection():
    program = stack.BIN / "selection_bench"
    if not program.exists():
        return None
    say("selection")
    done = subprocess.run([program, "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1",
                           "--benchmark_format=json"], capture_output=True, text=True, timeout=120)
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


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--name", default=datetime.date.today().isoformat(), help="of the files in bench/results (default: the date)")
    flags.add_argument("--rounds", type=int, default=7, help="at least 5 for results that are kept")
    flags.add_argument("--seconds", type=float, default=2.0, help="measured time of one cell")
    flags.add_argument("--targets", default=",".join(TARGETS), help="of " + ", ".join(TARGETS))
    flags.add_argument("--no-profile", action="store_true", help="leave perf out")
    flags.add_argument("--seed", type=int, default=1, help="of the order of the cells")
    given = flags.parse_args()
    targets = given.targets.split(",")
    if unknown := set(targets) - set(TARGETS):
        flags.error(f"--targets knows {', '.join(TARGETS)}, not {', '.join(unknown)}")
    random.seed(given.seed)
    began = time.monotonic()
    result = {"name": given.name, "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
              "command": "./dev bench " + shlex.join(sys.argv[1:]), "machine": machine(), "versions": versions(),
              "shapes": {name: " ".join(s) for name, s in SHAPES.items()}, "seconds_a_cell": given.seconds}
    with tempfile.TemporaryDirectory(prefix="hivenet-bench-") as folder:
        programs = stack.Stack(folder)
        try:
            programs.start_engine()
            if "nginx" in targets:
                programs.start_nginx()
            if "hivenet" in targets:
                programs.start_hivenet()
            result["configs"] = {n: c.replace(folder, "DIR") for n, c in programs.configs.items()}
            result["rounds"] = run_rounds(programs, targets, given.rounds, given.seconds)
            if "hivenet" in targets and not given.no_profile:
                result["profile"] = hot_spots.profile(programs, SHAPES, say)
        finally:
            programs.stop()
    result["selection"] = selection()
    result["took_s"] = round(time.monotonic() - began)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{given.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    page = summary.page(result, "")
    (RESULTS / f"{given.name}.md").write_text(page)
    print(page)
    say(f"written: bench/results/{given.name}.json and .md, {result['took_s']} s")


if __name__ == "__main__":
    try:
        main()
    except stack.Failed as failure:
        sys.exit(f"bench: {failure}")
