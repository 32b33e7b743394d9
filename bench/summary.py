"""The page of one run: budgets, medians, ranges, ratios to nginx of the same round, profile. Every table says what it is of.

    summary.py RESULT.json [WORDS.md] > RESULT.md     the page again, with words on top that say what the numbers mean
"""
import itertools
import json
import pathlib
import statistics
import sys

import budgets
from budgets import BETWEEN, number, ratios, values

SINGLES = ("cancel", "ready", "selection")


def spread(found):
    if not found or not any(found):
        return "-"
    return f"{number(statistics.median(found))} ({number(min(found))}-{number(max(found))})"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def shape_section(part, shape):
    rows = part["rounds"]
    targets = [t for t in BETWEEN if any(r["target"] == t and r["shape"] == shape for r in rows)]
    stream = part["shapes"][shape].startswith("stream")
    an, unit = ("an", "event") if stream else ("a", "request")
    out = [f"### {shape}: `{part['shapes'][shape]}`", ""]
    cpu = {f"CPU us {an} {unit}, all between": "cpu", "router": "router cpu", "agent": "agent cpu", "engine": "engine cpu", "generator": "generator cpu"}
    if "--stamped" in part["shapes"][shape]:
        columns = {"delay p50 us": "delay p50", "delay p99 us": "delay p99", "first event p50 us": "first p50", **cpu}
    elif stream:
        columns = {"first event p50 us": "first p50", "first event p99 us": "first p99", "whole stream p50 us": "p50", **cpu}
    else:
        columns = {"p50 us": "p50", "p99 us": "p99", **cpu}
    if any("429" in r["report"]["statuses"] or "503" in r["report"]["statuses"] for r in rows if r["shape"] == shape):
        columns["refused/s"] = "refused"
    out += table(["target", f"{unit}s/s", *columns],
                 [[t, spread(values(rows, shape, t, "rate")), *(spread(values(rows, shape, t, m)) for m in columns.values())] for t in targets])
    compared = [t for t in targets if t not in ("direct", "nginx")]
    if "nginx" in targets and compared:
        named = {f"{unit}s/s": "rate", f"CPU {an} {unit}": "cpu", **{c: m for c, m in columns.items() if not m.endswith("cpu") and m != "refused"}}
        out += ["Ratio to nginx of the same round:", ""]
        out += table(["", *named], [[t, *(spread(ratios(rows, shape, t, m)) for m in named.values())] for t in compared])
    return out


def part_section(name, part):
    out = [f"## {name}", ""]
    if "failure" in part:
        out += [f"**Not measured to the end**: {part['failure'].strip()}", ""]
    if part.get("rounds"):
        count = 1 + max(row["round"] for row in part["rounds"])
        others = [row["report"]["others_cpu_cores"] for row in part["rounds"]]
        out += [f"{count} rounds, {part['seconds_a_cell']:g} s a cell. Other programs meanwhile: {number(statistics.median(others))} cores busy in the median cell, "
                f"{number(max(others))} in the worst.", ""]
        for shape in part["shapes"]:
            out += shape_section(part, shape)
    found = part.get("found")
    if found and name == "cancel":
        out += ["Milliseconds from the client's close to the engine's abort:", ""]
        out += table(["target", "while", "median (least-most)", "times"], [[f["target"], f["phase"], spread(f["ms"]), len(f["ms"])] for f in found])
    elif found and name == "ready":
        out += ["Milliseconds from exec to the `ready` line, and from the agent's exec to its model being listed:", ""]
        out += table(["", "median (least-most)"], [[what, spread(ms)] for what, ms in found.items()])
    elif found and name == "selection":
        out += ["`selection_bench`, medians of 5 repetitions, in random order. `find_take_release` is what a request costs: the line entered, the funnel of 3 gates "
                "and 4 rules, the strategy from its library, the slot taken and returned. `sticky`: hysteresis and max_age on three rules. `with_signals`: two "
                "agents' values written before each selection, their cost included.", ""]
        out += table(["what", "agents", "CPU ns", "allocations"],
                     [[s["what"], f"{s['agents']:,}", number(s["median_ns"]), "-" if s["allocations"] is None else f"{s['allocations']:g}"] for s in found])
    if part.get("profile"):
        out += profile_section(part["profile"], part.get("profile_from"))
    return out


def budget_section(result):
    rows = budgets.judged(result["parts"])
    return ["## Budgets", "", *table(["budget", "most", "measured", ""], rows)] if rows else []


def profile_section(profile, taken=None):
    out = ["### Where the time goes", "", *([taken, ""] if taken else [])]
    if "missing" in profile:
        out += [f"No (complete) profile: {profile['missing']}", ""]
    for shape, found in profile.items():
        if shape == "missing":
            continue
        calls = found["syscalls"]["per_request"]
        names = sorted({s for p in calls.values() for s in p if s != "total"}, key=lambda s: -sum(p.get(s, 0) for p in calls.values()))
        out += [f"#### {shape}", "", f"System calls a {'stream' if shape in ('bursts', 'sse16') else 'request'} (perf stat, {number(found['syscalls']['requests_per_second'])}/s):", ""]
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
    if "parts" not in result:  # as it was written before there were parts
        first = {k: result[k] for k in ("shapes", "rounds", "seconds_a_cell", "configs", "profile", "profile_from") if result.get(k)}
        result = {**result, "parts": {"plain": first, **({"selection": {"found": result["selection"]}} if result.get("selection") else {})}}
    machine, versions = result["machine"], result["versions"]
    out = [f"# {result['name']}", ""]
    if finding:
        out += [finding.strip(), ""]
    out += [f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, {machine['system']}, Linux {machine['kernel']}. "
            "Generator, proxies and engine share it.",
            f"- Commit {versions['commit'][:12]}{' with uncommitted changes' if versions['uncommitted_changes'] else ''}, {result['date']}, `{result['command'].strip()}`, {result['took_s']} s.",
            "- " + ", ".join(f"{n} {v}" for n, v in versions.items() if n not in ("commit", "uncommitted_changes")) + ".",
            *(f"- {target} is left out: {why}." for target, why in result.get("absent", {}).items()),
            "- The order of a round's cells is shuffled. Numbers are medians over the rounds (least-most).",
            "- Between client and engine: nginx and HAProxy one plain hop; embedded = the router with the agent inside, one hop; hivenet = router, ZeroMQ over TCP with CURVE, agent, two hops. "
            "CPU time is of the processes between, user and system, all threads; the engine's stands beside it.", ""]
    out += budget_section(result)
    for name, part in result["parts"].items():
        out += part_section(name, part)
    configs = {}
    for name, part in result["parts"].items():
        for program, text in part.get("configs", {}).items():
            if text not in configs.values():
                configs[program if program not in configs else f"{program} ({name})"] = text
    out += ["## Configuration", ""]
    for name, text in configs.items():
        out += [f"{name}:", "```", text.strip(), "```", ""]
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(pathlib.Path(sys.argv[1]).read_text()), "".join(pathlib.Path(w).read_text() for w in sys.argv[2:3])))
