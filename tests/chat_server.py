"""A real HTTP server on 127.0.0.1 that speaks OpenAI's chat protocol and answers by rules."""

from __future__ import annotations

import contextlib
import inspect
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-test-4242424242"


class ChatServer(ThreadingHTTPServer):
    """Counts requests; `rule(prompt, count)` gives the reply to the count-th request of a prompt.

    A rule of three arguments is given the request's body, too.

    A reply is a text, or a dict with `status`, `headers`, `body` (raw bytes), `sleep`, `refusal`,
    `finish`, `text`.

    `models` is the list of models, or None if the server does not list them.
    """

    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass  # a client went away; a later test may look at standard error

    def __init__(self, rule, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.rule = rule
        self.lock = threading.Lock()
        self.requests = []
        self.models = None
        self.counts = {}
        self.running = self.most_running = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        models = self.server.models
        reply = error(404, "no such path") if models is None else models
        if isinstance(reply, list):
            reply = {"body": json.dumps({"data": [{"id": name} for name in reply]}).encode()}
        self.reply(reply)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if len(raw) < int(self.headers["Content-Length"]):  # a client that was killed
            self.close_connection = True
            return
        body = json.loads(raw)
        prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        sent = body.get("prompt") or " ".join(m["content"] for m in body["messages"])
        server = self.server
        with server.lock:
            server.requests.append((prompt, body, self.headers))
            count = server.counts[prompt] = server.counts.get(prompt, 0) + 1
            server.running += 1
            server.most_running = max(server.most_running, server.running)
        try:
            wants_body = len(inspect.signature(server.rule).parameters) == 3
            reply = server.rule(prompt, count, *([body] if wants_body else []))
            if isinstance(reply, str):
                reply = {"text": reply}
            time.sleep(reply.get("sleep", 0))
        finally:
            # before the reply: the client may send its next call as soon as it has that
            with server.lock:
                server.running -= 1
        self.reply(reply, len(sent.split()))

    def reply(self, reply, n_words=0):
        if reply.get("drop"):
            self.close_connection = True
            return
        message = {"role": "assistant", "content": reply.get("text"), "refusal": None}
        if "refusal" in reply:
            message |= {"content": None, "refusal": reply["refusal"]}
        answer = {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "toy",
            "choices": [
                {"index": 0, "message": message, "finish_reason": reply.get("finish", "stop")}
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": n_words},
            },
        }
        if self.path.endswith("/v1/completions"):
            answer["choices"] = [{"index": 0, "text": reply.get("text"), "finish_reason": "stop"}]
        raw = reply.get("body", json.dumps(answer).encode())
        self.send_response(reply.get("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in reply.get("headers", {}).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):  # a client that timed out is gone
            self.wfile.write(raw)


def wait_until(happened):
    """Wait for what a server, or who asks it, is about to do."""
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextlib.contextmanager
def nobody():
    """An address where nothing listens, and nothing else can begin to meanwhile."""
    with socket.socket() as gate:
        gate.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{gate.getsockname()[1]}/v1"


@contextlib.contextmanager
def running(server):
    """A server at work in a thread of its own."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serving(rule, port=0):
    return running(ChatServer(rule, port))


def error(status, message="no", **headers):
    body = json.dumps({"error": {"message": message, "type": "t", "code": None}}).encode()
    return {"status": status, "body": body, "headers": headers}
