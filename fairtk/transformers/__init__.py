"""PyTerrier transformers: samplers, scorers, candidates and generators."""
