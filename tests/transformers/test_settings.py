"""Settings that are set or assigned have the effect of a new transformer."""

import copy
import pickle
import shutil
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import nDCG

from fairtk import (
    EE_D,
    BM25Scorer,
    E,
    FairQR,
    FairSampler,
    FlanT5,
    Groups,
    OracleSampler,
    PerSample,
    Target,
    demo,
)
from fairtk.errors import ParameterError
from fairtk.experiment.identity import describe_stage
from fairtk.llm import HuggingFaceSeq2Seq, KeywordRefiner
from fairtk.testing import toy_qrels, toy_run
from fairtk.testing.toys import check_frames
from fairtk.transformers import FairTransformer


def same(changed, new, inp):
    assert changed == new and describe_stage(changed) == describe_stage(new)
    check_frames(changed.transform(inp), new.transform(inp), repr(changed))


def test_the_target_of_a_sampler():
    sampler = FairSampler(target_disparity=0.9, n_samples=5, cutoff=2)
    sampler.transform(toy_run().query("qid != 'q4'"))
    sampler.set_parameter("target_disparity", 0.7)
    same(
        sampler,
        FairSampler(target_disparity=0.7, n_samples=5, cutoff=2),
        toy_run().query("qid != 'q4'"),
    )


def test_settings_that_exclude_each_other_are_set_one_after_the_other():
    sampler = FairSampler(alpha=2, cutoff=2)
    with pytest.raises(ParameterError, match="`alpha` and `target_disparity`"):
        sampler.target_disparity = 0.7
    assert sampler == FairSampler(alpha=2, cutoff=2)
    sampler.alpha = None
    sampler.target_disparity = 0.7
    assert sampler == FairSampler(target_disparity=0.7, cutoff=2)


def test_settings_that_were_not_given_keep_their_defaults():
    groups = Groups.from_frame(pd.DataFrame({"docno": ["d1", "d2"], "group": ["a", "b"]}), name="g")
    system = FairQR(BM25Scorer(), groups, Target.uniform(groups), KeywordRefiner({}), depth=20)
    assert system.k == 20  # the default of k is the depth
    system.depth = 10
    assert system.k == 10
    system.rerank = "exposure"
    assert (system.k, system.pool) == (200, "union")


def test_labels_that_change_later_do_not_count():
    labels = toy_qrels()
    sampler = OracleSampler(labels, n_samples=3)
    labels.loc[:, "label"] = 0
    sampler.seed = 1
    same(sampler, OracleSampler(toy_qrels(), n_samples=3, seed=1), toy_run())


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copies_are_independent(copied):
    sampler = FairSampler(alpha=2, n_samples=3)
    other = copied(sampler)
    other.alpha = 4
    same(other, FairSampler(alpha=4, n_samples=3), toy_run())
    same(sampler, FairSampler(alpha=2, n_samples=3), toy_run())


def test_transformers_in_pipelines_and_in_other_transformers():
    scorer, sampler = BM25Scorer(), FairSampler(alpha=2, n_samples=3)
    pipeline = scorer >> sampler >> PerSample(scorer)
    scorer.set_parameter("b", 0.1)
    sampler.set_parameter("alpha", 4)
    new = BM25Scorer(b=0.1)
    expected = new >> FairSampler(alpha=4, n_samples=3) >> PerSample(new)
    check_frames(pipeline(toy_run()), expected(toy_run()), "pipeline")


# Third parties -------------------------------------------------------------------------------


class Derived(FairTransformer):
    """A transformer with attributes that depend on its settings, and weights."""

    identity_name, output_version = "tests.Derived", 1
    SETTINGS = ("factor", "model", "columns")
    LOADED = {"weights": ("model",)}

    def __init__(self, factor=1, model="a", *, columns=()):
        super().__init__()
        if factor < 0:
            raise ParameterError(f"factor must be at least 0, got {factor}")
        self.twice = 2 * factor
        self.factor, self.model, self.columns = factor, model, tuple(columns)

    @cached_property
    def weights(self):
        return [self.model]

    @cached_property
    def product(self):
        return self.twice * len(self.weights[0])

    def transform(self, inp):
        return inp.assign(product=self.product, columns=",".join(self.columns))


class Sub(Derived):
    """A subclass that passes its arguments on."""

    identity_name, output_version = "tests.Sub", 1
    SETTINGS = (*Derived.SETTINGS, "more")

    def __init__(self, *args, more=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.more = more
        self.sum = self.twice + more

    def transform(self, inp):
        return super().transform(inp).assign(sum=self.sum)


@dataclass(eq=False, repr=False)
class Data(FairTransformer):
    """A dataclass."""

    identity_name, output_version = "tests.Data", 1
    SETTINGS = ("a", "b")
    a: int
    b: int = 2

    def __post_init__(self):
        self.c = self.a * self.b

    def transform(self, inp):
        return inp.assign(c=self.c)


@pytest.mark.parametrize(
    "make, changes",
    [
        (lambda **s: Derived(3, **s), {"factor": 5, "model": "long", "columns": ("x", "y")}),
        (lambda **s: Sub(3, "b", **s), {"factor": 5, "model": "long", "columns": ["x"], "more": 4}),
        (lambda **s: Data(1, **s), {"a": 3, "b": 4}),
    ],
)
def test_third_parties(make, changes):
    for name, value in changes.items():
        changed = make()
        changed.transform(toy_run())
        setattr(changed, name, value)
        given = {"factor": 3, "model": "b"} if isinstance(changed, Sub) else {"factor": 3}
        given = {"a": 1} if isinstance(changed, Data) else given
        same(changed, type(changed)(**given | {name: value}), toy_run())


def test_weights_stay_unless_their_settings_change():
    transformer = Derived(columns=(name for name in "xy"))
    weights = transformer.weights
    transformer.factor = 4
    assert transformer.weights is weights and transformer.product == 8
    assert transformer.columns == ("x", "y")  # a generator is read once
    transformer.model = "bb"
    assert transformer.weights == ["bb"] and transformer.product == 16


def test_a_refused_value_changes_nothing():
    transformer = Derived(3)
    before = dict(vars(transformer))
    for change in (transformer.set_parameter, lambda *a: setattr(transformer, *a)):
        with pytest.raises(ParameterError, match="-1"):
            change("factor", -1)
        assert vars(transformer) == before
    with pytest.raises(ValueError, match="fcator"):
        transformer.set_parameter("fcator", 2)


# Models --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_model(tmp_path_factory):
    """A model whose weights differ from those of the demo."""
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(demo.model_folder(), tmp_path_factory.mktemp("model") / "other")
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor.flip(0).contiguous() for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_the_model_of_a_generator(other_model):
    inp, settings = toy_run()[:2], {"cutoff": 1, "num_beams": 2, "max_new_tokens": 3}
    generator = FlanT5(demo.model_folder(), **settings)
    loaded = generator.llm._model
    generator.set_parameter("num_beams", 1)
    assert generator.llm._model is loaded
    generator.cutoff, generator.max_new_tokens = 2, 5
    assert generator.llm._model is loaded
    new = FlanT5(demo.model_folder(), cutoff=2, num_beams=1, max_new_tokens=5)
    same(generator, new, inp)
    generator.model = other_model
    assert generator.llm._model is not loaded
    new = FlanT5(other_model, cutoff=2, num_beams=1, max_new_tokens=5)
    same(generator, new, inp)


def test_the_settings_of_a_model():
    backend = HuggingFaceSeq2Seq(str(demo.model_folder()), max_prompt_tokens=40)
    assert backend.tokenizer.model_max_length == 40
    config = backend._config
    backend.max_prompt_tokens = 20
    assert backend.tokenizer.model_max_length == 20 and backend._config is config
    with pytest.raises(ParameterError, match="max_prompt_tokens"):
        backend.max_prompt_tokens = 0
    assert backend.tokenizer.model_max_length == 20


# Tuning --------------------------------------------------------------------------------------

NDCG = "ndcg_cut_5"  # pt.GridSearch finds the value of a measure only by its name


def values_of(systems, topics, qrels, measure):
    """Return the values of new systems."""
    tables = [pt.Experiment([system], topics, qrels, [measure]) for system in systems]
    return [table[str(measure)][0] for table in tables]


def scanned(pipeline, grid, topics, qrels, measure):
    rows = pt.GridScan(pipeline, grid, topics, qrels, [measure], dataframe=False)
    return [row[str(measure)] for _, row in rows]


def check_search(make, pipeline_of, name, grid_values, topics, qrels, measure):
    """Compare a search and a loop with new objects."""
    qrels = qrels[qrels["qid"].isin(topics["qid"])]  # a search counts all labeled queries
    expected = values_of([pipeline_of(make(v)) for v in grid_values], topics, qrels, measure)
    assert len({*expected}) > 1
    index = max(range(len(expected)), key=expected.__getitem__)
    changed = make(None)
    grid = {changed: {name: grid_values}}
    assert scanned(pipeline_of(changed), grid, topics, qrels, measure) == pytest.approx(expected)
    if isinstance(measure, str):
        changed = make(None)
        grid = {changed: {name: grid_values}}
        arguments = pipeline_of(changed), grid, topics, qrels, measure
        value, setting = pt.GridSearch(*arguments, return_type="best_setting")
        assert value == pytest.approx(expected[index]) and setting[0][2] == grid_values[index]
        assert changed == make(None)  # a search without a pipeline restores the settings
        pt.GridSearch(*arguments)
        assert changed == make(grid_values[index])


@pytest.mark.parametrize("measure, n_samples", [(NDCG, 1), (E(nDCG @ 5), 5), (EE_D @ 5, 5)])
def test_grid_search_chooses_what_a_loop_with_new_samplers_chooses(measure, n_samples):
    data = demo.load()
    run = pt.Transformer.from_df(BM25Scorer()(data.candidates))
    check_search(
        lambda alpha: FairSampler(alpha, n_samples=n_samples),
        lambda sampler: run >> sampler,
        *("alpha", [0, 8, 1], data.topics[:10], data.qrels, measure),
    )


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
def test_grid_search_chooses_what_a_loop_with_new_refiners_chooses():
    data = demo.load()
    groups = Groups.from_frame(data.groups, name="demo")
    terms = {group: ["film"] for group in {*data.groups["group"], "@UNKNOWN"}}
    retriever = pt.Transformer.from_df(BM25Scorer()(data.candidates))

    def make(weight):
        return FairQR(
            *(retriever, groups, Target.uniform(groups), KeywordRefiner(terms)),
            **{"depth": 5, "rerank": "exposure", "weight": 1.0 if weight is None else weight},
            floor=0.0,
        )

    topics = data.topics[:8]
    check_search(make, lambda system: system, "weight", [0.0, 8.0, 0.5], topics, data.qrels, NDCG)
