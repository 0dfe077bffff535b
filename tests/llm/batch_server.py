"""A real HTTP server on 127.0.0.1 with OpenAI's files and batches; it answers by a rule of prompts.

Batches are answered as soon as they are asked for the second time, in another order; what was
created is counted by input file.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chat_server import KEY, running


def answer_of(prompt):
    """Return a text that depends on the prompt alone."""
    return f"answer to {len(prompt)}: {prompt[-20:]}"


def completion(body, text, finish="stop"):
    """Return the body of a chat completion, as a server would give it to one call."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def answered(line, rule=answer_of):
    """Return the line of answers to a line of prompts."""
    body = completion(line["body"], rule(line["body"]["messages"][-1]["content"]))
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": line["custom_id"], "response": response, "error": None}


class BatchServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that was killed

    def __init__(self, rule):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule = rule
        self.lock = threading.Lock()
        self.files, self.jobs, self.requests = {}, {}, []
        self.status = "completed"
        self.fail = None  # a status to refuse with
        self.headers = {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def paid(self):
        """The ids of all prompts of all batches that were created."""
        files = [self.files[job["input_file_id"]] for job in self.jobs.values()]
        return [json.loads(line)["custom_id"] for file in files for line in file.splitlines()]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server, path = self.server, self.path.partition("?")[0]
        with server.lock:
            server.requests.append(("GET", path))
            if match := re.fullmatch(r"/v1/files/(\w+)/content", path):
                self.reply(server.files[match[1]])
            elif path == "/v1/batches":
                self.reply(
                    {"object": "list", "data": list(server.jobs.values()), "has_more": False}
                )
            elif path == "/v1/models":
                self.reply({"data": [{"id": "toy"}]})
            else:
                job = server.jobs[path.rpartition("/")[2]]
                self.finish_job(job)
                self.reply(job)

    def finish_job(self, job):
        server = self.server
        job["status"] = server.status
        if server.status != "completed" or job["output_file_id"]:
            return
        lines = [json.loads(line) for line in server.files[job["input_file_id"]].splitlines()]
        good = [json.dumps(answered(line, server.rule)) + "\n" for line in reversed(lines)]
        job["output_file_id"] = f"out{len(server.files)}"
        server.files[job["output_file_id"]] = "".join(good).encode()

    def do_POST(self):
        server, length = self.server, int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # a client that was killed
            self.close_connection = True
            return
        with server.lock:
            server.requests.append(("POST", self.path))
            if self.headers["Authorization"] != f"Bearer {KEY}":
                self.reply({"error": {"message": f"wrong key {KEY}"}}, 401)
            elif server.fail is not None:
                self.reply({"error": {"message": "no"}}, server.fail)
            elif self.path == "/v1/files":
                name = f"file{len(server.files)}"
                boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
                parts = raw.split(b"--" + boundary)
                content = next(p for p in parts if b'name="file"' in p)
                server.files[name] = content.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
                about = {"bytes": 1, "created_at": 1, "filename": "x", "object": "file"}
                self.reply({"id": name, "purpose": "batch", "status": "processed", **about})
            else:
                asked = json.loads(raw)
                name = f"job{len(server.jobs)}"
                server.jobs[name] = {
                    "id": name,
                    "object": "batch",
                    "created_at": 1,
                    "status": "validating",
                    "output_file_id": None,
                    "error_file_id": None,
                    **asked,
                }
                self.reply(server.jobs[name])

    def reply(self, value, status=200):
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        with contextlib.suppress(OSError):  # a client that was killed
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            for name, value in self.server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)


def serving_batches(rule=answer_of):
    return running(BatchServer(rule))
