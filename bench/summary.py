"""The page of one run: medians, ranges, ratios to nginx of the same round, profile. Every table says what it is of.

    summary.py RESULT.json [WORDS.md] > RESULT.md     the page again, with words on top that say what the numbers mean
"""
import itertools
import json
import pathlib
import statistics
import sys

BETWEEN = {"direct": [], "nginx": ["nginx"], "hivenet": ["router", "agent"]}


def cpu_us(report, names):
    """CPU time of the named programs, all their processes; `nginx1` is nginx's second process."""
    return sum(c["us"] for name, c in report["cpu"].items() if name.rstrip("0123456789") in names)


def units(report):
    """What CPU time is divided by: events of a stream run, else requests."""
    return report["events"] if report["mode"] == "stream" else report["requests"]


METRICS = {
    "rate": lambda target, r: r["events_per_second"] if r["mode"] == "stream" else r["requests_per_second"],
    "p50": lambda target, r: r["latency_us"]["p50"],
    "p99": lambda target, r: r["latency_us"]["p99"],
    "first p50": lambda target, r: r.get("first_event_us", {}).get("p50"),
    "first p99": lambda target, r: r.get("first_event_us", {}).get("p99"),
    "cpu": lambda target, r: cpu_us(r, BETWEEN[target]) / units(r),
    "engine cpu": lambda target, r: cpu_us(r, ["engine"]) / units(r),
    "router cpu": lambda target, r: cpu_us(r, ["router"]) / units(r),
    "agent cpu": lambda target, r: cpu_us(r, ["agent"]) / units(r),
    "generator cpu": lambda target, r: r["generator_cpu"]["us"] / units(r),
}


def values(rows, shape, target, metric):
    found = [METRICS[metric](target, row["report"]) for row in rows if row["shape"] == shape and row["target"] == target]
    return [v for v in found if v is not None]


def ratios(rows, shape, target, metric, to="nginx"):
    by_round = lambda t: {row["round"]: METRICS[metric](t, row["report"]) for row in rows if row["shape"] == shape and row["target"] == t}
    mine, theirs = by_round(target), by_round(to)
    return [mine[n] / theirs[n] for n in mine if theirs.get(n)]


def number(v):
    return f"{v:,.0f}" if v >= 100 else f"{v:.1f}" if v >= 10 else f"{v:.2f}"


def spread(found):
    if not found or not any(found):
        return "-"
    return f"{number(statistics.median(found))} ({number(min(found))}-{number(max(found))})"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def shape_section(result, shape):
    rows = result["rounds"]
    targets = [t for t in BETWEEN if any(r["target"] == t for r in rows)]
    stream = result["shapes"][shape].startswith("stream")
    an, unit = ("an", "event") if stream else ("a", "request")
    out = [f"## {shape}: `{result['shapes'][shape]}`", ""]
    columns = {"p50 us": "p50", "p99 us": "p99", f"CPU us {an} {unit}, all between": "cpu", "router": "router cpu", "agent": "agent cpu",
               "engine": "engine cpu", "generator": "generator cpu"}
    if stream:
        columns = {"first event p50 us": "first p50", "first event p99 us": "first p99", "whole stream p50 us": "p50", **dict(list(columns.items())[2:])}
    out += table(["target", f"{unit}s/s", *columns],
                 [[t, spread(values(rows, shape, t, "rate")), *(spread(values(rows, shape, t, m)) for m in columns.values())] for t in targets])
    if "nginx" in targets and "hivenet" in targets:
        named = {f"{unit}s/s": "rate", f"CPU {an} {unit}": "cpu", **({"first event p50": "first p50", "first event p99": "first p99"} if stream else {}),
                 "p50": "p50", "p99": "p99"}
        out += ["Ratio to nginx of the same round:", ""]
        out += table(["", *named], [["hivenet", *(spread(ratios(rows, shape, "hivenet", m)) for m in named.values())]])
    return out


def profile_section(profile, taken=None):
    out = ["## Where the time goes", "", *([taken, ""] if taken else [])]
    if "missing" in profile:
        out += [f"No (complete) profile: {profile['missing']}", ""]
    for shape, found in profile.items():
        if shape == "missing":
            continue
        calls = found["syscalls"]["per_request"]
        names = sorted({s for p in calls.values() for s in p if s != "total"}, key=lambda s: -sum(p.get(s, 0) for p in calls.values()))
        out += [f"### {shape}", "", f"System calls a {'stream' if shape.startswith('sse') else 'request'} (perf stat, {number(found['syscalls']['requests_per_second'])}/s):", ""]
        out += table(["", "all", *names], [[p, c["total"], *(c.get(n, 0) for n in names)] for p, c in calls.items()])
        cpu = found["cpu"]
        out += ["CPU time by part (" + ", ".join(f"{p}: {cpu[p]['samples']} samples" for p in cpu) + "):", ""]
        columns = [[f"{share:.1f}% {name}" for share, name in cpu[p]["places"][:14]] for p in cpu]
        out += table(list(cpu), itertools.zip_longest(*columns, fillvalue=""))
        out += ["Functions with all that they call, those under which most of the program runs left out:", ""]
        columns = [[f"{share:.1f}% `{name}`" for share, name in cpu[p]["functions"] if 2 <= share <= 40][:22] for p in cpu]
        out += table(list(cpu), itertools.zip_longest(*columns, fillvalue=""))
        out += ["By thread: " + "; ".join(p + " " + ", ".join(f"{name} {share:.0f}%" for share, name in cpu[p]["threads"] if share >= 1) for p in cpu) + ".", ""]
    return out


def page(result, finding):
    machine, versions = result["machine"], result["versions"]
    others = [row["report"]["others_cpu_cores"] for row in result["rounds"]]
    count = 1 + max(row["round"] for row in result["rounds"])
    out = [f"# {result['name']}", ""]
    if finding:
        out += [finding.strip(), ""]
    out += [f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, {machine['system']}, Linux {machine['kernel']}. "
            "Generator, proxies and engine share it.",
            f"- Commit {versions['commit'][:12]}{' with uncommitted changes' if versions['uncommitted_changes'] else ''}, {result['date']}, `{result['command'].strip()}`, {result['took_s']} s.",
            "- " + ", ".join(f"{n} {v}" for n, v in versions.items() if n not in ("commit", "uncommitted_changes")) + ".",
            f"- {count} rounds, order shuffled in each, {result['seconds_a_cell']:g} s a cell after 0.3 s of warm-up. Numbers are medians over the rounds (least-most).",
            f"- Other programs on the machine meanwhile: {number(statistics.median(others))} cores busy in the median cell, {number(max(others))} in the worst.",
            "- Between client and engine: nginx = one worker, one hop; hivenet = router, ZeroMQ over TCP with CURVE, agent, so two hops. CPU time is of the processes between, "
            "user and system, all threads; the engine's stands beside it.", ""]
    for shape in result["shapes"]:
        out += shape_section(result, shape)
    if result.get("selection"):
        out += ["## Selection (`selection_bench`, medians of 5 repetitions)", ""]
        out += table(["what", "agents", "CPU ns", "allocations"],
                     [[s["what"], f"{s['agents']:,}", number(s["median_ns"]), "-" if s["allocations"] is None else f"{s['allocations']:g}"] for s in result["selection"]])
    if result.get("profile"):
        out += profile_section(result["profile"], result.get("profile_from"))
    out += ["## Configuration", ""]
    for name, text in result["configs"].items():
        out += [f"{name}:", "```", text.strip(), "```", ""]
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(pathlib.Path(sys.argv[1]).read_text()), "".join(pathlib.Path(w).read_text() for w in sys.argv[2:3])))
