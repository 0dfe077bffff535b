"""FAIR-QR: the loop and its trace, keywords from a model, and the order of what was retrieved."""
