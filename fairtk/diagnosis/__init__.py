"""What is wrong with a run, its labels and its groups, all at once, and what to do about it."""

from __future__ import annotations

from fairtk.diagnosis.entry import doctor
from fairtk.diagnosis.findings import LEVELS, Diagnosis, Finding

__all__ = ["LEVELS", "Diagnosis", "Finding", "doctor"]
