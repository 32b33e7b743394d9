"""Row 12: no label of a metric comes from a caller unchecked: methods and routes are of closed sets, a model is named only if an agent
serves it, series of what is gone are dropped, and the page says how many there are.
"""
import http.client
import json
import re
import secrets

from conftest import wait_for

LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def page(stack):
    return [line for line in stack.metrics()]


def labels(stack):
    """{label: {values}} of the page."""
    out = {}
    for key in page(stack):
        for name, value in LABEL.findall(key):
            out.setdefault(name, set()).add(value)
    return out


def callers_words(stack, word, rounds):
    """Requests whose every part is a word that nobody has used before."""
    host, port = stack.url[7:].split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    for n in range(rounds):
        w = f"{word}{n}"
        body = json.dumps({"model": f"m-{w}", "user": f"u-{w}", "messages": [{"role": "user", "content": w}], "max_tokens": 1}).encode()
        known = json.dumps({"model": "sim-model", "user": f"u-{w}", "messages": [{"role": "user", "content": w}], "max_tokens": 1}).encode()
        fields = {"Content-Type": f"x/{w}", "User-Agent": w, "X-Session-ID": w, "X-Tenant": w, "X-Request-ID": w, "anthropic-version": w, "Origin": f"http://{w}"}
        for method, path, content in (("POST", "/v1/chat/completions", body), ("POST", f"/v1/chat/completions?{w}", known), ("GET", f"/{w}", None),
                                      ("GET", f"/v1/{w}", None), ("GET", f"/v1/models/{w}", None), (f"X{w}".upper(), "/v1/models", None),
                                      ("DELETE", f"/v1/models/{w}", None), ("GET", f"/admin/{w}", None), ("PUT", f"/admin/policy/models/{w}", b"x"),
                                      ("POST", f"/admin/agents/{w}/drain", b""), ("OPTIONS", f"/{w}", None)):
            connection.request(method, path, body=content, headers=fields)
            answer = connection.getresponse()
            answer.read()
            assert answer.status < 500 or answer.status == 503, (method, path, answer.status)


def test_words_of_callers_are_no_labels_and_make_no_series(simple):
    """Naive variants: the label of a route is its path, of a model what was asked for, of a method what was sent."""
    word = "zq" + secrets.token_hex(4)
    callers_words(simple, word, 3)  # every kind of series that these make exists
    before = page(simple)
    callers_words(simple, word + "x", 60)
    assert not [line for line in page(simple) if word in line.lower()]
    # A histogram of a status that came by chance for the first time is no growth of this kind: 60 rounds of 11 words would be hundreds.
    assert len(page(simple)) - len(before) < 60
    seen = labels(simple)
    assert seen["method"] <= {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "OTHER"} and "OTHER" in seen["method"]
    assert {"sim-model", "__unknown__"} <= seen["model"] and "unmatched" in seen["route"]
    assert not [r for r in seen["route"] if not re.fullmatch(r"unmatched|/health(/ready)?|/admin|/(v1|admin)/[a-z_*:/-]+", r)]


def test_the_page_counts_its_series(simple):
    lines = page(simple)
    histograms = {re.sub(r'(,?)le="[^"]*"', "", line.replace("_bucket", "")) for line in lines if "_bucket{" in line}
    parts = [line for line in lines if "_bucket{" in line or any(line.startswith(re.split(r"[{]", h)[0] + end) for h in histograms for end in ("_sum", "_count"))]
    counted = simple.metric("hivenet_router_metrics_series")
    assert abs(counted - (len(lines) - len(parts) + len(histograms))) <= 3, "a series may come between two scrapes"


def test_what_is_gone_takes_its_series_with_it(stack):
    """Naive variant: a series once made stays until the router's end, so agents that come and go fill the page."""
    stack.engine = stack.start_engine("--model", "sim-model")
    stack.start_router("--remove-after", "2s", "--unhealthy-after", "1500ms", "--heartbeat-interval", "100ms", "--health-check-interval", "100ms")
    sizes = []
    for number in range(3):
        agent = stack.start_agent(stack.engine, identity=f"agent-{number}.key")
        assert stack.chat(max_tokens=1).status_code == 200
        assert any(agent.peer_id in line for line in page(stack))
        assert agent.stop() == 0
        wait_for("nothing of it is left", lambda: not [line for line in page(stack) if agent.peer_id in line], limit=30)
        wait_for("nor of its model", lambda: not [line for line in page(stack) if 'model="sim-model"' in line], limit=30)
        sizes.append(stack.metric("hivenet_router_metrics_series"))
    assert max(sizes) - sizes[0] <= 5, sizes
