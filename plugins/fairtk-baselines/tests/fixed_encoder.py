"""A bi-encoder that looks its vectors up, so that cases can be computed by hand."""

import numpy as np
from pyterrier_dr import BiEncoder, SimFn


class FixedEncoder(BiEncoder):
    """Encodes a text as the numbers in it: ``"1 0.5"`` is the vector (1, 0.5)."""

    def __init__(self, name="fixed", cosine=False, broken=None):
        super().__init__()
        self.model_name = name
        self.cosine = cosine
        self._broken = broken
        self._encoded = 0

    @property
    def sim_fn(self):
        return SimFn.cos if self.cosine else SimFn.dot

    @property
    def encoded(self):
        """Number of documents encoded so far."""
        return self._encoded

    def encode_docs(self, texts, batch_size=None):
        self._encoded += len(texts)
        if self._broken is not None and self._encoded > self._broken:
            raise RuntimeError("the encoder broke")
        return np.array([[float(x) for x in text.split()] for text in texts], dtype=np.float32)

    encode_queries = encode_docs


def documents(*vectors):
    """Documents d00, d01, ... with these vectors as texts."""
    return [{"docno": f"d{i:02}", "text": text} for i, text in enumerate(vectors)]
