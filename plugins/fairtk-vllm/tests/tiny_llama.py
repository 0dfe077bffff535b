"""A random decoder-only model, saved as real ones are: safetensors and a fast tokenizer."""

LINE = "harbour lantern willow movie tag is the for title question answer silver market"
WINDOW = 200
TEMPLATE = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}answer :"


def save_llama(folder, template=None):
    """Save a model of two layers whose answers differ from prompt to prompt."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:?'0123456789"))
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0)]
    pieces += [("▁" + word, -4.0) for word in LINE.split()] + [(letter, -8.0) for letter in letters]
    inner = Tokenizer(models.Unigram(pieces, unk_id=2))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=WINDOW,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
                initializer_range=0.5,
            )
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
