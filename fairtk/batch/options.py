"""The options that `fairtk prompts` and the commands of studies share."""

from __future__ import annotations

import click

from fairtk.cli.options import all_of

paying_options = all_of(
    click.option(
        "--base-url",
        help="The address of an OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1.",
    ),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="The environment variable with the server's key; '' if it needs none.  "
        "[default: OPENAI_API_KEY]",
    ),
    click.option(
        "--set",
        "server_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Another setting of the models that have it, e.g. max_tokens=64 of a server, or "
        "max_new_tokens=20 of a local model; temperature=none leaves it out. Repeatable.",
    ),
    click.option(
        "--max-calls", type=int, help="The largest number of calls to pay for in this run."
    ),
    click.option("--max-cost", type=float, help="The highest price of this run; needs --prices."),
    click.option(
        "--max-tokens",
        type=int,
        help="The largest number of tokens of prompts and answers to pay for in this run.",
    ),
    click.option(
        "--prices",
        metavar="FILE",
        help="Prices per million tokens: TSV with model, prompt, completion.",
    ),
    click.option(
        "--retry-unusable",
        is_flag=True,
        help="Request answers again that were refused, cut off or unreadable.",
    ),
    click.option(
        "--retry-failed",
        is_flag=True,
        help="Request prompts again that the model refused, e.g. because they were too long.",
    ),
)
"""The options of commands that call models on servers, which ``fairtk prompts write`` passes on.

They are settings of the models and arguments of `fairtk.llm.Ledger`. The parameter of ``--set`` is
``server_settings``.
"""
