#!/usr/bin/env python3
"""Keeps the ABI's layout: a text golden a minor version, and the rule that a struct grows only at its end.

layout.py dump ABI.xml INCLUDE_DIR            the layout as text (ABI.xml from abidw)
layout.py check GOLDEN_DIR ABI.xml INCLUDE_DIR  0 = the golden of the current version holds
layout.py compare OLD.txt NEW.txt             0 same, 1 grows, 2 breaks
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

FROZEN = {"hive_str", "hive_bytes", "hive_header", "hive_rule"}


def structs_of(path):
    root = ElementTree.parse(path).getroot()
    by_id = {e.get("id"): e for e in root.iter() if e.get("id")}

    def spell(type_id, depth=0):
        e = by_id.get(type_id)
        if e is None:
            return "?"
        if depth > 6:
            return "..."
        if e.tag == "pointer-type-def":
            return spell(e.get("type-id"), depth + 1) + "*"
        if e.tag == "qualified-type-def":
            return "const " + spell(e.get("type-id"), depth + 1)
        if e.tag == "function-type":
            parameters = ",".join(spell(p.get("type-id"), depth + 1) for p in e.findall("parameter"))
            return f"fn({parameters})->{spell(e.find('return').get('type-id'), depth + 1)}"
        return e.get("name") or "?"

    lines = []
    for e in root.iter("class-decl"):
        name = e.get("name")
        if not name.startswith("hive_") or e.get("is-declaration-only") == "yes":
            continue
        block = [f"struct {name} {int(e.get('size-in-bits')) // 8}"]
        for m in e.findall("data-member"):
            v = m.find("var-decl")
            block.append(f"  {int(m.get('layout-offset-in-bits')) // 8} {v.get('name')}: {spell(v.get('type-id'))}")
        lines.append(block)
    return [line for block in sorted(lines) for line in block]


def constants_of(include):
    found = {}
    for header in sorted((pathlib.Path(include) / "hive" / "abi").glob("*.h")):
        for name, value in re.findall(r"\b(HIVE_[A-Z0-9_]+) = (-?\d+|1u << \d+)", header.read_text()):
            found[name] = value
    return [f"const {name} = {value}" for name, value in sorted(found.items())]


def version_of(include):
    text = (pathlib.Path(include) / "hive" / "abi" / "base.h").read_text()
    return tuple(int(re.search(rf"#define HIVE_ABI_{part} (\d+)u", text).group(1)) for part in ("MAJOR", "MINOR"))


def parse(lines):
    structs, constants, current = {}, {}, None
    for line in lines:
        if line.startswith("struct "):
            _, name, size = line.split()
            current = structs[name] = (int(size), [])
        elif line.startswith("  "):
            current[1].append(line.strip())
        elif line.startswith("const "):
            name, value = line[6:].split(" = ")
            constants[name] = value
    return structs, constants


def compare(old_lines, new_lines):
    """(code, words): 0 same, 1 grows, 2 breaks."""
    old, old_constants = parse(old_lines)
    new, new_constants = parse(new_lines)
    broken, grown = [], []
    for name, (size, members) in old.items():
        if name not in new:
            broken.append(f"{name}: removed")
            continue
        new_size, new_members = new[name]
        if new_members[: len(members)] != members:
            k = next((i for i, m in enumerate(members) if i >= len(new_members) or new_members[i] != m))
            now = new_members[k] if k < len(new_members) else "gone"
            broken.append(f"{name}: slot {k} was '{members[k]}', is '{now}'")
        elif (new_size, new_members) != (size, members):
            (broken if name in FROZEN else grown).append(f"{name}: {size} -> {new_size} bytes")
    for name, value in old_constants.items():
        if new_constants.get(name) != value:
            broken.append(f"{name}: was {value}, is {new_constants.get(name, 'gone')}")
    grown += [f"{n}: new" for n in new if n not in old] + [f"{n}: new" for n in new_constants if n not in old_constants]
    return (2, broken) if broken else (1, grown) if grown else (0, [])


def check(golden_dir, xml, include):
    golden_dir = pathlib.Path(golden_dir)
    major, minor = version_of(include)
    lines = structs_of(xml) + constants_of(include)
    golden = golden_dir / f"layout-{major}.{minor}.txt"
    if not golden.exists():
        return f"{golden.name} is missing: HIVE_ABI_MINOR rose; write it with layout.py dump and add a line to HISTORY.md"
    if f"| {major}.{minor} |" not in (golden_dir / "HISTORY.md").read_text():
        return f"HISTORY.md has no line for {major}.{minor}"
    code, words = compare(golden.read_text().splitlines(), lines)
    if code == 1:
        return "the ABI grew, raise HIVE_ABI_MINOR and write the new golden and a line in HISTORY.md:\n  " + "\n  ".join(words)
    if code == 2:
        return "the ABI broke:\n  " + "\n  ".join(words)
    before = golden_dir / f"layout-{major}.{minor - 1}.txt"
    if major > 0 and before.exists():
        code, words = compare(before.read_text().splitlines(), lines)
        if code == 2:
            return f"{major}.{minor} breaks {major}.{minor - 1}:\n  " + "\n  ".join(words)
    return None


def main(arguments):
    match arguments:
        case ["dump", xml, include]:
            print("\n".join(structs_of(xml) + constants_of(include)))
            return 0
        case ["compare", old, new]:
            code, words = compare(pathlib.Path(old).read_text().splitlines(), pathlib.Path(new).read_text().splitlines())
            print(("same", "grows", "breaks")[code], *words, sep="\n  ")
            return code
        case ["check", golden_dir, xml, include]:
            trouble = check(golden_dir, xml, include)
            if trouble:
                print(trouble, file=sys.stderr)
            return 1 if trouble else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
