"""Every parameter of every measure refuses None, NaN, an empty string and other types."""

import copy
import math
import pickle

import pandas as pd
import pytest
from ir_measures import P, ParamInfo, calc_aggregate, nDCG, parse_measure

from fairtk import AWRF, EE_D, EE_L, EE_R, EU, ByGroup, E, FairMeasure, GroupEE_D, nDCG_AWRF
from fairtk.cli.group import main
from fairtk.errors import ParameterError
from fairtk.exposure import RBP
from fairtk.measures import ObjectParam, Product, parse
from fairtk.plugins import parse_browsing_model, registry
from fairtk.testing import MeasureContract

NAN = float("nan")


def test_every_registered_measure():
    for entry in registry.measures.entries():  # those of installed plugins, too
        contract = MeasureContract()
        contract.measure = entry.value
        contract.test_parameters_refuse_missing_values()


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        *((EE_D, name) for name in ("estimator", "browsing", "normalize", "n", "bounds")),
        *((GroupEE_D, name) for name in ("estimator", "groups", "target")),
    ],
)
def test_none_is_not_the_default(measure, name):
    for make in (
        lambda: measure(**{name: None}),
        lambda: (measure @ 1)(**{name: None}),
        lambda: parse(f"{measure}({name}=None)@1"),
        lambda: parse_measure(f"{measure}({name}=None)@1"),
        lambda: E(measure)(measure=f"{measure}({name}=None)"),
        lambda: copy.deepcopy(measure @ 1)(**{name: None}),
        lambda: pickle.loads(pickle.dumps(measure @ 1))(**{name: None}),
    ):
        with pytest.raises(ParameterError, match=f"{measure}.*{name}.*None"):
            make()


def test_none_is_the_default():
    """A cutoff of None reads all ranks, so it changes neither the measure nor its label."""
    for measure in (EE_D, AWRF, nDCG_AWRF):
        assert measure @ None == measure == measure(cutoff=None) == (measure @ 5) @ None
        assert repr(measure @ None) == measure.NAME and not (measure @ None).params
    assert EE_R(rel=None) == EE_R == parse("EE_R(rel=None)@None")
    assert EU(utility="mae", upper_bound=None) == EU(utility="mae")


def test_inside_of_other_measures():
    for make, name in (
        (lambda: E(nDCG @ None), "cutoff"),
        (lambda: E(nDCG) @ None, "cutoff"),
        (lambda: parse("P@None"), "cutoff"),
        (lambda: E(P(rel=NAN) @ 5), "rel"),
        (lambda: parse("E(Compat(p=1e999))"), "p"),
        (lambda: parse("nDCG(dcg='')@5"), "dcg"),
        (lambda: (nDCG * EE_R) @ None, "cutoff"),
        (lambda: Product(left=None, right=EE_R @ 5), "left"),
        (lambda: Product(left=EE_R @ 5, right=""), "right"),
        (lambda: ByGroup(None), "measure"),
        (lambda: ByGroup(EE_R, None), "groups"),
        (lambda: nDCG_AWRF(base=NAN), "base"),
        (lambda: E(""), "measure"),
    ):
        with pytest.raises(ParameterError, match=name):
            make()


@pytest.mark.parametrize("text", ["None", "1e999", "''", "'x'", "[0.5]", "True", "b'0.5'"])
def test_parameters_of_parameters(text):
    for measure, name in (
        (f"EE_D(browsing={f'RBP(p={text})'!r})@5", "p"),
        (f"EE_D(browsing={f'GERR(u={text})'!r})@5", "u"),
        (f"EE_D(browsing={f'Fitted(weight={text})'!r})@5", "weight"),
        (f"EU(utility={f'mae(low={text})'!r})", "low"),
    ):
        if (name, text) != ("weight", "[0.5]"):  # a list of weights is valid
            with pytest.raises(ParameterError, match=name):
                parse(measure)


def test_numbers_without_quotes():
    """Quotes would not make nan a number."""
    with pytest.raises(ParameterError, match="rel must be of type int or float, got nan"):
        parse("EE_D(rel=nan)")


def test_the_command_line(tmp_path, capsys):
    qrels, run = tmp_path / "qrels.txt", tmp_path / "a.run"
    qrels.write_text("q 0 a 1\nq 0 b 0\n")
    run.write_text("q Q0 a 1 2.0 a\nq Q0 b 2 1.0 a\n")
    for measure, name in (("EE_D(estimator=None)@1", "estimator"), ("EE_D(n='')@1", "n")):
        with pytest.raises(SystemExit) as caught:
            main(["evaluate", str(qrels), str(run), "-m", measure])
        assert caught.value.code == 2 and f"EE_D: {name} must" in capsys.readouterr().err


class Priced(FairMeasure):
    """The mean price of the documents of a ranking."""

    NAME, PRETTY_NAME, BETTER, MISSING = "Priced", "Mean price", "lower", 0.0
    SUPPORTED_PARAMS = {
        "cutoff": ParamInfo(dtype=int),
        "prices": ParamInfo(dtype=str),
        "year": ParamInfo(dtype=int, choices=[2021, 2022], default=2022),
        "weight": ParamInfo(dtype=float, default=None),
        "label": ParamInfo(dtype=str, default=""),
        "limit": ParamInfo(dtype=float, default=math.inf),
        "anything": ParamInfo(),
        "model": ObjectParam(parse_browsing_model, RBP, default=None),
    }

    def score_query(self, qrels, run):
        prices = pd.read_csv(self["prices"], index_col="docno")["price"]
        return float(prices[run["docno"]].mean())


QRELS = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "relevance": [1, 0]})
RUN = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [2.0, 1.0]})


def test_a_measure_of_a_plugin():
    measure = Priced()
    assert repr(measure(weight=None, label="", limit=math.inf, year=2021)) == "Priced(year=2021)"
    assert measure(model=None) == measure and measure["model"] is None
    for name, value in (
        *(("prices", None), ("prices", ""), ("year", None), ("year", 20), ("year", 2021.0)),
        *(("weight", NAN), ("label", None), ("limit", -math.inf), ("limit", None)),
        *(("anything", None), ("anything", NAN), ("anything", ""), ("cutoff", None)),
    ):
        with pytest.raises(ParameterError, match=name):
            measure(**{name: value})


def test_a_required_parameter_that_is_not_marked(tmp_path):
    """pandas refuses the file None; the error names the measure and the parameter."""
    with pytest.raises(ParameterError, match="Priced.*prices") as caught:
        calc_aggregate([Priced()], QRELS, RUN)
    assert "cutoff" not in str(caught.value) and "model" not in str(caught.value)
    path = tmp_path / "prices.csv"
    path.write_text("docno,price\na,1\nb,4\n")
    priced = Priced(prices=str(path))
    assert calc_aggregate([priced, priced @ 1], QRELS, RUN) == {priced: 2.5, priced @ 1: 1.0}


def test_other_failures_keep_their_class(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        calc_aggregate([Priced(prices=str(tmp_path / "prices.csv"))], QRELS, RUN)
    assert any("Priced" in note for note in caught.value.__notes__)


def test_two_samples_that_show_each_document_once():
    """None meant "unbiased", and gave 0.

    Each document has exposure 1/2, so EE-D is 2 / 4 = 0.5 of a deterministic ranking's 1; without
    the excess (1 - EE-D) / N, with N = 2 replaced by N - 1 = 1, it is 0.5 - 0.5 = 0.
    """
    run = pd.DataFrame(
        {"query_id": "q", "doc_id": ["a", "b"], "score": 1.0, "sample": [0, 1]},
    )
    plain, unbiased = EE_D @ 1, EE_D(estimator="unbiased") @ 1
    assert calc_aggregate([plain, unbiased], QRELS, run) == {plain: 0.5, unbiased: 0.0}
    for measure in (EE_D, EE_L):
        with pytest.raises(ParameterError, match="estimator"):
            measure(estimator=None)
