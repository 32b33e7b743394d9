"""Who answered, as metrics count it and as --expose-routing tells it: the policy's first step, a later one, a provider, nobody."""
import pytest

from cloud import OPENAI_KEY, Cloud
from conftest import wait_for

POLICY = """routing_policy: {strategy: least-loaded, match: {region: EU}, max_tries: 1}
fallback_chain: [{name: anywhere, strategy: least-loaded, max_tries: 1}]
fallback_provider: {engine: openai, model: gpt-of-the-policy}
"""
COUNTERS = {f"hivenet_router_policy_{name}_total": name for name in ("primary_routed", "fallback_routed", "provider_fallback", "exhausted")}
MISTAKE = '{"error":{"message":"no","type":"BadRequestError"}}'


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


def start(stack, cloud, *args):
    """Two engines with a model each: one in the region of the policy's first step, one elsewhere."""
    policy = stack.folder / "policy.yaml"
    policy.write_text(POLICY)
    stack.start_router("--policy-file", policy, "--openai-base-url", cloud.url + "/v1", "--provider-ca-file", cloud.certificate,
                       "--probation-after", "0", *args, env={"HIVENET_ROUTER_OPENAI_API_KEY": OPENAI_KEY})
    near, far = (stack.start_engine("--model", model) for model in ("near-model", "far-model"))
    stack.start_agent(near, "--region", "EU", identity="near.key")
    stack.start_agent(far, identity="far.key")
    return near, far


def counted(stack):
    """Every series of the four, so that one with other labels shows."""
    out = {}
    for series, value in stack.metrics().items():
        name, _, labels = series.partition("{")
        if name in COUNTERS and value:
            out[COUNTERS[name], labels.removesuffix("}")] = value
    return out


def test_each_answer_is_counted_once_for_whom_it_is_from(stack, cloud):
    """Naive variants: what a later step served counts as the first one's, or for both; a failed attempt counts, or the client's mistake;
    the provider is one more step; whatever a client calls a model becomes a label.
    """
    near, far = start(stack, cloud)
    expected = {}

    def ask(model, counter, label=None, status=200, before=lambda: None):
        for stream in (False, True):
            before()
            answer = stack.chat(stream, model=model)
            assert answer.status_code == status, answer.text
            if counter:
                series = counter, f'model="{label or model}"'
                expected[series] = expected.get(series, 0) + 1
            wait_for(f"{model} as {counter}: {expected}", lambda: counted(stack) == expected)

    ask("near-model", "primary_routed")
    ask("far-model", "fallback_routed")
    ask("near-model", "fallback_routed", before=lambda: near.faults(status=500, count=1))
    near.faults(status=400, body=MISTAKE)
    ask("near-model", None, status=400)
    far.faults(status=500)
    ask("far-model", "provider_fallback")
    ask("nobody-model", "provider_fallback", label="__unknown__")
    cloud.fault = 500
    ask("far-model", "exhausted", status=502)
    ask("nobody-model", "exhausted", label="__unknown__", status=502)
    near.faults()
    far.faults()
    ask("near-model", "primary_routed")
    ask("far-model", "fallback_routed")


@pytest.mark.parametrize("flags", [(), ("--expose-routing",)], ids=["unasked", "exposed"])
def test_a_providers_answer_says_whose_it_is_when_told_to(stack, cloud, flags):
    """Naive variants: the fields are those of the agent that failed before; the provider's call is one of the attempts; a provider's answer
    has no such fields, or always.
    """
    _, far = start(stack, cloud, *flags)
    far.faults(status=500)
    for fault, status in ((None, 200), (500, 502)):
        cloud.fault = fault
        for model, attempts in (("far-model", "1"), ("nobody-model", "0")):
            for stream in (False, True):
                answer = stack.chat(stream, model=model)
                assert answer.status_code == status, answer.text
                kind = "text/event-stream" if stream and status == 200 else "application/json"
                assert answer.headers["content-type"].startswith(kind)
                told = {name: value for name, value in answer.headers.items() if name.startswith("x-hivenet")}
                wanted = {"x-hivenet-agent": "provider:openai", "x-hivenet-step": "fallback_provider", "x-hivenet-attempts": attempts,
                          "x-hivenet-queue-ms": "0"}
                assert told == (wanted if flags else {}), (model, stream, status)
