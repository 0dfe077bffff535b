"""Pays for answers through a ledger and prints the number of each answer.

python campaign_paying.py LEDGER START STOP
"""

from __future__ import annotations

import sys

from fairtk.llm import Chat, Ledger, Message


def echo(prompts: list[str]) -> list[str]:
    """Answer prompts; the ledger identifies this model by its name."""
    return [f"answer to {prompt}" + "!" * 200 for prompt in prompts]


def ask(llm: object, number: int) -> str:
    """Return a model's answer to a numbered prompt."""
    [answer] = llm.complete([Chat((Message("user", f"prompt {number}"),))])
    return answer.text


def main(path: str, start: int, stop: int) -> None:
    """Ask for the answers to a range of numbers."""
    with Ledger(path) as ledger:
        llm = ledger.wrap(echo)
        print("ready", flush=True)
        for number in range(start, stop):
            ask(llm, number)
            print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
