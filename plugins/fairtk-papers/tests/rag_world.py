"""Small studies of Towards Fair RAG on the packaged collection and model."""

from fairtk_papers.fair_rag import LampTask, RagSettings, RagStudy, make_generator

from fairtk import BM25Scorer, demo

SMALL = {"alphas": (0, 8), "n_samples": 3, "limit": 3}
"""Settings of small, quick studies."""


def generator(**options):
    fast = {"max_new_tokens": 8, "batch_tokens": 4096, "device": "cpu"}
    return make_generator(f"t5:{demo.model_folder()}", **(fast | options))


def study(folder, dataset=None, make=None, **changed):
    """Return a small study; all but its data and generator go to its settings."""
    task = LampTask(demo.load().dataset if dataset is None else dataset)
    settings = RagSettings(**(SMALL | changed))
    makers = {"tiny": make or generator()}
    return RagStudy([task], {"BM25": BM25Scorer()}, makers, folder, settings)
