"""Bootstrap samples of queries."""

import numpy as np
import pytest

from fairtk.errors import ParameterError
from fairtk.statistics import bootstrap_counts


def test_each_sample_has_as_many_queries_and_the_first_is_the_original():
    counts = bootstrap_counts(5, 50, 1)
    assert counts.shape == (51, 5)
    assert counts[0].tolist() == [1.0] * 5
    assert (counts.sum(axis=1) == 5).all()
    assert len(np.unique(counts, axis=0)) > 10
    np.testing.assert_array_equal(counts, bootstrap_counts(5, 50, 1))


@pytest.mark.parametrize("setting", [{"n": 0}, {"resamples": 0}, {"seed": -1}])
def test_numbers_out_of_range_are_refused(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        bootstrap_counts(**{"n": 3, "resamples": 2, "seed": 1, **setting})
