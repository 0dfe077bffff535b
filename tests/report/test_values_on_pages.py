"""The values of queries on a page are rounded as in all tables."""

import base64
import json
import zlib

import pandas as pd
import pytest

import fairtk
from fairtk.display import number_text
from fairtk.report.queries import drill_down

# nDCG of a useful document at rank 28: 1 / log2(29) = 0.205847, in five digits 0.20585;
# its reciprocal rank at 32: 1/32 = 0.03125, a half, rounded to even
TEXTS = {("nDCG@32", 28): "0.2058", ("RR@32", 32): "0.0312", ("RR@32", 3): "0.3333"}


@pytest.mark.parametrize(("measure", "rank"), TEXTS)
def test_values_of_queries_have_the_digits_of_tables(measure, rank):
    docnos = [f"d{i}" for i in range(1, 33)]
    run = pd.DataFrame({"qid": "q", "docno": docnos, "score": range(32, 0, -1)})
    qrels = pd.DataFrame({"qid": ["q"], "docno": [f"d{rank}"], "label": [1]})
    results = fairtk.evaluate(qrels, {"a": run}, measure)
    packed = base64.b64decode(drill_down(results, 5).index)
    [[[value]]] = json.loads(zlib.decompress(packed))["values"]
    # the script writes 4 decimals of a value that has no others
    assert repr(value) == TEXTS[measure, rank]
    assert TEXTS[measure, rank] == number_text(results.per_query["value"].iloc[0])
    assert TEXTS[measure, rank] in repr(results)
