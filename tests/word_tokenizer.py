"""A tokenizer whose tokens are words."""


class WordTokenizer:
    """Tokens are words; the window is `model_max_length`, if it is given."""

    def __init__(self, model_max_length=None):
        if model_max_length is not None:
            self.model_max_length = model_max_length

    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_string(self, tokens):
        return " ".join(tokens)
