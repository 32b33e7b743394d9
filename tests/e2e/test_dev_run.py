"""The three forms of ./dev run after its build: two real answers, the routing table, and nothing left after Ctrl-C."""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, wait_for

SCRIPT = pathlib.Path(__file__).parent / "run.sh"


def alive_in_session(leader):
    """Processes of that session that run, the leader's own included."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            found.append(entry.name)
    return found


@pytest.mark.parametrize("form,agents", [([], 2), (["URL"], 1), (["--agent", "URL"], 1)], ids=["alone", "url", "agent"])
def test_it_answers_twice_and_leaves_nothing_behind(stack, form, agents):
    engine = stack.start_engine("--model", "my-model") if "URL" in form else None
    args = [engine.url if word == "URL" else word for word in form]
    state = stack.folder / "state"
    state.mkdir()
    out = stack.folder / "run.out"
    with open(out, "wb") as to:
        # A session of its own is what a terminal would give it, and its Ctrl-C goes to all in it.
        child = subprocess.Popen([SCRIPT, *args], stdin=subprocess.DEVNULL, stdout=to, stderr=subprocess.STDOUT, start_new_session=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), cwd=stack.folder,
                                 env={"PATH": os.environ["PATH"], "TMPDIR": str(state), "HIVE_BUILD": str(BUILD)})
    try:
        def up():
            assert child.poll() is None, out.read_text()
            return "Ctrl-C stops everything." in out.read_text()
        wait_for("it is up", up, limit=40)
        title, streamed, buffered, table = out.read_text().split("== ")
        model = "my-model" if engine else "sim-model"
        assert f"a streamed chat completion of model {model}" in streamed
        events = [line[6:] for line in streamed.splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]" and len(events) > 3
        answer = json.loads(buffered.splitlines()[1])
        assert answer["object"] == "chat.completion" and answer["model"] == model
        rows, _ = json.JSONDecoder().raw_decode(table[table.index("{"):])
        assert rows["total"] == agents and all(row["status"]["routable"] for row in rows["agents"])
        assert len(alive_in_session(child.pid)) > agents
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(20) == 0, out.read_text()
        wait_for("all of it is gone", lambda: not alive_in_session(child.pid))
        assert list(state.iterdir()) == []
        if engine:
            assert engine.child.poll() is None, "what was there before stays"
    finally:
        for pid in alive_in_session(child.pid):
            os.kill(int(pid), signal.SIGKILL)
        child.wait(10)
