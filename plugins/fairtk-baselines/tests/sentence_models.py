"""A tiny sentence-transformers model with random weights."""

import torch

_WORDS = ["red", "fox", "sea", "ships", "mice", "bread", "dawn", "the", "in"]


def write(folder, seed=0):
    """Save a model of 16 dimensions with random weights to a folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *_WORDS]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(
            BertConfig(
                vocab_size=len(words),
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=40,
            )
        )
    bare = folder.parent / f"{folder.name}-bare"
    model.save_pretrained(bare)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=32,
        **{f"{name}_token": word for name, word in names.items()},
    ).save_pretrained(bare)
    modules = [Transformer(str(bare)), Pooling(16)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return folder
