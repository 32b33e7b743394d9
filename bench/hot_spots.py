"""Where the time of the programs between client and engine goes: call chains by perf's CPU clock, system calls by its tracepoints, both under load.

perf needs no hardware counters for this, so it works in a guest. Without perf, or without the right to use it, there is no
profile and the page says why.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import stack

SYSCALLS = ["epoll_wait", "epoll_pwait", "epoll_ctl", "recvfrom", "sendto", "recvmsg", "sendmsg", "read", "write", "readv", "writev", "poll",
            "futex", "timerfd_settime", "getpid", "getrandom", "madvise", "mmap", "munmap"]
LIMIT_S = 30


# What is looked into: target -> its programs.
LOOKED_INTO = {"hivenet": ["router", "agent"], "embedded": ["embedded"]}


def load(programs, target, shape, seconds, warm_up=0.5):
    return subprocess.Popen([str(stack.BIN / "hivenet-bench"), *shape, "--url", "http://" + programs.addresses[target], "--model",
                             stack.MODEL, "--key", stack.KEY, "--warm-up", str(warm_up), "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)


def under_load(programs, target, shape, perf_commands):
    """Runs the perf commands beside each other in the middle of a load; the load's requests a second and their outputs."""
    generator = load(programs, target, shape, 5)
    try:
        time.sleep(1)
        running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in perf_commands]
        texts = [p.communicate(timeout=LIMIT_S) for p in running]
        report = json.loads(generator.communicate(timeout=LIMIT_S)[0])
    finally:
        if generator.poll() is None:
            generator.kill()
            generator.wait()
    return report, [out + err for out, err in texts]


def syscalls(programs, target, shape, seconds=3):
    """Calls per request, by program and name. perf counts around the whole life of the load, so both see the same requests."""
    names = LOOKED_INTO[target]
    events = ["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{s}" for s in SYSCALLS)]
    counting = [subprocess.Popen(["perf", "stat", "-x", ",", "-e", ",".join(events), "-p", str(programs.pids[n][0]), "--", "sleep",
                                  str(seconds + 3)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for n in names]
    time.sleep(1.5)  # perf attaches one tracepoint after another
    report = json.loads(load(programs, target, shape, seconds, warm_up=0).communicate(timeout=LIMIT_S)[0])
    texts = ["".join(p.communicate(timeout=LIMIT_S)) for p in counting]
    found = {}
    for name, text in zip(names, texts):
        counts = {}
        for line in text.splitlines():
            fields = line.split(",")
            if len(fields) > 2 and fields[0].isdigit():
                counts[fields[2].split(":")[-1].replace("sys_enter_", "")] = int(fields[0])
        total = counts.pop("sys_enter", None)
        if total is None:
            raise OSError(f"perf stat has no tracepoints here: {text.strip()[-300:]}")
        counts["others"] = max(0, total - sum(counts.values()))
        each = lambda n: round(n / report["requests"], 2)
        found[name] = {"total": each(total), **{s: each(c) for s, c in sorted(counts.items(), key=lambda x: -x[1]) if each(c) >= 0.01}}
    return {"requests_per_second": report["requests_per_second"], "per_request": found}


def function_name(symbol):
    """The function without parameters and template arguments."""
    while (shorter := re.sub(r"<[^<>]*>", "", symbol)) != symbol:
        symbol = shorter
    return re.split(r"[({]", symbol.replace("(anonymous namespace)::", ""))[0].rstrip(":")


def place_of(chain):
    """Which part of the house one sample belongs to. `chain` is its frames (symbol, dso), innermost first.

    Kernel time goes to the system call it runs for; user time to the innermost frame of a room or plugin of ours, so that
    memcpy and malloc count for who called them; what has no such frame, to its library.
    """
    if chain[0][1].startswith("[k"):
        for symbol, dso in chain:
            if dso.startswith("[k") and (m := re.match(r"__x64_sys_(\w+)", symbol)):
                return "kernel: " + m[1]
        return "kernel: other"
    for symbol, dso in chain:
        library = pathlib.PurePath(dso).name
        if library.startswith(("libzmq", "libsodium")):
            return library.split(".so")[0]
        if "/plugins/" in dso:
            return library
        if m := re.match(r"hive::(\w+)::", symbol):
            return "hive::" + m[1] if m[1] != "loop" else "hive::base"
    return re.sub(r"\.so[.\d]*$", "", pathlib.PurePath(chain[0][1]).name)


def samples_of(script):
    """(thread, chain) of every sample in the text of `perf script -F comm,ip,sym,dso`."""
    for block in script.split("\n\n"):
        lines = block.strip("\n").splitlines()
        chain = []
        for line in lines[1:]:
            if m := re.match(r"\s*[0-9a-f]+ (.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)$", line):
                chain.append((re.sub(r"^\[unknown\]$", "?", m[1]), m[2]))
        if chain:
            yield lines[0].strip(), chain


def functions(programs, target, shape, seconds=3):
    """Shares of each program's CPU time in percent: by thread, by part of the house, and by function of ours with all it calls."""
    names = LOOKED_INTO[target]
    with tempfile.TemporaryDirectory() as folder:
        # Libraries have no frame pointers, so chains are unwound from a copy of the stack.
        commands = [["perf", "record", "-q", "--call-graph", "dwarf,8192", "-o", f"{folder}/{n}", "-e", "cpu-clock", "-F", "599", "-p",
                     str(programs.pids[n][0]), "--", "sleep", str(seconds)] for n in names]
        _, texts = under_load(programs, target, shape, commands)
        found = {}
        for name, text in zip(names, texts):
            script = subprocess.run(["perf", "script", "--no-inline", "-i", f"{folder}/{name}", "-F", "comm,ip,sym,dso"], capture_output=True,
                                    text=True, timeout=LIMIT_S).stdout
            threads, places, called = collections.Counter(), collections.Counter(), collections.Counter()
            for thread, chain in samples_of(script):
                threads[thread] += 1
                places[place_of(chain)] += 1
                called.update({function_name(symbol) for symbol, dso in chain if symbol.startswith("hive::")})
            total = sum(threads.values())
            if total == 0:
                raise OSError(f"perf record has no samples: {text.strip()[-300:]}")
            share = lambda counter, most: [[round(100 * n / total, 1), what] for what, n in counter.most_common(most)]
            found[name] = {"samples": total, "threads": share(threads, 6), "places": share(places, 20), "functions": share(called, 60)}
    return found


def profile(programs, shapes, say):
    if shutil.which("perf") is None:
        return {"missing": "perf is not installed (Debian: linux-perf)"}
    found = {}
    try:
        for shape in shapes:
            say(f"profile of {shape}")
            calls, cpu = {}, {}
            for target in LOOKED_INTO:
                if target not in programs.addresses:
                    continue
                counted = syscalls(programs, target, shapes[shape])
                calls.setdefault("requests_per_second", counted["requests_per_second"])
                calls.setdefault("per_request", {}).update(counted["per_request"])
                cpu.update(functions(programs, target, shapes[shape]))
            found[shape] = {"syscalls": calls, "cpu": cpu}
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        found["missing"] = str(failure)
    return found
