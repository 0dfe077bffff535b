"""``fairtk demo``: the whole pipeline without any set-up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from fairtk.cli.options import printing_options, samples_option
from fairtk.cli.output import TABLE, echo, echo_frame, wrapped_lines
from fairtk.plugins import on_terminal


@click.command("demo")
@samples_option("Sampled rankings per query and alpha.", default=100)
@click.option("--queries", type=click.IntRange(min=1), help="Use the first so many queries only.")
@printing_options
def command(samples: int, queries: int | None, form: str, output: str | None) -> None:
    """Run BM25, fair sampling and a tiny T5 on the packaged collection.

    Rankings are sampled from a Plackett-Luce policy at several alpha (0 is uniform, larger is
    closer to BM25), and the packaged model answers from the first five documents of each. The
    table shows how disparity of exposure (EE_D), exposure of useful documents (EE_R), nDCG and the
    quality of the answers (EU) change together. Needs no network.
    """
    from fairtk.demo import study
    from fairtk.io import number_text
    from fairtk.measures import parse, written

    started = time.monotonic()
    table = study.run(n_samples=samples, queries=queries, progress=DemoProgress())
    if form != TABLE:
        echo_frame(form, table, output)
        return
    columns = [str(c) for c in table.columns]
    rows: list[list[Any]] = table.to_numpy(dtype=object).tolist()
    click.echo(f"Demo finished in {time.monotonic() - started:.0f} s.", err=True)
    heads = [columns[0], *(written(parse(column)) for column in columns[1:])]
    cells = [[f"{row[0]}", *(number_text(value) for value in row[1:])] for row in rows]
    lines = wrapped_lines(heads, cells, range(1, len(columns)))
    echo([*lines, "", study.summary(table)], output)


class DemoProgress:
    """Shows how far each stage is, on stderr: a bar on a terminal, plain lines otherwise."""

    PAUSE = 5.0
    """Seconds between two plain lines of a stage."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.bar: Any = None
        self.done = 0
        self.said = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` parts of a stage are finished."""
        from tqdm import tqdm

        fresh = stage != self.stage
        if fresh:
            self.stage, self.done = stage, 0
        if on_terminal(sys.stderr):
            if fresh:
                self.bar = tqdm(total=total, desc=f"{stage:<10}")
            self.bar.update(done - self.done)
            if done >= total:
                self.bar.close()
        elif fresh or done >= total > self.done or self.clock() - self.said > self.PAUSE:
            click.echo(f"{stage}: {done}/{total}", err=True)
            self.said = self.clock()
        self.done = done
