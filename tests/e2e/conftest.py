"""Real processes for end-to-end tests: engine simulator, router, agents. Port 0, or one that is reserved; every wait has a bound.

With HIVE_TEST_TLS=1 every router speaks TLS to its clients.

When a stack ends, what its processes wrote is searched for the secrets they were given and the keys they were sent, and for
what sanitizers print; who ended by a crash is a failure, too. Programs of a sanitizer build (HIVE_BUILD) are then asked to end, so that
LeakSanitizer looks at them, and every wait has three times its bound.

Who skips for want of something is written to skipped.txt of the build; with HIVE_REQUIRE_ALL=1 it is a failure.
"""
import contextlib
import functools
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from certificates import Authority  # noqa: E402: the conformance tests load this file from elsewhere

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HIVE_BUILD", TOP / "build" / "release"))
BIN = BUILD / "bin"
ADMIN_KEY = "admin-key-of-the-end-to-end-tests-0001"
MOST_WORKERS = 4  # of a router here; each has a port of its own for the link


def _sanitized():
    cache = BUILD / "CMakeCache.txt"
    return cache.is_file() and re.search(r"^HIVE_SANITIZE:\w+=\S", cache.read_text(errors="replace"), re.M) is not None


SANITIZED = _sanitized()
SLOWER = 3 if SANITIZED else 1
# What an environment made by hand must pass on to a program of such a build.
SANITIZER_OPTIONS = {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS")}
BY_NATURE = "by nature: "  # begins the reason of a skip that is not for want of anything
COMPLAINT = re.compile(rb"^.*(?:ERROR: (?:Address|Leak)Sanitizer|AddressSanitizer:DEADLYSIGNAL|WARNING: ThreadSanitizer|:\d+:\d+: runtime error: ).*$", re.M)
CRASHES = {-s for s in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP)}


def complaints(text):
    """The lines in which a sanitizer begins to say what is wrong."""
    return [line.decode(errors="replace") for line in COMPLAINT.findall(text)]


@functools.cache
def tls_everywhere():
    """Flags of every router; none without HIVE_TEST_TLS. Clients trust its certificate from then on."""
    if os.environ.get("HIVE_TEST_TLS") != "1":
        return ()
    folder = tempfile.TemporaryDirectory(prefix="hive-tls-")
    tls_everywhere.folder = folder  # lives as long as this process
    authority = Authority(pathlib.Path(folder.name))
    os.environ["SSL_CERT_FILE"] = str(authority.ca)
    certificate, key = authority.sign("router")
    return "--tls-cert-file", certificate, "--tls-key-file", key


def wait_for(what, condition, limit=10.0, pause=0.02):
    """The first true value of condition(); fails with `what` after `limit` seconds."""
    limit *= SLOWER
    end = time.monotonic() + limit
    last = None
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
        except (httpx.HTTPError, OSError, KeyError, IndexError) as error:
            last = error
        time.sleep(pause)
    raise AssertionError(f"not within {limit} s: {what} (last error: {last!r})")


SHORTEST_SECRET = 16  # of those that are searched for: a shorter one is a word like others


def secrets_in(text):
    """Those of a variable or a file: one or several, each KEY or ro:KEY."""
    return {word for word in (w.removeprefix("ro:") for w in re.split(r"[\s,]+", text)) if len(word) >= SHORTEST_SECRET}


class Process:
    """A child that is ended by its id, with its log kept for the failure report."""

    def __init__(self, name, args, folder, env=None):
        self.name = name
        args = [str(a) for a in args]
        self.given = {s for variable, value in (env or {}).items() if re.search("(KEYS?|SECRET|SECRET_PREVIOUS)$", variable) for s in secrets_in(value)}
        named = [(flag, value) for flag, value in zip(args, args[1:]) if re.fullmatch("--.*(secret|keys).*-file", flag)]
        named += [(variable, value) for variable, value in (env or {}).items() if re.search("(SECRET|KEYS).*_FILE$", variable)]
        self.secret_files = [folder / value for _, value in named if value]
        self.secrets()
        self.log_path = folder / f"{name}-{secrets.token_hex(3)}.log"
        self.out_path = self.log_path.with_suffix(".out")
        full = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
        full.update(env or {})
        with open(self.log_path, "wb") as log, open(self.out_path, "wb") as out:
            self.child = subprocess.Popen(args, stdout=out, stderr=log, env=full, cwd=folder)

    def secrets(self):
        """What it was given so far: files may hold others by now."""
        for path in self.secret_files:
            if path.is_file():
                self.given |= secrets_in(path.read_text(errors="replace"))
        return self.given

    @property
    def pid(self):
        return self.child.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ready(self, limit=10):
        def line():
            if self.child.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.child.returncode}:\n{self.log()}")
            for text in self.out_path.read_text().split("\n")[:-1]:  # the rest is half a line that is being written
                if '"ready":true' in text:
                    return json.loads(text)
            return None

        return wait_for(f"{self.name} ready", line, limit)

    def hangup(self, says):
        """SIGHUP, and wait until its log has one line more with these words."""
        before = self.log().count(says)
        self.child.send_signal(signal.SIGHUP)
        wait_for(f"{self.name} says: {says}", lambda: self.log().count(says) > before)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory_kib(self, what="VmRSS"):
        with open(f"/proc/{self.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(what + ":"))

    def grown_kib(self, before):
        """How much more memory than `before`. 0 under a sanitizer, which keeps what was freed: bounds of memory are judged without."""
        return 0 if SANITIZED else self.memory_kib() - before

    def end(self):
        """Asked to end, and once more, which ends a drain; killed if it does not."""
        for _ in range(2):
            if self.child.poll() is None:
                self.child.send_signal(signal.SIGCONT)
                self.child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.child.wait(5)
        self.kill()

    def damage(self):
        """What went wrong in it that no test asks for."""
        found = [f"{self.name} {self.pid}: {line}" for path in (self.log_path, self.out_path) for line in complaints(path.read_bytes())]
        if self.child.returncode in CRASHES:
            found.append(f"{self.name} {self.pid} ended with {self.child.returncode}")
        return found

    def kill(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.kill()
        self.child.wait(10)

    def stop(self, limit=15):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
        try:
            return self.child.wait(limit * SLOWER)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise AssertionError(f"{self.name} did not stop on SIGTERM:\n{self.log()[-4000:]}")


class Engine(Process):
    def __init__(self, folder, *args):
        super().__init__("engine", [BIN / "engine_sim", *args], folder)
        self.address = self.ready()["address"]
        self.url = f"http://{self.address}"

    def faults(self, **switches):
        httpx.post(self.url + "/sim/faults", json=switches).raise_for_status()

    def state(self):
        return httpx.get(self.url + "/sim/state").json()

    def requests(self):
        return httpx.get(self.url + "/sim/requests").json()


class Stack:
    """One test's processes. Everything started through it ends with it."""

    def __init__(self, folder):
        self.folder = folder
        self.secret = secrets.token_hex(32)
        self.secrets = {self.secret, ADMIN_KEY}
        self.processes = []
        self.reserved = []
        self.router = None
        self.metrics_url = self.page = ""

    def reserve(self, count=1):
        """A port of loopback, the first of `count` in a row, that nobody else is given while this lasts: a process of the test may listen
        there, end, and listen there again."""
        while True:
            held = [socket.socket() for _ in range(count)]
            try:
                for i, s in enumerate(held):
                    s.bind(("127.0.0.1", held[0].getsockname()[1] + i if i else 0))
            except (OSError, OverflowError):
                for s in held:
                    s.close()
                continue
            for s in held:  # bound for good, and never listening: whoever sets the same may be there, too
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self.reserved += held
            return held[0].getsockname()[1]

    def keep(self, process):
        self.processes.append(process)
        return process

    def start_engine(self, *args):
        return self.keep(Engine(self.folder, *args))

    def start_router(self, *args, env=None, http=None, link=None, under=()):
        """`under`: a command that ends in running the router in its place. Its addresses stay the test's: another one may be started there."""
        http = http or f"127.0.0.1:{self.reserve()}"
        link = link or f"127.0.0.1:{self.reserve(MOST_WORKERS)}"
        environment = {"HIVENET_ROUTER_JWT_SECRET": self.secret, "HIVENET_ROUTER_ADMIN_API_KEYS": ADMIN_KEY,
                       "HIVENET_ROUTER_AUDIT_LOG_PATH": str(self.folder / "audit.jsonl")}
        environment.update(env or {})
        self.router = self.keep(Process("router", [
            *under, BIN / "hivenet-router", "--http-port", http, "--metrics-port", "127.0.0.1:0", "--link-listen", link,
            "--disk-db-path", self.folder / "db", *tls_everywhere(), *args], self.folder, environment))
        said = self.router.ready()
        self.router.said = said
        self.url = ("https://" if said.get("tls") else "http://") + said["http"]
        self.link = said["link"][0]
        self.metrics_url = "http://" + said["metrics"] + "/metrics"
        return self.router

    @property
    def place(self):
        host, port = self.url.split("//")[1].split(":")
        return host, int(port)

    def dial(self, receive_buffer=0, timeout=20):
        """A connection to the router, secured if the router wants that."""
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(self.place)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.url.startswith("https:"):
            return s
        trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
        return trust.wrap_socket(s, server_hostname="localhost", suppress_ragged_eofs=True)

    def start_agent(self, engine, *args, identity="agent.key", kind="vllm", env=None, wait=True, link=None, secret=None):
        url = engine if isinstance(engine, str) else engine.url
        environment = {"HIVENET_ROUTER_JWT_SECRET": secret or self.secret}
        environment.update(env or {})
        agent = self.keep(Process("agent", [
            BIN / "hivenet-agent", "--engine", kind, "--backend-url", url, "--router", link or self.link,
            "--identity-path", self.folder / identity, "--ready-fd", "1", *args], self.folder, environment))
        agent.peer_id = agent.ready()["peer_id"]
        if wait:
            wait_for("agent routable", lambda: self.row(agent.peer_id)["status"]["routable"])
        return agent

    def admin(self, path, method="GET", key=ADMIN_KEY, **kw):
        self.secrets |= secrets_in(key or "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.request(method, self.url + path, headers=headers, timeout=10, **kw)

    def table(self):
        return {row["peer_id"]: row for row in self.admin("/admin/routing-table").json()["agents"]}

    def row(self, peer_id):
        return self.table()[peer_id]

    def metrics(self):
        """{name{labels}: value} of the exposition."""
        out = {}
        self.page = httpx.get(self.metrics_url).text
        for line in self.page.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def metric(self, name, **labels):
        """Sum of the series of that name that carry these labels."""
        total, found = 0.0, False
        for key, value in self.metrics().items():
            if re.split(r"[{ ]", key)[0] != name:
                continue
            if all(f'{k}="{v}"' in key for k, v in labels.items()):
                total, found = total + value, True
        assert found, f"no series {name} {labels}"
        return total

    def audit(self, path=None):
        """The lines of an audit log so far; what comes behind the last newline is half a line that is being written."""
        path = path or self.folder / "audit.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def chat(self, stream=False, model="sim-model", timeout=30, headers=None, **body):
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream, **body}
        for name, value in (headers or {}).items():
            if name.lower() in ("authorization", "x-api-key"):
                self.secrets |= secrets_in(value)
        return httpx.post(self.url + "/v1/chat/completions", json=body, timeout=timeout, headers=headers)

    def outputs(self):
        """(name, content): logs, standard outputs, audit logs, and the metrics page as it was read last."""
        yield "the metrics page", self.page.encode()
        for path in self.folder.rglob("*"):
            if (path.suffix in (".log", ".out", ".jsonl") or path.name.startswith("audit")) and path.is_file():
                with contextlib.suppress(PermissionError):
                    yield path.name, path.read_bytes()

    def leaks(self):
        known = self.secrets.union(*(process.secrets() for process in self.processes))
        return [f"{name} holds the secret {secret}" for name, content in self.outputs() for secret in known if secret.encode() in content]

    def stop(self):
        if self.router is not None and self.router.child.poll() is None and self.metrics_url:
            with contextlib.suppress(httpx.HTTPError):
                self.page = httpx.get(self.metrics_url, timeout=2).text
        for process in reversed(self.processes):
            process.end() if SANITIZED else process.kill()
        for s in self.reserved:
            s.close()
        leaks = self.leaks()
        assert not leaks, leaks
        wrong = [fault for process in self.processes for fault in process.damage()]
        assert not wrong, wrong


class Load:
    """Clients that ask all the time; whoever gets anything but a whole answer is remembered."""

    def __init__(self, stack, clients=4):
        self.bad, self.served, self.over = [], 0, threading.Event()
        # The first one's streams are long: they are under way while secrets change.
        self.threads = [threading.Thread(target=self.run, args=(stack, i % 2 == 0, 300 if i == 0 else 3)) for i in range(clients)]
        for t in self.threads:
            t.start()

    def run(self, stack, stream, tokens):
        while not self.over.is_set():
            try:
                answer = stack.chat(max_tokens=tokens, stream=stream)
            except Exception as error:  # of whatever kind: a thread that has ended would ask nothing more, and fail nothing
                self.bad.append(repr(error))
                continue
            whole = answer.status_code == 200 and (not stream or answer.text.endswith("data: [DONE]\n\n"))
            if whole:
                self.served += 1
            else:
                self.bad.append(f"{answer.status_code} {answer.text[-300:]}")

    def more(self, n=20):
        before = self.served
        wait_for("more is served", lambda: self.served >= before + n or self.bad)
        assert not self.bad, self.bad[:3]

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(30)
        assert not self.bad, self.bad[:3]


@pytest.fixture
def stack(tmp_path, request):
    s = Stack(tmp_path)
    # The client keys that the test's file names.
    s.secrets |= {v for v in vars(request.module).values() if isinstance(v, str) and v.startswith("sk-") and len(v) >= SHORTEST_SECRET}
    yield s
    try:
        s.stop()
    finally:
        report = getattr(request.node, "report_call", None)
        if report is not None and report.failed:
            for process in s.processes:
                print(f"\n--- {process.name} {process.pid}\n{process.log()[-6000:]}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.report_call = report
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if reason.startswith(BY_NATURE):
        return
    if os.environ.get("HIVE_REQUIRE_ALL") == "1":
        report.outcome, report.longrepr = "failed", f"HIVE_REQUIRE_ALL is set, and this was to be skipped: {reason}"
    elif BUILD.is_dir():
        with open(BUILD / "skipped.txt", "a") as out:
            out.write(f"{item.nodeid}: {reason}\n")


@pytest.fixture
def simple(stack):
    """Router, one agent, one engine."""
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router()
    stack.agent = stack.start_agent(stack.engine)
    return stack


@pytest.fixture
def load_of(stack):
    running = []
    yield lambda **kw: running.append(Load(stack, **kw)) or running[-1]
    for each in running:
        each.over.set()
