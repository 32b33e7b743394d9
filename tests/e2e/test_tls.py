"""The router's listeners with TLS: real clients over https, certificates changed under load, /admin and metrics apart.

The naive variants these fail on: a certificate that is read once; one that is replaced by closing what is open; a bad new pair that
takes the listener down; an admin listener that still leaves /admin on the clients' port, or that lets anybody in who has the key.
"""
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import httpx
import openai
import pytest

from certificates import Authority
from conftest import ADMIN_KEY, BIN, wait_for

MESSAGES = [{"role": "user", "content": "write about the river"}]
BEARER = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
def authority(tmp_path, monkeypatch):
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))  # what the stack itself trusts
    return made


@pytest.fixture
def live(stack, authority):
    """The files that a router reads; put() replaces them."""
    stack.cert, stack.key = stack.folder / "live.pem", stack.folder / "live.key"

    def put(certificate, key):
        for source, to in ((key, stack.key), (certificate, stack.cert)):
            fresh = to.with_suffix(".fresh")
            shutil.copy(source, fresh)
            fresh.chmod(0o600)
            fresh.rename(to)

    stack.put, stack.authority = put, authority
    put(*authority.sign("first"))
    stack.flags = ["--tls-cert-file", stack.cert, "--tls-key-file", stack.key]
    return stack


@pytest.fixture
def secured(live):
    live.engine = live.start_engine("--model", "sim-model")
    live.start_router(*live.flags)
    live.agent = live.start_agent(live.engine)
    return live


def refused_to_start(stack, *args):
    done = subprocess.run([BIN / "hivenet-router", "--http-port", "127.0.0.1:0", "--metrics-port", "127.0.0.1:0", "--disk-db-path", stack.folder / "other",
                           *map(str, args)], capture_output=True, text=True, timeout=20, cwd=stack.folder,
                          env={"HIVENET_ROUTER_AUDIT_LOG_PATH": "off", "HIVENET_ROUTER_ADMIN_API_KEYS": ADMIN_KEY})
    assert done.returncode in (1, 2), done.stderr
    return done.stderr


def serial_shown(place, ca):
    with socket.create_connection(place, timeout=10) as s:
        with ssl.create_default_context(cafile=ca).wrap_socket(s, server_hostname="localhost") as secure:
            return secure.getpeercert()["serialNumber"]


def test_the_openai_client_over_https_streams_and_leaves(secured):
    """With the authority as its only trust. Naive variant: what is written waits for a full record, or a close is not seen in TLS."""
    trust = ssl.create_default_context(cafile=secured.authority.ca)
    gpt = openai.OpenAI(base_url=secured.url + "/v1", api_key="none", max_retries=0, timeout=20, http_client=httpx.Client(verify=trust))
    assert secured.url.startswith("https://") and "sim-model" in {m.id for m in gpt.models.list()}
    answer = gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=5)
    assert answer.usage.completion_tokens == 5
    secured.engine.faults(step_ms=60)
    begin, arrivals = time.monotonic(), []
    for chunk in gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=10, stream=True):
        if chunk.choices and chunk.choices[0].delta.content:
            arrivals.append(time.monotonic() - begin)
    gaps = [b - a for a, b in zip(arrivals, arrivals[1:])]
    assert len(arrivals) == 10 and sorted(gaps)[len(gaps) // 2] > 0.03, "each came when it was made, not all at the end"
    before = secured.engine.state()["aborted"]
    stream = gpt.chat.completions.create(model="sim-model", messages=MESSAGES, max_tokens=10_000, stream=True)
    next(iter(stream))
    stream.close()
    wait_for("the engine's request is aborted", lambda: secured.engine.state()["aborted"] == before + 1, limit=3)


def test_strangers_to_the_authority_old_versions_and_plain_http_get_nothing(secured):
    with pytest.raises(httpx.ConnectError):
        httpx.get(secured.url + "/health", verify=ssl.create_default_context(cafile=Authority(secured.folder, "other").ca))
    where = "%s:%d" % secured.place

    def shake(*version):
        done = subprocess.run(["openssl", "s_client", "-connect", where, "-CAfile", secured.authority.ca, "-verify_return_error", "-cipher",
                               "ALL:@SECLEVEL=0", *version], input="", capture_output=True, text=True, timeout=20)
        return done.returncode == 0 and "Verify return code: 0" in done.stdout, done.stdout + done.stderr

    for old in ("-tls1", "-tls1_1"):
        fine, said = shake(old)
        assert not fine and "alert protocol version" in said, said
    for new in ("-tls1_2", "-tls1_3"):
        fine, said = shake(new)
        assert fine, said
    plain = httpx.get("http://" + where + "/health")
    assert plain.status_code == 400 and "https://" in plain.json()["error"]["message"]
    wait_for("they are counted", lambda: secured.metric("http_connections_refused_total", listener="client", reason="tls_handshake") >= 3)


def test_certificates_change_under_load_and_no_request_fails(secured):
    """Naive variants: the listener is closed for a moment; open connections are; half a pair is read while the files change."""
    second = secured.authority.sign("second")
    first = shutil.copy(secured.cert, secured.folder / "kept.pem"), shutil.copy(secured.key, secured.folder / "kept.key")
    trust = ssl.create_default_context(cafile=secured.authority.ca)
    failed, done, stop = [], [], threading.Event()
    body = {"model": "sim-model", "messages": MESSAGES, "max_tokens": 3, "stream": True}

    def ask(kept):
        client = httpx.Client(verify=trust, timeout=20) if kept else None
        while not stop.is_set():
            try:
                answer = (client or httpx).post(secured.url + "/v1/chat/completions", json=body, **({} if client else {"verify": trust, "timeout": 20}))
                (done if answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n") else failed).append(answer.text)
            except httpx.HTTPError as error:
                failed.append(repr(error))

    threads = [threading.Thread(target=ask, args=(kept,)) for kept in (True, True, False, False)]
    for t in threads:
        t.start()
    shown, serials = serial_shown(secured.place, secured.authority.ca), set()

    def other_than(was):
        now = serial_shown(secured.place, secured.authority.ca)
        return now if now != was else None

    for number in range(8):
        secured.put(*(second if number % 2 == 0 else first))
        secured.router.child.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: secured.metric("hivenet_router_tls_reload_total", result="success") == number + 1)
        shown = wait_for("the other one is shown", lambda: other_than(shown))
        serials.add(shown)
    stop.set()
    for t in threads:
        t.join(30)
    assert not failed, failed[:3]
    assert len(done) > 20 and len(serials) == 2


def test_a_bad_new_pair_changes_nothing_and_is_told(secured):
    other = secured.authority.sign("other")
    was = serial_shown(secured.place, secured.authority.ca)
    for certificate, key, said in ((other[0], secured.key, "is not the key of the certificate"), (secured.folder / "ca.key", other[1], "no certificate can be read"),
                                   (None, None, "cannot be opened")):
        if certificate is None:
            secured.cert.unlink()
        else:
            secured.put(certificate, key)
        before = secured.metric("hivenet_router_tls_reload_total", result="error")
        secured.router.child.send_signal(signal.SIGHUP)
        wait_for("refused", lambda: secured.metric("hivenet_router_tls_reload_total", result="error") == before + 1)
        assert "the certificates stay as they were" in secured.router.log() and said in secured.router.log()
        assert serial_shown(secured.place, secured.authority.ca) == was
    expiry = secured.metric("hivenet_router_tls_certificate_expiry_timestamp_seconds", listener="client")
    assert 0 < expiry - time.time() <= 86_400
    secured.put(*other)
    secured.router.child.send_signal(signal.SIGHUP)
    wait_for("a good one is taken", lambda: serial_shown(secured.place, secured.authority.ca) != was)


def test_admin_and_metrics_have_listeners_of_their_own_with_client_certificates(live):
    operators = Authority(live.folder, "operators")
    badge, foreign = operators.sign("alice", "DNS:alice"), live.authority.sign("mallory", "DNS:mallory")
    live.start_router(*live.flags, "--admin-listen", "127.0.0.1:0", "--admin-tls-client-ca-file", operators.ca, "--metrics-tls")
    admin, clients = "https://" + live.router.said["admin"], live.url
    metrics = live.metrics_url.replace("http:", "https:")

    def trust(shown=None):
        made = ssl.create_default_context(cafile=live.authority.ca)
        if shown:
            made.load_cert_chain(*shown)
        return made

    assert httpx.get(admin + "/admin/health", headers=BEARER, verify=trust(badge)).status_code == 200
    assert httpx.get(admin + "/admin/health", verify=trust(badge)).status_code == 401, "the key is needed as well"
    assert httpx.get(admin + "/health", verify=trust(badge)).status_code == 200
    assert httpx.get(admin + "/v1/models", headers=BEARER, verify=trust(badge)).status_code == 404
    for shown in (None, foreign):
        with pytest.raises(httpx.TransportError):
            httpx.get(admin + "/admin/health", headers=BEARER, verify=trust(shown))
    hidden = httpx.get(clients + "/admin/health", headers=BEARER, verify=trust(badge))
    assert hidden.status_code == 404 and hidden.json()["error"]["code"] == "not_found"
    assert httpx.get(clients + "/v1/models", verify=trust()).status_code == 200
    page = lambda: httpx.get(metrics, verify=trust()).text
    wait_for("both are counted, which is after they were told", lambda: 'http_connections_refused_total{listener="admin",reason="tls_handshake"} 2' in page())
    assert 'hivenet_router_tls_certificate_expiry_timestamp_seconds{listener="admin"}' in page()
    plain = httpx.get(live.metrics_url)
    assert plain.status_code == 400 and "https://" in plain.json()["error"] and "hivenet_router" not in plain.text


def test_admin_apart_without_tls(stack):
    stack.start_router("--admin-listen", "127.0.0.1:0")
    admin = "http://" + stack.router.said["admin"]
    assert stack.admin("/admin/health").status_code == 404
    assert httpx.get(admin + "/admin/health", headers=BEARER).status_code == 200
    assert httpx.get(admin + "/admin/health").status_code == 401
    assert httpx.get(admin + "/v1/models").status_code == 404
    assert stack.router.stop() == 0


def test_a_start_without_the_tls_that_was_asked_for_is_refused(live):
    other = live.authority.sign("other")
    cases = ((["--tls-cert-file", live.cert], "go together"), (["--tls-cert-file", live.cert, "--tls-key-file", other[1]], "is not the key of"),
             (["--tls-cert-file", live.folder / "none", "--tls-key-file", live.key], "cannot be opened"), (["--metrics-tls"], "needs a certificate"),
             ([*live.flags, "--admin-listen", "127.0.0.1:0", "--admin-tls-client-ca-file", live.key], "no certificate authorities"))
    for flags, said in cases:
        assert said in refused_to_start(live, *flags), flags
        assert said in refused_to_start(live, *flags, "--check-config"), flags


def test_a_key_that_others_may_read_is_warned_about(live):
    live.key.chmod(0o644)
    live.start_router(*live.flags)
    assert "can be used by its group or by others" in live.router.log()
    assert live.router.log().count(str(live.key)) >= 1 and "PRIVATE" not in live.router.log()


def test_idle_secured_connections_cost_little(secured):
    """Naive variant: OpenSSL's buffers, or Asio's copies of them, stay with each connection: 34 KiB and more."""
    def open_one():
        s = secured.dial()
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
        return s

    warm = [open_one() for _ in range(50)]
    before = secured.router.memory_kib()
    idle = [open_one() for _ in range(400)]
    each = (secured.router.memory_kib() - before) / len(idle)
    print(f"an idle connection with TLS costs {each:.1f} KiB")
    assert each < 30
    assert httpx.get(secured.url + "/health").status_code == 200
    for s in warm + idle:
        s.close()


def test_a_drain_works_as_without_tls(secured):
    """The stream that runs is finished, whoever is idle is told, and the exit is clean."""
    secured.engine.faults(step_ms=30)
    idle = secured.dial()
    idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.recv(4096).startswith(b"HTTP/1.1 200")
    with httpx.stream("POST", secured.url + "/v1/chat/completions", json={"model": "sim-model", "messages": MESSAGES, "max_tokens": 30, "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        secured.router.child.terminate()
        rest = list(lines)
    assert "data: [DONE]" in rest
    assert idle.recv(4096) == b"", "its end is said"
    assert secured.router.child.wait(15) == 0
