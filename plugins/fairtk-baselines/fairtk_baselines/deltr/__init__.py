"""DELTR: linear learning to rank whose loss has a term for the exposure of protected groups."""

from fairtk_baselines.deltr.transformer import DELTR, PUBLISHED

__all__ = ["DELTR", "PUBLISHED"]
