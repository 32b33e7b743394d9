"""Where the time of router and agent goes: symbols by perf's CPU clock, system calls by its tracepoints, both under load.

perf needs no hardware counters for this, so it works in a guest. Without perf, or without the right to use it, there is no
profile and the page says why.
"""
import json
import re
import shutil
import subprocess
import tempfile

import stack

SYSCALLS = ["epoll_wait", "epoll_pwait", "epoll_ctl", "recvfrom", "sendto", "recvmsg", "sendmsg", "read", "write", "readv", "writev", "poll",
            "futex", "timerfd_settime", "getpid", "madvise", "mmap", "munmap"]
LIMIT_S = 30


def load(programs, shape, seconds):
    return subprocess.Popen([str(stack.BIN / "hivenet-bench"), *shape, "--url", "http://" + programs.addresses["hivenet"], "--model",
                             stack.MODEL, "--warm-up", "0.5", "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)


def under_load(programs, shape, perf_commands):
    """Runs the perf commands beside each other in the middle of a load; the load's requests a second and their outputs."""
    generator = load(programs, shape, 5)
    try:
        subprocess.run(["sleep", "1"], check=True)
        running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in perf_commands]
        texts = [p.communicate(timeout=LIMIT_S) for p in running]
        report = json.loads(generator.communicate(timeout=LIMIT_S)[0])
    finally:
        if generator.poll() is None:
            generator.kill()
            generator.wait()
    return report, [out + err for out, err in texts]


def syscalls(programs, shape, seconds=2):
    """Calls per request, by program and name."""
    names = ["router", "agent"]
    events = ["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{s}" for s in SYSCALLS)]
    commands = [["perf", "stat", "-x", ",", "-e", ",".join(events), "-p", str(programs.pids[n][0]), "--", "sleep", str(seconds)] for n in names]
    report, texts = under_load(programs, shape, commands)
    requests = report["requests_per_second"] * seconds
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
        found[name] = {"total": round(total / requests, 2),
                       **{s: round(c / requests, 2) for s, c in sorted(counts.items(), key=lambda x: -x[1]) if c / requests >= 0.01}}
    return {"requests_per_second": report["requests_per_second"], "per_request": found}


def symbols(programs, shape, seconds=3):
    """Shares of each program's CPU time: by library, by thread, and by symbol (the 20 largest)."""
    names = ["router", "agent"]
    with tempfile.TemporaryDirectory() as folder:
        commands = [["perf", "record", "-q", "-o", f"{folder}/{n}", "-e", "cpu-clock", "-F", "1999", "-p", str(programs.pids[n][0]), "--", "sleep",
                     str(seconds)] for n in names]
        _, texts = under_load(programs, shape, commands)
        found = {}
        for name, text in zip(names, texts):
            def report(sort):
                done = subprocess.run(["perf", "report", "-i", f"{folder}/{name}", "--stdio", "--no-children", "-q", "--sort", sort, "-F",
                                       "overhead," + sort, "-t", "|"], capture_output=True, text=True, timeout=LIMIT_S)
                rows = []
                for line in done.stdout.splitlines():
                    m = re.match(r"\s*([\d.]+)%?\s*\|(.*)", line)
                    if m:
                        rows.append([float(m[1]), " ".join(p.strip() for p in m[2].split("|"))])
                return rows

            libraries = report("dso")
            if not libraries:
                raise OSError(f"perf record has no samples: {text.strip()[-300:]}")
            found[name] = {"libraries": libraries[:10], "threads": report("comm")[:6], "symbols": report("dso,symbol")[:20]}
    return found


def profile(programs, shapes, say):
    if shutil.which("perf") is None:
        return {"missing": "perf is not installed (Debian: linux-perf)"}
    found = {}
    try:
        for shape in shapes:
            say(f"profile of {shape}")
            found[shape] = {"syscalls": syscalls(programs, shapes[shape]), "cpu": symbols(programs, shapes[shape])}
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        found["missing"] = str(failure)
    return found
