#!/usr/bin/env python3
"""The comparison must see each kind of edit. Argument: a golden."""
import pathlib
import sys

from layout import compare

golden = pathlib.Path(sys.argv[1]).read_text().splitlines()


def edited(struct, change):
    at = golden.index(next(line for line in golden if line.startswith(f"struct {struct} ")))
    end = next((i for i in range(at + 1, len(golden)) if not golden[i].startswith("  ")), len(golden))
    block = golden[at:end]
    change(block)
    return golden[:at] + block + golden[end:]


def grow(block):
    name, size = block[0].rsplit(" ", 1)
    block[0] = f"{name} {int(size) + 8}"
    block.append(f"  {size} extra: uint64_t")


def swap(block):
    block[1], block[2] = block[2], block[1]


def widen(block):
    block[2] = block[2].replace("uint32_t", "uint64_t")


def middle(block):
    block.insert(2, "  4 extra: uint32_t")


def drop(block):
    block.pop()


cases = [
    ("nothing", golden, 0),
    ("a call at the end of a table", edited("hive_strategy_vtable", grow), 1),
    ("a field at the end of the pool", edited("hive_pool", grow), 1),
    ("a frozen struct", edited("hive_str", grow), 2),
    ("two fields swapped", edited("hive_request", swap), 2),
    ("a field widened", edited("hive_pool", widen), 2),
    ("a field in the middle", edited("hive_request", middle), 2),
    ("a field gone", edited("hive_outcome", drop), 2),
    ("a constant changed", [l.replace("HIVE_NO_CHOICE = 1", "HIVE_NO_CHOICE = 9") for l in golden], 2),
    ("a constant added", golden + ["const HIVE_NEW = 1"], 1),
]
wrong = [f"{name}: expected {want}, got {compare(golden, new)}" for name, new, want in cases if compare(golden, new)[0] != want]
print("\n".join(wrong) or f"{len(cases)} edits judged")
sys.exit(1 if wrong else 0)
