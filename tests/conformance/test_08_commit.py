"""Row 8: retries end with the first content; a failure after it is told in the stream; an engine's no is an answer.
Retries are bounded for each model."""
import json
import threading
import time

import pytest

from conftest import answered, at_rest, audit_of, blameless, outcome, told, wait_for
from raw import DONE, ERROR, ROLE, SSE, STOP, Client, event, say, whole

GOOD = [ROLE, say("good "), say("answer"), STOP, DONE]


def streams(*parts, clean=True):
    def answer(chat):
        chat.send(SSE)
        for part in parts:
            chat.chunk(part)
        if clean:
            chat.last_chunk()
        return clean
    return answer


def two_agents(stack, engines, first):
    """The first answer of whichever engine is asked first is `first`, then both are good."""
    asked = []

    def answer(chat):
        asked.append(chat)
        return first(chat) if len(asked) == 1 else streams(*GOOD)(chat)

    fleet = [engines(answer), engines(answer)]
    stack.start_router()
    agents = [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(fleet)]
    return fleet, agents, asked


# Frames that are no content, in the shapes engines really send.
NO_CONTENT = {
    "role only": ROLE,
    "an empty choice list": b'data: {"choices":[]}\n\n',
    "an empty delta": event({}),
    "null content": event({"role": "assistant", "content": None}),
    "a comment": b": ping\n\n",
    "an event named ping": b"event: ping\ndata: {}\n\n",
    "usage only": b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3}}\n\n',
    "retry and id": b"retry: 3000\nid: 7\n\n",
    "all of them": ROLE + b": x\n\n" + event({}) + b'data: {"choices":[]}\n\n',
}
BREAKS = {"cut": dict(clean=False), "error event": dict(parts=[ERROR]), "named error": dict(parts=[b"event: error\n" + ERROR])}


def test_what_is_no_content_does_not_commit(stack, engines):
    """After each of these frames the engine fails; the client sees only the other engine's answer, from its first byte.

    Naive variants: the first byte of the engine commits; an error event is passed on like any other.
    """
    asked, failing = [], [None]

    def answer(chat):
        asked.append(chat)
        return failing[0](chat) if len(asked) % 2 == 1 else streams(*GOOD)(chat)

    stack.start_router()
    for i in range(2):
        stack.start_agent(engines(answer), identity=f"{i}.key")
    for name, frames in NO_CONTENT.items():
        for how, given in BREAKS.items():
            before = len(asked)
            failing[0] = streams(frames, *given.get("parts", []), clean=given.get("clean", True))
            with Client(stack, stream=True) as client:
                client.finish()
            assert client.payload == b"".join(GOOD), f"{name}, {how}: {client.payload[:300]}"
            assert client.complete and len(asked) == before + 2, (name, how)
    wait_for("everything is returned", lambda: at_rest(stack))


CONTENT = {
    "content": say("a"),
    "reasoning": event({"reasoning": "hm"}),
    "reasoning_content": event({"reasoning_content": "hm"}),
    "a tool call": event({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
    "a refusal": event({"refusal": "no"}),
    "content in the same read as the role": ROLE + say("a"),
}


def test_after_content_a_failure_is_told_in_the_stream_and_nothing_is_repeated(stack, engines):
    """One error event, no [DONE], the connection ends without the last chunk, the engine's bytes before it are untouched, and the audit
    says how it ended.

    Naive variants: the attempt is repeated and the client reads two answers in one; the stream simply ends well; [DONE] is invented;
    the status alone decides, and the audit has a 200 that completed.
    """
    asked, failing, seen = [], [None], threading.Event()

    def answer(chat):
        asked.append(chat)
        return failing[0](chat)

    stack.start_router()
    for i in range(2):
        stack.start_agent(engines(answer), identity=f"{i}.key")
    for name, frames in CONTENT.items():
        for ending, reset in (("cut", False), ("reset", True)):
            before = len(asked)

            def broken(chat):
                chat.send(SSE)
                chat.chunk(frames)
                seen.wait(10)  # a reset takes with it what was not read
                if reset:
                    chat.reset()

            failing[0] = broken
            seen.clear()
            with Client(stack, stream=True) as client:
                assert client.until(lambda c: c.payload.startswith(frames)), f"{name}, {ending}: {client.payload}"
                seen.set()
                client.to_end()
            where = f"{name}, {ending}: {client.payload}"
            assert client.status == 200 and client.payload.startswith(frames), where
            last = client.payload[len(frames):]
            assert last.startswith(b"data: {") and last.endswith(b"\n\n") and last.count(b"data:") == 1, where
            error = json.loads(last[6:])["error"]
            assert error["code"] == "backend_error" and error["source"] == "backend" and error["message"], where
            assert b"[DONE]" not in client.payload and not client.complete and not client.was_reset, where
            assert len(asked) == before + 1, where
            assert told(audit_of(stack, client), "engine_error", 200, "backend_error"), where
    assert outcome(stack, "engine_error") == 2 * len(CONTENT)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_retry_has_the_requests_deadline_and_not_that_of_the_stream_that_failed(stack, engines):
    """A stream begins and fails before its content; the next engine says nothing. The client hears of it at the request's deadline.

    Naive variant: the head has set the stream's deadline, and whoever is asked next has that: here a minute instead of two seconds.
    """
    asked = []

    def answer(chat):
        asked.append(chat)
        return streams(ROLE, ERROR)(chat) if len(asked) == 1 else chat.wait_gone()

    stack.start_router("--request-timeout", "2s", "--stream-timeout", "60s")
    for i in range(2):
        stack.start_agent(engines(answer), identity=f"{i}.key")
    begin = time.monotonic()
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.status == 504 and time.monotonic() < begin + 10, client.raw
    assert told(audit_of(stack, client), "deadline", 504, "request_timeout") and len(asked) == 2
    wait_for("the second engine's request ends", lambda: asked[1].gone)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_failure_inside_an_event_still_gives_a_well_formed_one(stack, engines):
    """The engine is cut in the middle of a line: the error event stands on lines of its own.

    Naive variant: it is appended to the half line and no client can read it.
    """
    def cut(chat):
        chat.send(SSE)
        chat.chunk(say("a"), b'data: {"choices":[{"index":0,"del')
        chat.wait_gone(0.1)

    stack.start_router()
    stack.start_agent(engines(cut))
    with Client(stack, stream=True) as client:
        client.to_end()
    last = client.payload.strip().split(b"\n\n")[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "backend_error"
    assert b"[DONE]" not in client.payload and not client.complete


def test_an_error_event_after_content_is_passed_on_as_it_is(stack, engines):
    """The engine said it itself, and ended well: every byte is the engine's, nothing is added, and the audit tells of the error.

    Naive variant: what ends well is complete, and nobody learns how many answers were none.
    """
    parts = [ROLE, say("a"), ERROR]
    fleet, _, asked = two_agents(stack, engines, streams(*parts))
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.payload == b"".join(parts) and len(asked) == 1
    assert told(audit_of(stack, client), "engine_error", 200, "backend_error")


def until_close(*parts):
    """A stream with neither length nor chunks: the connection's end is all that ends it."""
    def answer(chat):
        chat.send(SSE.replace(b"Transfer-Encoding: chunked\r\n", b""), *parts)
    return answer


def test_a_stream_that_only_the_connection_ends_is_whole_when_it_says_so(stack, engines):
    """An engine that dies closes its connection, too: without a finish reason and without [DONE] it was cut. After content the client is
    told, before it another engine is asked.

    Naive variant: every end of such a body is a good one; half an answer is complete.
    """
    asked, given = [], [None]

    def answer(chat):
        asked.append(chat)
        return given[0](chat) if len(asked) == 1 else streams(*GOOD)(chat)

    stack.start_router()
    for i in range(2):
        stack.start_agent(engines(answer), identity=f"{i}.key")

    def read(*parts):
        asked.clear()
        given[0] = until_close(*parts)
        with Client(stack, stream=True) as client:
            client.finish()
        return client

    for parts in ([ROLE, say("a")], [say("a"), b'data: {"choices":[{"index":0,"del'], [say("a"), b": ping\n\n"]):
        client = read(*parts)
        error = json.loads(client.payload.strip().split(b"\n\n")[-1].removeprefix(b"data: "))["error"]
        assert say("a") in client.payload and error["code"] == "backend_error", client.payload
        assert b"[DONE]" not in client.payload and not client.complete and len(asked) == 1, client.payload
        assert told(audit_of(stack, client), "engine_error", 200, "backend_error")
    for parts in ([ROLE, say("a"), STOP], [say("a"), DONE], [ROLE, say("a"), STOP, DONE]):
        client = read(*parts)
        assert client.payload == b"".join(parts) and client.complete and len(asked) == 1, client.payload
        assert told(audit_of(stack, client), "completed", 200, "")
    for parts in ([ROLE], [], [b": ping\n\n"], [b"event: ping\n\n"]):
        client = read(*parts)
        assert client.payload == b"".join(GOOD) and client.complete and len(asked) == 2, (parts, client.payload)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_stream_without_done_that_ends_well_is_complete(stack, engines):
    """None is required and none is invented. Naive variant: [DONE] is awaited, or added."""
    parts = [ROLE, say("a"), STOP]
    fleet, agents, asked = two_agents(stack, engines, streams(*parts))
    with Client(stack, stream=True) as client:
        client.finish()
    assert client.payload == b"".join(parts) and client.complete and len(asked) == 1
    assert all(blameless(stack, a) for a in agents)
    assert outcome(stack, "completed") == 1
    assert told(audit_of(stack, client), "completed", 200, "")


@pytest.mark.parametrize("stream", [False, True])
def test_a_deterministic_refusal_is_never_repeated_and_keeps_body_and_status(stack, engines, stream):
    """400, 404, 413, 415 and 422 would be the same everywhere: one attempt, the engine's own bytes, its own header fields, no blame.

    Naive variants: every status but 200 is tried elsewhere; the body is put into the router's envelope.
    """
    asked, given = [], [None]

    def answer(chat):
        asked.append(chat)
        chat.send(given[0])
        return True

    fleet = [engines(answer), engines(answer)]
    stack.start_router()
    agents = [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(fleet)]
    for status in (400, 404, 413, 415, 422):
        body = b'{"object":"error","message":"it is %d, and \xc3\xa9","type":"BadRequestError","param":null,"code":%d}' % (status, status)
        given[0] = whole(body, b"%d No" % status, b"X-Engine: here\r\n")
        before = len(asked)
        with Client(stack, stream=stream) as client:
            client.finish()
        assert (client.status, client.payload) == (status, body)
        assert client.fields["x-engine"] == "here" and len(asked) == before + 1, status
    assert outcome(stack, "rejected_by_engine") == 5
    assert all(blameless(stack, a) for a in agents)
    assert answered(stack, 400) == 1
    wait_for("everything is returned", lambda: at_rest(stack))


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_too_long_to_be_held_is_told_in_our_words(stack, engines, stream):
    """64 KiB of an engine's refusal pass as they are; of a longer one the client gets the status and what could be read, in whole JSON.

    Naive variant: the first 64 KiB with a length that fits: half a JSON text that says it is complete.
    """
    given = [None]
    engine = engines(lambda chat: chat.send(given[0]) or True)
    stack.start_router()
    agent = stack.start_agent(engine)

    def refused_with(size):
        start, end = b'{"object":"error","code":422,"message":"the prompt was: ', b'"}'
        body = start + b"p" * (size - len(start) - len(end)) + end
        given[0] = whole(body, b"422 No")
        with Client(stack, stream=stream) as client:
            client.finish()
        assert client.status == 422 and client.complete
        return body, client

    body, client = refused_with(64 * 1024)
    assert client.payload == body
    for size in (64 * 1024 + 1, 3 << 20):
        _, client = refused_with(size)
        error = json.loads(client.payload)["error"]
        assert error["code"] == "invalid_parameter" and error["source"] == "backend" and "the prompt was: ppp" in error["message"]
        assert error["request_id"] == client.fields["x-request-id"]
        assert told(audit_of(stack, client), "rejected_by_engine", 422, "invalid_parameter")
    assert blameless(stack, agent)
    wait_for("everything is returned", lambda: at_rest(stack))


def test_a_storm_of_retries_is_stopped_by_the_models_budget(stack, engines):
    """30 requests are under way when all engines of their model fail: 6 may be tried again (20 %), each on two more agents, and the others end
    with the error they have. The probation of agents is switched off here: that is row 5.

    Naive variant: every request is tried three times, and an outage triples the load of what is left.
    """
    count, share = 30, 6
    arrived, guard = [], threading.Lock()
    all_there, retries_there = threading.Event(), threading.Event()

    def answer(chat):
        with guard:
            arrived.append(chat)
            n = len(arrived)
        if n == count:
            all_there.set()
        (all_there if n <= count else retries_there).wait(20)
        chat.send(whole(b'{"error":{"message":"the rack is on fire","type":"InternalServerError","code":500}}', b"500 Internal Server Error"))
        return True

    stack.start_router("--probation-after", "0", "--max-tries-per-step", "3")
    for i in range(3):
        stack.start_agent(engines(answer).url, "--capacity", "50", identity=f"{i}.key", kind="openai")
    clients = [Client(stack, stream=i % 2 == 0) for i in range(count)]
    wait_for("those without a retry have ended", lambda: outcome(stack, "engine_error") == count - share)
    wait_for("the others are with the next engine", lambda: len(arrived) >= count + share)
    assert len(arrived) == count + share and outcome(stack, "engine_error") == count - share
    retries_there.set()
    for c in clients:
        with c:
            c.finish()
        error = json.loads(c.payload)["error"]
        assert c.status == 502 and error["code"] == "backend_error" and "on fire" in error["message"], "the last error, not `no agents`"
    assert len(arrived) == count + 2 * share
    line = next(l for l in stack.router.log().splitlines() if "policy_exhausted" in l)
    assert "retry budget exhausted" in line
    wait_for("everything is returned", lambda: at_rest(stack))
