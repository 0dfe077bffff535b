"""Many calls at a time: the cost of a ledger, retries and a budget over the plain client.

    python benchmarks/bench_server.py [CALLS] [CONCURRENCY]

Servers on 127.0.0.1, in separate processes, answer each call after a time that depends on its
prompt. In turns, a loop over ``openai.AsyncOpenAI``, which stores nothing, and `OpenAICompatible`
behind a ledger, which writes each answer to disk first, send the prompts. The median and the ratio
are reported. Then: calls of seconds, against the ideal; the memory of 20,000 prompts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import random
import resource
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

from sizes import scale

from fairtk.errors import DataWarning
from fairtk.llm import Chat, Completion, Ledger, Message, OpenAICompatible

TURNS = scale(3, 1)
SLOW = scale((2.0, 6.0), (0.2, 0.6))
"""The seconds of a slow call."""


class Answering(asyncio.Protocol):
    """A connection of a server that answers each request after a random time."""

    def __init__(self, counts, seconds):
        self.counts, self.seconds, self.raw = counts, seconds, b""

    def connection_made(self, transport):
        """Begin."""
        self.transport = transport

    def data_received(self, data):
        """Read requests, and answer each when its time has come."""
        self.raw += data
        head, gap, body = self.raw.partition(b"\r\n\r\n")
        lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        size = {key.lower(): value for key, value in lines.items()}.get(b"content-length", b"0")
        if not gap or len(body) < int(size):
            return
        self.raw = body[int(size) :]
        loop = asyncio.get_running_loop()
        if head.startswith(b"GET"):
            loop.call_soon(self.send, {"requests": sum(self.counts.values()),
                                       "most": max(self.counts.values(), default=0),
                                       "prompts": len(self.counts)})  # fmt: skip
            return
        prompt = json.loads(body[: int(size)])["messages"][-1]["content"]
        self.counts[prompt] = self.counts.get(prompt, 0) + 1
        message = {"role": "assistant", "content": f"answer to {prompt[:40]}"}
        answer = {
            "id": "c", "object": "chat.completion", "created": 1, "model": "toy",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220},
        }  # fmt: skip
        # by the prompt, so that all turns have the same waits
        loop.call_later(random.Random(prompt).uniform(*self.seconds), self.send, answer)

    def send(self, value):
        """Send a value as JSON."""
        raw = json.dumps(value).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}"
        self.transport.write(f"{head}\r\n\r\n".encode() + raw)


def serve(seconds, pipe):
    """Answer until the process is killed; the port is sent through the pipe."""

    async def run():
        counts = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Answering(counts, seconds), "127.0.0.1", 0, backlog=2048
        )
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextlib.contextmanager
def serving(low, high):
    """Give the address of a server whose calls take so many seconds."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=((low, high), there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.kill()
        process.join()


def chats(count, name):
    """Return prompts of 800 characters."""
    return [Chat((Message("user", f"{name} {i} ".ljust(800, "x")),)) for i in range(count)]


def bare(url, asked, concurrency):
    """Return the seconds that a loop over the client takes."""
    import openai

    async def run():
        free = asyncio.Semaphore(concurrency)
        settings = {"api_key": "none", "base_url": url, "max_retries": 0, "timeout": 60}
        async with openai.AsyncOpenAI(**settings) as client:

            async def ask(chat):
                async with free:
                    message = {"role": "user", "content": chat.messages[0].content}
                    reply = await client.chat.completions.create(
                        model="toy", messages=[message], max_tokens=64
                    )
                    return reply.choices[0].message.content

            begin = time.perf_counter()
            answers = await asyncio.gather(*map(ask, asked))
            assert all(answers)
            return time.perf_counter() - begin

    return asyncio.run(run())


def recorded(url, asked, concurrency, folder, **limits):
    """Return the seconds that the model behind a ledger takes, and the ledger's spending."""
    model = OpenAICompatible(
        "toy", url, api_key_env=None, max_tokens=64, concurrency=concurrency, backoff=0.1
    )
    with Ledger(Path(folder) / f"{time.time_ns()}.sqlite", **limits) as ledger:
        begin = time.perf_counter()
        outcomes = ledger.wrap(model).complete(asked)
        took = time.perf_counter() - begin
        assert all(isinstance(outcome, Completion) for outcome in outcomes)
        assert len(ledger) == ledger.spent.calls == len(asked)
    return took


def asked_of(url):
    """Return what a server counted."""
    import urllib.request

    with urllib.request.urlopen(f"{url}/models") as reply:
        return json.loads(reply.read())


def main(calls: int = scale(4000, 40), concurrency: int = scale(512, 8)):
    """Measure, and print a line for each."""
    warnings.simplefilter("ignore", DataWarning)
    folder = tempfile.mkdtemp()
    with serving(0.0, 0.01) as url:  # first, as the most memory is measured
        recorded(url, chats(5 * calls, "memory"), concurrency, folder)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        counts = asked_of(url)
        assert counts["most"] == 1 and counts["prompts"] == 5 * calls
        print(f"{5 * calls} prompts, each asked once: {most:.0f} MiB at most")
    with serving(0.02, 0.2) as url:
        loops, ours, limited = [], [], []
        for turn in range(TURNS):
            loops.append(calls / bare(url, chats(calls, f"bare{turn}"), concurrency))
            ours.append(calls / recorded(url, chats(calls, f"ours{turn}"), concurrency, folder))
            limit = {"max_calls": calls, "max_cost": 1e6, "prices": {"toy": (1.0, 2.0)}}
            asked = chats(calls, f"budget{turn}")
            limited.append(calls / recorded(url, asked, concurrency, folder, **limit))
        assert asked_of(url)["most"] == 1
        client, own, budget = map(statistics.median, (loops, ours, limited))
        print(f"20 to 200 ms, {concurrency} at once, {calls} calls: bare loop {client:.0f} a second"
              f", with a ledger {own:.0f} (ratio {own / client:.2f}), with a budget {budget:.0f} "
              f"(ratio {budget / client:.2f})")  # fmt: skip
    with serving(*SLOW) as url:
        ideal = concurrency / statistics.mean(SLOW)
        rate = calls / recorded(url, chats(calls, "slow"), concurrency, folder)
        print(f"{SLOW[0]:g} to {SLOW[1]:g} s, {concurrency} at once, {calls} calls: {rate:.1f} a "
              f"second, ideal {ideal:.1f}, ratio {rate / ideal:.2f}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
