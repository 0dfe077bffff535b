"""Options of commands that may ask a server's model: where it is, and what may be paid."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fairtk.cli.options import all_of
from fairtk.llm import Ledger

SERVER = ("base_url", "api_key_env")
LEDGER = ("max_calls", "max_cost", "prices", "offline", "retry_unusable")

paying_options = all_of(
    click.option("--base-url", help="The OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1."),
    click.option(
        "--api-key-env",
        metavar="VARIABLE",
        help="The environment variable with its key; '' for a server without keys.  "
        "[default: OPENAI_API_KEY]",
    ),
    click.option("--max-calls", type=int, help="The most calls to pay for in this run."),
    click.option("--max-cost", type=float, help="The most to pay in this run; needs --prices."),
    click.option(
        "--prices",
        metavar="FILE",
        help="Prices per million tokens: TSV with model, prompt, completion.",
    ),
    click.option("--offline", is_flag=True, help="Only recorded answers; others are an error."),
    click.option(
        "--retry-unusable",
        is_flag=True,
        help="Ask again for answers that were refused, cut off or unreadable.",
    ),
)
"""The options of `SERVER` and `LEDGER`, the same for all commands."""


def open_ledger(
    configured: Mapping[str, Any],
    given: Mapping[str, Any],
    path: Path,
    dry_run: bool,
    stack: contextlib.ExitStack,
) -> Ledger | None:
    """Return the ledger of a study, open until the stack ends; None if nothing about it is set.

    Options that were given win over what is configured; a dry run writes nothing.
    """
    options = dict(configured)
    options |= {
        key: given[key] for key in LEDGER if given[key] is not None and given[key] is not False
    }
    if not options:
        return None
    path = Path(options.pop("path", path))
    if dry_run and not path.exists() and not options.get("offline"):
        # prices are needed, and a file that stays is not
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ledger.sqlite"
    if not options.get("offline"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(Ledger(path, **options))
