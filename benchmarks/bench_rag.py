"""The study of Towards Fair RAG: speed of generation and labels, as ratios in one run.

    python benchmarks/bench_rag.py [--small | --lamp4 FOLDER --model DIR]

1. Rankings per second of the study's generation (alphas 1, 2, 4, 8, oracle, deterministic) against
   the straightforward loop: one prompt per call of transformers, nothing shared between alphas.
2. Labels of 1,000 documents against one call per document.
   Both with transformers, and with the same model by CTranslate2. Next to each ratio is the
   ceiling: transformers' own generate in the best of three batch sizes, sorted by length, each
   distinct prompt once, without drawing, measures, store and tokenizer.
3. Tokens per second against transformers' own generate, float32, four beams, batches of 16, on a
   random model of the shape of flan-t5-small: CTranslate2 and transformers, in
   turns, the median of the ratios.

The packaged collection and T5, or a LaMP-4 folder and a T5 for it (examples/headline_model.py),
whose answers are longer; one thread, in CPU seconds, which depend less on other load than wall
time. The loop is timed on a sample of its prompts, half of them before and half after the work that
it is compared with. The report's seconds are in bench_report.py.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from bench_generation import OneAtATime  # noqa: E402
from fairtk_papers import fair_rag  # noqa: E402
from sizes import scale  # noqa: E402

from fairtk import BM25Scorer, Candidates, demo  # noqa: E402
from fairtk.datasets import lamp  # noqa: E402
from fairtk.transformers.samplers import SingleDocumentSampler  # noqa: E402


@dataclass(frozen=True)
class Size:
    """What is measured with a model: all of it by the study, some prompts of it by the loop."""

    folder: str
    queries: int
    samples: int
    labeled: int
    looped: int
    data: str = str(demo.collection_folder())
    task: int = 2
    new_tokens: int = 8


def of_cores() -> float:
    """Return the seconds of cores that this process and those below it have used."""
    import psutil

    below = psutil.Process().children(recursive=True)
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in below)


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    began = of_cores()
    found = run()
    return of_cores() - began, found


def in_batches(loop: OneAtATime, rows: list[list[int]], size: int) -> list[Any]:
    """Return the answers, as ids, of transformers' own generate in batches."""
    import torch

    from fairtk.llm.hugging_face import padded

    found = []
    with torch.inference_mode():
        for start in range(0, len(rows), size):
            ids, mask = padded(rows[start : start + size], 0, left=False, device="cpu")
            found += loop.model.generate(input_ids=ids, attention_mask=mask, **loop.settings)
    return found


def compare(what: str, loop: OneAtATime, asked: list[str], looped: int, wanted: int, run: Any):
    """Print how much faster the work is than the loop, and what the ceiling is.

    Args:
        what: the work.
        loop: what it is compared with.
        asked: all prompts of the loop.
        looped: how many of them it is given.
        wanted: the ratio that is wanted.
        run: the work.
    """
    some = [str(prompt) for prompt in np.random.default_rng(0).choice(asked, looped)]
    rows = sorted(loop.tokenizer(some)["input_ids"], key=len)
    before, _ = seconds(lambda: loop.generate(some[::2]))
    took, _ = seconds(run)
    after, _ = seconds(lambda: loop.generate(some[1::2]))
    best = min(seconds(lambda n=size: in_batches(loop, rows, n))[0] for size in (4, 8, 16))
    ours, theirs, sharing = len(asked) / took, looped / (before + after), len(asked) / len({*asked})
    print(
        f"  {what}: {len(asked)} prompts, {len({*asked})} distinct: {ours:.1f}/s (with drawing, "
        f"measures and store) against {theirs:.2f}/s, ratio {ours / theirs:.1f} (wanted: {wanted}; "
        f"ceiling of transformers {sharing * looped / best / theirs:.1f})",
        flush=True,
    )


def study(folder: str, size: Size, queries: int, kind: str) -> Any:
    """Return the study of some queries of a collection."""
    task = fair_rag.LampTask(lamp.from_folder(size.data, task=size.task))
    model = fair_rag.make_generator(f"{kind}:{size.folder}", max_new_tokens=size.new_tokens)
    settings = fair_rag.RagSettings(n_samples=size.samples, limit=queries)
    return fair_rag.RagStudy([task], {"BM25": BM25Scorer()}, {kind: model}, folder, settings)


def bench_generation(size: Size, kind: str, loop: OneAtATime) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = study(folder, size, size.queries, kind)
        [task], generator = own.tasks, own.generators[kind](size.task, 5)
        generator(task.topics.head(1))  # load and warm up
        # a model without skill finds nothing useful: those of the packaged collection come with it
        qrels = demo.load().qrels if size.task == 2 else own.label(task, generator).qrels
        useful = qrels[qrels["label"] > 0]["qid"].drop_duplicates()[: size.queries]
        labels = qrels[qrels["qid"].isin(useful)]
        topics, asked = task.topics[task.topics["qid"].isin(useful)], []
        for pipeline in own.systems(task, "BM25", labels).values():
            found = generator.build_prompts(pipeline(topics))
            asked += [found.prompts[i] for i in found.prompt_of_row[::5]]  # five rows a ranking
        compare(
            f"study, {kind}",
            loop,
            asked,
            size.looped,
            6,
            lambda: own.experiment(task, "BM25", generator, labels),
        )


def bench_labels(size: Size, kind: str, loop: OneAtATime) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = study(folder, size, size.labeled, kind)
        [task], generator = own.tasks, own.generators[kind](size.task, 5)
        topics = task.topics.head(size.labeled)
        asked = list(generator.build_prompts(topics).prompts)
        alone = generator.build_prompts(
            (Candidates(task.dataset) >> SingleDocumentSampler())(topics)
        )
        asked += [alone.prompts[i] for i in alone.prompt_of_row]
        compare(f"labels, {kind}", loop, asked, size.looped, 8, lambda: own.label(task, generator))


def bench_ctranslate2(folder: str, loop: OneAtATime, pairs: int) -> None:
    from fairtk.llm import CTranslate2Seq2Seq, HuggingFaceSeq2Seq
    from fairtk.llm.chat import questions

    rng = np.random.default_rng(0)
    words = [word for text in demo.load().candidates["text"] for word in text.split()]
    rows = loop.tokenizer([" ".join(rng.choice(words, 300)) for _ in range(16 * pairs)])
    rows = [[*row[:255], row[-1]] for row in rows["input_ids"]]
    loop.settings["max_new_tokens"] = 32
    settings = {"num_beams": 4, "max_new_tokens": 32, "dtype": "float32"}
    for kind in (CTranslate2Seq2Seq, HuggingFaceSeq2Seq):
        model = kind(folder, **settings)
        model.complete(questions(["once"]))
        ratios, equal = [], 0
        for start in range(0, len(rows), 16):
            batch = rows[start : start + 16]
            slow, expected = seconds(lambda some=batch: in_batches(loop, some, 16))
            fast, found = seconds(lambda own=model, some=batch: own._generate(some, None))
            ratios.append(slow / fast)
            texts = loop.tokenizer.batch_decode(expected, skip_special_tokens=True)
            own_texts = [text for text, _ in found]
            equal += sum(a.strip() == b.strip() for a, b in zip(texts, own_texts, strict=True))
        print(
            f"  {kind.__name__}, 256 tokens in, 32 out: {np.median(ratios):.2f} times transformers "
            f"({min(ratios):.2f} to {max(ratios):.2f}); equal answers {equal} of {len(rows)}",
            flush=True,
        )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a tenth of the work")
    parser.add_argument("--lamp4", metavar="FOLDER", help="of LaMP-4 files, instead")
    parser.add_argument("--model", metavar="DIR", help="a T5 for them")
    options = parser.parse_args()
    import random_models

    less = 10 if options.small else 1
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch  # where converted models go
        shaped, packaged = f"{scratch}/flan-t5-small", str(demo.model_folder())
        sizes = {
            "the packaged T5": Size(packaged, *scale((6, 100, 30, 60), (1, 2, 1, 2))),
            "random, of the shape of flan-t5-small": Size(
                shaped, *scale((1, 100 // less, 30 // less, 8), (1, 2, 1, 2))
            ),
        }
        if options.lamp4:
            sizes = {options.model: Size(options.model, 6, 100, 17, 60, options.lamp4, 4, 24)}
        else:
            random_models.save_flan_t5_small(shaped)
        for what, size in sizes.items():
            print(what, flush=True)
            loop = OneAtATime(size.folder, 4, size.new_tokens)
            loop.generate(["once"])
            for kind in ("t5", "ct2"):
                bench_generation(size, kind, loop)
                bench_labels(size, kind, loop)
        if not options.lamp4:
            bench_ctranslate2(shaped, loop, scale(6 // less + 2, 1))


if __name__ == "__main__":
    main()
