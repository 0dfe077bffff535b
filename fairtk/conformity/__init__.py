"""fairtk beside plain implementations of the published definitions, and why numbers differ."""

from __future__ import annotations

from fairtk.conformity.entry import conformance
from fairtk.conformity.outcome import Conformity

__all__ = ["Conformity", "conformance"]
