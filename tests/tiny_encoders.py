"""Tiny encoders with random weights, saved as real ones are, and a plain computation by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LINES = (
    "harbour lantern willow ladder vector kernel marble gentle copper ranking silver market",
    "tensor puzzle orchard meadow sparse movie tag is the for title question answer passage",
)
WORDS = " ".join(LINES).split()
WINDOW = 24


def save(folder: Path, kind: str = "bert", head: bool = True, shard: str = "5GB") -> Path:
    """Save a tiny random encoder with its tokenizer.

    Args:
        folder: where to.
        kind: ``"bert"`` or ``"distilbert"``.
        head: whether it has scores over the vocabulary.
        shard: the most bytes of a file of weights.
    """
    import torch
    import transformers
    from transformers.utils import logging

    tokenizer = make_tokenizer()
    name = {"bert": "Bert", "distilbert": "DistilBert"}[kind]
    shape = {
        "bert": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
        "distilbert": {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
    }[kind]
    if kind == "bert":
        shape["num_attention_heads"] = 4
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(tokenizer), max_position_embeddings=32, initializer_range=0.5, **shape
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = getattr(transformers, f"{name}ForMaskedLM" if head else f"{name}Model")(config)
    logging.disable_progress_bar()
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    logging.enable_progress_bar()
    return Path(folder)


def make_tokenizer():
    """Return a fast tokenizer of whole words with BERT's special tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=WINDOW,
    )


def pickle_weights(folder: Path, shards: int = 1) -> Path:
    """Turn a folder's safetensors into pickles, as older models on the hub have them."""
    import json

    import torch
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    (folder / "model.safetensors").unlink()
    if shards == 1:
        torch.save(weights, folder / "pytorch_model.bin")
        return folder
    places = {}
    for number in range(shards):
        file = f"pytorch_model-{number + 1:05}-of-{shards:05}.bin"
        part = {name: weights[name] for name in names[number::shards]}
        torch.save(part, folder / file)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return folder


def plain_vector(folder: Path, text: str, sparse: bool) -> np.ndarray:
    """Return a text's vector, computed as the papers say, one text at a time."""
    import torch
    from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokens = AutoTokenizer.from_pretrained(folder)(
        text, truncation=True, max_length=WINDOW, return_tensors="pt"
    )
    model = (AutoModelForMaskedLM if sparse else AutoModel).from_pretrained(folder).eval()
    logging.enable_progress_bar()
    given = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    mask = tokens["attention_mask"].unsqueeze(-1)
    with torch.no_grad():
        output = model(**given)
        if sparse:
            found = torch.max(torch.log(1 + torch.relu(output.logits)) * mask, dim=1).values
        else:
            found = (output.last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
    return found[0].double().numpy()
