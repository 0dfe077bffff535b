"""The study of *Towards Fair RAG* (Kim and Diaz 2024, arXiv 2409.11598)."""
