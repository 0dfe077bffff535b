"""DLF: a relevance model and a fairness model, trained apart and blended."""

from fairtk_baselines.dlf.transformer import DLF

__all__ = ["DLF"]
