"""Row 10: tokens are settled once a request, from what the engine told, else from what was counted."""
import hashlib
import json

import pytest

from conftest import at_rest, wait_for
from raw import DONE, ROLE, SSE, STOP, Client, completion, say, whole

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}\n\n'
ASKED = {"stream_options": {"include_usage": True}}


def streams(*parts):
    def answer(chat):
        chat.send(SSE)
        for part in parts:
            chat.chunk(part)
        chat.last_chunk()
        return True
    return answer


def tokens(stack, agent):
    return (int(stack.metric("hivenet_router_agent_input_tokens_total", peer_id=agent.peer_id)),
            int(stack.metric("hivenet_router_agent_output_tokens_total", peer_id=agent.peer_id)))


def ask(stack, **more):
    with Client(stack, **more) as client:
        return client.finish()


# What an engine streams, and what it comes to.
MERGED = {
    "at the end": ([ROLE, say("a"), STOP, USAGE, DONE], (11, 7)),
    "null in every event before": ([say("a").replace(b"}]}", b'}],"usage":null}'), STOP, USAGE, DONE], (11, 7)),
    "in every event, growing": ([say("a").replace(b"}]}", b'}],"usage":{"prompt_tokens":11,"completion_tokens":%d}}' % n)
                                 for n in range(1, 8)] + [STOP, DONE], (11, 7)),
    "without choices": ([say("a"), b'data: {"usage":{"prompt_tokens":5,"completion_tokens":6}}\n\n', DONE], (5, 6)),
    "zeros that are real": ([say("a"), b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":0}}\n\n', DONE], (4, 0)),
    "words that look like usage": ([say('"usage":{"prompt_tokens":999,"completion_tokens":999}'), STOP, USAGE, DONE], (11, 7)),
    "twice": ([say("a"), USAGE, USAGE, DONE], (11, 7)),
}


def test_usage_in_a_stream_is_merged_and_counted_once(stack, engines):
    """Naive variants: each event with usage is added up; the first one wins; the last line is searched as text."""
    engine = engines()
    stack.start_router()
    agent = stack.start_agent(engine)
    expected = (0, 0)
    for name, (parts, (prompt, output)) in MERGED.items():
        engine.answer = streams(*parts)
        client = ask(stack, stream=True, **ASKED)
        assert client.payload == b"".join(parts), name
        expected = (expected[0] + prompt, expected[1] + output)
        wait_for(name, lambda: at_rest(stack))
        assert tokens(stack, agent) == expected, name


def test_usage_of_a_buffered_answer_is_counted_and_that_of_a_failed_attempt_is_not(stack, engines):
    """Two agents; the first answers 500 with a usage in it. Only the answer that the client got counts, and for its agent only.

    Naive variant: whatever has been read of usage is added when an attempt ends.
    """
    failing = engines(lambda chat: chat.send(whole(b'{"error":{"message":"no"},"usage":{"prompt_tokens":90,"completion_tokens":90}}', b"500 X")))
    good = engines(lambda chat: chat.send(whole(completion(prompt=21, output=9))) or True)
    stack.start_router()
    a = stack.start_agent(failing, identity="a.key")
    b = stack.start_agent(good, identity="b.key")
    for n in range(1, 5):
        assert ask(stack).status == 200
        assert tokens(stack, a) == (0, 0) and tokens(stack, b) == (21 * n, 9 * n)
    assert failing.chats, "the failing one was never tried"


def test_what_the_router_asks_for_itself_is_counted_and_not_shown(stack, engines):
    """The client did not ask for usage: the router does, counts the event, and the client never sees it; every other byte is the
    engine's.

    Naive variant: the request is changed and the answer is not.
    """
    shown = [ROLE, say("a"), STOP, DONE]

    def answer(chat):
        asked = json.loads(chat.body).get("stream_options", {}).get("include_usage") is True
        return streams(*shown[:-1], *([USAGE] if asked else []), DONE)(chat)

    engine = engines(answer)
    stack.start_router()
    agent = stack.start_agent(engine)
    client = ask(stack, stream=True)
    assert client.payload == b"".join(shown)
    wait_for("it is settled", lambda: at_rest(stack))
    assert tokens(stack, agent) == (11, 7)


def audit_lines(stack, ended, count=1):
    """Those of requests for an engine that ended so; the admin API's own are there earlier."""
    def there():
        found = [entry for entry in stack.audit() if entry["ended"] == ended and entry["model"]]
        return found if len(found) >= count else None

    return wait_for("it is in the audit", there)


def test_a_client_that_leaves_early_is_charged_for_what_was_counted(stack, engines):
    """Of 50 events with 40 bytes of text each the client took some and left. The audit has what was counted until then, as estimated.

    Naive variants: usage comes at the end or not at all, so who leaves before it pays nothing; the estimate counts the frames' bytes.
    """
    text = "forty bytes of text, letters and spaces."

    def answer(chat):
        chat.send(SSE)
        for _ in range(50):
            chat.chunk(say(text))
        chat.wait_gone()

    engine = engines(answer)
    stack.start_router()
    stack.start_agent(engine)
    client = Client(stack, stream=True)
    assert client.until(lambda c: c.payload.count(text.encode()) == 50)
    client.leave()
    (line,) = audit_lines(stack, "client_gone")
    assert line["status_code"] == 499 and line["estimated"] is True
    assert 50 * 40 // 8 <= line["output_tokens"] <= 50 * 40 // 2, line
    assert 0 < line["input_tokens"] < 100, line


def test_usage_that_was_told_is_not_marked_as_estimated(stack, engines):
    """Naive variant: the counted value always wins, or the mark is never set."""
    engine = engines(streams(ROLE, say("many words that would count as more"), STOP, USAGE, DONE))
    stack.start_router()
    stack.start_agent(engine)
    ask(stack, stream=True, **ASKED)
    engine.answer = streams(ROLE, say("many words that would count as more"), STOP, DONE)  # an engine that does not do what it is asked
    ask(stack, stream=True, **ASKED)
    told, counted = audit_lines(stack, "completed", 2)
    assert (told["input_tokens"], told["output_tokens"], told["estimated"]) == (11, 7, False)
    assert counted["estimated"] is True and counted["output_tokens"] > 0


KEY = "sk-usage-0123456789abcdef0123456789"
AUTH = f"""api:
  mode: api-key
  keys:
    - key_hash: {hashlib.sha256(KEY.encode()).hexdigest()}
      key_preview: sk-...6789
      metadata: {{name: acme key, owner: acme}}
      quota: {{tokens_per_day: 1000000}}
"""
# What an engine says it has generated for a request that allows ten tokens, and what is counted, if that is one thing only.
TOLD = {b"10": (10, False), b"11": (10, True), b"1000000": (10, True), b"18446744073709551615": (10, True), b"99999999999999999999": None,
        b"-5": None, b"1e30": None, b'"7"': None}


@pytest.mark.parametrize("stream", [False, True])
def test_more_output_than_the_request_allows_is_not_believed(stack, engines, stream):
    """The client gets what the engine said; the budget of the day, the counters and the audit get at most what was allowed.

    Naive variants: one answer ends a key's day; a negative count gives it back; a sum runs over and a counter falls.
    """
    engine = engines()
    (stack.folder / "auth.yaml").write_text(AUTH)
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml")
    agent = stack.start_agent(engine)
    for told in TOLD:
        usage = b'{"prompt_tokens":3,"completion_tokens":%b,"total_tokens":4}' % told
        body = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},' \
               b'"finish_reason":"stop"}],"usage":%b}' % usage
        shown = [ROLE, say("hi"), STOP, b'data: {"choices":[],"usage":%b}\n\n' % usage, DONE]
        engine.answer = streams(*shown) if stream else lambda chat: chat.send(whole(body)) or True
        answer = stack.chat(stream=stream, max_tokens=10, headers={"Authorization": f"Bearer {KEY}"}, **(ASKED if stream else {}))
        assert (answer.status_code, answer.content) == (200, b"".join(shown) if stream else body), told
        wait_for("it is settled", lambda: at_rest(stack))
    lines = audit_lines(stack, "completed", len(TOLD))
    for line, (told, counted) in zip(lines, TOLD.items()):
        assert 0 <= line["output_tokens"] <= 10 and 0 < line["input_tokens"] < 100, (told, line)
        assert counted in (None, (line["output_tokens"], line["estimated"])), (told, line)
    spent = sum(line["input_tokens"] + line["output_tokens"] for line in lines)
    wait_for("the day has it", lambda: stack.metric("hivenet_router_tenant_tokens_used_today", tenant_id="acme") == spent)
    assert sum(tokens(stack, agent)) == spent


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_what_an_answer_holds_is_counted_whatever_limit_its_request_names(stack, engines, stream):
    """An engine that does not know the client's limit answers with 400 bytes and counts 90 tokens: they are 90.

    Naive variant: what the request allows is the most that is counted, and answers cost what a client likes.
    """
    engine = engines()
    usage = b'{"prompt_tokens":3,"completion_tokens":90,"total_tokens":93}'
    body = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"%b"},' \
           b'"finish_reason":"stop"}],"usage":%b}' % (b"x" * 400, usage)
    engine.answer = streams(ROLE, say("x" * 400), STOP, b'data: {"choices":[],"usage":%b}\n\n' % usage, DONE) if stream \
        else lambda chat: chat.send(whole(body)) or True
    stack.start_router()
    stack.start_agent(engine)
    assert stack.chat(stream=stream, max_tokens=1, **(ASKED if stream else {})).status_code == 200
    line, = audit_lines(stack, "completed", 1)
    assert (line["output_tokens"], line["estimated"]) == (90, False), line


def test_an_absurd_prompt_does_not_run_away_with_the_estimate(stack, engines):
    """A prompt of 400 bytes that is told as 2^64 - 1 tokens, again and again: the next one like it is estimated at no more than its bytes.

    Naive variant: what was told last is what the next one is taken for, and admission refuses everybody.
    """
    body = completion().replace(b'"prompt_tokens": 3', b'"prompt_tokens": 18446744073709551615')
    engine = engines(lambda chat: chat.send(whole(body)) or True)
    stack.start_router()
    agent = stack.start_agent(engine)
    for _ in range(20):
        assert ask(stack, messages=[{"role": "user", "content": "x" * 400}]).payload == body
    lines = audit_lines(stack, "completed", 20)
    assert all(100 <= line["input_estimate"] <= 400 for line in lines), lines
    assert lines[0]["input_estimate"] < lines[-1]["input_estimate"]
    wait_for("it is settled", lambda: at_rest(stack))
    assert tokens(stack, agent)[0] == 20 * 2**40
