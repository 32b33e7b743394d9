#!/usr/bin/env python3
"""Measures hivenet, with engines of its own and over the link, against nginx, HAProxy and the bare engine on this machine.

Every round measures every shape on every target in a fresh random order; ratios are taken within a round and only then
reduced to a median. Writes bench/results/NAME.{json,md} after every part: a part that fails is named there and costs no other.
Standard library only; about 15 minutes with the default settings.
"""
import argparse
import datetime
import json
import os
import platform
import random
import shlex
import subprocess
import sys
import tempfile
import time

import hot_spots
import parts
import stack
import summary

RESULTS = stack.TOP / "bench" / "results"
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
            "nginx": output_of("nginx", "-v").split("/")[-1], "haproxy": package("haproxy"), "compiler": output_of("c++", "--version").splitlines()[0],
            "libzmq": package("libzmq5"), "libsodium": package("libsodium23"), "boost": package("libboost1.81-dev"),
            "mimalloc": package("libmimalloc2.0")}


def busy_s():
    """CPU seconds of everything on the machine, idle and waiting left out."""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / 100


def measure(programs, target, arguments, seconds, refusals=()):
    command = [str(stack.BIN / "hivenet-bench"), *arguments, "--url", "http://" + programs.addresses[target], "--model", stack.MODEL,
               "--key", stack.KEY, "--seconds", str(seconds)]
    if "--warm-up" not in arguments:
        command += ["--warm-up", "0.3"]
    for name in ["engine", *summary.BETWEEN[target]]:
        for number, pid in enumerate(programs.pids[name]):
            command += ["--pid", f"{name}{number or ''}={pid}"]
    busy, began = busy_s(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
    wall = time.monotonic() - began
    busy = busy_s() - busy
    programs.check_alive()
    if done.returncode != 0:
        raise stack.Failed(f"{shlex.join(command)}\nanswered {done.returncode}: {done.stderr}{done.stdout[:2000]}")
    report = json.loads(done.stdout)
    bad = {s: n for s, n in report["statuses"].items() if not s.startswith("2") and s not in refusals} | {e: n for e, n in report["errors"].items() if n}
    if bad or report.get("streams_without_done"):
        raise stack.Failed(f"{target}, {shlex.join(arguments)}: not every answer was good: {bad}, streams without [DONE]: {report.get('streams_without_done')}")
    # What others used of the machine meanwhile: all that was busy, less what the measured programs and the generator used.
    ours = (report["cpu_sum"]["us"] + report["generator_cpu"]["us"]) / 1e6 * wall / report["seconds"]
    report["others_cpu_cores"] = round(max(0.0, (busy - ours) / wall), 2)
    return report


def run_rounds(name, given, found):
    """Fills `found` as it goes, so that what was measured before a failure is kept."""
    part = parts.ROUNDS[name]
    targets = [t for t in part["targets"] if t in given.targets]
    found.update({"shapes": {n: " ".join(s) for n, s in part["shapes"].items()}, "seconds_a_cell": part.get("seconds", given.seconds), "rounds": []})
    with tempfile.TemporaryDirectory(prefix="hivenet-bench-") as folder:
        programs = stack.Stack(folder, part.get("engine", ("--max-num-seqs", "64")), part.get("capacity", 64), part.get("workers", 1))
        try:
            programs.bring_up(targets)
            found["configs"] = {n: c.replace(folder, "DIR") for n, c in programs.configs.items()}
            rounds = min(given.rounds, part.get("most_rounds", given.rounds))
            for number in range(rounds):
                cells = [(target, shape) for target in targets for shape in part["shapes"]]
                random.shuffle(cells)
                say(f"{name}: round {number + 1} of {rounds}")
                for target, shape in cells:
                    report = measure(programs, target, part["shapes"][shape], found["seconds_a_cell"], part.get("refusals", ()))
                    found["rounds"].append({"round": number, "target": target, "shape": shape, "report": report})
            if name == "plain" and not given.no_profile:
                found["profile"] = hot_spots.profile(programs, part["shapes"], say)
        finally:
            programs.stop()


def run_part(name, given, result):
    found = result["parts"][name] = {}
    began = time.monotonic()
    try:
        if name in parts.ROUNDS:
            run_rounds(name, given, found)
        else:
            found["found"] = parts.SINGLE[name](given.targets, given.rounds, say)
    except (stack.Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as failure:
        found["failure"] = f"{type(failure).__name__}: {failure}"
        say(f"{name} failed: {failure}")
    found["took_s"] = round(time.monotonic() - began)


def main():
    known = [*parts.ROUNDS, *parts.SINGLE]
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--name", default=datetime.date.today().isoformat(), help="of the files in bench/results (default: the date)")
    flags.add_argument("--rounds", type=int, default=5, help="at least 5 for results that are kept")
    flags.add_argument("--seconds", type=float, default=2.0, help="measured time of one cell")
    flags.add_argument("--targets", default=",".join(parts.ALL), help="of " + ", ".join(parts.ALL))
    flags.add_argument("--only", default=",".join(known), help="parts to run, of " + ", ".join(known))
    flags.add_argument("--no-profile", action="store_true", help="leave perf out")
    flags.add_argument("--seed", type=int, default=1, help="of the order of the cells")
    given = flags.parse_args()
    given.targets, given.only = given.targets.split(","), given.only.split(",")
    for name, chosen, all_of_them in (("--targets", given.targets, parts.ALL), ("--only", given.only, known)):
        if unknown := set(chosen) - set(all_of_them):
            flags.error(f"{name} knows {', '.join(all_of_them)}, not {', '.join(sorted(unknown))}")
    random.seed(given.seed)
    began = time.monotonic()
    absent = {t: why for t in given.targets if (why := stack.missing(t))}
    for target, why in absent.items():
        say(f"{target} is left out: {why}")
    given.targets = [t for t in given.targets if t not in absent]
    result = {"name": given.name, "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
              "command": "./dev bench " + shlex.join(sys.argv[1:]), "machine": machine(), "versions": versions(), "absent": absent, "parts": {}}
    RESULTS.mkdir(exist_ok=True)
    for name in known:
        if name not in given.only:
            continue
        run_part(name, given, result)
        result["took_s"] = round(time.monotonic() - began)
        (RESULTS / f"{given.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        (RESULTS / f"{given.name}.md").write_text(summary.page(result, ""))
    print("\n".join(summary.budget_section(result)))
    say(f"written: bench/results/{given.name}.json and .md, {result['took_s']} s")
    if failed := [n for n, p in result["parts"].items() if "failure" in p]:
        sys.exit("bench: not measured to the end: " + ", ".join(failed))


if __name__ == "__main__":
    try:
        main()
    except stack.Failed as failure:
        sys.exit(f"bench: {failure}")
