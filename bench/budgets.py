"""What is read out of a run's reports, and the project's budgets judged by it."""
import itertools
import statistics

BETWEEN = {"direct": [], "nginx": ["nginx"], "haproxy": ["haproxy"], "embedded": ["embedded"], "hivenet": ["router", "agent"]}


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
    "delay p50": lambda target, r: r.get("delay_us", {}).get("p50"),
    "delay p99": lambda target, r: r.get("delay_us", {}).get("p99"),
    "refused": lambda target, r: (r["statuses"].get("429", 0) + r["statuses"].get("503", 0)) / r["seconds"],
    "router cpu": lambda target, r: cpu_us(r, ["router", "embedded"]) / units(r),
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


def differences(rows, shape, target, metric, to="nginx"):
    by_round = lambda t: {row["round"]: METRICS[metric](t, row["report"]) for row in rows if row["shape"] == shape and row["target"] == t}
    mine, theirs = by_round(target), by_round(to)
    return [mine[n] - theirs[n] for n in mine if n in theirs]


# part, shape, target, metric, most times nginx's
RATIOS = [
    ("plain", "c32", "embedded", "cpu", 1.2), ("plain", "c32", "hivenet", "cpu", 2.4),
    ("plain", "c1", "embedded", "p50", 1.2), ("plain", "c1", "hivenet", "p50", 3.5),
    ("plain", "bursts", "embedded", "cpu", 1.3), ("plain", "bursts", "hivenet", "cpu", 2.4),
    ("paced", "paced200", "embedded", "cpu", 1.2), ("paced", "paced200", "hivenet", "cpu", 3.0),
    ("paced", "paced1000", "embedded", "cpu", 1.2), ("paced", "paced1000", "hivenet", "cpu", 3.0),
    ("workers2", "c32", "embedded", "cpu", 1.2), ("workers2", "c32", "hivenet", "cpu", 2.4),
    ("workers2", "bursts", "embedded", "cpu", 1.3), ("workers2", "bursts", "hivenet", "cpu", 2.4),
    ("workers2", "c1", "embedded", "p50", 1.2), ("workers2", "c1", "hivenet", "p50", 3.5),
    ("paced-workers2", "paced200", "embedded", "cpu", 1.2), ("paced-workers2", "paced200", "hivenet", "cpu", 3.0),
    ("paced-workers2", "paced1000", "embedded", "cpu", 1.2), ("paced-workers2", "paced1000", "hivenet", "cpu", 3.0),
]


# agents, most ns of one selection, slot taken and returned; with hysteresis and max_age on three rules at most so many times that
SELECTION = [(64, 500), (1000, 5000), (10000, 50000)]
STICKY = 1.3


def selection_judged(found):
    by_name = {(s["what"], s["agents"]): s for s in found}
    out = []
    for agents, most in SELECTION:
        plain, sticky = by_name.get(("find_take_release", agents)), by_name.get(("find_take_release_sticky", agents))
        if plain:
            ns = plain["median_ns"]
            out.append(verdict(f"selection among {agents:,} agents, 3 gates, warm", f"{most / 1000:g} us", f"{ns / 1000:.2f} us", ns <= most))
        if plain and sticky:
            times = sticky["median_ns"] / plain["median_ns"]
            out.append(verdict(f"the same with hysteresis and max_age on three rules, {agents:,} agents: times that", f"{STICKY:g}", f"{times:.2f}", times <= STICKY))
    counted = [s["allocations"] for s in found if s["allocations"] is not None]
    if counted:
        out.append(verdict("selection: allocations", "0", f"{max(counted):g}", max(counted) == 0))
    return out


def verdict(budget, most, measured, met):
    return [budget, most, measured, "met" if met else "**missed**"]


def judged(parts):
    """Rows of the table of budgets: text, limit, measured, met or missed. What was not measured has no row."""
    out = []
    rows_of = lambda part: parts.get(part, {}).get("rounds") or []
    for part, shape, target, metric, most in RATIOS:
        if found := ratios(rows_of(part), shape, target, metric):
            unit = {"cpu": "CPU an event" if shape.startswith(("bursts", "paced")) else "CPU a request", "p50": "p50"}[metric]
            middle = statistics.median(found)
            out.append(verdict(f"{part} {shape}, {target}: {unit}, times nginx", f"{most:g}", f"{middle:.2f} ({min(found):.2f}-{max(found):.2f})", middle <= most))
    for part, shape in itertools.product(("paced", "paced-workers2"), ("paced200", "paced1000")):
        if found := differences(rows_of(part), shape, "embedded", "delay p99"):
            middle = statistics.median(found) / 1000
            out.append(verdict(f"{part} {shape}, embedded: p99 delay above nginx's", "1 ms", f"{middle:.2f} ms", middle <= 1))
    for part, target in itertools.product(("crowd", "crowd-workers2"), ("embedded", "hivenet")):
        if found := ratios(rows_of(part), "crowd", target, "rate", "direct"):
            middle = statistics.median(found)
            out.append(verdict(f"{part}, 1,000 streams x 50 events/s, {target}: delivered, of the bare engine's", "at least 99 %", f"{100 * middle:.1f} %", middle >= 0.99))
    for part, target in itertools.product(("overload", "overload-workers2"), ("embedded", "hivenet")):
        rows = rows_of(part)
        peak, loaded = values(rows, "slots", target, "rate"), values(rows, "overload", target, "rate")
        if peak and loaded:
            share = statistics.median(loaded) / max(statistics.median(peak), statistics.median(loaded))
            out.append(verdict(f"{part}, goodput at 4x the slots, {target}: of its peak", "at least 95 %", f"{100 * share:.1f} %", share >= 0.95))
    for found in parts.get("cancel", {}).get("found") or []:
        if found["target"] in ("embedded", "hivenet"):
            out.append(verdict(f"cancel while {found['phase']}, {found['target']}: reaches the engine", "50 ms", f"{statistics.median(found['ms']):.1f} ms, worst {max(found['ms']):.1f}", max(found["ms"]) < 50))
    if ready := parts.get("ready", {}).get("found"):
        middle = statistics.median(ready["router ready"])
        out.append(verdict("router ready", "200 ms", f"{middle:.0f} ms, worst {max(ready['router ready']):.0f}", middle < 200))
    return out + selection_judged(parts.get("selection", {}).get("found") or [])
