"""Request content (README.md, Line by line), end to end; the reader's own tests are kernel/gateway/request_scan_test.cpp."""
import hashlib
import json
import urllib.parse

import httpx
import pytest

from conftest import audit_of, wait_for
from raw import Client, completion, whole

ODD_MODELS = ["org/Model-7B:latest", "with space and %41", "ünïcode-модель-模型", "..", "a/../b", "x?y#z&w=1", "dots...", '"quoted"']


def test_model_ids_are_bytes(stack):
    """Slashes, colons, spaces, percent signs, dots, any script: routable and shown by exactly that id, in a path decoded once.

    Naive variants: the id is split at slashes; dot segments are resolved; it is decoded twice (%41 becomes A); case is folded.
    """
    engine = stack.start_engine(*[part for m in ODD_MODELS for part in ("--model", m)])
    stack.start_router()
    stack.start_agent(engine)
    assert [m["id"] for m in httpx.get(stack.url + "/v1/models").json()["data"]] == sorted(ODD_MODELS) or \
        {m["id"] for m in httpx.get(stack.url + "/v1/models").json()["data"]} == set(ODD_MODELS)
    for model in ODD_MODELS:
        answer = stack.chat(model=model, max_tokens=1)
        assert answer.status_code == 200 and answer.json()["model"] == model, model
        path = "/v1/models/" + urllib.parse.quote(model, safe="")
        with httpx.Client() as client:
            raw = client.build_request("GET", stack.url)
            raw.url = httpx.URL(stack.url).copy_with(raw_path=path.replace("..", "%2E%2E").encode())
            shown = client.send(raw)
        assert shown.status_code == 200 and shown.json()["id"] == model, (model, shown.text)
    for near in ("Org/model-7b:latest", "with space and A", "with space and %2541"):
        assert stack.chat(model=near).status_code == 404, near
    assert "org/Model-7B:latest" in stack.chat(model="org/Model-7B:lates").json()["error"]["message"]


SENT = {
    "null is absent": b'{"model":"sim-model","stream":null,"max_tokens":null,"stream_options":null,"messages":[]}',
    "text for a boolean": b'{"model":"sim-model","stream":"true","max_tokens":3,"messages":[]}',
    "text for a number": b'{"model":"sim-model","max_tokens":"128","messages":[]}',
    "an exponent": b'{"model":"sim-model","max_tokens":1e1,"messages":[]}',
    "twenty digits": b'{"model":"sim-model","max_completion_tokens":3,"max_tokens":12345678901234567890,"messages":[]}',
    "white space and BOM": b'\xef\xbb\xbf \r\n\t{ "model" : "sim-model" , "messages" : [ ] }\n ',
    "an escaped key": b'{"mod\\u0065l":"sim-model","messages":[]}',
    "fields inside others": b'{"messages":[{"role":"user","content":"\\"model\\":\\"other\\",\\"stream\\":true"}],"x":{"model":"other","stream":true},"model":"sim-model"}',
    "escapes of every kind": '{"model":"sim-model","messages":[{"role":"user","content":"\\u00e9 \\ud83d\\ude42 \\/ é🙂"}]}'.encode(),
    "numbers that lose digits in a double": b'{"model":"sim-model","seed":9007199254740993,"temperature":0.10000000000000000001,"messages":[]}',
}


def test_bodies_reach_the_engine_byte_for_byte(simple):
    """What is odd is the engine's to judge. Naive variant: the body is parsed and written again: digits, escapes and order change."""
    for name, body in SENT.items():
        answer = httpx.post(simple.url + "/v1/chat/completions", content=body)
        assert answer.headers["content-type"].startswith("application/json"), f"{name}: taken for a stream"
        seen = simple.engine.requests()[-1]
        assert seen["body_sha256"] == hashlib.sha256(body).hexdigest(), (name, seen.get("body"))
        assert answer.status_code in (200, 400) and "router" not in answer.text, (name, answer.text)


def test_negative_and_huge_limits_leave_the_load_alone(simple):
    """No odd number makes a count negative, or the agent look full. Naive variant: the declared limit is added to the load unchecked."""
    for limit in ("-1", "-99999999999", "1e308", "18446744073709551616", "0"):
        body = f'{{"model":"sim-model","max_tokens":{limit},"messages":[]}}'
        assert httpx.post(simple.url + "/v1/chat/completions", content=body).status_code in (200, 400), limit
        wait_for("nothing is left of it", lambda: simple.row(simple.agent.peer_id)["status"]["active_requests"] == 0)
    assert simple.chat(max_tokens=1).status_code == 200


@pytest.mark.parametrize("body,where", [
    (b'{"model":"sim-model"}x', 21),
    (b'x{"model":"sim-model"}', 0),
    (b'\xef\xbb\xbf\xef\xbb\xbf{"model":"sim-model"}', 3),
])
def test_what_stands_outside_of_the_value_is_refused_with_its_offset(simple, body, where):
    """Naive variant: the reader stops at the closing brace and the engine reads another request than the router."""
    answer = httpx.post(simple.url + "/v1/chat/completions", content=body)
    assert answer.status_code == 400 and str(where) in answer.json()["error"]["message"], answer.text
    assert simple.engine.state()["chats"] == 0


@pytest.mark.parametrize("key", ["model", "stream", "max_tokens", "max_completion_tokens", "user", "stream_options"])
def test_a_key_that_is_read_may_occur_once(simple, key):
    """Twice, also when one of them is escaped, router and engine may read different ones. Other keys are the engine's business."""
    values = {"model": '"sim-model"', "stream": "false", "user": '"u"', "stream_options": "{}"}
    value = values.get(key, "5")
    escaped = "\\u%04x" % ord(key[0]) + key[1:]
    start = '{"messages":[],' + ("" if key == "model" else '"model":"sim-model",')
    for second in (key, escaped):
        body = f'{start}"{key}":{value},"{second}":{value}}}'
        answer = httpx.post(simple.url + "/v1/chat/completions", content=body)
        assert answer.status_code == 400 and key in answer.json()["error"]["message"], (body, answer.text)
    body = f'{start}"{key}":{value},"top_p":1,"top_p":1}}'
    json.loads(body)
    assert httpx.post(simple.url + "/v1/chat/completions", content=body).status_code == 200


SPELLINGS = {"capital": '"Model"', "capitals": '"MODEL"', "escaped": '"\\u004dodel"', "long s": '"\u017ftream"', "kelvin": '"max_to\\u212aens"',
             "prompt": '"Messages"', "options": '"stream_options":{"Include_usage":true},"x"'}


def test_a_key_that_is_read_has_one_spelling(simple):
    """Engines in Go (Ollama) fold names and take the last: another model than the key's rules saw. Naive variant: keys are compared byte by byte."""
    for name, key in SPELLINGS.items():
        answer = httpx.post(simple.url + "/v1/chat/completions", content=('{"model":"sim-model","messages":[],%s:"other"}' % key).encode())
        assert answer.status_code == 400 and 'write "' in answer.json()["error"]["message"], (name, answer.text)
    assert simple.engine.requests() == []


def test_an_engine_is_told_json_and_its_name_for_the_model_matters_to_nobody(stack, engines):
    """vLLM answers 400 to a body without Content-Type, which many clients leave out; engines answer with names of their own (a file, an
    adapter). Naive variant: fields are passed on as they came; a reply about another model is refused, or counted as that model's.
    """
    named = completion().replace(b"{", b'{"model": "/models/sim.gguf", ', 1)
    engine = engines(lambda chat: chat.send(whole(named)) or True)
    stack.start_router()
    stack.start_agent(engine)
    body = b'{"model":"sim-model","messages":[{"role":"user","content":"hello"}]}'
    with Client(stack, wire=b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as client:
        client.finish()
    assert client.status == 200 and json.loads(client.payload)["model"] == "/models/sim.gguf"
    head = engine.chats[-1].head.lower()
    assert head.count(b"content-type:") == 1 and b"\r\ncontent-type: application/json\r\n" in head
    assert audit_of(stack, client)["model"] == "sim-model"
