"""Strategies that look into requests and learn from answers, through the real processes."""
import concurrent.futures
import random
import time

import httpx

from conftest import wait_for
from test_embedded import routable, start_alone

WORDS = ["river", "stone", "cloud", "paper", "amber", "north", "seven", "quiet", "under", "light"]


def text(seed, words):
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(words))


def conversations(chats, questions):
    """Questions in an order by chance, each with all that was said before in its chat; the seed is the same for all."""
    said = [[{"role": "system", "content": "You are of use."}] for _ in range(chats)]
    order = [c for c in range(chats) for _ in range(questions)]
    random.Random(7).shuffle(order)
    for step, c in enumerate(order):
        said[c].append({"role": "user", "content": text(step, 250)})
        yield c, list(said[c])
        said[c].append({"role": "assistant", "content": text(-step - 1, 60)})


def cached_share(stack, engines, policy_text, embedded=0, **fields):
    policy = stack.folder / "policy.yaml"
    policy.write_text(policy_text)
    if embedded:
        flags = [w for e in engines[:embedded] for w in ("--backend", e.url)]
        link = ["--link-listen", "127.0.0.1:0"]
        said = start_alone(stack, *flags, *link, "--policy-file", policy, env={"HIVENET_ROUTER_JWT_SECRET": stack.secret})
        stack.link = said["link"][0]
    else:
        stack.start_router("--policy-file", policy)
    agents = [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(engines[embedded:])]
    routable(stack, len(engines))
    before = [e.state() for e in engines]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = []
        for i, (chat, messages) in enumerate(conversations(24, 6)):
            answers.append(pool.submit(stack.chat, i % 2 == 0, messages=messages, max_tokens=2,
                                       headers={"X-Session-ID": f"chat-{chat}"} if fields.get("session") else None))
        assert [a.result().status_code for a in answers] == [200] * len(answers)
    after = [e.state() for e in engines]
    prompts = sum(a["prompt_tokens"] - b["prompt_tokens"] for a, b in zip(after, before))
    for program in (*agents, stack.router):
        program.stop()
    served = [a["served"] - b["served"] for a, b in zip(after, before)]
    return sum(a["cached_tokens"] - b["cached_tokens"] for a, b in zip(after, before)) / prompts, served


def engines_of(stack, count=4):
    return [stack.start_engine("--prefix-caching", "--kv-tokens", "20000", "--prefill-tokens-per-ms", "200", "--max-num-seqs", "16")
            for _ in range(count)]


def test_prefix_affinity_finds_more_in_caches_than_least_loaded(stack):
    least, _ = cached_share(stack, engines_of(stack), "routing_policy: {strategy: least-loaded}\n")
    affine, served = cached_share(stack, engines_of(stack), "routing_policy: {strategy: {name: prefix-affinity, options: {blocks: 160}}}\n")
    assert affine > 1.4 * least, (affine, least)
    assert max(served) < 2 * sum(served) / len(served), served


def test_and_over_embedded_and_other_agents_together(stack):
    least, _ = cached_share(stack, engines_of(stack), "routing_policy: {strategy: least-loaded}\n")
    affine, served = cached_share(stack, engines_of(stack), "routing_policy: {strategy: {name: prefix-affinity, options: {blocks: 160}}}\n", embedded=2)
    assert affine > 1.4 * least, (affine, least)
    assert min(served) > 0, served


def test_consistent_hash_finds_more_in_caches_than_least_loaded(stack):
    """Of clients that name their chats. The factor lets one agent hold all that is under way, so that the bound moves nobody.

    Naive variant: a hash of the request instead of the session, which finds what chance does.
    """
    least, _ = cached_share(stack, engines_of(stack), "routing_policy: {strategy: least-loaded}\n", session=True)
    hashed, served = cached_share(stack, engines_of(stack), "routing_policy: {strategy: {name: consistent-hash, options: {load_factor: 4}}}\n", session=True)
    assert hashed > 1.4 * least, (hashed, least)
    assert all(n % 6 == 0 for n in served), "all six questions of a chat are at one agent"


def first_chunks(stack, policy_text, chats=10, questions=7):
    """Seconds to the first chunk of each question but a chat's first, which no cache can help; 2,900 tokens stand before every one."""
    policy = stack.folder / "policy.yaml"
    policy.write_text(policy_text)
    stack.start_router("--policy-file", policy)
    agents = [stack.start_agent(stack.start_engine("--prefix-caching", "--kv-tokens", "60000", "--prefill-tokens-per-ms", "5", "--max-num-seqs", "16"),
                                identity=f"{i}.key") for i in range(4)]
    routable(stack, len(agents))
    order = [c for c in range(chats) for _ in range(questions)]
    random.Random(11).shuffle(order)
    said = [[{"role": "system", "content": text(c, 2000)}] for c in range(chats)]

    def ask(messages):
        begin, first = time.monotonic(), None
        body = {"model": "sim-model", "messages": messages, "stream": True, "max_tokens": 2}
        with httpx.stream("POST", stack.url + "/v1/chat/completions", json=body, timeout=30) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_raw():
                first = first or time.monotonic() - begin
        return first

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = []
        for step, c in enumerate(order):
            said[c].append({"role": "user", "content": text(step, 20)})
            asked.append((len(said[c]) > 2, pool.submit(ask, list(said[c]))))
            said[c].append({"role": "assistant", "content": text(-step - 1, 20)})
        times = sorted(answer.result() for again, answer in asked if again)
    for program in (*agents, stack.router):
        program.stop()
    return times


def test_a_chat_that_goes_where_its_beginning_is_cached_begins_to_answer_sooner(stack):
    """A question computes 60 tokens there and 3,000 elsewhere, 12 ms and 600 ms. By load alone every third goes elsewhere."""
    least = first_chunks(stack, "routing_policy: {strategy: least-loaded}\n")
    affine = first_chunks(stack, "routing_policy: {strategy: prefix-affinity}\n")
    p90 = lambda times: times[len(times) * 9 // 10]
    assert p90(affine) < p90(least), (affine, least)


def test_consistent_hash_keeps_a_session_at_its_agent(stack):
    engines = engines_of(stack, 3)
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {strategy: {name: consistent-hash, options: {header: x-user-id}}}\n")
    stack.start_router("--policy-file", policy)
    for i, e in enumerate(engines):
        stack.start_agent(e, identity=f"{i}.key")
    homes = set()
    for name, header in [(n, h) for n in range(12) for h in ("X-Session-ID", "X-User-Id")]:
        before = [e.state()["served"] for e in engines]
        for i in range(3):
            assert stack.chat(i == 1, max_tokens=1, headers={header: f"person-{name}"}).status_code == 200
        moved = [e.state()["served"] - b for e, b in zip(engines, before)]
        assert sorted(moved) == [0, 0, 3], moved
        homes.add((name, moved.index(3)))
    assert len(homes) == 12, "the same key is at the same agent, whichever header named it"
    assert len({h for _, h in homes}) == 3


def test_peak_ewma_and_token_load_are_strategies_by_file_alone(stack):
    engines = [stack.start_engine() for _ in range(2)]
    policy = stack.folder / "policy.yaml"
    policy.write_text("routing_policy: {strategy: peak-ewma}\n")
    stack.start_router("--policy-file", policy)
    for i, e in enumerate(engines):
        stack.start_agent(e, identity=f"{i}.key")
    engines[0].faults(first_token_ms=300)
    wait_for("both have been measured", lambda: stack.chat(stream=True, max_tokens=1) and all(e.state()["served"] for e in engines))
    before = engines[0].state()["chats"]
    for _ in range(10):
        assert stack.chat(stream=True, max_tokens=1).status_code == 200
    assert engines[0].state()["chats"] <= before + 1
    stack.router.stop()
    policy.write_text("routing_policy: {strategy: token-load}\n")
    engines[0].faults()
    stack.start_router("--policy-file", policy)
    for i, e in enumerate(engines):
        stack.start_agent(e, identity=f"t{i}.key")
    for i in range(20):
        assert stack.chat(stream=i % 2 == 0, max_tokens=1).status_code == 200
    assert stack.metric("hivenet_router_plugin_calls_total", kind="strategy", component="token-load") > 0
    assert stack.metric("hivenet_router_plugin_errors_total", kind="strategy", component="token-load") == 0
