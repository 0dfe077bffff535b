"""The study of Towards Fair RAG: speed of generation and labels, as ratios in one run.

    python tests/benchmarks/bench_rag.py [--small]

1. Rankings per second of the study's generation (alphas 1, 2, 4, 8, oracle, deterministic) against
   the straightforward loop: one prompt per call of transformers, nothing shared between alphas.
2. Labels of 1,000 documents against one call per document.
   Both with transformers, and with the same model by CTranslate2.
3. Tokens per second of CTranslate2 against transformers, float32, batches of 16, on a random model
   of the shape of flan-t5-small.

The packaged collection and T5, one thread. The loop's speed is that of some of its prompts; 1 and 2
are in seconds of a core, which a busy machine changes less. The report's seconds are in
bench_report.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).parents[1] / "backends"))

from bench_generation import OneAtATime  # noqa: E402

from fairtk import BM25Scorer, demo, prompts  # noqa: E402
from fairtk.datasets import lamp  # noqa: E402
from fairtk.prompts.tokens import count  # noqa: E402
from fairtk.studies import fair_rag  # noqa: E402

NEW_TOKENS = 8


@dataclass(frozen=True)
class Size:
    """What is measured with a model: all of it by the study, some prompts of it by the loop."""

    folder: str
    queries: int
    samples: int
    labeled: int
    looped: int


def of_cores() -> float:
    """Return the seconds of cores that this process and those below it have used."""
    import psutil

    below = psutil.Process().children(recursive=True)
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in below)


def seconds(run: Callable[[], Any], clock: Callable[[], float] = of_cores) -> tuple[float, Any]:
    began = clock()
    found = run()
    return clock() - began, found


def study(folder: str, size: Size, queries: int, kind: str) -> Any:
    """Return the study of the packaged collection, with its labels."""
    task = fair_rag.LampTask(lamp.from_folder(demo.collection_folder(), task=2))
    model = fair_rag.make_generator(f"{kind}:{size.folder}", max_new_tokens=NEW_TOKENS)
    settings = fair_rag.RagSettings(n_samples=size.samples, limit=queries)
    return fair_rag.RagStudy([task], {"BM25": BM25Scorer()}, {kind: model}, folder, settings)


def bench_generation(size: Size, kind: str, loop: OneAtATime) -> None:
    qrels = demo.load().qrels
    useful = qrels[qrels["label"] > 0]["qid"].drop_duplicates()[: size.queries]
    with tempfile.TemporaryDirectory() as folder:
        own = study(folder, size, size.queries, kind)
        [task], generator = own.tasks, own.generators[kind](2, 5)
        generator(task.topics.head(1))  # load and warm up
        labels = qrels[qrels["qid"].isin(useful)]
        took, results = seconds(lambda: own.experiment(task, "BM25", generator, labels))
        asked = []
        for system in results.systems:
            frame = results.rankings(system)
            keys = ["qid", "sample"] if "sample" in frame else ["qid"]
            for _, rows in frame.sort_values("rank").groupby(keys, sort=False):
                fields = rows[["text", "tag"]].to_dict("records")
                asked.append(prompts.get("lamp-2")(rows["question"].iloc[0], fields, None))
    some = np.random.default_rng(0).choice(asked, size.looped)
    looped, _ = seconds(lambda: loop.generate([str(prompt) for prompt in some]))
    ours, theirs = len(asked) / took, size.looped / looped
    print(
        f"  study, {kind}: {len(asked)} rankings, {len(set(asked))} distinct prompts: {ours:.1f} "
        f"rankings/s (with drawing, measures and store) against {theirs:.2f}/s, ratio "
        f"{ours / theirs:.1f} (wanted: 6)",
        flush=True,
    )


def bench_labels(size: Size, kind: str, loop: OneAtATime) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = study(folder, size, size.labeled, kind)
        [task], generator = own.tasks, own.generators[kind](2, 5)
        generator(task.topics.head(1))
        took, labeled = seconds(lambda: own.labeled(task, generator))
        documents = labeled.own.documents
        texts = task.dataset.docs_store()
        questions = task.topics.set_index("qid")["question"]
        some = documents.sample(size.looped, random_state=0)
        asked = []
        for qid, docno in zip(some["qid"], some["docno"], strict=True):
            found = texts.get(docno)
            entry = {"text": found.text, "tag": found.tag}
            asked.append(prompts.get("lamp-2")(questions[qid], [entry], None))
    looped, _ = seconds(lambda: loop.generate(asked))
    ours, theirs = (len(documents) + size.labeled) / took, size.looped / looped
    print(
        f"  labels, {kind}: {len(documents)} documents of {size.labeled} queries: {ours:.1f}/s "
        f"against {theirs:.2f}/s, ratio {ours / theirs:.1f} (wanted: 8)",
        flush=True,
    )


def bench_ctranslate2(beams: int) -> None:
    import tiny_models

    from fairtk.backends import CTranslate2Seq2Seq, HuggingFaceSeq2Seq

    rng = np.random.default_rng(0)
    asked = [" ".join(rng.choice(tiny_models.WORDS, 250)) for _ in range(32)]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch  # where the converted model goes
        folder = str(tiny_models.save_flan_t5_small(Path(scratch) / "model"))
        speeds, answers = {}, {}
        for backend in (HuggingFaceSeq2Seq, CTranslate2Seq2Seq):
            model = backend(folder, num_beams=beams, max_new_tokens=32)
            model.generate(asked[:2])

            def run(model: Any = model) -> list[str]:
                return [text for at in (0, 16) for text in model.generate(asked[at : at + 16])]

            took, found = seconds(run, time.perf_counter)  # one is another process
            length = sum(count(text, model.tokenizer) for text in found)
            speeds[backend], answers[backend] = length / took, found
    slow, fast = speeds.values()
    same = sum(a == b for a, b in zip(*answers.values(), strict=True))
    print(
        f"CTranslate2, {beams} beams, batches of 16: {fast:.0f} tokens/s against {slow:.0f}, ratio "
        f"{fast / slow:.2f} (wanted: 1.5); equal answers {same} of {len(asked)}"
    )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    import tiny_models
    from transformers import AutoTokenizer

    less = 10 if options.small else 1
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch  # where converted models go
        shaped, packaged = f"{scratch}/flan-t5-small", str(demo.model_folder())
        tiny_models.save_flan_t5_small(Path(shaped), AutoTokenizer.from_pretrained(packaged))
        for what, size in (
            ("the packaged T5", Size(packaged, 6, 100 // less, 30 // less, 60)),
            ("random, of the shape of flan-t5-small", Size(shaped, 1, 100 // less, 30 // less, 8)),
        ):
            print(what, flush=True)
            loop = OneAtATime(size.folder, 4, NEW_TOKENS)
            loop.generate(["once"])
            for kind in ("t5", "ct2"):
                bench_generation(size, kind, loop)
                bench_labels(size, kind, loop)
    for beams in (1, 4):
        bench_ctranslate2(beams)


if __name__ == "__main__":
    main()
