"""A stand-in for a provider's API: both dialects over TLS, answers made of the official SDKs' own types, faults by switch."""
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time

import anthropic.types as claude
import openai.types.chat as gpt
import openai.types.chat.chat_completion_chunk as gpt_chunk
from openai.types import CompletionUsage
from pydantic import TypeAdapter

TEXT = ["The river ", "is w\u00efde", "."]
CALL = {"name": "look_up", "arguments": {"text": "river", "n": 2}}
OPENAI_KEY, ANTHROPIC_KEY = "sk-openai-of-the-tests", "sk-ant-of-the-tests"


def authority(folder):
    """Certificate and key of localhost, its own authority."""
    cert, key = folder / "cloud.pem", folder / "cloud.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=stand-in",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def whole(value):
    """Validation of Iterable[...] is lazy: walks everything, so that what is wrong anywhere raises."""
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    return [whole(v) for v in value]


def check_request(path, body):
    """The request as the SDK's own parameter types have it."""
    if path == "/v1/messages":
        import anthropic.types.message_create_params as params
        kind = params.MessageCreateParamsStreaming if body.get("stream") else params.MessageCreateParamsNonStreaming
    else:
        import openai.types.chat.completion_create_params as params
        kind = params.CompletionCreateParamsStreaming if body.get("stream") else params.CompletionCreateParamsNonStreaming
    adapter = TypeAdapter(kind)  # lives until everything is walked
    whole(adapter.validate_python(body))


def message(body):
    blocks = [claude.TextBlock(type="text", text="".join(TEXT))]
    if body.get("tools"):
        blocks.append(claude.ToolUseBlock(type="tool_use", id="toolu_1", name=CALL["name"], input=CALL["arguments"]))
    return claude.Message(id="msg_1", type="message", role="assistant", model=body["model"], content=blocks,
                          stop_reason="tool_use" if body.get("tools") else "end_turn", usage=claude.Usage(input_tokens=11, output_tokens=4))


def message_events(body):
    done = message(body)
    start = done.model_copy(update={"content": [], "stop_reason": None, "usage": claude.Usage(input_tokens=11, output_tokens=1)})
    yield claude.RawMessageStartEvent(type="message_start", message=start)
    yield claude.RawContentBlockStartEvent(type="content_block_start", index=0, content_block=claude.TextBlock(type="text", text=""))
    for piece in TEXT:
        yield claude.RawContentBlockDeltaEvent(type="content_block_delta", index=0, delta=claude.TextDelta(type="text_delta", text=piece))
    yield claude.RawContentBlockStopEvent(type="content_block_stop", index=0)
    if body.get("tools"):
        block = claude.ToolUseBlock(type="tool_use", id="toolu_1", name=CALL["name"], input={})
        yield claude.RawContentBlockStartEvent(type="content_block_start", index=1, content_block=block)
        text = json.dumps(CALL["arguments"])
        for piece in ("", text[:7], text[7:]):
            yield claude.RawContentBlockDeltaEvent(type="content_block_delta", index=1, delta=claude.InputJSONDelta(type="input_json_delta", partial_json=piece))
        yield claude.RawContentBlockStopEvent(type="content_block_stop", index=1)
    delta = {"stop_reason": done.stop_reason, "stop_sequence": None}
    yield claude.RawMessageDeltaEvent(type="message_delta", delta=delta, usage=claude.MessageDeltaUsage(output_tokens=4))
    yield claude.RawMessageStopEvent(type="message_stop")


def usage():
    return CompletionUsage(prompt_tokens=11, completion_tokens=4, total_tokens=15)


def completion(body):
    said = {"role": "assistant", "content": "".join(TEXT), "refusal": None}
    if body.get("tools"):
        function = {"name": CALL["name"], "arguments": json.dumps(CALL["arguments"])}
        said["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if body.get("tools") else "stop", "logprobs": None}
    return gpt.ChatCompletion(id="chatcmpl-1", object="chat.completion", created=1, model=body["model"], choices=[choice], usage=usage())


def chunks(body):
    def one(delta, finish=None):
        choice = gpt_chunk.Choice(index=0, delta=gpt_chunk.ChoiceDelta(**delta), finish_reason=finish)
        return gpt.ChatCompletionChunk(id="chatcmpl-1", object="chat.completion.chunk", created=1, model=body["model"], choices=[choice])

    yield one({"role": "assistant", "content": ""})
    for piece in TEXT:
        yield one({"content": piece})
    if body.get("tools"):
        yield one({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": CALL["name"], "arguments": ""}}]})
        text = json.dumps(CALL["arguments"])
        for piece in (text[:7], text[7:]):
            yield one({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield one({}, "tool_calls" if body.get("tools") else "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield gpt.ChatCompletionChunk(id="chatcmpl-1", object="chat.completion.chunk", created=1, model=body["model"], choices=[], usage=usage())


class Cloud:
    """`fault`: None, an HTTP status, "empty", "hang" (no answer), "cut" (after the first text), "stall" (likewise, but open), "error" (an
    error event after the first text), "early error" (before any), "no credit" (a 400 about the account), "flood" (text without end),
    "no end" (the stream ends well after the first text), or bytes: all of a stream."""

    def __init__(self, folder):
        self.certificate, key = authority(folder)
        self.requests, self.fault, self.left = [], None, threading.Event()
        self.released = threading.Event()
        self.flooded = 0                # bytes of it that the connection took
        cloud = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                cloud.requests.append({"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body})
                try:
                    cloud.answer(self, body)
                except (OSError, ssl.SSLError):
                    cloud.left.set()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # handshakes that the client breaks off

            def get_request(self):
                plain, address = self.socket.accept()
                return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"https://localhost:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def reset(self, fault=None):
        self.requests.clear()
        self.left.clear()
        self.released.clear()
        self.fault = fault

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def wait_until_left(self, handler):
        """Ends with the client's connection, or at the latest with the test."""
        handler.connection.settimeout(0.05)
        while not self.released.is_set():
            try:
                if handler.connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.left.set()
        handler.close_connection = True

    def answer(self, handler, body):
        messages = handler.path == "/v1/messages"
        key = handler.headers.get("x-api-key") == ANTHROPIC_KEY if messages else handler.headers.get("authorization") == f"Bearer {OPENAI_KEY}"
        status = 400 if self.fault == "no credit" else self.fault if isinstance(self.fault, int) else 200 if key else 401
        if self.fault == "hang":
            return self.wait_until_left(handler)
        if status != 200:
            words = f"words of the provider about {ANTHROPIC_KEY if messages else OPENAI_KEY}" + (": your credit balance is too low" if self.fault == "no credit" else "")
            text = json.dumps({"type": "error", "error": {"type": "invalid_request_error" if status == 400 else "some_error", "message": words}})
            return self.send(handler, status, "application/json", text.encode())
        try:
            check_request(handler.path, body)
        except Exception as error:  # the test's own verdict on the request
            return self.send(handler, 418, "text/plain", str(error).encode())
        if body.get("stream"):
            return self.stream(handler, body, messages)
        made = "" if self.fault == "empty" else (message(body) if messages else completion(body)).model_dump_json()
        self.send(handler, 200, "application/json", made.encode())

    @staticmethod
    def send(handler, status, kind, data):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.send_header("Set-Cookie", "of=the-provider")
        handler.end_headers()
        handler.wfile.write(data)

    def stream(self, handler, body, messages):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()

        def write(data):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()

        def error(words="words of the provider"):
            fault = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": words}})
            write((("event: error\n" if messages else "") + f"data: {fault}\n\n").encode())

        if isinstance(self.fault, bytes):
            if self.fault:
                write(self.fault)
            return write(b"")
        if self.fault == "early error":
            error(f"words of the provider about {ANTHROPIC_KEY if messages else OPENAI_KEY}")
        for event in message_events(body) if messages else chunks(body):
            data = event.model_dump_json(exclude_unset=True)
            write(((f"event: {event.type}\n" if messages else "") + f"data: {data}\n\n").encode())
            if self.fault in ("cut", "stall", "error", "flood", "no end") and TEXT[0] in data:
                if self.fault == "cut":
                    handler.connection.shutdown(socket.SHUT_RDWR)
                    handler.close_connection = True
                    return
                if self.fault == "stall":
                    return self.wait_until_left(handler)
                if self.fault == "no end":
                    break
                if self.fault == "error":
                    error(f"words of the provider about {ANTHROPIC_KEY if messages else OPENAI_KEY}")
                    break
                while not self.released.is_set():
                    self.flooded_at = time.monotonic()
                    self.flooded += len(data)
                    write(((f"event: {event.type}\n" if messages else "") + f"data: {data}\n\n").encode())
        else:
            if not messages:
                write(b"data: [DONE]\n\n")
        write(b"")
