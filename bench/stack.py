"""The programs that are measured: engine simulator, nginx, HAProxy, router with engines of its own, router and agent.

Loopback only, ports the system chose, each ended by its id.
"""
import hashlib
import http.client
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("HIVE_BUILD", TOP / "build" / "release"))
BIN = BUILD / "bin"
MODEL = "sim-model"

# What the client sends to everybody; only hivenet looks at it.
KEY = "sk-bench-0123456789abcdef0123456789abcdef"

# One worker unless told, kept-alive connections on both sides without an end, nothing buffered, nothing logged.
NGINX_CONFIG = """\
daemon off;
{user}
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_max_body_size 10m;
  client_body_buffer_size 64k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream engine {{
    server {engine};
    keepalive 64;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

HAPROXY_CONFIG = """\
global
  nbthread {workers}
  maxconn 4000
defaults
  mode http
  option http-keep-alive
  option abortonclose
  http-reuse always
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend clients
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server sim {engine}
"""

ROUTER_CONFIG = """\
http_port: 127.0.0.1:0
metrics_port: 127.0.0.1:0
disk_db_path: {folder}/{name}-db
audit_log_path: {folder}/{name}-audit.jsonl
policy_file: {folder}/policy.yaml
workers: {workers}
max_concurrent: 20000
log_level: warn
"""

LINK_CONFIG = """\
link_listen: 127.0.0.1:0
jwt_secret_file: {folder}/secret
"""

KEYS_CONFIG = """\
auth_config_file: {folder}/auth.yaml
"""

AUTH = """\
api:
  mode: api-key
  keys:
    - key_hash: "{digest}"
      metadata: {{name: bench, owner: bench}}
"""

EMBEDDED_CONFIG = """\
embedded_agents:
  - url: http://{engine}
    engine: vllm
    capacity: {capacity}
"""

POLICY = """\
routing_policy:
  strategy: least-loaded
  exclude_if:
    srtt: {gt: 60000}
    gpu_temperature_c: {gt: 85}
    memory_used_percent: {gte: 0.99}
"""

AGENT_CONFIG = """\
engine: vllm
backend_url: http://{engine}
router: {link}
capacity: {capacity}
identity_path: {folder}/agent.key
jwt_secret_file: {folder}/secret
log_level: warn
"""


class Failed(Exception):
    """Something of the set-up did not come up; the text says what and shows its log."""


def wait_for(what, condition, limit=15.0, pause=0.02):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
        except OSError:
            pass
        time.sleep(pause)
    raise Failed(f"not within {limit:.0f} s: {what}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def children_of(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def router_help():
    return subprocess.run([BIN / "hivenet-router", "--help"], capture_output=True, text=True, timeout=10).stdout


def missing(target):
    """Why a target cannot be measured here, or None."""
    if target in ("nginx", "haproxy") and shutil.which(target) is None:
        return f"{target} is not installed"
    if target == "embedded" and "--backend" not in router_help():
        return "this hivenet-router has no --backend"
    return None


def ask(address, method, path, body=None, limit=5):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=limit)
    try:
        connection.request(method, path, body, {"Authorization": "Bearer " + KEY, **({"Content-Type": "application/json"} if body else {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Stack:
    """Everything started through it is ended by stop(), last first."""

    def __init__(self, folder, engine_flags=("--max-num-seqs", "64"), capacity=64, workers=1):
        self.folder = pathlib.Path(folder)
        self.engine_flags = ["--model", MODEL, *engine_flags]
        self.capacity, self.workers = capacity, workers
        self.started = []        # (name, Popen)
        self.pids = {}           # name -> pids whose CPU time counts as that program's
        self.configs = {}        # what was run with, for the record
        self.addresses = {}      # target -> HOST:PORT

    def start(self, name, *command):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
        with open(self.folder / f"{name}.out", "wb") as out, open(self.folder / f"{name}.log", "wb") as log:
            child = subprocess.Popen([str(c) for c in command], stdout=out, stderr=log, stdin=subprocess.DEVNULL, env=env,
                                     cwd=self.folder)
        self.started.append((name, child))
        self.pids[name] = [child.pid]
        return child

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def ready(self, name, child):
        def line():
            if child.poll() is not None:
                raise Failed(f"{name} ended with {child.returncode}:\n{self.log_of(name)}")
            for text in (self.folder / f"{name}.out").read_text().splitlines():
                if '"ready":true' in text:
                    return json.loads(text)
            return None

        return wait_for(f"{name} says ready", line, pause=0.002)

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def bring_up(self, targets):
        self.start_engine()
        self.write("secret", secrets.token_hex(32) + "\n", 0o600)
        self.write("policy.yaml", POLICY)
        self.configs["policy"] = POLICY
        for target in targets:
            if target != "direct":
                getattr(self, "start_" + target)()

    def start_engine(self):
        child = self.start("engine", BIN / "engine_sim", *self.engine_flags)
        self.addresses["direct"] = self.ready("engine", child)["address"]
        self.configs["engine"] = "engine_sim " + " ".join(self.engine_flags)

    def start_nginx(self):
        port = free_port()
        text = NGINX_CONFIG.format(folder=self.folder, engine=self.addresses["direct"], port=port, workers=self.workers,
                                   user="user root;" if os.getuid() == 0 else "")
        child = self.start("nginx", "nginx", "-c", self.write("nginx.conf", text), "-p", self.folder)
        self.addresses["nginx"] = f"127.0.0.1:{port}"
        wait_for("nginx answers", lambda: ask(self.addresses["nginx"], "GET", "/health")[0] == 200)
        self.pids["nginx"] = [child.pid, *children_of(child.pid)]
        self.configs["nginx"] = text

    def start_haproxy(self):
        port = free_port()
        text = HAPROXY_CONFIG.format(engine=self.addresses["direct"], port=port, workers=self.workers)
        self.start("haproxy", "haproxy", "-db", "-f", self.write("haproxy.cfg", text))
        self.addresses["haproxy"] = f"127.0.0.1:{port}"
        wait_for("haproxy answers", lambda: ask(self.addresses["haproxy"], "GET", "/health")[0] == 200)
        self.configs["haproxy"] = text

    def router_config(self, name, more):
        text = ROUTER_CONFIG + more
        if "--strict-auth" in router_help():  # client keys and the audit log come together
            self.write("auth.yaml", AUTH.format(digest=hashlib.sha256(KEY.encode()).hexdigest()), 0o640)
            text += KEYS_CONFIG
        text = text.format(folder=self.folder, name=name, workers=self.workers, engine=self.addresses["direct"], capacity=self.capacity)
        self.configs[name] = text
        return self.write(f"{name}.yaml", text)

    def await_chat(self, address, *names):
        chat = json.dumps({"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]})
        try:
            wait_for(f"a chat through {' and '.join(names)}", lambda: ask(address, "POST", "/v1/chat/completions", chat)[0] == 200)
        except Failed as failure:
            raise Failed("\n".join([str(failure), *(f"{n}: {self.log_of(n)}" for n in names)])) from None

    def start_embedded(self, name="embedded"):
        child = self.start(name, BIN / "hivenet-router", "--config", self.router_config(name, EMBEDDED_CONFIG))
        self.addresses[name] = self.ready(name, child)["http"]
        self.await_chat(self.addresses[name], name)

    def start_hivenet(self):
        child = self.start("router", BIN / "hivenet-router", "--config", self.router_config("router", LINK_CONFIG))
        said = self.ready("router", child)
        self.addresses["hivenet"] = said["http"]
        text = AGENT_CONFIG.format(folder=self.folder, engine=self.addresses["direct"], link=said["link"][0].split("//")[-1], capacity=self.capacity)
        self.configs["agent"] = text
        self.start("agent", BIN / "hivenet-agent", "--config", self.write("agent.yaml", text))
        self.await_chat(said["http"], "router", "agent")

    def check_alive(self):
        for name, child in self.started:
            if child.poll() is not None:
                raise Failed(f"{name} ended with {child.returncode} during the measurement:\n{self.log_of(name)}")

    def stop(self):
        for name, child in reversed(self.started):
            if child.poll() is None:
                child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                for pid in self.pids[name][::-1]:
                    try:
                        os.kill(pid, 9)
                    except ProcessLookupError:
                        pass
                child.wait(5)
