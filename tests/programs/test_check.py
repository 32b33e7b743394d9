"""`hivenet-router check FILE` and --check-config say all that would stop the start, and where it stands."""
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("HIVE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build" / "release"))
POLICIES = pathlib.Path(__file__).resolve().parents[1] / "policies"


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, program, *arguments, **variables):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
        return subprocess.run([BUILD / "bin" / f"hivenet-{program}", *arguments], capture_output=True, text=True, timeout=60,
                              cwd=self.folder, env={**clean, **variables})

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def router(self, text, *more):
        done = self.run_program("router", "check", self.write("router.yaml", text), *more)
        return done.returncode, done.stdout, done.stderr

    def test_good_files_are_ok_and_leave_nothing_behind(self):
        self.write("policy.yaml", "routing_policy: {strategy: least-loaded, exclude_if: {srtt_upper: {gt: 2000, k: 4}}}\n")
        for text in ("{}\n", "policy_file: policy.yaml\n", "storage: memory\nplugins: {config: {storage: {memory: {max_mb: 16}}}}\n",
                     "plugins: {config: {storage: {lmdb: {map_size_mb: 8}}}}\n"):
            with self.subTest(text):
                code, out, err = self.router(text)
                self.assertEqual((code, out), (0, "ok\n"), err)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["policy.yaml", "router.yaml"])

    def test_the_go_products_two_policy_files_are_good_with_the_gates_of_the_built_plugins(self):
        """A gate that is in no plugin, or whose library is not there, is a problem; a key that nobody reads would be a warning."""
        for path, words in ((POLICIES, "the global policy, 1"), (POLICIES / "_default.yaml", "the global policy, 0"), (POLICIES / "llama3-large.yaml", "1")):
            with self.subTest(path.name):
                done = self.run_program("router", "policy", "check", path, "--strict-policy")
                self.assertEqual((done.returncode, done.stdout), (0, f"ok: {words} document(s) for models\n"), done.stderr)
                self.assertNotIn("warning", done.stderr)
        few = self.write("few.yaml", "plugins: {enable: [strategy_least_loaded, storage_lmdb, transport_zmq]}\n")
        done = self.run_program("router", "policy", "check", POLICIES, "--config", few)
        self.assertEqual(done.returncode, 1)
        for file, plugin in (("_default.yaml", "gate_engine"), ("_default.yaml", "gate_reliability"), ("_default.yaml", "gate_hardware"),
                             ("llama3-large.yaml", "gate_engine"), ("llama3-large.yaml", "gate_reliability"), ("llama3-large.yaml", "gate_hardware")):
            told = [line for line in done.stdout.splitlines() if f"{file}:" in line and f"plugin {plugin} provides it and is not enabled" in line]
            self.assertTrue(told, f"{file} {plugin}: {done.stdout}")

    def test_limits_of_keys_are_proposed_as_lines_for_auth_yaml(self):
        known = ("admit_budget_tokens=408987", "max_model_len=262144")
        done = self.run_program("router", "policy", "limits", *known, "max_input_tokens=262144", "input_tokens_per_minute=519540",
                                "output_tokens_per_minute=74000", "sellable_requests=48")
        self.assertEqual((done.returncode, done.stdout), (0, "      max_occupancy_share: 0.641\n      quota:\n        requests_per_minute: 96\n"
                                                             "        input_tokens_per_minute: 519540\n        output_tokens_per_minute: 47430\n"))
        for wrong in ((), known[:1], (*known, "nonsense=1"), (*known, "sellable_requests"), (*known, "sellable_requests=-1")):
            self.assertEqual(self.run_program("router", "policy", "limits", *wrong).returncode, 2, wrong)

    def test_each_problem_is_named_where_it_stands(self):
        self.write("bad-policy.yaml", "routing_policy:\n  strategy: lest-loaded\n")
        self.write("bad-rule.yaml", "routing_policy:\n  strategy: least-loaded\n  exclude_if: {srtt_upper: {gt: fast}}\n")
        cases = {
            "storage: lmbd\n": ['storage: no storage "lmbd"', 'did you mean "lmdb"?'],
            "transport: zqm\n": ['transport: no transport "zqm"', 'did you mean "zmq"?'],
            "plugins:\n  config:\n    storage: {lmdb: {map_size_mb: big}}\n": ["router.yaml:3: plugins.config.storage.lmdb.map_size_mb:"],
            "plugins:\n  config:\n    transport: {zmq: {hwm: 0}}\n": ["router.yaml:3: plugins.config.transport.zmq.hwm:"],
            "plugins:\n  config:\n    transport: {zmq: {heartbeat_ms: 2000, heartbeat_timeout_ms: 1000}}\n":
                ["router.yaml:3: plugins.config.transport.zmq", "heartbeat_timeout_ms (1000) must not be below heartbeat_ms (2000)"],
            "plugins:\n  config:\n    gate: {nothing: {a: 1}}\n": ['router.yaml:3: plugins.config.gate.nothing: no gate "nothing"'],
            "plugins:\n  enable: [storage_lmdb, transport_zmq, gate_sttr]\n": ["plugins.enable[2]: there is no gate_sttr.so"],
            "plugins:\n  dirs: [no-such-folder]\n": ["plugins.dirs[0]: there is no folder no-such-folder"],
            "policy_file: missing.yaml\n": ["missing.yaml: cannot be opened: No such file or directory"],
            "policy_file: .\n": [".: not a regular file"],
            "policy_file: bad-policy.yaml\n": ["bad-policy.yaml:2:", "lest-loaded"],
            "policy_file: bad-rule.yaml\n": ["bad-rule.yaml", "srtt_upper"],
        }
        for text, parts in cases.items():
            with self.subTest(text):
                code, out, err = self.router(text)
                self.assertEqual((code, out), (1, ""), err)
                for part in parts:
                    self.assertIn(part, err)

    def test_all_problems_are_told_at_once(self):
        self.write("policy.yaml", "routing_policy: {strategy: nobody}\n")
        code, _, err = self.router("htp_port: 1\nstorage: lmbd\ntransport: zqm\npolicy_file: policy.yaml\n"
                                   "plugins:\n  enable: [nothing, strategy_least_loaded]\n  config: {strategy: {gone: {}}}\n")
        self.assertEqual(code, 1)
        for part in ("router.yaml:1: ", "storage: ", "transport: ", "policy.yaml:1: ", "plugins.enable[0]: ",
                     "plugins.config.strategy.gone: "):
            self.assertEqual(sum(part in line for line in err.splitlines()), 1, f"{part!r} in:\n{err}")

    def test_the_start_says_the_same(self):
        file = self.write("router.yaml", "plugins:\n  config:\n    storage: {lmdb: {map_size_mb: big}}\n")
        done = self.run_program("router", "--config", file, "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("router.yaml:3: plugins.config.storage.lmdb.map_size_mb:", done.stderr)

    def test_an_agent_judges_its_engine_and_transport(self):
        file = self.write("agent.yaml", "engine: vlm\ntransport: zqm\nrouter: [127.0.0.1:7000]\nbackend_url: http://127.0.0.1:1\n")
        done = self.run_program("agent", "--config", file, "--check-config", HIVENET_ROUTER_JWT_SECRET="s" * 64)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('engine: no engine "vlm"', done.stderr)
        self.assertIn('transport: no transport "zqm"', done.stderr)

    def test_a_wrong_command_line_is_told_first(self):
        done = self.run_program("router", "--check-config", "--no-such-flag")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: hivenet-router", done.stderr)


if __name__ == "__main__":
    unittest.main()
