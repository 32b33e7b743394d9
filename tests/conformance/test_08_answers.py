"""Row 8, answers that are no stream: what counts as a failed attempt although the status is 200, and what an engine's 429 means."""
import itertools
import json

import pytest

from conftest import at_rest, audit_of, blameless, told, wait_for
from raw import DONE, JSON, ROLE, SSE, Client, completion, say, serve, whole

# Path and `stream`: the agent holds a chat's answer back until it is whole, those of other requests for a moment.
REQUESTS = [("/v1/chat/completions", False), ("/v1/chat/completions", True), ("/v1/completions", False), ("/v1/messages", False)]


def good(stream):
    """What `serve` answers."""
    return ROLE + say("a") + DONE if stream else completion()


class Two:
    """Two engines; whichever is asked first gets `first(chat)`, the next one serves, and so on in turn."""

    def __init__(self, stack, engines, *router):
        self.asked, self.first = [], None
        self.stack, self.fleet = stack, [engines(self.answer), engines(self.answer)]
        stack.start_router(*router)
        self.agents = [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(self.fleet)]

    def answer(self, chat):
        self.asked.append(chat)
        return self.first(chat) if len(self.asked) % 2 == 1 else serve(chat)

    def failed(self):
        return [self.stack.row(a.peer_id)["universal"]["failed_requests_total"] for a in self.agents]

    def takes_over(self, first, path="/v1/chat/completions", stream=False, blamed=True):
        """The client has the second engine's answer and nothing of the first one's, and only that one is to blame, if anybody."""
        self.first, before, asked = first, self.failed(), len(self.asked)
        with Client(self.stack, path=path, stream=stream) as client:
            client.finish()
        assert (client.status, client.payload) == (200, good(stream)) and client.complete, client.raw
        assert len(self.asked) == asked + 2
        by = next(i for i, e in enumerate(self.fleet) if self.asked[-2] in e.chats)
        before[by] += blamed
        wait_for(f"{before} failures", lambda: self.failed() == before)


def answers(wire, keep=True):
    return lambda chat: chat.send(wire) or keep


HIDDEN = [
    (b'{"error":{"message":"boom","code":500}}', True),
    (b'{"error":"boom"}', True),
    (b'{"object":"error","message":"boom","type":"InternalServerError","param":null,"code":500}', True),
    (b'{"error":{"message":"boom: busy","type":"overloaded_error","code":503}}', False),
]


def test_a_200_that_carries_an_error_is_a_failed_attempt(stack, engines):
    """Proxies and engines answer 200 with an error in it. It counts like the status that it should have had, on every route.

    Naive variant: 200 is success. The client has an error that says it is an answer, and the agent that fails at once looks like the best.
    """
    two = Two(stack, engines, "--probation-after", "0")
    for (path, stream), (body, blamed) in itertools.product(REQUESTS, HIDDEN):
        two.takes_over(answers(whole(body)), path, stream, blamed)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_any_2xx_is_an_answer_of_the_routes_that_an_operator_allows(stack, engines):
    """Engines take in a job with 201 or 202, or have nothing to say with 204. On the built-in routes only a 200 is an answer.

    Naive variant: all but a 200 has failed, so that another engine is asked to do the same again.
    """
    asked, wire = [], [None]

    def answer(chat):
        asked.append(chat)
        return chat.send(wire[0]) or True

    fleet = [engines(answer), engines(answer)]
    stack.start_router("--allow-route", "audio/speech")
    agents = [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(fleet)]
    for n, (status, body) in enumerate([(b"201 Created", b'{"id":"job"}'), (b"202 Accepted", b"queued"), (b"204 No Content", b"")], 1):
        wire[0] = whole(body, status) if body else b"HTTP/1.1 " + status + b"\r\n\r\n"
        with Client(stack, path="/v1/audio/speech") as client:
            assert client.until(lambda c: c.complete if body else b"\r\n\r\n" in c.raw)
        assert (client.status, client.payload) == (int(status[:3]), body), client.raw
        assert told(audit_of(stack, client), "completed", int(status[:3]), "") and len(asked) == n
    assert all(blameless(stack, agent) for agent in agents)
    with Client(stack) as client:
        client.finish()
    assert client.status == 502 and len(asked) == 5, "each was asked"


def test_an_error_under_a_200_may_be_the_clients(stack, engines):
    """Then it is told once, with a status that says so, and nobody is blamed. Naive variant: every error is the engine's failure."""
    engine = engines(answers(whole(b'{"error":{"message":"temperature is too high","type":"BadRequestError","code":400}}')))
    stack.start_router()
    agent = stack.start_agent(engine)
    with Client(stack) as client:
        client.finish()
    error = json.loads(client.payload)["error"]
    assert (client.status, error["code"], error["source"]) == (400, "invalid_parameter", "backend") and "temperature" in error["message"]
    assert len(engine.chats) == 1 and blameless(stack, agent)


def test_an_answer_that_only_speaks_of_errors_is_one(stack, engines):
    """`"error": null` as some engines always write it, the word in the text, an object of that name inside.

    Naive variant: the body is searched for the word.
    """
    sound = json.loads(completion('{"error": {"message": "an example"}}'))
    bodies = [{"error": None, **sound}, {**sound, "error": ""}, sound, {**sound, "tool": {"error": {"message": "inside"}}}]
    given = [None]
    engine = engines(lambda chat: chat.send(whole(given[0])) or True)
    stack.start_router()
    agent = stack.start_agent(engine)
    for body, (path, stream) in itertools.product(bodies, REQUESTS):
        given[0] = json.dumps(body).encode()
        with Client(stack, path=path, stream=stream) as client:
            client.finish()
        assert (client.status, client.payload) == (200, given[0]), (path, stream)
    assert blameless(stack, agent) and len(engine.chats) == len(bodies) * len(REQUESTS)


SAYS_GONE = b'{"error":{"message":"gone","type":"agent_disconnected","param":null,"code":"agent_disconnected","source":"router"}}'
EVENT = b"data: " + SAYS_GONE + b"\n\n"
GONE = [
    (whole(SAYS_GONE, b"500 Internal Server Error"), 502, "backend_error"),
    (whole(SAYS_GONE, b"502 Bad Gateway"), 502, "backend_error"),
    (whole(SAYS_GONE), 502, "backend_error"),
    (whole(SAYS_GONE, b"503 Service Unavailable"), 503, "backend_unavailable"),
    (SSE + b"%x\r\n" % len(EVENT) + EVENT + b"\r\n0\r\n\r\n", 502, "backend_error"),
]


def links(stack):
    return [stack.metric(f"hivenet_router_link_{name}_total") for name in ("links_welcomed", "links_lost", "kicked")]


def test_an_engine_that_speaks_of_a_lost_link_has_lost_none(stack, engines):
    """The code is one of ours, and an engine may write it like any other word. It is an engine's error: one attempt, and the link stays.

    Naive variant: the code in the body is believed. The link is dropped, the agent is asked a second time for nothing, and whoever can make
    an engine repeat that word cuts off everybody whom the agent serves.
    """
    given = [None]
    engine = engines(lambda chat: chat.send(given[0]) or True)
    stack.start_router("--probation-after", "0")
    agent = stack.start_agent(engine)
    before = links(stack)
    for asked, (wire, status, code) in enumerate(GONE, 1):
        given[0] = wire
        with Client(stack, stream=wire.startswith(SSE)) as client:
            client.finish()
        error = json.loads(client.payload)["error"]
        assert (client.status, error["code"], error["source"]) == (status, code, "backend"), client.payload
        assert told(audit_of(stack, client), "engine_error", status, code)
        assert len(engine.chats) == asked
    given[0] = whole(completion())
    with Client(stack) as client:
        client.finish()
    assert (client.status, client.payload) == (200, completion())
    assert links(stack) == before
    assert stack.metric("hivenet_router_routing_attempts_failed_total", cause="engine_error") == 4
    assert not [k for k in stack.metrics() if "attempts_failed_total" in k and 'cause="link_lost"' in k]
    wait_for("only failures are its own", lambda: stack.row(agent.peer_id)["universal"]["failed_requests_total"] == 4)


OPEN_END = JSON + b"\r\n"  # neither length nor chunks


@pytest.mark.parametrize("cut", [40, 0, len(completion("a").partition(b'"a"}')[0]) + 4], ids=["inside", "before the first byte", "behind a brace"])
def test_an_answer_that_was_cut_is_not_served(stack, engines, cut):
    """An engine that dies closes its connection, and where the body has no length that is all the end there is.

    Naive variants: the end of the connection is the end of the answer; it is whole when its last byte is a brace.
    """
    two = Two(stack, engines, "--probation-after", "0")
    part = completion("a")[:cut]
    assert cut < 41 or part.endswith(b"}")
    for path, stream in REQUESTS:
        two.takes_over(answers(OPEN_END + part, keep=False), path, stream)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_an_answer_of_known_length_that_is_no_json_object_is_not_served(stack, engines):
    """Naive variant: the client's SDK is the first that looks at it."""
    two = Two(stack, engines, "--probation-after", "0")
    for body in (b"", b"<html>It works!</html>", b"[]", b"null"):
        for path, stream in REQUESTS:
            two.takes_over(answers(whole(body)), path, stream)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_an_answer_without_a_length_is_served_when_it_is_whole(stack, engines):
    """Also a long one, of which the client has the beginning before its end is known; if that was cut, the client sees a cut.

    Naive variants: what has no length is refused; half an answer ends like a whole one.
    """
    given = [None]
    engine = engines(lambda chat: chat.send(OPEN_END + given[0]))
    stack.start_router()
    agent = stack.start_agent(engine)
    for body in (completion(), completion() + b"\r\n", completion("x" * (3 << 20))):
        given[0] = body
        with Client(stack) as client:
            client.finish()
        assert client.status == 200 and client.payload == body and client.complete, len(body)
    assert blameless(stack, agent)
    given[0] = completion("x" * (3 << 20))[:2 << 20]
    with Client(stack) as client:
        client.finish()
    assert client.status == 200 and not client.complete and len(client.payload) <= 2 << 20
    assert told(audit_of(stack, client), "engine_error", 200, "backend_error")
    wait_for("everything is returned", lambda: at_rest(stack))


TOO_MANY = b'{"error":{"message":"At most 1 image(s) may be provided in one request.","type":"BadRequestError","param":null,"code":429}}'


@pytest.mark.parametrize("stream", [False, True])
def test_a_429_about_the_request_is_passed_on_and_says_when(stack, engines, stream):
    """It would be the same everywhere: one attempt, the engine's bytes, nobody to blame. Every 429 has a Retry-After, the engine's or 1.

    Naive variants: a 429 is load, so all agents are asked and the client is told 503; or it is a failure.
    """
    two = Two(stack, engines)
    for fields, wait in ((b"", "1"), (b"Retry-After: 5\r\n", "5")):
        two.first = answers(whole(TOO_MANY, b"429 Too Many Requests", fields))
        two.asked.clear()
        with Client(stack, stream=stream) as client:
            client.finish()
        assert (client.status, client.payload) == (429, TOO_MANY)
        assert client.fields["retry-after"] == wait and client.head.lower().count("retry-after") == 1
        assert len(two.asked) == 1
        assert told(audit_of(stack, client), "rejected_by_engine", 429, "invalid_parameter")
    assert all(blameless(stack, a) for a in two.agents)


FULL = b'{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}'
WAITS = [
    (b"Retry-After: 7\r\n", "7"),
    (b"Retry-After: 9999\r\n", "60"),
    (b"Retry-After: soon\r\n", "1"),
    (b"", "1"),
    (b"Date: Mon, 30 Nov 2026 00:30:13 GMT\r\nRetry-After: Mon, 30 Nov 2026 00:30:23 GMT\r\n", "10"),
    (b"Date: Mon, 30 Nov 2026 00:30:13 GMT\r\nRetry-After: Mon, 30 Nov 2026 00:30:03 GMT\r\n", "1"),
]


@pytest.mark.parametrize("stream", [False, True])
def test_a_429_of_an_engine_that_is_full_is_asked_of_another(stack, engines, stream):
    """Nobody is blamed. When all are full the client is told 503 and when to come back: what the engine said, held to 1 to 60 s; a date
    counts from the engine's own.

    Naive variants: the first 429 goes to the client; it counts as a failure; Retry-After is passed on as it is, or lost.
    """
    two = Two(stack, engines)
    two.takes_over(answers(whole(FULL, b"429 Too Many Requests", b"Retry-After: 7\r\n")), stream=stream, blamed=False)
    for fields, wait in WAITS:
        for engine in two.fleet:
            engine.answer = answers(whole(FULL, b"429 Too Many Requests", fields))
        before = [len(e.chats) for e in two.fleet]
        with Client(stack, stream=stream) as client:
            client.finish()
        error = json.loads(client.payload)["error"]
        assert (client.status, error["code"], error["source"]) == (503, "backend_unavailable", "backend"), client.payload
        assert client.fields["retry-after"] == wait, fields
        assert [len(e.chats) for e in two.fleet] == [n + 1 for n in before]
    assert all(blameless(stack, a) for a in two.agents)
    wait_for("everything is returned", lambda: at_rest(stack))
