"""The table of a store names the settings in which systems differ."""

import pandas as pd
import pyterrier as pt

import fairtk
from fairtk.experiment import stored_results

RUN = pd.DataFrame({"qid": "q", "query": "x", "docno": [*"abc"], "score": [3.0, 2.0, 1.0]})
TOPICS = pd.DataFrame({"qid": ["q"], "query": ["x"]})


def settings(folder, *samplers):
    source = pt.Transformer.from_df(RUN.assign(rank=[0, 1, 2]))
    systems = {f"s{number}": source >> sampler for number, sampler in enumerate(samplers)}
    fairtk.Experiment(systems, TOPICS, save_dir=folder)
    return stored_results(folder).set_index("systems")["settings"].to_dict()


def test_one_setting_differs(tmp_path):
    settings_of = settings(tmp_path, *(fairtk.FairSampler(alpha=a, n_samples=2) for a in (1, 2)))
    assert settings_of == {"": "", "s0": "FairSampler(alpha=1)", "s1": "FairSampler(alpha=2)"}


def test_several_settings_differ(tmp_path):
    first = fairtk.FairSampler(alpha=1, n_samples=2, cutoff=2)
    second = fairtk.FairSampler(alpha=1, n_samples=3, seed=7)
    settings_of = settings(tmp_path, first, second)
    assert settings_of["s0"] == "FairSampler(n_samples=2, cutoff=2, seed=42)"
    assert settings_of["s1"] == "FairSampler(n_samples=3, cutoff=null, seed=7)"


def test_nothing_differs_from_other_stages(tmp_path):
    settings_of = settings(tmp_path, fairtk.FairSampler(n_samples=2), pt.Transformer.identity())
    assert {*settings_of.values()} == {""}
