"""The packaged tiny T5: what it promises, measured with the packaged parts."""

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import demo, utilities

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from demo_model import start, train  # noqa: E402
from demo_model.label import label  # noqa: E402

from fairtk import FairSampler, OracleSampler  # noqa: E402
from fairtk.demo import study  # noqa: E402
from fairtk.transformers.scorers import BM25Scorer  # noqa: E402


def test_files_are_small_and_safe():
    names = {path.name for path in demo.model_folder().iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not {name for name in names if name.endswith((".bin", ".pt", ".pkl"))}
    assert sum(path.stat().st_size for path in demo.model_folder().iterdir()) <= 3e6


def test_loads_as_float32():
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(demo.model_folder())
    assert model.dtype == torch.float32


def test_labels_are_reproduced():
    data = demo.load()
    chosen = data.topics["qid"].iloc[::17].tolist()
    topics = data.topics[data.topics["qid"].isin(chosen)]
    candidates = data.candidates[data.candidates["qid"].isin(chosen)]
    again = label(topics, candidates)[["docno", "label"]]
    packaged = data.qrels[data.qrels["qid"].isin(chosen)][["docno", "label"]]
    pd.testing.assert_frame_equal(
        again.sort_values("docno", ignore_index=True),
        packaged.sort_values("docno", ignore_index=True),
        check_dtype=False,
    )


def test_a_training_run_from_start_to_saved_model(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train, "TOKENIZER_PROMPTS", 200)
    monkeypatch.setattr(start, "N_DESCRIPTIONS", 1000)
    train.main(["--out", str(tmp_path), "--steps", "4", "--phrase-steps", "2", "--seed", "1"])
    assert "step 4/4" in capsys.readouterr().out
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    batch = tokenizer(["the tag for the movie: a", "b"], return_tensors="pt", padding=True)
    assert model.generate(**batch, max_new_tokens=3).shape[0] == 2


@pytest.mark.slow
def test_answers_follow_the_retrieved_entries():
    """Oracle 0.25 above no context; oracle and BM25 each 2 standard errors above uniform."""
    data = demo.load()
    accuracy = utilities.get("accuracy")
    scored = BM25Scorer().transform(data.candidates)
    generate = study.generator()
    alone = generate.transform(data.topics)
    without = np.array(accuracy(alone["qanswer"].tolist(), alone["gold_answer"].tolist()))

    n_samples = 12
    policies = {
        "uniform": FairSampler(alpha=0, n_samples=n_samples, cutoff=5),
        "bm25": FairSampler(alpha=8, n_samples=n_samples, cutoff=5),
        "oracle": OracleSampler(data.qrels, n_samples=n_samples, cutoff=5),
    }
    results = fairtk.Experiment({name: p >> generate for name, p in policies.items()}, scored)
    golds = data.topics.set_index("qid")["gold_answer"]
    utility = {}
    for name in policies:
        first = results.answers(name)
        values = accuracy(first["qanswer"].tolist(), golds.loc[first["qid"]].tolist())
        by_query = pd.Series(values).groupby(first["qid"].to_numpy()).mean()
        utility[name] = by_query.loc[data.topics["qid"]].to_numpy()

    assert utility["oracle"].mean() >= without.mean() + 0.25
    for name in ("oracle", "bm25"):
        difference = utility[name] - utility["uniform"]
        assert difference.mean() > 2 * difference.std(ddof=1) / np.sqrt(len(difference)), name
