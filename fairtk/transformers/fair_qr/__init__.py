"""FAIR-QR: the loop and its trace, keyword refinement, and the final order of documents."""

__all__: list[str] = []
