"""Rules of the tree that no compiler keeps: who may include whom, who may know which names, what the pages promise.

    check.py CHECK [--top DIR] [--build DIR]     prints one line a violation; exit code 1 when there is any

Standard library only. check_test.py plants a violation of every rule and expects it to be found.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

# Lowest layer first: a room includes itself and rooms before it.
ROOMS = ("base config observe plugins http link fleet routing tenancy providers gateway admin agent apps").split()
SOURCES = {".c", ".cpp", ".h", ".hpp"}
MOST_LINES, MOST_COLUMNS = 500, 160
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
# Comments and character literals are matched so that no string is found inside them.
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|'(?:\\[^\n']{1,8}|[^'\\\n])'"
    r'|R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:[^"\\\n]|\\.)*)"', re.S)


class Tree:
    def __init__(self, top):
        self.top = pathlib.Path(top).resolve()
        self.files = sorted(self._listed())

    def _listed(self):
        if (self.top / ".git").exists():
            asked = subprocess.run(["git", "-C", str(self.top), "ls-files", "-coz", "--exclude-standard"], capture_output=True)
            if asked.returncode == 0:
                return [n for n in asked.stdout.decode().split("\0") if n and (self.top / n).is_file()]
        found = (p.relative_to(self.top) for p in self.top.rglob("*") if p.is_file())
        return [str(p) for p in found if p.parts[0] not in (".git", "build")]

    def under(self, *folders, suffixes=SOURCES):
        return [n for n in self.files if n.split("/")[0] in folders and pathlib.Path(n).suffix in suffixes]

    def text(self, name):
        return (self.top / name).read_text(encoding="utf-8", errors="replace")

    def includes(self, name):
        """(line, quoted, path) of every #include."""
        text = self.text(name)
        return [(text.count("\n", 0, m.start()) + 1, m[1] == '"', m[2]) for m in INCLUDE.finditer(text)]

    def literals(self, name):
        """(line, text) of every string literal; includes and comments are none."""
        text = INCLUDE.sub(lambda m: " " * len(m[0]), self.text(name))
        for m in TOKEN.finditer(text):
            value = m["raw"] if m["raw"] is not None else m["text"]
            if value is not None:
                yield text.count("\n", 0, m.start()) + 1, value

    def code(self, name):
        """The text with comments and what stands in literals blanked out, every character and line at its place."""
        def blank(m):
            inside = re.sub(r"[^\n]", " ", m[0])
            return inside if m[0].startswith("/") else '"' + inside[1:-1] + '"'
        return TOKEN.sub(blank, self.text(name))

    def test_files(self):
        """Sources of kernel/ that belong to tests: *_test.*, and headers that nothing but those includes."""
        kernel = self.under("kernel")
        users = {n: [] for n in kernel}
        for n in kernel:
            for _, _, path in self.includes(n):
                if "kernel/" + path in users:
                    users["kernel/" + path].append(n)
        tests = {n for n in kernel if "_test." in n}
        while True:
            more = {n for n in kernel if n not in tests and users[n] and all(u in tests for u in users[n])}
            if not more:
                return tests
            tests |= more


def layers(tree, _):
    for name in tree.under("kernel"):
        parts = name.split("/")
        if len(parts) < 3 or parts[1] not in ROOMS:
            yield f"{name}: stands in no room; the rooms are {', '.join(ROOMS)}"
            continue
        mine = ROOMS.index(parts[1])
        for line, quoted, path in tree.includes(name):
            room = path.split("/")[0]
            if room in ROOMS and ROOMS.index(room) > mine:
                yield f"{name}:{line}: {parts[1]} includes {path}, and {room} is a layer above it"
            elif ".." in path.split("/") or (quoted and room not in ROOMS and room != "hive"):
                yield f'{name}:{line}: "{path}": a room includes "ROOM/FILE" or "hive/FILE", nothing by another way'
    for name in tree.under("plugins", "sdk"):
        here = (tree.top / name).parent
        own = tree.top.joinpath(*pathlib.Path(name).parts[:2])
        for line, quoted, path in tree.includes(name):
            beside = (here / path).resolve()
            if quoted and beside.is_file():
                if own not in beside.parents:
                    yield f"{name}:{line}: {path} belongs to another folder; a plugin includes the SDK and itself"
            elif (tree.top / "kernel" / path).is_file():
                yield f"{name}:{line}: {path} is the kernel's; plugins and SDK include nothing of it"
            elif path.startswith("hive/"):
                if not (tree.top / "sdk/include" / path).is_file():
                    yield f"{name}:{line}: {path} is not in sdk/include"
            elif quoted:
                yield f"{name}:{line}: {path} is neither in the SDK nor beside the file"


def length(tree, _):
    for name in tree.under("kernel", "plugins", "sdk", "bench", "tests"):
        lines = tree.text(name).split("\n")
        if len(lines) - 1 > MOST_LINES:
            yield f"{name}: {len(lines) - 1} lines, more than {MOST_LINES}; split it"
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_COLUMNS:
                yield f"{name}:{number}: {len(line)} columns, more than {MOST_COLUMNS}; wrap it"


def paths(tree, _):
    home = re.compile(r"(?<![\w.~$}-])/(?:work|root|home/[a-z]\w*)/")
    for name in tree.files:
        data = (tree.top / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if found := home.search(line):
                yield f"{name}:{number}: {found[0]} is a path of somebody's machine"


def plugin_names(build):
    """Ids of strategies and {field: column} of gates, as the built libraries describe themselves."""
    strategies, fields, described = set(), {}, set()
    for file in pathlib.Path(build, "plugins").glob("*.plugin.json"):
        described.add(file.name.removesuffix(".plugin.json"))
        for component in json.loads(file.read_text())["components"]:
            if component["kind"] == "strategy":
                strategies.add(component["id"])
            for field in component.get("fields", []):
                fields[field["name"]] = field.get("column", "")
    return strategies, fields, described


# Text that a name stands in without being used: {file: (literal, why)}.
PROSE = {
    "kernel/fleet/registry.cpp": ("srtt sample peer_id=", "the debug line of a latency sample; its words are an interface"),
}
# Old policies name strategies; what the kernel knows of them is one table.
COMPATIBILITY = ("kernel/routing/policy.hpp", "kernel/routing/policy.cpp")
# A field that has the name of its column is also a signal, and a signal is published and shown by name. Nothing that
# decides about a request may know it.
PUBLISHERS = ("kernel/agent/", "kernel/admin/", "kernel/fleet/column.cpp", "kernel/fleet/history.cpp")


def names(tree, build):
    strategies, fields, described = plugin_names(build)
    expected = {pathlib.Path(n).parts[1] for n in tree.under("plugins", suffixes={".c", ".cpp"})
                if n.split("/")[1].startswith(("strategy_", "gate_"))}
    for plugin in sorted(expected - described):
        yield f"plugins/{plugin}: no description of it in {build}/plugins; build it first"
    if not strategies or not fields:
        yield f"{build}/plugins: describes no strategy or no gate field, so nothing can be checked"
        return
    word = re.compile(r"(?<![\w-])(" + "|".join(sorted(map(re.escape, strategies | set(fields)), key=len, reverse=True)) + r")(?![\w-])")
    tests = tree.test_files()
    prose_seen = set()
    for name in tree.under("kernel"):
        if name in tests:
            continue
        for line, literal in tree.literals(name):
            if PROSE.get(name, ("",))[0] == literal:
                prose_seen.add(name)
                continue
            for found in word.findall(literal):
                if found in strategies and name in COMPATIBILITY:
                    continue
                if fields.get(found) == found and name.startswith(PUBLISHERS):
                    continue
                what = "strategy" if found in strategies else "gate field"
                yield f'{name}:{line}: "{literal}" names the {what} {found}; the kernel asks the registry instead'
    for name in sorted(set(PROSE) - prose_seen):
        if (tree.top / name).is_file():
            yield f"{name}: the exemption for \"{PROSE[name][0]}\" is not needed any more; take it out of check.py"


def slug(heading):
    text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", lambda m: m[1] or "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose_of(markdown):
    """The page with code blanked out, line by line."""
    fenced = False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield ""
        else:
            yield "" if fenced else re.sub(r"`[^`]*`", lambda m: "x" * len(m[0]), line)


def links(tree, _):
    link = re.compile(r"\[[^]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|^\[[^]]+\]:\s+(\S+)")
    pages = [n for n in tree.files if n.endswith(".md")]
    for name in pages:
        for number, line in enumerate(prose_of(tree.text(name)), 1):
            for m in link.finditer(line):
                target, _, anchor = (m[1] or m[2]).partition("#")
                if re.match(r"[a-z]+:", target):
                    continue
                there = (tree.top / name).parent / target if target else tree.top / name
                if not there.exists() or tree.top not in [there.resolve(), *there.resolve().parents]:
                    yield f"{name}:{number}: {target} is not in the tree"
                elif anchor and there.suffix == ".md":
                    heads = [slug(t.lstrip("#")) for t in there.read_text().split("\n") if t.startswith("#")]
                    if anchor not in heads:
                        yield f"{name}:{number}: {target} has no heading #{anchor}"
    listed = tree.text("docs/README.md") if "docs/README.md" in tree.files else ""
    for name in pages:
        if re.fullmatch(r"docs/[\w-]+\.md", name) and name != "docs/README.md" and f"({name[5:]})" not in listed:
            yield f"docs/README.md: {name} is missing in the map"
    for name in tree.under("kernel", "plugins", "sdk", "bench"):
        for m in re.finditer(r"docs/[\w/.-]+\.md", tree.text(name)):
            if not (tree.top / m[0]).is_file():
                yield f"{name}: refers to {m[0]}, which is not in the tree"


# What these sources say in literals of that form must stand on that page.
TOLD = [
    (r"kernel/admin/exporter\w*\.cpp|kernel/observe/(process|metrics)\.cpp", r"[a-z][a-z0-9]*(_[a-z0-9]+)+", "docs/metrics.md"),
    (r"kernel/gateway/telemetry\.cpp", r"(?!unknown$)[a-z]+(_[a-z]+)*", "docs/metrics.md"),
    (r"kernel/admin/api\.cpp", r"/admin(/[\w:*-]+)+", "docs/admin-api.md"),
    (r"kernel/gateway/routes\.cpp", r"/(v1|health)[\w/*]*\w", "docs/http-api.md"),
    (r"kernel/link/stream\.cpp", r"[a-z]+(_[a-z]+)*", "docs/link.md"),
]
# And each name of that form in the first column of a table there must stand in a literal of those sources.
LISTED = {"docs/metrics.md": r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+"}


def told(tree, _):
    said = {page: set() for page in LISTED}
    tests = tree.test_files()
    for files, form, page in TOLD:
        text = tree.text(page) if page in tree.files else ""
        sources = [n for n in tree.files if re.fullmatch(files, n)]
        if not sources:
            yield f"check.py: no file is called {files} any more"
        for name in sources:
            for line, literal in tree.literals(name):
                if page in said and name not in tests:
                    said[page].add(literal)
                if re.fullmatch(form, literal) and not re.search(rf"(?<![A-Za-z0-9]){re.escape(literal)}(?!\w)", text):
                    yield f"{name}:{line}: {literal} does not stand in {page}"
    for page, names_there in said.items():
        for number, line in enumerate(tree.text(page).split("\n") if page in tree.files else [], 1):
            for name in re.findall(rf"`({LISTED[page]})`", line.split("|")[1] if line.startswith("|") else ""):
                if name not in names_there:
                    yield f"{page}:{number}: {name} is told by no source"


# Flags on our pages that are those of other programs or of a command.
OTHER_FLAGS = {"--port", "--metrics", "--json", "--threads-http", "--url-prefix", "--agent", "--tenant", "--install", "--prefix"}


def flags(tree, _):
    listed = [n for n in tree.files if re.fullmatch(r"docs/reference/[\w-]+\.md", n)]
    known = {f for n in listed for f in re.findall(r"`(--[a-z0-9-]+)`", tree.text(n))} | OTHER_FLAGS
    for name in tree.files:
        if not re.fullmatch(r"README\.md|docs/[\w-]+\.md", name):
            continue
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", line):
                if flag not in known:
                    yield f"{name}:{number}: {flag} is no setting of docs/reference"


def commands(tree, _):
    for command in ("./dev run", "./dev test"):
        if command not in tree.text("README.md"):
            yield f"README.md: does not mention {command}"
    if not re.search(r"^[^#\n]*\./dev test\s*$", tree.text(".ci/run"), re.M):
        yield ".ci/run: does not call ./dev test"
    for verb in ("run", "test"):
        if not re.search(rf"^\s*{verb}\)", tree.text("dev"), re.M):
            yield f"dev: has no command {verb}"


def scratch(tree, _):
    """Test cases run side by side: one that names its own file in the common folder meets another."""
    for name in tree.under("kernel", "plugins", "sdk", "tests"):
        text = tree.text(name)
        if re.search(r"\b(TempDir|temp_directory_path)\(", text) and "mkdtemp" not in text:
            yield f"{name}: files in the common temporary folder; take a folder of base/test_folder.hpp"


# Forms in which papers that are not in the tree were cited: by kind, by the numbers in them, by name. A letter in brackets keeps the form
# itself out of what it finds.
CITED = re.compile(
    r"(?i:(?<![a-z])[s]heets?(?![a-z])|\b[f]ield[ -]notes?\b|\bbehaviours?,?\s+rows?\s+\d|(?:RFC ?\d+,?\s+)?\bsections?\s+\d[\d.]*|\u00a7)"
    r"|\bW\d{1,2}\b|\b[M]H\b|\b[a-z]+-[s]tudy\b|(?<![\w/])(?:\.\./)*(?:[s]pec|[d]esign)/[\w-]+"
    r"|\b(?:behaviours|library-traps|link-protocol|plugin-abi|performance|observability|agent-and-config)\.[m]d\b")
WRITTEN = SOURCES | {".py", ".md", ".txt", ".cmake", ".yaml", ".yml", ".sh"}


def cites(tree, _):
    """Who reads a comment has this tree and the RFCs, and our pages have headings instead of numbers."""
    for name in (n for n in tree.files if pathlib.Path(n).suffix in WRITTEN):
        # A citation may be wrapped: what begins the next line of a comment is blank, every character at its place.
        text = re.sub(r"\n[ \t]*(?://+|#|\*)?", lambda m: " " * len(m[0]), whole := tree.text(name))
        for m in CITED.finditer(text):
            if not m[0].startswith("RFC"):
                said = " ".join(m[0].split())
                yield f"{name}:{whole.count(chr(10), 0, m.start()) + 1}: {said} is of no page in the tree; name a page of docs/, or say the reason"


# Rooms that meet keys and proofs, what those are called there, and what makes them.
SECRET_ROOMS = ("kernel/tenancy/", "kernel/config/", "kernel/admin/", "kernel/link/", "kernel/gateway/", "kernel/apps/")
SECRET = r"\b(?:hash|key_hash|digest|mac|proof|proof_key|proven_with|secret|secret_key|own_secret|token|password)s?_?\b"
MADE = r"\b(?:sha256|sha256_hex|hmac_sha256|hkdf_sha256|make_proof)\s*\("
# What lets somebody in, or says so, and the comparison that it must ask.
DOORS = {
    "kernel/base/digest.cpp": "sodium_memcmp", "kernel/tenancy/keyring.cpp": "equal_secret", "kernel/admin/api.cpp": "equal_secret",
    "kernel/apps/access.cpp": "equal_secret", "kernel/link/auth.cpp": "equal_secret",
}


def operand(code, at, step):
    """What stands beside a comparison: from `at` on, in the direction of `step`, to what binds less."""
    opening, closing = ("(", ")") if step > 0 else (")", "(")
    depth, end = 0, at
    while 0 <= end < len(code):
        c, two = code[end], code[min(end, end + step):max(end, end + step) + 1]
        if c in opening + ("[" if step > 0 else "]"):
            depth += 1
        elif c in closing + ("]" if step > 0 else "["):
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (c in ",;?{}!=" or two in ("&&", "||") or (c == ":" and "::" not in code[end - 1:end + 2])):
            break
        end += step
    return re.sub(r"^(?:return\b|[*\s])+", "", code[at:end] if step > 0 else code[end + 1:at + 1]).strip()


def is_secret(what):
    """Whether an operand is a secret or a whole made of one. Its size, its place in a list, what was found by it are none."""
    while (inner := re.fullmatch(r"(?:as_text|as_bytes|to_hex|std::string_view|std::string)?\((.*)\)", what, re.S)):
        what = inner[1].strip()
    return bool(re.match(MADE, what) and what.endswith(")")
                or re.fullmatch(rf"(?:[A-Za-z_]\w*(?:\(\))?(?:\[[^]]*\])?(?:\.|->|::))*{SECRET}(?:\[[^]]*\])?", what))


def constant_time(tree, _):
    """A comparison that ends at the first difference tells, by its time, how much of a secret was guessed."""
    plain = re.compile(r'"|[\d-]|(?:nullptr|true|false)$|.*\b(?:npos|end\(\))$', re.S)
    call = re.compile(r"(?:(?<![\w.>])(?:std::)?(?:memcmp|bcmp|strcmp|strncmp)|\bstd::(?:ranges::)?(?:equal|mismatch|find|count|search)|\.compare)\s*\(")
    tests = tree.test_files()
    for name in tree.under("kernel"):
        if not name.startswith(SECRET_ROOMS) or name in tests:
            continue
        code = tree.code(name)
        found = set()
        for m in re.finditer(r"(?<![=!<>])[=!]=(?!=)", code):
            sides = operand(code, m.start() - 1, -1), operand(code, m.end(), 1)
            if not any(plain.match(s) for s in sides) and any(map(is_secret, sides)):
                found.add(m.start())
        for m in call.finditer(code):
            arguments = operand(code, m.end() - 1, 1)
            if any(is_secret(a.split(".begin")[0].split(".data")[0].strip("&* ")) for a in arguments.strip("()").split(",")):
                found.add(m.start())
        for at in sorted(found):
            number = code.count("\n", 0, at) + 1
            yield f"{name}:{number}: compares a secret, or what is made of one, in a time that tells of it; equal_secret does not"
    for name, comparison in DOORS.items():
        if name not in tree.files:
            yield f"check.py: no file is called {name} any more"
        elif f"{comparison}(" not in tree.code(name):
            yield f"{name}: does not ask {comparison}"


CHECKS = {f.__name__: f for f in (layers, length, paths, names, links, told, flags, commands, scratch, cites, constant_time)}


def main():
    here = pathlib.Path(__file__).resolve()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("check", choices=CHECKS)
    options.add_argument("--top", default=here.parents[2])
    options.add_argument("--build", default=here.parents[2] / "build/release")
    given = options.parse_args()
    violations = list(CHECKS[given.check](Tree(given.top), given.build))
    print("\n".join(violations) or f"{given.check}: nothing found")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
