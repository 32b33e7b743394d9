"""What is secret stands in nothing that a mistake in the configuration makes a router say.

Searched for are the secrets as they are, their base64 at any offset, and their SHA-256. That a search finds what is there is tested first.
"""
import base64
import hashlib
import os
import subprocess
import urllib.parse

import pytest
from conftest import BIN

CLIENT = "sk-hivenet-Zq7client0key0of0the0secrets0test"
OTHER = "sk-hivenet-Zq7wrong0key0that0opens0nothing"
WRONG_ADMIN = "Zq7-admin-key-that-opens-nothing-at-all"
PROMPT = "Zq7 the prompt of a client is nobody's business"
BASIC, PROXY = "Zq7user:Zq7password", "Zq7-proxy-credential-of-a-client"
WRONG_SECRET = "Zq7wrong-secret-of-an-agent-00000000000"


def shapes(secret, hashed=True):
    """The texts by which a secret would be known."""
    raw = secret.encode()
    yield raw
    yield urllib.parse.quote(secret, safe="").encode()
    for shift in range(3):  # base64 of something that holds it: the digits that depend on nothing else
        whole = base64.b64encode(b"\0" * shift + raw + b"\0" * ((-shift - len(raw)) % 3)).decode()
        yield whole[-(-shift * 8 // 6):(shift + len(raw)) * 8 // 6].encode()
    if hashed:
        digest = hashlib.sha256(raw)
        yield digest.hexdigest().encode()
        yield digest.digest()
        yield base64.b64encode(digest.digest())


def found(secrets, outputs):
    """(secret, shape, output) of each that is there."""
    for secret in secrets:
        for shape in shapes(secret):
            for name, content in outputs.items():
                if shape in content:
                    at = content.index(shape)
                    yield f"{name} holds {secret!r} as {shape!r}: ...{content[max(0, at - 80):at + len(shape) + 40]!r}..."


@pytest.mark.parametrize("text", [CLIENT, PROMPT, BASIC])
def test_the_search_finds_what_is_there(text):
    for before in ("", "a", "ab", "abc"):
        for hidden in (text, urllib.parse.quote(text, safe=""), base64.b64encode((before + text + "!").encode()).decode(),
                       hashlib.sha256(text.encode()).hexdigest()):
            assert list(found([text], {"log": f"at {before}{hidden} end".encode()})), (before, hidden)
    assert not list(found([text], {"log": b"nothing of it"}))


WRONG_CONFIGS = {
    "a secret as a flag": ("hivenet-router", ["--jwt-secret", OTHER], {}, ""),
    "a secret as a flag with =": ("hivenet-router", [f"--admin-api-keys={OTHER}"], {}, ""),
    "an admin key with a space": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER} x"}, ""),
    "a short admin key": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": "Zq7short"}, ""),
    "the same admin key twice": ("hivenet-router", [], {"HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER},{OTHER}"}, ""),
    "a short secret": ("hivenet-router", [], {"HIVENET_ROUTER_JWT_SECRET": "Zq7short"}, ""),
    "an odd secret": ("hivenet-router", [], {"HIVENET_ROUTER_JWT_SECRET": OTHER + "\x01"}, ""),
    "an odd provider key": ("hivenet-router", [], {"HIVENET_ROUTER_OPENAI_API_KEY": f"{OTHER} {OTHER}"}, ""),
    "a secret in the file": ("hivenet-router", ["--config", "FILE"], {}, f"jwt_secret: {OTHER}\n"),
    "admin keys that are no list": ("hivenet-router", ["--config", "FILE"], {}, f"admin_api_keys: {{a: {OTHER}}}\n"),
    "a provider key in the file": ("hivenet-router", ["--config", "FILE"], {}, f"openai_api_key: {OTHER}\n"),
    "YAML that breaks at a secret": ("hivenet-router", ["--config", "FILE"], {}, f"admin_api_keys: [\"{OTHER}\n"),
    "a key as its hash": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{{key_hash: {OTHER}, metadata: {{name: n, owner: o}}}}]}}\n"),
    "a key as a key": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{OTHER}]}}\n"),
    "a key as the name of a setting": ("hivenet-router", ["--auth-config-file", "FILE"], {}, f"api: {{mode: api-key, keys: [{{key: {OTHER}, metadata: {{name: n, owner: o}}}}]}}\n"),
}


@pytest.mark.parametrize("way", [[], ["--check-config"], ["--print-config"]], ids=["start", "check", "print"])
@pytest.mark.parametrize("what", WRONG_CONFIGS)
def test_a_mistake_in_the_configuration_is_told_without_the_secret(tmp_path, what, way):
    program, arguments, env, text = WRONG_CONFIGS[what]
    file = tmp_path / "file.yaml"
    file.write_text(text)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
    clean |= {"HIVENET_ROUTER_HTTP_PORT": "127.0.0.1:0", "HIVENET_ROUTER_METRICS_PORT": "127.0.0.1:0"}
    ran = subprocess.run([BIN / program, *way, *(str(file) if a == "FILE" else a for a in arguments)], env={**clean, **env}, cwd=tmp_path,
                         capture_output=True, timeout=20)
    said = {"stdout": ran.stdout, "stderr": ran.stderr}
    assert not list(found([OTHER], said)) and b"Zq7short" not in ran.stdout + ran.stderr
    assert ran.returncode >= 0, "it does not crash"
    if way != ["--print-config"]:
        assert ran.returncode != 0 and ran.stderr, "and it is told"


def test_print_config_masks_every_secret_it_was_given(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HIVENET_", "GOLOG_"))}
    env |= {"HIVENET_ROUTER_JWT_SECRET": WRONG_SECRET, "HIVENET_ROUTER_ADMIN_API_KEYS": f"{OTHER},{WRONG_ADMIN}",
            "HIVENET_ROUTER_OPENAI_API_KEY": CLIENT, "HIVENET_ROUTER_ANTHROPIC_API_KEY": PROXY}
    ran = subprocess.run([BIN / "hivenet-router", "--print-config"], env=env, cwd=tmp_path, capture_output=True, timeout=20)
    assert ran.returncode == 0 and b"********" in ran.stdout
    assert not list(found([WRONG_SECRET, OTHER, WRONG_ADMIN, CLIENT, PROXY], {"stdout": ran.stdout, "stderr": ran.stderr}))
