"""Every route there is, made from the tables of docs/http-api.md and docs/admin-api.md: HEAD, query strings, and that no other spelling of
a path gets around its key.

The naive variants these fail on: a route that forgot HEAD, a key that is taken from the query, a comparison of paths that is more (or
less) forgiving where it decides about keys than where it decides about routes, a field by which a proxy renames a path.
"""
import collections
import pathlib
import re

import pytest

from conftest import ADMIN_KEY, Stack, wait_for
from test_dynamic_keys import DYNAMIC, ONE, put
from test_hostile import read_all

TOP = pathlib.Path(__file__).resolve().parents[2]
METHODS = ("GET", "POST", "PUT", "DELETE")
OPEN = ("/health", "/health/ready")


def of_page(name):
    """[(method, path)] of the tables whose first column holds routes; several may share a line, and methods a path."""
    found = []
    for line in (TOP / "docs" / name).read_text().splitlines():
        methods = []
        for method, path in re.findall(r"`([A-Z]+)(?: (/[^`]+))?`", line.split("|")[1] if line.startswith("| `") else ""):
            if method not in METHODS:
                break
            methods.append(method)
            if path:
                found += [(each, path) for each in methods]
                methods = []
    return found


CLIENT = [(method, path) for method, path in of_page("http-api.md") if path != "/v1/NAME"]
ADMIN = of_page("admin-api.md")
ALLOWED = ("POST", "/v1/tokenize")
ROUTES = [*CLIENT, ALLOWED, *ADMIN]
METHODS_OF = collections.defaultdict(list)
for _method, _path in ROUTES:
    METHODS_OF[_path].append(_method)

Answer = collections.namedtuple("Answer", "status fields body")


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    """In mode dynamic with one client key, one agent, a route allowed by name."""
    s = Stack(tmp_path_factory.mktemp("every-route"))
    s.secrets.add(ONE)
    try:
        s.engine = s.start_engine("--model", "sim-model")
        s.start_router("--allow-route", "tokenize", env=DYNAMIC)
        s.agent = s.start_agent(s.engine)
        assert put(s, "one", "1", ONE).status_code == 200
        yield s
    finally:
        s.stop()


def send(stack, method, target, *fields):
    """The answer to a request without a body, whose connection ends with it."""
    wire = f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + "".join(f + "\r\n" for f in fields) + "\r\n"
    with stack.dial() as s:
        s.sendall(wire.encode("latin-1"))
        raw = read_all(s)
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    return Answer(int(lines[0][9:12]), {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}, body)


def filled(stack, path):
    """With an argument that exists."""
    for name, value in (("/:peer_id", stack.agent.peer_id), ("plugins/:name", "storage_lmdb"), ("/*model", "sim-model"), ("/*name", "sim-model"), ("/:id", "one")):
        path = path.replace(name, name.split("/")[0] + "/" + value)
    assert ":" not in path and "*" not in path, path
    return path


def key_of(path):
    return () if path in OPEN else (f"Authorization: Bearer {ADMIN_KEY if path.startswith('/admin/') else ONE}",)


def state(stack):
    """What a request that got through would have changed."""
    rows = stack.table()
    return (stack.engine.state()["chats"], stack.admin("/admin/api-keys").json(), stack.admin("/admin/policy/models").json(),
            stack.admin("/admin/agents/revoked").json(), {peer: row["status"]["standing"] for peer, row in rows.items()})


def test_the_pages_have_the_routes_of_the_tables_with_their_methods():
    """What is not on the pages would be missing from all of this."""
    source = (TOP / "kernel" / "admin" / "api.cpp").read_text()
    constants = dict(re.findall(r'constexpr std::string_view (\w+) = "(/admin/[^"]+)"', source))
    rows = re.findall(r'^ +\{"([A-Z]+)", (?:"[^"]+"|\w+), (?:"([^"]+)"|(\w+)),', source, re.M)
    assert sorted(ADMIN) == sorted((method, label or constants[name]) for method, label, name in rows)
    source = (TOP / "kernel" / "gateway" / "routes.cpp").read_text()
    table = source.split("table = {{")[1].split("}};")[0]
    rows = re.findall(r'\b(get|post)\((?:route_kind::\w+, )?"(/[^"]+)"', table)
    assert len(rows) + 1 == int(re.search(r"std::array<route, (\d+)> table", source)[1]), "and one for /admin"
    assert sorted(CLIENT) == sorted((method.upper(), path + "*model" * path.endswith("/")) for method, path in rows)


@pytest.mark.parametrize("path", METHODS_OF)
def test_head_is_get_without_its_body_and_is_refused_where_there_is_no_get(router, path):
    target, key = filled(router, path), key_of(path)
    headed = send(router, "HEAD", target, *key)
    assert headed.body == b"" and int(headed.fields["content-length"]) > 0
    if "GET" not in METHODS_OF[path]:
        assert headed.status == 405 and sorted(headed.fields["allow"].split(", ")) == sorted(METHODS_OF[path])
        return
    got = send(router, "GET", target, *key)
    assert headed.status == got.status and got.status in (200, 404), got
    assert len(got.body) == int(got.fields["content-length"])
    assert set(headed.fields) == set(got.fields) and headed.fields["content-type"] == got.fields["content-type"]
    if not path.startswith("/admin/"):  # those have numbers that move
        assert got.status == 200 and headed.fields["content-length"] == got.fields["content-length"]
    refused = send(router, "HEAD", target)
    assert (refused.status, refused.body) == (got.status if path in OPEN else 401, b"")


@pytest.mark.parametrize("method,path", ROUTES)
def test_a_query_string_opens_nothing_and_closes_nothing(router, method, path):
    before = state(router)
    target = filled(router, path)
    queries = ["?x=1", "?", "?x=1&x=2", "?%00", *(f"?{name}={key}" for key in (ADMIN_KEY, ONE) for name in ("key", "api_key", "x-api-key", "access_token", "authorization"))]
    for query in ["", *queries]:
        for each in (method, *(["HEAD"] if method == "GET" else [])):
            answer = send(router, each, target + query)
            assert answer.status == (200 if path in OPEN else 401), (each, query, answer)
        if method == "GET":
            assert send(router, method, target + query, *key_of(path)).status == send(router, method, target, *key_of(path)).status, query
    assert state(router) == before


def spellings(path):
    """Other ways to write a path that some server would take for it."""
    hex_of = lambda text: "".join(f"%{ord(c):02x}" for c in text)
    first, rest = path[1], path[2:]
    yield from (path.upper(), "/" + first.upper() + rest, path.title())
    yield from (path + "/", path + "//", "/" + path, path.replace("/", "//"), path[:1] + path[1:].replace("/", "//", 1))
    yield from (path + "/.", "/." + path, path.replace("/", "/./"), path + "/x/..", "/x/.." + path)
    yield from (prefix + dots + path for prefix in ("/health", "/v1", "/v1/models", "/v1/models/sim-model", "/admin") for dots in ("/..", "/%2e%2e", "/..;"))
    yield from ("/" + hex_of(first) + rest, "/" + hex_of(path[1:]), "/" + hex_of(path[1:]).replace("%", "%25"), path.replace("/", "%2f"),
                "/%2f" + path[1:], path[:1] + path[1:].replace("/", "%2F"), "\\" + path[1:], path[:1] + path[1:].replace("/", "\\"),
                path[:1] + path[1:].replace("/", "%5c"), path + "%2f", path + "%5c")
    yield from (path + end for end in ("%00", "%20", "%09", "%0d%0a", ";x=1", ".json", "~", "#x", ",", ":80"))
    yield from ("http://x" + path, "x" + path, "/x:80" + path, "//x" + path)


@pytest.mark.parametrize("method,path", [route for route in ROUTES if route[1] not in OPEN])
def test_no_spelling_of_a_path_gets_around_its_key(router, method, path):
    """Without a key, with a key for other paths, or by fields that speak of another path."""
    before = state(router)
    target = filled(router, path)
    other = f"Authorization: Bearer {ONE if path.startswith('/admin/') else ADMIN_KEY}"
    through = []
    for spelling in {target, *spellings(target), *spellings(target.replace(router.agent.peer_id, "x"))}:
        for fields in ((), (other,)):
            answer = send(router, method, spelling, *fields)
            if not 400 <= answer.status < 500:
                through.append((spelling, fields, answer))
    assert not through
    for each in ("OPTIONS", "TRACE", "PATCH", "CONNECT", method.lower(), method + "X"):
        assert 400 <= send(router, each, target).status < 500, each
    for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri", "X-HTTP-Method-Override"):
        answer = send(router, "GET", "/health", f"{name}: {method if name.endswith('Override') else target}")
        assert (answer.status, answer.body) == (200, b'{"status":"ok"}'), name
    assert state(router) == before


def test_what_was_refused_is_in_no_label(router):
    """Naive variant: a path that nobody has, and so any text, is a series of its own."""
    send(router, "GET", "/%61dmin/health")
    wait_for("it is counted", lambda: [k for k in router.metrics() if 'route="unmatched"' in k])
    labels = {found for k in router.metrics() for found in re.findall(r'route="([^"]*)"', k)}
    assert labels <= {path for _, path in ROUTES} | {"unmatched", "/admin"}, labels
