"""Random models of the shape of published ones, saved as those are."""

from __future__ import annotations

from sizes import scale

_LINES = (
    "harbor lantern willow ladder vector kernel marble gentle copper ranking silver market",
    "tensor puzzle orchard meadow sparse movie tag is the for title question answer passage",
)
WORDS = " ".join(_LINES).split()


def save_flan_t5_small(folder: str) -> None:
    """Save a T5 of the shape of google/flan-t5-small, with the packaged T5's tokenizer."""
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    from fairtk import demo

    tokenizer = AutoTokenizer.from_pretrained(demo.model_folder())
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=scale(512, 24),
        d_kv=scale(64, 4),
        d_ff=scale(1024, 32),
        num_layers=scale(8, 1),
        num_heads=6,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=1.4,  # 1.0: empty answers; 2.0: large rounding errors
    )
    _save(T5ForConditionalGeneration(config), tokenizer, folder)


def save_bert(folder: str, layers: int, width: int) -> str:
    """Save a BERT with a window of 128 tokens and a vocabulary of `WORDS`; return its folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=128,
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=128,
    )
    _save(BertForMaskedLM(config), tokenizer, folder)
    return folder


def _save(model, tokenizer, folder: str) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
