"""What `FlanT5` says before it is used."""

import sys

import pytest

from fairtk import FlanT5
from fairtk.errors import MissingExtraError


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_said_when_it_is_built(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    wanted = rf"FlanT5 requires the package '{package}', .*: pip install '\.\[t5\]'"
    with pytest.raises(MissingExtraError, match=wanted):
        FlanT5()
