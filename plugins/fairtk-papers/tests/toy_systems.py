"""Systems of the study: one that keeps to the contract, and ones that do not."""

import numpy as np
import pandas as pd

from fairtk.errors import InputError, ParameterError
from fairtk.plugins.registry import StudySystemSpec
from fairtk.transformers.base import FairTransformer


class Reversed(FairTransformer):
    """The retriever's candidates, the last first."""

    SETTINGS = ("setting",)

    def __init__(self, setting):
        super().__init__()
        self.setting = setting

    def transform(self, inp):
        run = self.setting.retriever.transform(inp)
        run = run[run["rank"] < self.setting.candidates]
        run = run.sort_values(["qid", "rank"], ascending=[True, False], kind="stable")
        rank = run.groupby("qid").cumcount()
        return run.assign(rank=rank, score=-rank.astype(float)).reset_index(drop=True)


class Fitted(Reversed):
    known = None

    def fit(self, topics, qrels):
        self.known = set(topics["qid"])

    def transform(self, inp):
        if self.known is None:
            raise InputError("Fitted: call fit first")
        return super().transform(inp)


class Changed(Reversed):
    """What a function makes of the reversed candidates, and of the topics."""

    SETTINGS = ("setting", "change")

    def __init__(self, setting, change):
        super().__init__(setting)
        self.change = change

    def transform(self, inp):
        return self.change(super().transform(inp), inp)


def good(setting, kind=Reversed):
    if setting.options:
        raise ParameterError(f"no such setting: {', '.join(setting.options)}")
    return kind(setting)


def fitted(setting):
    return good(setting, Fitted)


def careless(setting):
    return Reversed(setting)


def short(setting):
    return Changed(setting, lambda out, _: out.groupby("qid").head(1))


def leaking(setting):
    return Changed(setting, lambda out, _: setting.texts.transform(out))


def batched(setting):
    def change(out, inp):
        return out if len(inp) > 1 else out.iloc[::-1].assign(rank=range(len(out)))

    return Changed(setting, change)


def random(setting):
    rng = np.random.default_rng()
    return Changed(setting, lambda out, _: out.assign(score=out["score"] - rng.random()))


def inventing(setting):
    def change(out, _):
        return pd.concat([out, out[:1].assign(qid="other")], ignore_index=True)

    return Changed(setting, change)


class Plugin:
    """Gives all of them."""

    def fairtk_study_systems(self):
        made = [
            StudySystemSpec(f"toy-{name}", f"toy_systems:{name}", name, trained=name == "fitted")
            for name in (
                *("good", "fitted", "short", "leaking", "batched", "random", "inventing"),
                "careless",
            )
        ]
        return [*made, StudySystemSpec("toy-untold", "toy_systems:fitted", "not said to be fitted")]
