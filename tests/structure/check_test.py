"""Every rule of check.py finds a planted violation, and leaves the tree beside it alone."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check  # noqa: E402

# A small tree that keeps every rule.
GOOD = {
    "README.md": "Start with `./dev run`, test with `./dev test`. [Pages](docs/README.md#pages)\n",
    ".ci/run": "#!/bin/sh\nexec ./dev test\n",
    "dev": "case \"$1\" in\n  run) true ;;\n  test) true ;;\nesac\n",
    "docs/README.md": "# Docs\n## Pages\n[metrics](metrics.md) [admin](admin-api.md) [http](http-api.md) [link](link.md)\n",
    "docs/metrics.md": "| family | labels |\n|---|---|\n| `some_total` | `some_label` |\n| `plugin_KIND_NAME` | |\n`other_total` completed\n",
    "docs/admin-api.md": "/admin/health\n",
    "docs/http-api.md": "/health `--http-port`\n",
    "docs/reference/settings.md": "| `--http-port` | Port |\n",
    "docs/link.md": "busy\n",
    "kernel/base/text.hpp": "#pragma once\n#include <string>\n// " + "ü" * 157 + "\n",
    "kernel/fleet/pool.hpp": '#include "base/text.hpp"\n#include "hive/abi.h"\n// docs/metrics.md\n',
    "kernel/fleet/column.cpp": 'auto a = intern("temperature");\n',
    "kernel/fleet/registry.cpp": 'auto line = "srtt sample peer_id=";\n',
    "kernel/base/digest.cpp": "bool equal_secret(a b) { return sodium_memcmp(a, b, 32) == 0; }\n",
    "kernel/apps/access.cpp": "return ring->find(hash) != nullptr || equal_secret(key.hash, hash);\n",
    "kernel/link/auth.cpp": "for (; i < secrets.size() && secrets[i].size() != 0; ++i) found |= equal_secret(expected, proof);\n",
    "kernel/tenancy/keyring.cpp": 'const std::string hash = "hash == hash";  // key.hash == hash\nif (equal_secret(key.hash, hash)) return &key;\n',
    "kernel/tenancy/scan.cpp": 'if (l.secret == 0 || token == "null" || at == hashes.end() || &keys == &proof_keys_ || hash.size() != 32) go();\n',
    "kernel/tenancy/scan_test.cpp": "EXPECT_TRUE(key.hash == sha256(text));\n",
    "kernel/routing/ring.cpp": "// RFC 9112 section 7.1, RFC 8446,\n// section " + "5.1; docs/link.md; a stylesheet; P12; p90\nif (hash == other.hash) go();\n",
    "tests/conformance/README.md": "Row 8 is the commit point.\n",
    "kernel/routing/policy.hpp": 'auto standard = "calm";\n',
    "kernel/routing/fixture.hpp": '#include "fleet/pool.hpp"\nauto name = "calm";\n',
    "kernel/routing/scan_test.cpp": '#include "routing/fixture.hpp"\nauto field = "srtt";\n',
    "kernel/routing/scan.cpp": '// calm srtt "srtt"\nauto c = \'"\'; auto other = "srtt_ms calmer";\n',
    "kernel/admin/exporter.cpp": 'auto n = "some_total";\n',
    "kernel/observe/metrics.cpp": "\n",
    "kernel/observe/process.cpp": "int x = 1'000'000;\n",
    "kernel/gateway/telemetry.cpp": 'auto n = "completed";\n',
    "kernel/admin/api.cpp": 'auto n = "/admin/health"; if (equal_secret(given, known.hash)) go();\n',
    "kernel/gateway/routes.cpp": 'auto n = "/health";\n',
    "kernel/link/stream.cpp": 'auto n = "busy";\n',
    "sdk/include/hive/abi.h": "#include <stdint.h>\n",
    "plugins/strategy_calm/plugin.cpp": '#include "hive/abi.h"\n#include "own.hpp"\n',
    "plugins/strategy_calm/own.hpp": "#pragma once\n",
    "plugins/gate_heat/plugin.c": '#include "hive/abi.h"\n',
    "build/plugins/strategy_calm.plugin.json": json.dumps({"components": [{"kind": "strategy", "id": "calm"}]}),
    "build/plugins/gate_heat.plugin.json": json.dumps({"components": [{"kind": "gate", "id": "heat", "fields": [
        {"name": "srtt", "column": "srtt_ms"}, {"name": "temperature", "column": "temperature"}]}]}),
}

# check -> {what is planted: files that are added or replaced; None takes one out}
BAD = {
    "layers": {
        "upwards": {"kernel/base/text.hpp": '#include "fleet/pool.hpp"\n'},
        "upwards, in angle brackets": {"kernel/base/text.hpp": "#include <fleet/pool.hpp>\n"},
        "around": {"kernel/base/text.hpp": '#include "../fleet/pool.hpp"\n'},
        "an unknown room": {"kernel/misc/x.hpp": "\n"},
        "the kernel in a plugin": {"plugins/gate_heat/plugin.c": '#include "base/text.hpp"\n'},
        "the kernel in the SDK": {"sdk/include/hive/abi.h": '#  include <base/text.hpp>\n'},
        "the kernel by path": {"plugins/gate_heat/plugin.c": '#include "../../kernel/base/text.hpp"\n'},
        "another plugin": {"plugins/gate_heat/plugin.c": '#include "../strategy_calm/own.hpp"\n'},
        "what the SDK lacks": {"plugins/gate_heat/plugin.c": '#include "hive/private.h"\n'},
    },
    "scratch": {"a fixed name": {"kernel/routing/scan_test.cpp": 'auto f = testing::TempDir() + "x";\n'}},
    "cites": {
        "a paper": {"kernel/routing/scan.cpp": "// The rules of routing " + "sh" + "eet 8.\n"},
        "a paper, wrapped": {"kernel/routing/scan.cpp": "// The rules of routing\n// " + "sh" + "eet 8.\n"},
        "a name of a test": {"kernel/routing/scan_test.cpp": "TEST(funnel, tokens_of_the_" + "sh" + "eet) {}\n"},
        "a test of Python": {"tests/e2e/test_x.py": "def test_it_has_the_" + "sh" + "eets_shape():\n"},
        "a number": {"plugins/gate_heat/plugin.c": "// Nobody waits (W" + "39).\n"},
        "a mark": {"kernel/routing/scan_test.cpp": 'auto what = "4096 unless told (M' + 'H)";\n'},
        "a section of what": {"sdk/include/hive/abi.h": "// See section " + "9.\n"},
        "a section, wrapped": {"sdk/include/hive/abi.h": "// See section\n// " + "12.5 for more.\n"},
        "a section beside an RFC": {"kernel/base/text.hpp": "// RFC 9112 section 7.1 and section " + "4\n"},
        "a sign": {"sdk/include/hive/abi.h": "// see \u00a7" + "12.5\n"},
        "a page": {"docs/link.md": "busy as in ../design/" + "waiting.md\n"},
        "a page of a specification": {"bench/x.py": "# spec/" + "http-api.md\n"},
        "a page by name": {"bench/run.sh": "# see performance." + "md\n"},
        "a study": {"kernel/base/text.hpp": "// (dataplane-" + "study 7.3)\n"},
        "notes": {"tests/README.md": "As the field " + "notes have it.\n"},
        "a row": {"kernel/base/text.hpp": "// (behaviours,\n//  row " + "7)\n"},
    },
    "length": {
        "a long file": {"bench/long.cpp": "\n" * 501},
        "a wide line": {"sdk/include/hive/abi.h": "// " + "x" * 158 + "\n"},
        "a wide line of a test": {"tests/sdk/x.cpp": "// " + "x" * 158 + "\n"},
    },
    "paths": {
        "a checkout": {"cmake/x.cmake": "set(x /" + "work/main)\n"},
        "a home": {"dev": "cp /" + "root/x .\n"},
        "a user's home": {"docs/link.md": "busy /" + "home/ann/src\n"},
    },
    "names": {
        "a strategy": {"kernel/routing/scan.cpp": 'if (n == "calm") go();\n'},
        "a strategy in a sentence": {"kernel/apps/main.cpp": 'say("the calm order");\n'},
        "a gate field": {"kernel/routing/policy.hpp": 'auto f = "exclude_if.srtt";\n'},
        "a raw string": {"kernel/routing/scan.cpp": 'auto f = R"(a "srtt" b)";\n'},
        "a column where requests are routed": {"kernel/routing/scan.cpp": 'auto f = "temperature";\n'},
        "a fixture that the product uses": {"kernel/routing/scan.cpp": '#include "routing/fixture.hpp"\n'},
        "an exemption nobody needs": {"kernel/fleet/registry.cpp": "\n"},
        "a plugin that was not built": {"build/plugins/gate_heat.plugin.json": None},
        "nothing built": {"build/plugins/gate_heat.plugin.json": None, "build/plugins/strategy_calm.plugin.json": None,
                          "plugins/gate_heat/plugin.c": None, "plugins/strategy_calm/plugin.cpp": None},
    },
    "links": {
        "a missing page": {"docs/link.md": "[x](nowhere.md) busy\n"},
        "a missing heading": {"docs/link.md": "[x](README.md#nothing) busy\n"},
        "outside the tree": {"docs/link.md": "[x](../../other.md) busy\n"},
        "a page the map lacks": {"docs/new.md": "# New\n"},
        "a comment's page": {"kernel/fleet/pool.hpp": "// docs/gone.md\n"},
    },
    "told": {
        "a family": {"kernel/admin/exporter_fleet.cpp": 'auto n = "more_total";\n'},
        "a family that has gone": {"docs/metrics.md": "completed\n| `some_total`, `old_total` | |\n"},
        "a family that a test alone names": {"docs/metrics.md": "completed\n| `some_total`, `old_total` | |\n",
                                             "kernel/admin/exporter_test.cpp": 'auto n = "old_total";\n'},
        "a route": {"kernel/admin/api.cpp": 'auto n = "/admin/secret-door";\n'},
        "a cause": {"kernel/link/stream.cpp": 'auto n = "bored";\n'},
        "a source that moved": {"kernel/gateway/telemetry.cpp": None},
    },
    "constant_time": {
        "two hashes": {"kernel/tenancy/scan.cpp": "if (key.hash == given) go();\n"},
        "from the other side": {"kernel/apps/scan.cpp": "return given != keys_[i].hash;\n"},
        "what is hashed here": {"kernel/config/scan.cpp": "const bool same = sha256(trim(text)) == known;\n"},
        "as text, over two lines": {"kernel/admin/scan.cpp": "if (found && as_text(given) ==\n    as_text(known.hash)) go();\n"},
        "bytes": {"kernel/link/scan.cpp": "if (std::memcmp(expected.data(), proof.data(), 32) == 0) go();\n"},
        "a proof": {"kernel/link/scan.cpp": "if (make_proof(key, role::agent, in) == m->proof) go();\n"},
        "by the library": {"kernel/gateway/scan.cpp": "if (std::equal(a.begin(), a.end(), token.begin())) go();\n"},
        "in a list": {"kernel/link/scan.cpp": "return std::find(keys.begin(), keys.end(), l.proven_with) != keys.end();\n"},
        "by compare": {"kernel/config/scan.cpp": "if (given.compare(secret) == 0) go();\n"},
        "keys of proofs": {"kernel/link/scan.cpp": "const bool changed = keys != proof_keys_;\n"},
        "a door of another make": {"kernel/tenancy/keyring.cpp": "if (same(key, given)) return &key;\n"},
        "a comparison of another make": {"kernel/base/digest.cpp": "bool equal_secret(a b) { return std::equal(a, b); }\n"},
        "a door that moved": {"kernel/link/auth.cpp": None},
    },
    "flags": {"a flag nobody reads": {"README.md": "`./dev run`, `./dev test`, `--http-prot`\n"}},
    "commands": {
        "README without run": {"README.md": "./dev test\n"},
        "CI without the tests": {".ci/run": "# exec ./dev test\ntrue\n"},
        "dev without test": {"dev": "case \"$1\" in\n  run) true ;;\nesac\n"},
    },
}


class Rules(unittest.TestCase):
    def found(self, name, changes):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for path, text in {**GOOD, **changes}.items():
                if text is not None:
                    (top / path).parent.mkdir(parents=True, exist_ok=True)
                    (top / path).write_text(text)
            return list(check.CHECKS[name](check.Tree(top), top / "build"))

    def test_good_tree_has_no_violation(self):
        for name in check.CHECKS:
            with self.subTest(name):
                self.assertEqual(self.found(name, {}), [])

    def test_planted_violation_is_found(self):
        self.assertEqual(set(BAD), set(check.CHECKS))
        for name, cases in BAD.items():
            for what, changes in cases.items():
                with self.subTest(f"{name}: {what}"):
                    self.assertTrue(self.found(name, changes))


if __name__ == "__main__":
    unittest.main()
