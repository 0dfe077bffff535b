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


class Short(Reversed):
    def transform(self, inp):
        return super().transform(inp).groupby("qid").head(1)


class Leaking(Reversed):
    def transform(self, inp):
        return self.setting.texts.transform(super().transform(inp))


class Batched(Reversed):
    def transform(self, inp):
        out = super().transform(inp)
        return out if len(inp) > 1 else out.iloc[::-1].assign(rank=range(len(out)))


class Random(Reversed):
    def transform(self, inp):
        out = super().transform(inp)
        rng = np.random.default_rng()
        return out.assign(score=out["score"] - rng.random())


class Inventing(Reversed):
    def transform(self, inp):
        out = super().transform(inp)
        return pd.concat([out, out[:1].assign(qid="other")], ignore_index=True)


def builder(kind, careless=False):
    def build(setting):
        if setting.options and not careless:
            raise ParameterError(f"no such setting: {', '.join(setting.options)}")
        return kind(setting)

    return build


good = builder(Reversed)
fitted = builder(Fitted)
short = builder(Short)
leaking = builder(Leaking)
batched = builder(Batched)
random = builder(Random)
inventing = builder(Inventing)
careless = builder(Reversed, careless=True)


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
