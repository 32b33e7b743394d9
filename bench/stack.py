"""The programs that are measured: engine simulator, nginx, router, agent. Loopback only, ports the system chose, each ended by its id."""
import http.client
import json
import os
import pathlib
import secrets
import socket
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("HIVE_BUILD", TOP / "build" / "release"))
BIN = BUILD / "bin"
MODEL = "sim-model"

ENGINE_FLAGS = ["--model", MODEL, "--max-num-seqs", "64"]

# One worker, kept-alive connections on both sides without an end, nothing buffered, nothing logged.
NGINX_CONFIG = """\
daemon off;
{user}
worker_processes 1;
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

ROUTER_CONFIG = """\
http_port: 127.0.0.1:0
metrics_port: 127.0.0.1:0
link_listen: 127.0.0.1:0
disk_db_path: {folder}/db
audit_log_path: {folder}/audit.jsonl
jwt_secret_file: {folder}/secret
policy_file: {folder}/policy.yaml
log_level: warn
"""

POLICY = """\
routing_policy:
  strategy: least-loaded
  exclude_if:
    srtt: {gt: 2000}
    gpu_temperature_c: {gt: 85}
    memory_used_percent: {gte: 0.95}
"""

AGENT_CONFIG = """\
engine: vllm
backend_url: http://{engine}
router: {link}
capacity: 64
identity_path: {folder}/agent.key
jwt_secret_file: {folder}/secret
log_level: warn
"""


class Failed(Exception):
    """Something of the set-up did not come up; the text says what and shows its log."""


def wait_for(what, condition, limit=15.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
        except OSError:
            pass
        time.sleep(0.02)
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


def ask(address, method, path, body=None, limit=5):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=limit)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Stack:
    """Everything started through it is ended by stop(), last first."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
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

        return wait_for(f"{name} says ready", line)

    def start_engine(self):
        child = self.start("engine", BIN / "engine_sim", *ENGINE_FLAGS)
        self.addresses["direct"] = self.ready("engine", child)["address"]
        self.configs["engine"] = "engine_sim " + " ".join(ENGINE_FLAGS)

    def start_nginx(self):
        port = free_port()
        text = NGINX_CONFIG.format(folder=self.folder, engine=self.addresses["direct"], port=port,
                                   user="user root;" if os.getuid() == 0 else "")
        (self.folder / "nginx.conf").write_text(text)
        child = self.start("nginx", "nginx", "-c", self.folder / "nginx.conf", "-p", self.folder)
        self.addresses["nginx"] = f"127.0.0.1:{port}"
        wait_for("nginx answers", lambda: ask(self.addresses["nginx"], "GET", "/health")[0] == 200)
        self.pids["nginx"] = [child.pid, *children_of(child.pid)]
        self.configs["nginx"] = text

    def start_hivenet(self):
        (self.folder / "secret").write_text(secrets.token_hex(32) + "\n")
        os.chmod(self.folder / "secret", 0o600)
        (self.folder / "policy.yaml").write_text(POLICY)
        self.configs["policy"] = POLICY
        router = ROUTER_CONFIG.format(folder=self.folder)
        (self.folder / "router.yaml").write_text(router)
        child = self.start("router", BIN / "hivenet-router", "--config", self.folder / "router.yaml")
        said = self.ready("router", child)
        self.addresses["hivenet"] = said["http"]
        agent = AGENT_CONFIG.format(folder=self.folder, engine=self.addresses["direct"], link=said["link"][0].split("//")[-1])
        (self.folder / "agent.yaml").write_text(agent)
        self.start("agent", BIN / "hivenet-agent", "--config", self.folder / "agent.yaml")
        self.configs["router"], self.configs["agent"] = router, agent
        chat = json.dumps({"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]})
        try:
            wait_for("a chat through router and agent", lambda: ask(said["http"], "POST", "/v1/chat/completions", chat)[0] == 200)
        except Failed as failure:
            raise Failed(f"{failure}\nrouter: {self.log_of('router')}\nagent: {self.log_of('agent')}") from None

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
