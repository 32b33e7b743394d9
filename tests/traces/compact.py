#!/usr/bin/env python3
"""Writes a Mooncake trace (JSON lines) as this folder's text form.

usage: compact.py TRACE.jsonl > TRACE.txt
"""
import json
import sys


def ranges(ids):
    out = []
    for i in ids:
        if out and out[-1][1] + 1 == i:
            out[-1][1] = i
        else:
            out.append([i, i])
    return [f"{a}-{b}" if a != b else str(a) for a, b in out]


def main():
    first = None
    with open(sys.argv[1]) as trace:
        for line in filter(str.strip, trace):
            r = json.loads(line)
            first = r["timestamp"] if first is None else first
            print(r["timestamp"] - first, r["input_length"], r["output_length"], *ranges(r["hash_ids"]))


main()
