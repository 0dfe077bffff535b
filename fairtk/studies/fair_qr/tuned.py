"""Systems of a study whose settings are chosen on other topics than those they are shown on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.errors import InputError
from fairtk.experiment.tuner import Choice, Tuner
from fairtk.frames.columns import QID
from fairtk.llm import Ledger
from fairtk.studies.fair_qr.cells import Cell
from fairtk.studies.fair_qr.refining import ranked
from fairtk.studies.fair_qr.values import PRODUCT, measures
from fairtk.studies.kept import KeptCell, Ranked
from fairtk.studies.writing import plain

if TYPE_CHECKING:
    from fairtk.studies.fair_qr.layout import Layout

_CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]


def tuned_ranking(study: Layout, cell: Cell, ledger: Ledger) -> Callable[[pd.DataFrame], Ranked]:
    """Return what ranks topics with the settings that are best on the folds without them."""
    data, settings = study.data, study.settings
    least = 3 if study.trained(cell) else 2
    if len(set(study.folds.values())) < least:
        raise InputError(
            f"tuning needs {least} folds and topics at least: some to choose settings on, others "
            f"to show{', others to train on' * (least > 2)}; leave it out by --no-tuning "
            "(Settings(tuning={}))"
        )
    groups, target = data.attributes[cell.attribute]
    llm = ledger.wrap(study.llm)

    def build(**chosen: Any) -> Any:
        own = cell.at(chosen)
        return study.refiner(own, llm) if cell.refines else study.build(own)

    tuner = Tuner(
        build,
        cell.grid,
        data.topics,
        data.qrels,
        measures(groups, target, settings.cutoff, settings.ndcg)[PRODUCT],
        study.folds,
        study.trained(cell),
        cell.system,
    )
    made: dict[int, Any] = {}  # the last fold's

    def rank(topics: pd.DataFrame) -> Ranked:
        parts, chosen, seconds = [], {}, 0.0
        for number, part in topics.groupby(topics[QID].map(tuner.folds), sort=False):
            if number not in made:
                begin, recorded = time.perf_counter(), len(ledger)
                choice = tuner.choose(int(number))
                made.clear()
                made[int(number)] = tuner.made(choice.settings, int(number))
                seconds += time.perf_counter() - begin
                chosen[part[QID].iloc[0]] = _row(choice, len(ledger) - recorded)
            parts.append(ranked(made[int(number)], part))
        return Ranked.stacked(parts, seconds, chosen)

    return rank


def _row(choice: Choice, calls: int) -> dict[str, Any]:
    settings = json.dumps({name: plain(value) for name, value in choice.settings.items()})
    return dict(
        zip(
            _CHOSEN,
            (choice.fold, settings, choice.value, choice.topics, choice.seconds, calls),
            strict=True,
        )
    )


def choices(kept: KeptCell) -> pd.DataFrame:
    """Return what was chosen for each fold: `_CHOSEN`; ``calls`` are answers newly recorded."""
    rows: list[Mapping[str, Any]] = [r["chosen"] for r in kept.records.values() if r.get("chosen")]
    return pd.DataFrame(rows, columns=_CHOSEN).sort_values("fold", ignore_index=True)
