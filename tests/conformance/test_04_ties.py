"""Row 4: agents that are equal share, and the same questions get the same agents."""
import httpx


def start(stack, engines, folder):
    stack.start_router("--disk-db-path", str(stack.folder / folder))
    return [stack.start_agent(e, identity=f"{i}.key") for i, e in enumerate(engines)]


def who_served(stack, count):
    """The sequence of engines, told apart by what they say."""
    out = []
    with httpx.Client() as client:
        for i in range(count):
            body = {"model": "sim-model", "messages": [], "max_tokens": 1}
            answer = client.post(stack.url + "/v1/chat/completions", json=body)
            assert answer.status_code == 200
            out.append(answer.json()["choices"][0]["message"]["content"])
    return out


def test_a_thousand_sequential_requests_are_shared_and_the_choice_is_reproducible(stack):
    """Four idle agents get 20 to 30 % each of 1,000 short requests that come one after another: at each choice all are equal.
    A second router with the same agents in the same order chooses the same sequence.

    Naive variants: the first of the equal ones (one agent gets all); the lowest latency breaks the tie (the fastest gets most);
    a random number breaks it (the sequence is another one).
    """
    engines = [stack.start_engine("--word", f"engine{i}") for i in range(4)]
    agents = start(stack, engines, "one")
    first = who_served(stack, 1000)
    shares = [first.count(f"engine{i}") for i in range(4)]
    print("requests an agent:", shares)
    assert sum(shares) == 1000 and all(200 <= s <= 300 for s in shares), shares
    for process in [*agents, stack.router]:
        process.stop()
    start(stack, engines, "two")
    assert who_served(stack, 200) == first[:200]
