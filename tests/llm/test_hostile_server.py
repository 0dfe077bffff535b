"""A server that does everything wrong: what becomes of a call, and of its key, in each way.

Each mode is the bytes that are sent after a request, and what must come of it: an answer, one
that cannot be read (it was paid for, and is kept), a failure of the call, or the end of all calls.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import socketserver
import struct
import threading
import time
import warnings

import pytest

pytest.importorskip("openai")

from fairtk.errors import DataWarning
from fairtk.llm import Chat, Failure, Ledger, LLMError, Message, OpenAICompatible

ANSWER, UNREADABLE, FAILURE, END = "answer", "unreadable", "failure", "end"
TIMEOUT = 0.6
KEY = "plain0words1without2a3form"  # nothing but the environment tells that it is one
CHAT = "application/json"


def http(body=b"", status=200, *lines, length=None, kind=CHAT):
    """Return a response; `lines` are further ones of its head."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length is None else length
    head = [f"HTTP/1.1 {status} Reason", f"Content-Type: {kind}", *lines]
    head += [f"Content-Length: {length}"] * (length != "")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def chat(content="fine", **more):
    """Return the body of an answer."""
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish", "stop")}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **more}


def error(text, status, *lines):
    return http({"error": {"message": text, "type": "t", "code": None}}, status, *lines)


def packed(raw, encoding):
    return http(raw, 200, f"Content-Encoding: {encoding}")


def drip(raw, seconds=0.1):
    return [part for byte in raw for part in (bytes([byte]), seconds)]


FINE = json.dumps(chat()).encode()
BLANKS = b" " * 3000  # five minutes: who waits for each piece has an answer in the end
# What is sent: bytes, or a list of bytes, of seconds to wait, "reset", or "wait": for the client to
# go away. The endless ones take five minutes
MODES = {
    # Redirects: the prompt and the key go nowhere else
    **{f"{s} to another host": (http(b"", s, "Location: http://127.0.0.2:9/v1"), END)
       for s in (300, 302, 307, 399)},
    "301 to nowhere": (http(b"", 301), END),
    "302 to an invalid address": (http(b"", 302, "Location: http://[h"), END),
    "308 to a long address": (http(b"", 308, "Location: http://h/" + "x" * 20_000), END),
    # Statuses
    **{f"status {s}": (error("no", s), FAILURE) for s in (400, 422, 429, 500, 999)},
    **{f"status {s}": (error("no", s), END) for s in (401, 402, 403, 404)},
    "status 204": (http(b"", 204), FAILURE),
    **{f"429, Retry-After: {wait!r}": (error("no", 429, f"Retry-After: {wait}"), FAILURE)
       for wait in ("-5", "inf", "99999", "\xb2")},
    "an error of HTML": (http(b"<html>\n<b>no</b>\n</html>", 500, kind="text/html"), FAILURE),
    "an error of many lines": (error("a\nb\r\nc\u2028d\x1b[31m", 400), FAILURE),
    "an error that is long": (error("no " * 300_000, 400), FAILURE),
    "an error that is no text": (http({"error": {"message": [1, {"a": 2}]}}, 400), FAILURE),
    "an error that is a list": (http([1, 2], 422), FAILURE),
    "an error that is deep": (http(b"[" * 100_000, 400), FAILURE),
    "an error that is half a character": (http(b'{"error": {"message": "\\ud800"}}', 400), FAILURE),
    # Bodies
    **{f"body {body[:24]!r}": (http(body), FAILURE)
       for body in (b"", FINE[:60], b"\xff\xfe\xfa", b'{"error": {"message": "busy"}}')},
    **{f"body {body[:24]!r}": (http(body), UNREADABLE)
       for body in (b"[]", b"NaN", b'{"choices": {}}', b'{"choices": [3]}',
                    b'{"choices": [{"message": "x"}]}')},
    "UTF-16": (http(FINE.decode().encode("utf-16")), ANSWER),
    "deep JSON": (http(b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), UNREADABLE),
    "a number of 5,000 digits": (http(FINE[:-1] + b', "n": ' + b"1" * 5000 + b"}"), ANSWER),
    **{f"content {content!r}": (http(chat(content)), UNREADABLE) for content in (3, {}, [3])},
    "no content": (http(chat(None)), ANSWER),
    "content of parts": (http(chat([{"type": "text", "text": "fine"}])), ANSWER),
    "half a character": (http(chat("a\ud800b")), ANSWER),
    "NUL and escapes": (http(chat("a\0b\x1b[31m\u202ec")), ANSWER),
    "a long answer": (http(chat("x" * 900_000)), ANSWER),
    "an answer that is too long": (http(chat("x" * 2_000_000)), FAILURE),
    **{f"finish {finish!r}": (http(chat(finish=finish)), ANSWER)
       for finish in (None, 3, "a\nb\0" * 99)},
    **{f"usage {usage!r}": (http(chat(usage=usage)), ANSWER)
       for usage in (3, {}, {"prompt_tokens": -1, "completion_tokens": 1 << 80},
                     {"prompt_tokens": "3", "completion_tokens": float("nan")},
                     {"prompt_tokens": True, "completion_tokens": [1]})},
    "a refusal": (http(chat(None, message={"refusal": "I can't."})), ANSWER),
    "a refusal that is a number": (http(chat("fine", message={"refusal": 3})), ANSWER),
    # Packing
    "truncated gzip": (packed(gzip.compress(FINE)[:-12], "gzip"), FAILURE),
    "not gzip": (packed(FINE, "gzip"), FAILURE),
    "an unknown encoding": (packed(gzip.compress(FINE), "x" * 5000), FAILURE),
    # Transport
    "closed at once": ([], FAILURE),
    "reset in the body": ([http(FINE)[:-30], 0.05, "reset"], FAILURE),
    "silence": (["wait"], FAILURE),
    "a slow head": (drip(http(FINE, 200, "X: " + "y" * 3000)), FAILURE),
    "a slow body": ([http(length=len(BLANKS + FINE)), *drip(BLANKS + FINE)], FAILURE),
    "a body that stops": ([http(FINE)[:-9], "wait"], FAILURE),
    "a body without a length": (http(FINE, length=""), ANSWER),
    **{f"a length of {length}": (http(FINE, length=length), FAILURE)
       for length in (20, len(FINE) + 9, "many")},
    "chunks": (http(b"%x\r\n%s\r\n0\r\n\r\n" % (len(FINE), FINE), 200, "Transfer-Encoding: chunked",
                    length=""), ANSWER),
    "chunks without sizes": (http(FINE, 200, "Transfer-Encoding: chunked", length=""), FAILURE),
    "blanks without end": ([http(b"", 200, length=""), *[b" " * (1 << 16)] * 200], FAILURE),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", FAILURE),
    # The key, which no file and no message has afterwards
    "the key in an answer": (http(chat(f"it is {KEY}")), ANSWER),
    "the key, escaped": (http(FINE.replace(b"fine", "".join(f"\\u{ord(c):04x}" for c in KEY)
                                           .encode())), ANSWER),
    "the key as the finish": (http(chat(finish=KEY)), ANSWER),
    "the key in what is no answer": (http({"choices": [{"message": {"content": [KEY]}}]}),
                                     UNREADABLE),
    "the key as the encoding": (packed(gzip.compress(FINE), KEY), FAILURE),
    "the key in a redirect": (http(b"", 302, f"Location: http://h/?k={KEY}"), END),
    **{f"the key in an error {s}": (error(f"bad {KEY} here", s), kind)
       for s, kind in ((400, FAILURE), (401, END), (404, END))},
    "the key in an error's body": (http({"error": {"code": KEY, "message": [KEY]}}, 400), FAILURE),
    "the key as a refused parameter": (error(f"temperature {KEY} is not supported", 400), END),
    **{f"the key at character {at}": (error("x" * (at - 1) + f" {KEY}", 400), FAILURE)
       for at in (190, 1990)},
    "the key at character 190 of an error": (
        http({"error": "x" * 180 + f" {KEY}"}), FAILURE),
    "the key where a body is cut": (http({"choices": "x" * 9975 + f" {KEY}"}), UNREADABLE),
}  # fmt: skip
ENDLESS = ("silence", "a slow head", "a slow body", "a body that stops")


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self.rfile.readline()
                if not line:
                    return
                head += line
            length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
            self.server.requests.append(json.loads(self.rfile.read(length)))
            mode = self.server.requests[-1]["messages"][-1]["content"]
            sent = MODES[mode][0]
            for part in [sent] if isinstance(sent, bytes) else sent:
                if isinstance(part, bytes):
                    self.wfile.write(part)
                elif part == "reset":
                    off = struct.pack("ii", 1, 0)
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, off)
                elif part == "wait":
                    self.request.settimeout(300)
                    with contextlib.suppress(TimeoutError):
                        self.request.recv(1)
                        return
                else:
                    time.sleep(part)
            self.server.ended.append(mode)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    requests: list
    ended: list  # the modes of which all was sent before the client went away

    def handle_error(self, request, client_address):
        pass  # clients go away


@pytest.fixture(scope="module")
def server():
    with Server(("127.0.0.1", 0), Handler) as server:
        server.requests, server.ended = [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("mode", MODES)
def test_whatever_a_server_sends_ends_in_an_answer_or_one_line(server, mode, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    sent, expected = MODES[mode]
    place = "http://{}:{}/v1".format(*server.server_address)
    timeout = TIMEOUT if isinstance(sent, list) else 300.0  # the machine may be busy
    llm = OpenAICompatible("toy", place, timeout=timeout, retries=0, max_bytes=1 << 20)
    path = tmp_path / "ledger.sqlite"
    call = [Chat((Message("user", mode),))]
    texts = []
    with warnings.catch_warnings(record=True) as caught, Ledger(path) as ledger:
        warnings.simplefilter("error")
        warnings.simplefilter("always", DataWarning)
        try:
            [outcome] = ledger.wrap(llm).complete(call)
            if isinstance(outcome, Failure):
                came, words = FAILURE, outcome.reason
            else:
                came = UNREADABLE if outcome.finish == UNREADABLE else ANSWER
                words = outcome.text
                texts.append(outcome.finish)
        except LLMError as error:
            came, words = END, str(error)
        n_answers = len(ledger)
    assert came == expected, words
    if mode in ENDLESS:
        assert mode not in server.ended  # nobody waits for what does not come
    assert n_answers == (came in (ANSWER, UNREADABLE))
    if n_answers:
        with Ledger(path, offline=True) as ledger:
            assert ledger.wrap(llm).complete(call)[0].text == outcome.text
    else:
        assert len(words.splitlines()) == 1 and len(words) < 700 and words.isprintable(), words
        assert (place if came == END else "'toy'") in words, words
    texts += [words, *(str(one.message) for one in caught)]
    assert all(KEY[:6] not in text for text in texts)
    for file in tmp_path.iterdir():
        assert KEY[:6].encode() not in file.read_bytes()
