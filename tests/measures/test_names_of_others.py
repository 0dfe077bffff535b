"""Names of measures in papers and in trec_eval, and what is no measure."""

import ir_measures
import pytest

import fairtk
from fairtk.errors import NotFoundError, ParameterError
from fairtk.measures import parse
from fairtk.plugins import registry

WITH_UNDERSCORE = [name for name in registry.measures.names() if "_" in name]


@pytest.mark.parametrize("name", WITH_UNDERSCORE)
def test_a_hyphen_suggests_the_underscore(name):
    with pytest.raises(ParameterError, match=f"did you mean '{name}@5'"):
        parse(f"{name}@5".replace("_", "-"))


def test_a_difference_has_no_suggestion():
    with pytest.raises(ParameterError, match="write Name"):
        parse("x-y@5")


@pytest.mark.parametrize("name", ["ndcg_cut_10", "ndcg_cut.5", "recip_rank", "P_5", "recall_100"])
def test_a_name_of_trec_eval_suggests_that_of_ir_measures(name):
    [measure] = ir_measures.parse_trec_measure(name)
    error = NotFoundError if name.isidentifier() else ParameterError
    with pytest.raises(error) as caught:
        parse(name)
    assert (str(measure) in str(caught.value)) == name.isidentifier()


def function(qrels, run):
    return 1.0


@pytest.mark.parametrize("value", [function, fairtk.FairMeasure, 5, None, ["EE_D@5"]])
def test_what_is_no_measure(value):
    with pytest.raises(ParameterError, match=r"expected a measure .*fairtk\.FairMeasure"):
        parse(value)


def test_a_measure_without_declarations():
    class Share(fairtk.FairMeasure):
        def score_query(self, qrels, run):
            return 1.0

    with pytest.raises(ParameterError, match="Share must declare NAME, PRETTY_NAME"):
        Share()
