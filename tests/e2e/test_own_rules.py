"""The rules of conftest.py, seen to fail: each in a pytest of its own over a test that breaks it."""
import os
import pathlib
import subprocess
import sys

import pytest

import conftest

HERE = pathlib.Path(conftest.__file__).parent
START = "from conftest import BY_NATURE, Process\nimport pytest\n"


def run(tmp_path, body, **env):
    """(exit code, what was printed) of a pytest over that test."""
    (tmp_path / "test_it.py").write_text(START + body)
    environment = {k: v for k, v in os.environ.items() if k not in ("HIVE_REQUIRE_ALL", "HIVE_TEST_TLS")}
    environment |= {"PYTHONPATH": str(HERE), "HIVE_BUILD": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "test_it.py"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("body", ['def test_it():\n    pytest.skip("no such thing here")\n',
                                  '@pytest.mark.skipif(True, reason="no such thing here")\ndef test_it():\n    pass\n',
                                  '@pytest.fixture\ndef thing():\n    pytest.skip("no such thing here")\ndef test_it(thing):\n    pass\n'])
def test_a_skip_for_want_of_something_is_written_down_or_fails(tmp_path, body):
    """Naive variant: what is skipped is green, and nobody learns that it has never run."""
    code, said = run(tmp_path, body)
    assert code == 0 and "1 skipped" in said, said
    assert (tmp_path / "skipped.txt").read_text() == "test_it.py::test_it: no such thing here\n"
    code, said = run(tmp_path, body, HIVE_REQUIRE_ALL="1")
    assert code == 1 and "this was to be skipped: no such thing here" in said, said


def test_a_skip_by_nature_is_no_failure(tmp_path):
    code, said = run(tmp_path, 'def test_it():\n    pytest.skip(BY_NATURE + "it is so everywhere")\n', HIVE_REQUIRE_ALL="1")
    assert code == 0 and "1 skipped" in said, said
    assert not (tmp_path / "skipped.txt").exists()


@pytest.mark.parametrize("command,told", [("echo '==7==ERROR: AddressSanitizer: heap-use-after-free' >&2", "heap-use-after-free"),
                                          ("echo 'a.cpp:1:2: runtime error: shift' >&2", "runtime error: shift"),
                                          ("kill -SEGV $$", "ended with -11"), ("echo 'INFO runtime error: a word' >&2; kill -9 $$", None)])
def test_a_process_that_crashed_or_that_a_sanitizer_stopped_fails_its_test(tmp_path, command, told):
    """Naive variant: the router has answered before it broke, and its log is looked at by nobody."""
    code, said = run(tmp_path, f'def test_it(stack):\n    stack.keep(Process("it", ["sh", "-c", """{command}"""], stack.folder)).child.wait(10)\n')
    assert (code == 1 and told in said) if told else code == 0, said
