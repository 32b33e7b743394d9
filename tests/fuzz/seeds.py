"""Writes the hand-made seeds of the corpora: seeds.py [TARGET...]. One small file a shape; the name says which.

What libFuzzer found worth keeping lies beside them as new-HASH, what once broke something as found-WHAT. Standard library only.
"""
import json
import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"

GET = b"GET /health HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def request_heads():
    return {
        "plain": GET + b"\r\n",
        "query": b"GET /v1/models?a=b&c=%20 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "http-1.0": b"GET / HTTP/1.0\r\n\r\n",
        "http-1.0-keep-alive": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "http-1.0-chunked": b"POST / HTTP/1.0\r\n" + CHUNKED,
        "http-2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "http-1.2": b"GET / HTTP/1.2\r\nHost: x\r\n\r\n",
        "http-0.9": b"GET /\r\n\r\n",
        "tls": bytes.fromhex("16030100a5010000a10303") + b"\0" * 40 + b"\r\n\r\n",
        "length": POST + b"Content-Length: 2\r\n\r\n{}",
        "chunked": POST + CHUNKED + b"0\r\n\r\n",
        "length-and-chunked": POST + b"Content-Length: 2\r\n" + CHUNKED,
        "two-lengths": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        "length-list": POST + b"Content-Length: 2, 2\r\n\r\n",
        "length-sign": POST + b"Content-Length: +2\r\n\r\n",
        "length-huge": POST + b"Content-Length: 999999999999999999\r\n\r\n",
        "length-too-long": POST + b"Content-Length: 18446744073709551617\r\n\r\n",
        "length-empty": POST + b"Content-Length:\r\n\r\n",
        "te-identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
        "te-list": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        "te-twice": POST + b"Transfer-Encoding: chunked\r\n" + CHUNKED,
        "te-odd-case": POST + b"transfer-encoding: ChUnKeD\r\n\r\n",
        "te-vertical-tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
        "space-before-colon": POST + b"Transfer-Encoding : chunked\r\n\r\n",
        "fold": GET + b"A: b\r\n c\r\n\r\n",
        "fold-tab": GET + b"A: b\r\n\tc\r\n\r\n",
        "fold-first": b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
        "bare-lf": b"GET / HTTP/1.1\nHost: x\n\n",
        "bare-cr": GET + b"A: b\rc\r\n\r\n",
        "nul-value": GET + b"A: b\0c\r\n\r\n",
        "nul-target": b"GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
        "no-host": b"GET / HTTP/1.1\r\n\r\n",
        "two-hosts": GET + b"Host: y\r\n\r\n",
        "absolute-form": b"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n",
        "authority-form": b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        "asterisk-get": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
        "fragment": b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
        "two-spaces": b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        "utf-8-target": "GET /modèle HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        "expect": POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        "expect-other": POST + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n",
        "connection-list": GET + b"Connection: keep-alive, close, x\r\n\r\n",
        "upgrade": GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n",
        "300-fields": GET + b"".join(b"a%d:b\r\n" % i for i in range(300)) + b"\r\n",
        "empty-name": GET + b": b\r\n\r\n",
        "no-colon": GET + b"abc\r\n\r\n",
        "unfinished": GET + b"A: b",
        "blank-lines-first": b"\r\n\r\n" + GET + b"\r\n",
        "lower-method": b"get / HTTP/1.1\r\nHost: x\r\n\r\n",
        "odd-method": b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
    }


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'


def answers():
    return {
        "length": OK + b"Content-Length: 2\r\n\r\n{}",
        "chunked": OK + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
        "until-close": OK + b"\r\n{}",
        "http-1.0": b"HTTP/1.0 200 OK\r\n\r\n{}",
        "204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "304": b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n",
        "100-first": b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + OK + b"Content-Length: 2\r\n\r\n{}",
        "103-first": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
        "100-flood": b"HTTP/1.1 100 Continue\r\n\r\n" * 60,
        "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "999": b"HTTP/1.1 999 X\r\n\r\n",
        "099": b"HTTP/1.1 099 X\r\n\r\n",
        "no-reason": b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "length-and-chunked": OK + b"Content-Length: 2\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
        "two-lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "length-short": OK + b"Content-Length: 100\r\n\r\n{}",
        "length-long": OK + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n",
        "length-over-cap": OK + b"Content-Length: 5000\r\n\r\n{",
        "bad-chunk": OK + CHUNKED + b"zz\r\n",
        "endless-chunk": OK + CHUNKED + b"ffffffffffffffff\r\nabc",
        "trailer": OK + CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\n\r\n",
        "extension": OK + CHUNKED + b"2;a=b\r\n{}\r\n0;c\r\n\r\n",
        "fold": OK + b"A: b\r\n c\r\n\r\n",
        "hop-fields": OK + b"Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nContent-Length: 0\r\n\r\n",
        "sse": SSE + CHUNKED + b"%x\r\n" % len(EVENT) + EVENT + b"\r\n0\r\n\r\n",
        "sse-cut": SSE + CHUNKED + b"%x\r\n" % len(EVENT) + EVENT[:20],
        "fields-without-end": OK + b"X-A: b\r\n" * 300,
        "garbage": b"\0\xff" * 50 + b"\r\n\r\n",
        "ssh": b"SSH-2.0-OpenSSH\r\n",
        "nothing": b"",
        "gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
    }


def bodies():
    wires = {
        "one": b"5\r\nhello\r\n0\r\n\r\n", "two": b"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", "extension": b"2;a=\"b\"\r\n{}\r\n0\r\n\r\n",
        "extension-lf": b"2;a\n\r\n{}\r\n0\r\n\r\n", "long-extension": b"2;" + b"a" * 300 + b"\r\n{}\r\n0\r\n\r\n",
        "trailer": b"0\r\nA: b\r\n\r\n", "bare-lf": b"2\n{}\n0\n\n", "no-digits": b"\r\n", "sign": b"+2\r\n{}\r\n", "prefix": b"0x2\r\n{}\r\n",
        "space": b"2 \r\n{}\r\n0\r\n\r\n", "leading-zeros": b"0000000000000002\r\n{}\r\n0\r\n\r\n", "17-digits": b"00000000000000002\r\n{}\r\n",
        "largest": b"ffffffffffffffff\r\n{}", "over-limit": b"ff\r\n" + b"a" * 255 + b"\r\n0\r\n\r\n", "too-long-chunk": b"1\r\nab\r\n0\r\n\r\n",
        "more-behind": b"1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", "unfinished": b"5\r\nhel", "empty": b"", "plain": b"hello",
    }
    out = {}
    for name, wire in wires.items():
        out["chunked-" + name] = bytes([12, 7, 0, 0]) + wire
        out["limited-" + name] = bytes([0, 9]) + struct.pack("<H", 64) + wire
    for kind, name in ((1, "length"), (2, "until-close")):
        for limit in (0, 3, 5, 60000):
            out[f"{name}-{limit}"] = bytes([kind, 3]) + struct.pack("<H", limit) + b"hello"
            out[f"{name}-{limit}-end"] = bytes([{1: 10 + 3, 2: 8}[kind] if kind == 1 else 8, 3]) + struct.pack("<H", limit) + b"hello"
    return out


def request_json():
    message = '"messages":[{"role":"user","content":"hi"}]'
    texts = {
        "plain": '{"model":"m",' + message + "}",
        "all": '{"model":"org/m:7b","stream":true,"stream_options":{"include_usage":true},"max_tokens":128,"max_completion_tokens":0,"user":"u","n":3,' + message + "}",
        "escaped-key": r'{"mod\u0065l":"m"}',
        "folded": '{"model":"m","Model":"n"}', "folded-escape": r'{"\u004dODEL":"n","model":"m"}', "folded-long-s": '{"model":"m","\u017ftream":true}',
        "folded-kelvin": r'{"model":"m","max_to\u212aens":1}', "folded-options": '{"model":"m","stream":true,"stream_options":{"Include_Usage":true}}',
        "folded-content": '{"model":"m","messages":[{"Content":[{"Type":"image_url"},{"TEXT":"a"}],"Tool_calls":[{"Function":{"Arguments":"{}"}}]}]}',
        "documents": '{"model":"m","messages":[{"content":[{"type":"document","title":"t","source":{"data":"d","type":"text"}},{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"base64","data":"QQ=="}}]}},{"type":"refusal","refusal":"r"},{"image_url":"u"}],"function_call":{"arguments":"a"}}]}',
        "media": '{"model":"m","functions":[{}],"suffix":"s","prompt":[{"prompt_string":["a",1],"multimodal_data":["QQ==",[1,"b"]]}]}',
        "choices": '{"model":"m","max_tokens":300,"n":2,"best_of":4,"prompt":["a",["b"],{"prompt_string":"c"}]}', "prompt-ids": '{"model":"m","max_tokens":300,"prompt":[1,-2,"x",[3]]}',
        "twice": '{"model":"m","model":"n"}',
        "twice-escaped": r'{"model":"m","mod\u0065l":"n"}',
        "nested-twice": '{"model":"m","a":{"model":"x","model":"y"}}',
        "null-model": '{"model":null}', "odd-model": '{"model":7}', "no-model": "{}", "empty-model": '{"model":""}',
        "long-model": '{"model":"' + "m" * 257 + '"}',
        "odd-types": '{"model":"m","stream":"true","max_tokens":"128","n":1e2,"stream_options":null,"user":[]}',
        "numbers": '{"model":"m","max_tokens":99999999999999999999,"max_completion_tokens":-1,"n":1e400,"x":[0,-0,0.5,1e-9,1E+2]}',
        "bad-numbers": '{"model":"m","x":[01,.5,1.,+1,1e,0x1,NaN,Infinity]}',
        "bom": "\ufeff \r\n{\"model\":\"m\"}\n\t ",
        "two-objects": '{"model":"m"}{"model":"m"}', "behind": '{"model":"m"} x', "array": '["model"]', "text": '"model"',
        "unclosed": '{"model":"m"', "unclosed-text": '{"model":"m', "mismatched": '{"model":"m","a":[}]',
        "comma": '{"model":"m",}', "no-comma": '{"model":"m" "a":1}', "no-colon": '{"model" "m"}',
        "control": '{"model":"m","a":"\x01"}', "bad-escape": r'{"model":"m","a":"\x"}', "short-escape": r'{"model":"m","a":"\u12"}',
        "surrogates": r'{"model":"m","a":"\ud83d\ude00","b":"\ud83d","c":"\ude00"}', "surrogate-key": r'{"model":"m","\ud83d":1}',
        "surrogate-model": r'{"model":"\ud83d"}', "bad-literals": '{"model":"m","a":tru,"b":nul}', "comment": '{"model":"m"/*x*/}',
        "parts": '{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}}]}]}',
        "tools": '{"model":"m","tools":[{"a":1}],"messages":[{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}',
        "anthropic": '{"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"content":[{"type":"tool_use","input":{"a":[1]}}]}]}',
        "prompt": '{"model":"m","prompt":["a","b"],"input":["c"]}', "options-odd": '{"model":"m","stream_options":{"include_usage":1,"x":{}} }',
        "spaces": ' { "model" : "m" , "stream" : true } ', "path": r'{"model":"a\/b\"c\\"}',
        "depth-255": '{"model":"m","a":' + "[" * 255 + "]" * 255 + "}", "depth-300": '{"model":"m","a":' + "[" * 300 + "]" * 300 + "}",
        "depth-open": '{"a":' * 400,
    }
    out = {name: text.encode("utf-8") for name, text in texts.items()}
    out["bad-utf-8"] = b'{"model":"m","a":"\xff\xfe"}'
    out["overlong"] = b'{"model":"m","a":"\xc0\xaf"}'
    out["surrogate-utf-8"] = b'{"model":"m","a":"\xed\xa0\x80"}'
    out["cut-utf-8"] = b'{"model":"m","a":"\xe2\x82'
    out["nul"] = b'{"model":"m"}\0'
    out["zeros"] = b"\0" * 40
    out["blank"] = b" \n\t"
    return out


def streams():
    def chat(delta, more=""):
        return 'data: {"choices":[{"index":0,"delta":' + delta + more + "}]}\n\n"

    texts = {
        "role": chat('{"role":"assistant","content":""}'), "content": chat('{"content":"x"}') * 3 + "data: [DONE]\n\n",
        "no-space": 'data:{"choices":[{"text":"x"}]}\n\n', "reasoning": chat('{"reasoning_content":"r","reasoning":"s"}'),
        "refusal": chat('{"refusal":"no"}'), "finish": chat("{}", ',"finish_reason":"stop"'),
        "tool": chat('{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}'), "function": chat('{"function_call":{"arguments":"x"}}'),
        "usage": 'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n',
        "usage-null": 'data: {"choices":[{"delta":{"content":"x"}}],"usage":null}\n\n', "usage-alone": 'data: {"usage":{"prompt_tokens":0,"completion_tokens":0}}\n\n',
        "usage-odd": 'data: {"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}\n\ndata: {"usage":{"completion_tokens":18446744073709551615}}\n\n',
        "error": 'data: {"error":{"message":"boom"}}\n\n', "error-event": 'event: error\ndata: {"x":1}\n\n', "error-field": "error: boom\n\n",
        "error-flat": 'data: {"object":"error","message":"m"}\n\n', "error-null": 'data: {"error":null,"choices":[{"text":"x"}]}\n\n',
        "anthropic": 'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":2}}}\n\n'
                     'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}\n\n'
                     'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}\n\ndata: {"type":"message_stop"}\n\n',
        "responses": 'data: {"type":"response.output_text.delta","delta":"x"}\n\ndata: {"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2}}}\n\n',
        "tool-block": 'data: {"type":"content_block_start","content_block":{"type":"tool_use","text":"t"}}\n\n',
        "thinking": 'data: {"type":"content_block_delta","delta":{"thinking":"t","partial_json":"{"}}\n\n',
        "comments": ": ping\n\n:\n\n::\n", "fields": "id: 1\nretry: 5\nevent: ping\nunknown: x\nnocolon\ndata\n\n", "bom": "\ufeffdata: {\"choices\":[{\"text\":\"x\"}]}\n\n",
        "half-bom": "\xef\xbbdata: [DONE]\n\n", "crlf": chat('{"content":"x"}').replace("\n", "\r\n"), "cr": chat('{"content":"x"}').replace("\n", "\r"),
        "mixed-ends": "data: a\r\rdata: b\n\rdata: c\r\n\r\n", "no-final": 'data: {"choices":[{"text":"x"}]}', "done-inside": chat('{"content":"[DONE]"}'),
        "done-spaces": "data:  [DONE] \t\n\n", "utf-8": chat('{"content":"é😀"}'), "escapes": chat(r'{"content":"\u00e9\ud83d\ude00\n"}'),
        "two-data": "data: {\"choices\":\ndata: [{\"text\":\"x\"}]}\n\n", "not-json": "data: hello\n\ndata: {\n\ndata: [1]\n\ndata: \"x\"\n\n",
        "duplicate-keys": 'data: {"choices":[],"choices":[{"text":"x"}],"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}\n\n',
        "logprobs": chat('{"content":"x"}', ',"logprobs":{"content":[{"token":"x","logprob":-0.1}]}'),
        "deep": "data: " + "[" * 60 + "\n\n", "many-choices": 'data: {"choices":[' + ",".join(['{"delta":{"content":"x"}}'] * 8) + "]}\n\n",
    }
    return {name: b"\x05" + text.encode("latin-1" if name == "half-bom" else "utf-8") for name, text in texts.items()}


def usage_json():
    texts = {
        "chat": '{"id":"x","usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}', "anthropic": '{"usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":2}}',
        "null": '{"usage":null}', "absent": '{"choices":[]}', "zero": '{"usage":{"prompt_tokens":0,"completion_tokens":0}}', "negative": '{"usage":{"prompt_tokens":-5}}',
        "double": '{"usage":{"prompt_tokens":1.5,"completion_tokens":1e2}}', "text": '{"usage":{"prompt_tokens":"7"}}', "largest": '{"usage":{"prompt_tokens":18446744073709551615,"cache_read_input_tokens":18446744073709551615}}',
        "array": "[1]", "empty": "", "half": '{"usage":{"prompt_tokens":7', "embedding": '{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":5,"total_tokens":5}}',
        "duplicate": '{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}', "bom": "\ufeff{\"usage\":{\"prompt_tokens\":1}}",
    }
    return {name: text.encode() for name, text in texts.items()}


def yaml():
    texts = {
        "map": "a: 1\nb:\n  c: [x, y]\n", "flow": "{a: 1, b: [1, 2, {c: d}]}", "bom-crlf": "\ufeffa: 1\r\nb: 2\r\n", "duplicate": "a: 1\nb: 2\na: 3\n",
        "merge": "x: &x {a: 1}\ny:\n  <<: *x\n  b: 2\n", "merge-list": "x: &x {a: 1}\nz: &z {b: 2}\ny:\n  <<: [*x, *z]\n  a: 9\n", "merge-self": "x: &x\n  <<: *x\n",
        "merge-scalar": "y:\n  <<: 7\n", "bomb": "a: &a [x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c]\n",
        "cycle": "a: &a [*a]\n", "unknown-alias": "a: *b\n", "deep-flow": "a: " + "[" * 40 + "]" * 40, "deep-open": "[" * 700, "deep-block": "".join("  " * i + "a:\n" for i in range(30)),
        "two-documents": "a: 1\n---\nb: 2\n", "tabs": "a:\n\tb: 1\n", "numbers": "a: [010, 08, 0x10, 1_000, .nan, .inf, 12:30, +5, .5, 1e3, -0, 1e400, 0]\n",
        "words": "a: [yes, NO, null, ~, True, 1.10, '', on]\n", "quoted": "a: \"x\\n\\u00e9\\x41\"\nb: 'it''s'\n", "block": "a: |\n  x\n  y\nb: >-\n  z\n", "tags": "a: !!str 1\nb: !foo x\nc: !!binary aGk=\n",
        "null-key": "~: 1\n", "complex-key": "? [a, b]\n: 1\n", "empty": "", "scalar": "just text", "list": "- a\n- b: 1\n", "comment": "# only\n", "directive": "%YAML 1.2\n---\na: 1\n",
        "dollar": "a: $HOME ${X}\n", "durations": "a: 5s\nb: 1h30m\nc: 500ms\nd: 0\n", "anchor-number": "a: &1 x\nb: *1\n", "long-key": "k" * 1100 + ": 1\n", "percent": "a: %x\n", "at": "a: @x\n",
        "control": "a: \"\x01\"\n", "merge-quoted": "y: {\"<<\": {a: 1}}\n", "json": '{"a":{"b":[1,2.5,true,null,"x\\u0000y"]}}', "unicode": "é: ü\n", "empty-values": "a:\nb:\n  -\n  - c:\n",
    }
    out = {name: text.encode() for name, text in texts.items()}
    out["bad-utf-8"] = b"a: \xff\xfe\n"
    out["utf-16"] = "a: 1\n".encode("utf-16")
    return out


def policies():
    texts = {
        "least": "routing_policy:\n  strategy: least-loaded\n",
        "full": "mode: reserved\nshed_if:\n  kv_cache_utilization: { gt: 0.90 }\nrouting_policy:\n  match:\n    region: EU\n    engine: vllm\n    tags: [production]\n"
                "  exclude_if:\n    kv_cache_utilization: { gt: 0.90 }\n    success_rate: { lt: 0.95, exclude_missing: true }\n    consecutive_failures: { gte: 3 }\n    srtt_upper: { ms: 5 }\n"
                "  strategy: least-loaded\n  max_tries: 3\nfallback_chain:\n  - name: any\n    strategy: liar\n    max_tries: 1\n",
        "named": "models: [\"llama3:70b\", x]\nrouting_policy: {strategy: least-loaded}\n", "serverless": "mode: serverless\nmax_input_tokens: 1000\nadmit_budget_tokens: 5\nmax_inflight: 3\nimages_max: 2\nrouting_policy: {}\n",
        "options": "routing_policy: {strategy: {name: liar, choices: 3}}\n", "options-map": "routing_policy: {strategy: liar, options: {a: [1, {b: 2}]}}\n", "unknown-strategy": "routing_policy: {strategy: power-of-two}\n",
        "unknown-field": "routing_policy: {exclude_if: {nonsense: {gt: 1}}}\n", "two-operators": "routing_policy: {exclude_if: {srtt: {gt: 1, lt: 2}}}\n", "no-number": "routing_policy: {exclude_if: {srtt: {gt: x}}}\n",
        "provider": "routing_policy: {}\nfallback_chain:\n  - {name: cloud, engine: openai, model: gpt}\n", "provider-key": "provider: {engine: anthropic, model: c}\nrouting_policy: {}\n", "unknown-key": "routing_polcy: {}\n",
        "max-age": "routing_policy: {exclude_if: {srtt: {gt: 1, max_age: 5s}}}\n", "on-error": "routing_policy: {on_error: exclude, exclude_if: {srtt_upper: 5}}\n", "negative": "routing_policy: {max_tries: -1}\nmax_inflight: -5\n",
        "chain-no-name": "routing_policy: {}\nfallback_chain: [{strategy: least-loaded}]\n", "same-names": "routing_policy: {}\nfallback_chain: [{name: a}, {name: a}]\n", "empty": "", "list": "[]",
        "merge": "x: &x {strategy: least-loaded}\nrouting_policy:\n  <<: *x\n", "gpu-model": "routing_policy: {match: {gpu_model: \"NVIDIA H100\", machine: m, organization: o}}\n",
    }
    out = {}
    for name, text in texts.items():
        for how in (0, 3) if name in ("named", "full") else (0,):
            out[f"{name}-{how}"] = bytes([how]) + text.encode()
    return out


def settings():
    texts = {
        "router": "http_port: 127.0.0.1:8080\nqueue_size: 5\nrequest_timeout: 90s\nworkers: 2\n", "plugins": "plugins:\n  dirs: [/usr/lib/hive]\n  enable: [storage_lmdb]\n  config:\n    gate:\n      srtt: {a: 1}\n  pins:\n    a: " + "0" * 64 + "\n",
        "unknown": "queue_sise: 5\n", "range": "queue_size: -1\nworkers: 10000\n", "types": "queue_size: [1]\nrequest_timeout: {a: 1}\nreset_disk_db: maybe\n", "agent": "engine: vllm\nbackend_url: http://127.0.0.1:8000/\nrouter: [a:1, b:2]\ncapacity: 4\n",
        "nulls": "queue_size:\nrequest_timeout: ~\nhttp_port: null\n", "words": "log_level: \"NO\"\npolicy_file: 1.10\n", "secret": "hivenet_secret: abc\nadmin_keys: [x]\n", "bytes": "max_request_bytes: 10MiB\n", "scalar": "x", "list": "- a\n",
    }
    names = sorted(set(re.findall(r"`([a-z0-9_.]+)`", (HERE.parent.parent / "docs/reference/settings-router.md").read_text())))
    texts["every-key"] = "".join(f"{n}: 1\n" for n in names if "." not in n)
    texts["every-key-text"] = "".join(f"{n}: \"a b\"\n" for n in names if "." not in n)
    return {name: text.encode() for name, text in texts.items()}


def link_records():
    def record(kind, flags=0, stream=0, credit=0, seq=0, aux=0, meta=b"", payload=b"", version=1, length=None, meta_length=None):
        size = len(meta) + len(payload)
        head = struct.pack("<BBHIQIIII", version, kind, flags, size if length is None else length, stream, len(meta) if meta_length is None else meta_length, credit, seq, aux)
        return head + meta + payload + b"\0" * (-size % 8)

    def meta(*entries):
        return struct.pack("<H", len(entries)) + b"".join(struct.pack("<HH", len(k), len(v)) + k + v for k, v in entries)

    block = meta((b":method", b"POST"), (b":path", b"/v1/chat/completions"), (b":deadline", b"60000"), (b"content-type", b"application/json"))
    return {
        "ping": record(6, seq=3), "open": record(20, 2, 1 << 48 | 1, 262144, meta=block, payload=b'{"model":"m"}'), "data": record(25, 4, 1 << 48 | 1, seq=2, payload=b"x" * 9),
        "two": record(6) + record(25, 1, 7, payload=b"abc"), "bad-version": record(6, version=2), "long": record(25, length=1 << 20), "meta-over-length": record(25, meta_length=5), "huge": record(25, length=0xffffffff, meta_length=0xffffffff),
        "cut": record(25, payload=b"abcdefgh")[:-1], "head-only": record(6)[:31], "empty": b"", "unknown-kind": record(99, 16), "meta-bad-count": record(20, meta=struct.pack("<H", 500) + b"abc"),
        "meta-bad-length": record(20, meta=struct.pack("<HHH", 1, 60000, 1) + b"abcd"), "meta-empty": record(20, meta=meta()), "text": b"GET / HTTP/1.1\r\n\r\n", "zeros": b"\0" * 64, "ones": b"\xff" * 64, "block": block,
    }


def link_messages():
    nonce, other = "ab" * 32, "0" * 64
    rows = [
        (0, {"min": 1, "max": 1, "boot": "07" + "0" * 14, "peer": "12D3KooW", "nonce": nonce, "link": 0}), (1, {"version": 1, "nonce": nonce, "echo": other, "boot": "07" + "0" * 14}), (2, {"proof": nonce, "window": 262144}),
        (3, {"proof": nonce, "epoch": 7, "ttl_ms": 1000, "heartbeat_ms": 5, "ping_ms": 5, "body_window": 5, "link_window": 5, "slot_release": "headers", "endpoints": ["127.0.0.1:1"]}),
        (4, {"code": "duplicate", "message": "m", "retry_after_ms": 5000, "final": False}), (5, {"ready": True, "reason": ""}), (6, {"in_flight_total": 1, "in_flight_yours": 1, "capacity": 8}),
        (7, {"values": [["load", 1.5, 10], ["x", -1e300, 0]]}), (7, {"values": [["a", 1]]}), (7, {"values": []}),
        (8, {"model": "m", "capacity": 4, "version": "1", "engine": "vllm", "region": "EU", "organization": "o", "tags": ["a"], "hide_llm": True, "llm_info": "{}"}),
        (8, {"models": ["a", "b"], "capacity": 1e9, "version": "1", "engine": "e", "region": "r", "organization": "o"}), (8, {"models": [1]}),
    ]
    out = {f"{kind}-{i}": bytes([kind]) + json.dumps(row, separators=(",", ":")).encode() for i, (kind, row) in enumerate(rows)}
    for kind in range(9):
        out[f"{kind}-empty"] = bytes([kind]) + b"{}"
        out[f"{kind}-deep"] = bytes([kind]) + b"[" * 100
    return out


def identities():
    # RFC 8032 section 7.1, test 1, in the file's layout.
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    file = b"\x08\x01\x12\x40" + seed + public
    return {
        "file": b"\0" + file, "file-other-public": b"\0" + file[:-1] + b"\0", "file-short": b"\0" + file[:-1], "file-long": b"\0" + file + b"\0", "file-rsa": b"\0\x08\0" + file[3:], "file-empty": b"\0",
        "peer": b"\x01" + b"12D3KooWRm8J3iL796zPFi2EtGGtUJn58AG67gcRqUkWTGDGMRMN"[:52], "peer-short": b"\x01" + b"12D3KooW", "peer-cid": b"\x01bafzaajaiaejca", "peer-qm": b"\x01QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", "peer-odd": b"\x0112D3KooW0OIl",
        "secrets-one": b"\x02" + b"0123456789abcdef" * 2 + b"\n", "secrets-two": b"\x02\xef\xbb\xbf " + b"a" * 32 + b"\r\n\r\n" + b"b" * 40, "secrets-short": b"\x02short\n", "secrets-many": b"\x02" + (b"c" * 32 + b"\n") * 9, "secrets-control": b"\x02" + b"d" * 31 + b"\0\n",
    }


def engine(kind):
    out = {}
    for file in sorted((GOLDEN / kind).glob("*")) if (GOLDEN / kind).is_dir() else []:
        data = file.read_bytes()
        if file.name.startswith("metrics"):
            # A page of its own series, without the histograms' many buckets of other requests.
            lines = [line for line in data.decode().splitlines() if not line.startswith("#")]
            out[file.stem] = bytes([2, 0]) + "\n".join(lines[:150]).encode()[:6000] + b"\n"
        elif "error" in file.name or "422" in file.name:
            for status in (1, 6):
                out[f"{file.stem}-{status}"] = bytes([7, status]) + data[:3000]
        else:
            out[file.stem] = bytes([1 if "models" in file.name else 0, 0]) + data[:4000]
    pages = {
        "nan": "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc +Inf\n", "exponent": "vllm:num_requests_waiting 1.5e+002\nllamacpp:requests_processing 3e0\n", "timestamp": "vllm:num_requests_running 3 1700000000000\n",
        "labels": 'vllm:num_requests_running{model_name="a\\"b}{\\\\",engine="0"} 1\nvllm:num_requests_running{model_name="a",engine="1"} 2\n', "created": "vllm:request_success_created 1.7e9\n",
        "histogram": 'vllm:time_to_first_token_seconds_bucket{le="0.1"} 1\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 3\nvllm:time_to_first_token_seconds_sum 0.5\nvllm:time_to_first_token_seconds_count 3\n',
        "histogram-falling": 'vllm:time_to_first_token_seconds_bucket{le="0.1"} 5\nvllm:time_to_first_token_seconds_bucket{le="0.2"} 3\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 1\n',
        "half": "vllm:num_requests_running{model", "no-newline": "vllm:num_requests_running 1", "html": "<html><body>metrics</body></html>", "empty": "", "negative": "vllm:request_success_total -5\nllamacpp:tokens_predicted_total -1\n",
        "llama": "llamacpp:prompt_tokens_total 5\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\nllamacpp:kv_cache_usage_ratio 0.5\n", "openmetrics": "# TYPE a counter\na_total 1 # {trace_id=\"x\"} 0.5\n# EOF\n", "crlf": "vllm:num_requests_running 1\r\n",
    }
    for name, text in pages.items():
        out["page-" + name] = bytes([2, 0]) + text.encode()
    models = {"two": '{"data":[{"id":"base","max_model_len":2048},{"id":"lora","parent":"base"},{"name":"x"},{"id":""},7]}', "ollama": '{"models":[{"name":"a"}]}', "odd": '{"data":{}}', "deep": "[" * 200, "half": '{"data":[{"id":"a"'}
    for name, text in models.items():
        out["models-" + name] = bytes([1, 0]) + text.encode()
    errors = {"openai": '{"error":{"message":"m","type":"t","code":503}}', "flat": '{"object":"error","message":"maximum context length is 5","code":400}', "fastapi": '{"detail":[{"loc":["body"],"msg":"Field required"}]}', "detail": '{"detail":"Not Found"}', "text": "Internal Server Error", "loading": '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'}
    for name, text in errors.items():
        for status in (0, 1, 5, 7):
            out[f"answer-{name}-{status}"] = bytes([7, status | (status % 6) << 3]) + text.encode()
    return out


def routes():
    paths = ["/health", "/health/", "//health", "/v1/models", "/v1/models/", "/v1//models", "/v1/models/a%2Fb", "/v1/models//a//b/", "/v1/chat/completions", "/v1/chat/completions/", "/v1/v1/chat/completions", "/chat/completions", "/V1/models",
             "/admin/health", "//admin/health", "/admin//health", "/admin", "/admin/", "/v1/../admin/health", "/v1/models/../../admin", "/%61dmin/health", "/v1/models/%", "/v1/models/%4", "/v1/models/%zz", "/v1/models/%00", "/", "", "*", "/v1/models/m%C3%B6del", "/v1/embeddings", "/v1/messages", "/v1/responses"]
    return {f"{m}-{i}": bytes([m]) + p.encode() for i, p in enumerate(paths) for m in (0, 2)}


def addresses():
    texts = [":8080", "127.0.0.1:8080", "name:1", "[::1]:0", "::1:80", "[::1", "a:b:c", ":70000", ":-1", ":", "", "/ip4/1.2.3.4/tcp/5", "/ip6/::1/tcp/5", "/dns4/name/tcp/5", "/dns/name", "/ip4/x/tcp/5", "tcp://h:5", "http://h", "http://h:80/base/", "https://h/", "http://u@h",
             "http://[::1]:8080/v1/", "http://h:0", "http://h:99999", "http://h?x", "http:///x", "HTTP://H//", "500ms", "1h30m", "1.5s", "0", "-5s", "5", "9999999999999h", "1ns", "1us2ns", "00000000-0000-0000-0000-000000000000", "0" * 32, "[fe80::1%eth0]:80"]
    return {str(i): t.encode() for i, t in enumerate(texts)}


def http_server():
    def post(path, body, fields=b""):
        return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body) + fields + b"\r\n" + body

    wires = {"head-" + name: wire[:2500] for name, wire in request_heads().items()}
    wires |= {
        "echo": post(b"/e", b"hello"), "echo-chunked": b"POST /e HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", "echo-too-large": post(b"/b", b"x" * 17), "chunk-too-large": b"POST /b HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"ff\r\nabc",
        "bad-chunk": b"POST /e HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"zz\r\n", "trailer": b"POST /e HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\nA: b\r\n\r\n", "expect": post(b"/e", b"hello", b"Expect: 100-continue\r\n"), "expect-refused": post(b"/x", b"hello", b"Expect: 100-continue\r\n"),
        "pipeline": GET + b"\r\n" + post(b"/e", b"abc") + b"GET /s HTTP/1.1\r\nHost: x\r\n\r\n" + GET + b"Connection: close\r\n\r\n" + GET + b"\r\n", "pipeline-bad": GET + b"\r\n" + b"GARBAGE\r\n\r\n" + GET + b"\r\n",
        "stream": b"GET /s HTTP/1.1\r\nHost: x\r\n\r\n", "stream-1.0": b"GET /s HTTP/1.0\r\n\r\n", "head-stream": b"HEAD /s HTTP/1.1\r\nHost: x\r\n\r\n" + GET + b"\r\n", "written": b"GET /w HTTP/1.1\r\nHost: x\r\n\r\n" * 2, "written-1.0": b"GET /w HTTP/1.0\r\n\r\n", "cut": b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n" + GET + b"\r\n",
        "held": b"GET /h HTTP/1.1\r\nHost: x\r\n\r\n" + GET + b"\r\n", "throws": b"GET /t HTTP/1.1\r\nHost: x\r\n\r\n", "throws-body": post(b"/t", b"hello"), "none": b"GET /n HTTP/1.1\r\nHost: x\r\n\r\n" * 3, "early": post(b"/x", b"hello") + GET + b"\r\n", "early-chunked": b"POST /x HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + GET + b"\r\n",
        "early-huge": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\nabc", "bomb": GET + b"A: " + b"a" * 3000 + b"\r\n\r\n", "empty-lines": b"\r\n\r\n\r\n" + GET + b"\r\n\r\n\r\n" + GET + b"\r\n", "body-1.0": b"POST /e HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", "half-body": post(b"/e", b"hello")[:-2], "stream-body": post(b"/b", b"0123456789"), "head-echo": b"HEAD /e HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + GET + b"\r\n",
    }
    out = {}
    for i, (name, wire) in enumerate(wires.items()):
        out[name] = bytes([(1, 0, 9, 8, 7)[i % 5], i & 255]) + wire
    return out


def edges():
    """Requests of clients with and without the keys that edge_bed.hpp knows, to every route and to an engine that answers in every way."""
    client, admin = b"sk-edge-key-of-a-client", b"edge-admin-key"

    def ask(method, path, body=None, fields=b"", key=client):
        head = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\n" + (b"Authorization: Bearer " + key + b"\r\n" if key else b"") + fields
        return head + (b"\r\n" if body is None else b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def chat(words=b"hi", more=b"", path=b"/v1/chat/completions", **rest):
        return ask(b"POST", path, b'{"model":"m","messages":[{"role":"user","content":"' + words + b'"}]' + more + b"}", **rest)

    stream = b',"stream":true'
    wires = {"health": ask(b"GET", b"/health", key=b""), "ready": ask(b"HEAD", b"/health/ready", key=b""), "models": ask(b"GET", b"/v1/models"), "models-none": ask(b"GET", b"/v1/models", key=b""),
             "models-claude": ask(b"GET", b"//v1/models/", fields=b"anthropic-version: 2023-06-01\r\n"), "model": ask(b"GET", b"/v1/models/a%2Fb"), "unknown": ask(b"GET", b"/chat/completions"), "method": ask(b"DELETE", b"/v1/models"),
             "preflight": b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", "origin": ask(b"GET", b"/v1/models", fields=b"Origin: https://page.example\r\n"),
             "guesses": ask(b"GET", b"/v1/models", key=b"guess") * 7 + ask(b"GET", b"/v1/models"), "guesses-both": (ask(b"GET", b"/v1/models", key=b"a") + ask(b"GET", b"/admin/x", key=b"b")) * 4, "two-keys": ask(b"GET", b"/v1/models", fields=b"x-api-key: other\r\n"), "same-key": ask(b"GET", b"/v1/models", fields=b"x-api-key: " + client + b"\r\n"),
             "bare-key": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nauthorization: " + client + b"\r\n\r\n", "basic": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDp5\r\n\r\n", "admin": ask(b"GET", b"/admin/x", key=admin), "admin-client": ask(b"GET", b"/admin/x"), "admin-none": ask(b"PUT", b"/admin/x", b"abc", key=b""), "admin-put": ask(b"PUT", b"/admin/x?a=b", b"abc", key=admin), "client-admin": ask(b"GET", b"/v1/models", key=admin),
             "chat": chat(), "chat-stream": chat(more=stream), "chat-none": chat(key=b""), "chat-1.0": chat().replace(b"HTTP/1.1", b"HTTP/1.0"), "chat-two": chat() + chat(more=stream) + ask(b"GET", b"/health"), "chat-user": chat(more=b',"max_tokens":5,"user":"u","stream_options":{"include_usage":true},"stream":true'),
             "messages": chat(path=b"/v1/messages", more=b',"max_tokens":3'), "completions": chat(path=b"/v1/completions", more=b',"prompt":"p"'), "responses": chat(path=b"/v1/responses", more=b',"input":"p"'), "embeddings": chat(path=b"/v1/embeddings", more=b',"input":"p"'), "count": chat(path=b"/v1/messages/count_tokens"),
             "other-model": ask(b"POST", b"/v1/chat/completions", b'{"model":"n","messages":[]}'), "no-model": ask(b"POST", b"/v1/chat/completions", b"{}"), "twice": ask(b"POST", b"/v1/chat/completions", b'{"model":"m","model":"n"}'), "broken": ask(b"POST", b"/v1/chat/completions", b'{"model":'), "large": ask(b"POST", b"/v1/chat/completions", b'{"model":"m","x":"' + b"x" * 3000 + b'"}'),
             "too-large": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + client + b"\r\nContent-Length: 5000\r\n\r\nabc", "expect": chat(fields=b"Expect: 100-continue\r\n"), "expect-none": chat(key=b"", fields=b"Expect: 100-continue\r\n"), "half": chat()[:-5], "smuggled": chat(fields=CHUNKED[:-2]), "two-lengths": chat(fields=b"Content-Length: 3\r\n"),
             "chunked": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + client + b"\r\n" + CHUNKED + b"11\r\n{\"model\":\"m\",\"a\r\n4\r\n\":1}\r\n0\r\n\r\n", "bad-chunk": b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + client + b"\r\n" + CHUNKED + b"zz\r\n",
             "id": ask(b"GET", b"/v1/models", fields=b"X-Request-ID: 0b5f6c1e-aaaa-4000-8000-000000000001\r\n"), "id-odd": ask(b"GET", b"/v1/models", fields=b"X-Request-ID: a'b\r\n"), "forwarded": ask(b"GET", b"/v1/models", fields=b"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n"), "no-request": b"no request\r\n\r\n", "form": ask(b"POST", b"/v1/chat/completions", b"--b\r\n\r\n--b--", fields=b"Content-Type: multipart/form-data; boundary=b\r\n")}
    for what in (b"fails", b"refuses", b"cuts", b"hangs", b"is-lost"):
        for name, more in (("", b""), ("-stream", stream)):
            wires[f"engine-{what.decode()}{name}"] = chat(b"engine-" + what, more) + ask(b"GET", b"/health")
    return {name: bytes([i & 1, i & 255]) + wire for i, (name, wire) in enumerate(wires.items())}


def http_client():
    out = {}
    for i, (name, wire) in enumerate(answers().items()):
        out[name] = bytes([(0, 1, 2, 3, 0x11, 0x20, 0x31)[i % 7], i]) + wire
        out[name + "-get"] = bytes([0, i + 100]) + wire
    out["two-answers"] = bytes([0, 1]) + (OK + b"Content-Length: 2\r\n\r\n{}") * 2
    return out


def link_session():
    out = {}
    opens = [0, 1, 2, 3, 4, 5, 6, 8, 17]
    for how in opens:
        out[f"open-{how}"] = bytes([6, how, 9, 9])
        out[f"open-cancel-{how}"] = bytes([6, how, 9, 7, 0, 9])
    frames = link_records()
    for name, frame in frames.items():
        for op in (0, 1):
            out[f"raw-{op}-{name}"] = bytes([6, 2, 9, op]) + struct.pack("<H", len(frame)) + frame[:599] + bytes([9])
        if len(frame) < 200:
            out[f"stranger-{name}"] = bytes([8, len(frame) & 255]) + frame[:255] + bytes([9])
    for which in range(24):
        for op, side in ((2, "hub"), (4, "agent")):
            stream = 0 if which < 14 else 50
            out[f"record-{side}-{which}"] = bytes([6, 2, 9, op, which, 1, stream, 1, 0, 5, 0, 16, 1, 0, 4]) + b"abcd" + bytes([9])
    return out


def plugin_answers():
    out = {}
    for how in range(4):
        for index in (0, 9, 230):
            for answer in (0, 2, 5):
                agents = b"".join(bytes([state]) + struct.pack("<d", heat) for state, heat in ((1, 10.0), (64, 20.0), (0, 60.0), (12, 5.0)))
                out[f"{how}-{index}-{answer}"] = bytes([how, 4]) + agents + bytes([index, answer, answer & how, 1]) + struct.pack("<d", 0.5) + b"\0\0\0\0\2\0\0\0" * 2
    return out


def usage_ask():
    usage = 'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
    texts = {"usage": usage, "between": 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n' + usage + "data: [DONE]\n\n", "crlf": usage.replace("\n", "\r\n") * 2, "cr": usage.replace("\n", "\r") * 2,
             "with-content": 'data: {"choices":[{"text":"x"}],"usage":{"prompt_tokens":1}}\n\n', "null": 'data: {"choices":[{"text":"x"}],"usage":null}\n\n', "no-choices": 'data: {"usage":{}}\n\n', "error": 'data: {"usage":{},"error":{"message":"m"}}\n\n',
             "two-data": 'data: {"usage":\ndata: {}}\n\n', "comment-inside": ': x\ndata: {"usage":{}}\n\n', "unfinished": usage[:-1], "blank-lines": "\n\n\r\n\r\r" + usage, "bom": "\ufeff" + usage, "in-text": 'data: {"choices":[{"text":"\\"usage\\""}]}\n\n'}
    out = {"stream-" + name: b"\x05" + text.encode() for name, text in texts.items()}
    bodies = {"plain": '{"model":"m","stream":true}', "spaces": ' { "model" : "m" , "stream" : true }', "options": '{"stream_options":{},"model":"m","stream":true}', "options-more": '{"model":"m","stream":true,"stream_options":{ "x":1}}', "asked": '{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
              "refused": '{"model":"m","stream":true,"stream_options":{"include_usage":false}}', "null": '{"model":"m","stream":true,"stream_options":null}', "odd": '{"model":"m","stream":true,"stream_options":7}', "bom": '\ufeff{"model":"m","stream":true}', "no-stream": '{"model":"m"}',
              "folded": '{"model":"m","stream":true,"stream_options":{"INCLUDE_USAGE":false}}', "folded-top": '{"model":"m","stream":true,"Stream_Options":{}}'}
    out |= {"body-" + name: b"\0" + text.encode() for name, text in bodies.items()}
    return out


def forms():
    def part(name, value, more=b""):
        return b'--x\r\nContent-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + value + b"\r\n"

    end = b"--x--\r\n"
    bodies = {"model": part(b"model", b"m") + end, "stream": part(b"model", b"m") + part(b"stream", b"true") + end, "file": part(b"file", b"\0\xff--x", b'; filename="a.wav"') + part(b"model", b"m") + end, "twice": part(b"model", b"m") * 2 + end, "no-model": part(b"a", b"b") + end,
              "no-end": part(b"model", b"m"), "preamble": b"hello\r\n" + part(b"model", b"m") + end + b"epilogue", "bare-lf": part(b"model", b"m").replace(b"\r\n", b"\n") + end, "model-file": part(b"model", b"m", b'; filename="m"') + end, "empty-model": part(b"model", b"") + end,
              "long-model": part(b"model", b"m" * 300) + end, "boundary-inside": part(b"model", b"m\r\n--xy") + end, "spaces": part(b"model", b"m").replace(b"--x\r\n", b"--x \t\r\n") + end, "single-quotes": part(b"model", b"m").replace(b'"', b"'") + end, "empty": b""}
    model = part(b"model", b"m")
    bodies |= {"name-twice": part(b"a", b"b", b'; name="model"') + model + end, "name-star": part(b"a", b"b", b"; name*=utf-8''model") + model + end, "name-pieces": part(b"a", b"b").replace(b'name="a"', b"name*0=mod; name*1=el") + model + end,
               "name-in-quotes": part(b"a", b"b", b'; x="; name=model; y="') + model + end, "name-in-angles": part(b"a", b"b").replace(b'"a"', b"<model>") + model + end, "even-backslashes": part(b"a", b"b", b'; x="\\\\"; y="; z="') + model + end, "semicolon-in-name": part(b"model;x", b"b") + model + end,
               "two-dispositions": part(b"a", b'"\r\nContent-Disposition: form-data; name="model').replace(b'"a"\r\n\r\n"', b'"a"').replace(b"model\r\n", b'model"\r\n\r\nb\r\n') + model + end, "folded-line": part(b"a", b"b").replace(b"; name", b";\r\n name") + model + end, "lf-line": part(b"a", b"b").replace(b"Content", b"X: y\nContent") + model + end,
               "lf-preamble": part(b"model", b"n").replace(b"\r\n", b"\n") + b"--x--\n\r\n" + model + end, "lf-boundary": part(b"a", b"b\n--x\nc") + model + end, "cr-boundary": part(b"a", b"b\r--x\rc") + model + end, "after-the-end": model + end + model + end, "behind-the-end": model + b"--x--x", "capital": part(b"Model", b"n") + model + end,
               "attachment": part(b"model", b"n").replace(b"form-data", b"attachment") + model + end, "no-type": part(b"model", b"n").replace(b"form-data; name", b"name") + model + end, "file-star": part(b"f", b"b", b"; filename*=utf-8''a.wav") + model + end}
    out = {name: b"\x01" + body for name, body in bodies.items()}
    for i, kind in enumerate((b"multipart/form-data", b"multipart/form-data; boundary=", b'multipart/form-data; charset=a; boundary="x"', b"application/json", b"Multipart/Form-Data;boundary=x ", b'multipart/form-data; boundary="x', b"multipart/form-data; boundary=y; boundary=x",
                             b'multipart/form-data; a="boundary=y"; boundary=x', b"multipart/form-data; boundary=<x>", b"multipart/form-data; boundary*0=x")):
        out[f"type-{i}"] = bytes([len(kind) << 1]) + kind + bodies["model"]
    return out


def translations():
    chat, messages = 1, 0   # the first bit: from chat (requests) or to chat (answers and streams)
    requests = {"chat": (chat, '{"model":"o","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]}],"temperature":1.5,"stop":"x"}'),
                "chat-tools": (chat, '{"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","parallel_tool_calls":false,"messages":[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}'),
                "chat-system-only": (chat, '{"messages":[{"role":"system","content":"s"}]}'), "chat-odd": (chat, '{"messages":[1,{"role":2},{"role":"user","content":{}}],"max_tokens":-1,"n":1e9}'),
                "chat-format": (chat, '{"messages":[{"role":"user","content":"u"}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"max_tokens":1.5}'),
                "messages": (messages, '{"model":"o","max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"text","text":"t"}]},{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"f","input":{"a":1}},{"type":"thinking"}]}],"stream":true}'),
                "messages-tools": (messages, '{"messages":[{"role":"user","content":"u"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"output_config":{"format":{"schema":{}}}}'),
                "messages-document": (messages, '{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"d"}}]}]}'), "deep": (chat, '{"messages":' + "[" * 300 + "]" * 300 + "}"), "lone-surrogate": (chat, '{"messages":[{"role":"user","content":"\\ud800"}]}')}
    answers = {"message": (chat, '{"id":"m","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"cache_read_input_tokens":18446744073709551615,"output_tokens":2}}'), "no-content": (chat, '{"content":[]}'),
               "completion": (messages, '{"choices":[{"message":{"content":"t","tool_calls":[{"id":"1","function":{"name":"f","arguments":"[1]"}}]},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":9}}}'), "no-choices": (messages, '{"choices":[]}')}
    start, text = 'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}\n\n', 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t"}}\n\n'
    tool = 'data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"1","name":"f","input":{"a":1}}}\n\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\ndata: {"type":"content_block_stop","index":1}\n\n'
    stop = 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\ndata: {"type":"message_stop"}\n\n'

    def chunk(delta, more=""):
        return 'data: {"id":"c","model":"g","choices":[{"index":0,"delta":' + delta + more + "}]}\n\n"

    call = '{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]}'
    chunks = chunk('{"role":"assistant","content":"a"}') + chunk(call) + chunk("{}", ',"finish_reason":"stop"') + 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
    streams = {"messages": (chat, start + text + tool + stop), "messages-crlf": (chat, ("event: x\n" + start + ": c\n" + text + stop).replace("\n", "\r\n")), "messages-error": (chat, start + text + 'data: {"type":"error","error":{"type":"t","message":"m"}}\n\n'), "messages-twice": (chat, start + start), "messages-after-end": (chat, start + stop + text),
               "messages-no-start": (chat, text), "chunks": (messages, chunks), "chunks-cr": (messages, chunks.replace("\n", "\r")), "chunks-mixed": (messages, chunk(call) + chunk('{"content":"t"}') + chunk(call)), "chunks-error": (messages, 'data: {"error":{"message":"m"}}\n\n'), "done-alone": (messages, "data: [DONE]\n\n"), "two-data": (messages, "data: {\ndata: }\n\n"), "no-end": (messages, chunks[:-2])}
    out = {f"request-{name}": bytes([bit]) + body.encode() for name, (bit, body) in requests.items()}
    out |= {f"answer-{name}": bytes([bit | 2 | 8]) + body.encode() for name, (bit, body) in answers.items()}
    return out | {f"stream-{name}": bytes([bit | 4 | 16]) + body.encode() for name, (bit, body) in streams.items()}


def passed_streams():
    chat, completions, responses, messages, small = 0, 1, 2, 3, 4
    piece = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    done, failed = "data: [DONE]\n\n", 'data: {"error":{"message":"of sk-1"}}\n\n'
    start, stop = 'event: message_start\ndata: {"type":"message_start"}\n\n', 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    rows = {"chat": (chat, piece + done), "chat-cr": (chat, (piece + done).replace("\n", "\r")), "chat-crlf": (chat, ("\ufeff: c\n" + piece + done).replace("\n", "\r\n")), "no-end": (chat, piece), "half": (chat, piece + done[:-2]), "done-alone": (chat, done),
            "error": (chat, piece + failed), "error-first": (chat, failed), "named-error": (messages, start + "event: error\ndata: {\"x\":\"sk-1\"}\n\n"), "no-json": (chat, piece + "data: sk-1\n\n"), "key-in-content": (chat, piece.replace("a", "sk-1") + done),
            "completions": (completions, 'data: {"choices":[{"text":"a"}]}\n\n' + done), "long": (chat | small, piece.replace("a", "a" * 99) + piece + done), "long-error": (chat | small, failed.replace("of", "of" * 40) + failed), "messages": (messages, start + stop),
            "responses": (responses, 'data: {"type":"response.created"}\n\ndata: {"type":"response.completed"}\n\n'), "responses-failed": (responses, 'data: {"type":"response.failed","response":{"error":{"message":"sk-1"}}}\n\n'), "two-data": (chat, "data: {\ndata: \"choices\":[{}]}\n\n")}
    return {name: bytes([how, 7]) + text.encode() for name, (how, text) in rows.items()}


def credentials():
    def fields(*rows):
        return b"".join(bytes([len(value) << 3 | name]) + value for name, value in rows)

    rows = {"bearer": [(0, b"Bearer sk-abc")], "lower": [(1, b"bearer   sk-abc ")], "tab": [(0, b"Bearer\tsk-abc")], "bare": [(0, b"sk-abc")], "basic": [(0, b"Basic YTpi")], "only-scheme": [(0, b"Bearer")], "blank": [(0, b"  "), (2, b"k")], "x-api-key": [(2, b"sk-abc")],
            "alike": [(0, b"Bearer k"), (2, b"k")], "differ": [(0, b"Bearer k"), (3, b"l")], "three": [(0, b"a"), (2, b"b"), (0, b"a")], "cookie": [(4, b"sk-abc")], "many": [(2, b"a")] * 8, "basic-and-key": [(0, b"Basic x"), (2, b"k")], "inner-space": [(2, b"a b")]}
    return {name: fields(*row) for name, row in rows.items()}


def auth_files():
    key = '    - key_hash: "' + "ab" * 32 + '"\n      key_preview: "sk-...abcd"\n      metadata: {name: n, owner: o}\n'
    texts = {"none": "api: {mode: none}\n", "empty": "", "key": "api:\n  mode: api-key\n  keys:\n" + key + "admin: {mode: api-key}\n", "no-keys": "api: {mode: api-key}\n", "same-twice": "api:\n  mode: api-key\n  keys:\n" + key * 2, "dynamic": "api: {mode: dynamic}\n",
             "quota": "api:\n  mode: api-key\n  keys:\n" + key + "      quota: {requests_per_minute: 5, tokens_per_day: 7}\n      models: [a, b]\n", "per-model": "api:\n  mode: api-key\n  keys:\n" + key + "      quota: {per_model: {m: {requests_per_minute_per_replica: 1, tokens_per_day: 0}}}\n",
             "mixed": "api:\n  mode: api-key\n  keys:\n" + key + "      quota: {tokens_per_day: 5, per_model: {m: {requests_per_minute_per_replica: 1, tokens_per_day: 0}}}\n", "expired": "api:\n  mode: api-key\n  keys:\n" + key.replace("owner: o", "owner: o, expires_at: 31-12-2020"),
             "bad-date": "api:\n  mode: api-key\n  keys:\n" + key.replace("owner: o", "owner: o, expires_at: 31-02-2027"), "short-hash": "api:\n  mode: api-key\n  keys:\n" + key.replace("abab", "ab"), "upper-hash": "api:\n  mode: api-key\n  keys:\n" + key.replace("ab" * 32, "AB" * 32), "unknown": "api: {mod: none}\n",
             "share": "api:\n  mode: api-key\n  keys:\n" + key + "      max_occupancy_share: 1.5\n", "list": "- a\n", "null-entry": "api: {mode: api-key, keys: [~]}\n", "control-name": "api:\n  mode: api-key\n  keys:\n" + key.replace("name: n", 'name: "a\\0b"')}
    return {f"{name}-{strict}": bytes([strict]) + text.encode() for name, text in texts.items() for strict in ((0, 1) if name in ("quota", "unknown") else (0,))}


def key_entries():
    start = '{"key_hash":"' + "ab" * 32 + '","owner":"o","name":"n"'
    texts = {"small": start + "}", "whole": start + ',"id":"k","version":"1","key_preview":"sk-...abcd","enabled":true,"expires_at":"2027-01-02T00:00:00.5+02:00","allowed_models":["b","a"],"max_occupancy_share":0.4,"priority":-3,"max_parallel_requests":8,"max_parallel_requests_per_model":2,"when_parallel_full":"wait","quota":{"requests_per_minute":5,"tokens_per_day":7,"input_tokens_per_minute":9,"output_tokens_per_minute":1}}',
             "per-model": start + ',"allowed_models":["x"],"quota":{"per_model":{"m":{"requests_per_minute_per_replica":1,"tokens_per_day":0}}}}', "mixed": start + ',"quota":{"tokens_per_day":5,"per_model":{"m":{"requests_per_minute_per_replica":1,"tokens_per_day":0}}}}',
             "unknown": start + ',"models":[]}', "share": start + ',"max_occupancy_share":1.5}', "deep": start + ',"quota":' + '[' * 12 + ']' * 12 + '}', "no-hash": '{"owner":"o","name":"n"}', "list": "[]", "null": "null", "reserved": start + ',"id":"version"}', "large": start + ',"quota":{"tokens_per_day":18446744073709551615}}', "control": start.replace('"n"', '"a\\u0000b"') + "}"}
    return {f"{name}-{how}": bytes([how]) + text.encode() for name, text in texts.items() for how in ((0, 1, 2) if name in ("small", "whole", "unknown") else (2,))}


TARGETS = {
    "translate": translations, "passed_stream": passed_streams, "usage_ask": usage_ask, "form": forms, "credential": credentials, "auth_file": auth_files, "key_entry": key_entries,
    "http_request_head": request_heads, "http_answer_head": answers, "http_body": bodies, "request_json": request_json, "sse": streams, "usage_json": usage_json, "yaml": yaml, "policy": policies, "settings": settings, "link_record": link_records,
    "link_message": link_messages, "identity": identities, "engine_vllm": lambda: engine("vllm"), "engine_llamacpp": lambda: engine("llamacpp"), "engine_openai": lambda: engine("openai"), "route": routes, "address": addresses, "http_server": http_server, "http_client": http_client, "edge": edges,
    "link_session": link_session, "plugin_answer": plugin_answers,
}


def main():
    for target in sys.argv[1:] or TARGETS:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in TARGETS[target]().items():
            (folder / f"seed-{name}").write_bytes(data)


if __name__ == "__main__":
    main()
