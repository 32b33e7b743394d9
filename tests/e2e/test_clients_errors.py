"""Which exception the official SDKs for Python raise at each refusal of a router with client keys: the table in docs/http-api.md.

The naive variants these fail on: one status for every refusal; a `type` that the SDK does not know; Anthropic's routes with
OpenAI's envelope. (JavaScript: clients/sdk_checks.mjs, `*_classes`.)
"""
import anthropic
import anthropic._exceptions as anthropic_more
import openai
import pytest

from conftest import Stack
from test_auth import ACME, BETA, GONE, auth_yaml, entry

ONLY_ANOTHER = "      models: [other-model]\n"
OVER = "      models: [sim-model]\n      quota: {per_model: {other-model: {requests_per_minute_per_replica: 0, tokens_per_day: 0}}}\n"


def start_guarded(stack):
    """Keys: ACME may use the model, BETA may not, GONE's quota does not have it."""
    (stack.folder / "auth.yaml").write_text(auth_yaml(entry(ACME, "acme"), entry(BETA, "beta", ONLY_ANOTHER), entry(GONE, "gone", OVER)))
    stack.engine = stack.start_engine("--model", "sim-model", "--tokens", "4")
    stack.start_router("--auth-config-file", stack.folder / "auth.yaml", "--max-request-bytes", "90000", "--request-timeout", "1500ms")
    stack.start_agent(stack.engine)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    s = Stack(tmp_path_factory.mktemp("guarded"))
    try:
        start_guarded(s)
        yield s
    finally:
        s.stop()


def openai_ask(url, key, text):
    client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0, timeout=20)
    client.chat.completions.create(model="sim-model", messages=[{"role": "user", "content": text}])


def anthropic_ask(url, key, text):
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20)
    client.messages.create(model="sim-model", max_tokens=4, messages=[{"role": "user", "content": text}])


OF_OPENAI = {401: openai.AuthenticationError, 403: openai.PermissionDeniedError, 413: openai.APIStatusError, 429: openai.RateLimitError,
             503: openai.InternalServerError, 504: openai.InternalServerError}
OF_ANTHROPIC = {401: anthropic.AuthenticationError, 403: anthropic.PermissionDeniedError, 413: anthropic_more.RequestTooLargeError,
                429: anthropic.RateLimitError, 503: anthropic_more.ServiceUnavailableError, 504: anthropic_more.DeadlineExceededError}


@pytest.mark.parametrize("ask,classes", [(openai_ask, OF_OPENAI), (anthropic_ask, OF_ANTHROPIC)], ids=["openai", "anthropic"])
def test_every_refusal_has_its_class(guarded, ask, classes):
    cases = [(401, "sk-nobody", "x", {}), (403, BETA, "x", {}), (413, ACME, "x" * 100_000, {}), (429, GONE, "x", {}),
             (503, ACME, "x", {"status": 503}), (504, ACME, "x", {"hang": True})]
    for status, key, text, faults in cases:
        guarded.engine.faults(**faults)
        with pytest.raises(Exception) as raised:
            ask(guarded.url, key, text)
        assert type(raised.value) is classes[status] and raised.value.status_code == status, (status, raised.value)
    guarded.engine.faults()
    ask(guarded.url, ACME, "x")
