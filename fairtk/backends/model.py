"""What models from Hugging Face share: settings, files, and loading on first use."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fairtk.backends import loading
from fairtk.backends.weights import find_folder, model_digest
from fairtk.errors import ParameterError, suggestion

DTYPES = ("auto", "float32", "bfloat16", "float16")


class HuggingFaceModel:
    """A model on the hub or in a folder, loaded on first use; code of a repository is never run.

    A subclass names its settings in `SETTINGS`, keeps each as an attribute of that name, and says
    what they mean.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ()

    LIBRARIES: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    """The packages on whose versions the numbers depend."""

    _pickled: bool | None = None
    """Whether pickled weights may be read; None: never, and there is no setting for it."""

    def __init__(
        self, model: str, device: str, dtype: str, batch_tokens: int | None, revision: str | None
    ) -> None:
        where = type(self).__name__
        loading.require_packages(where)
        if dtype not in DTYPES:
            raise ParameterError(f"{where}: unknown dtype {dtype!r}{suggestion(dtype, DTYPES)}")
        self.model = str(model)
        self.device = str(device)
        self.dtype = dtype
        self.batch_tokens = optional(batch_tokens, "batch_tokens", where)
        self.revision = revision

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def content_digest(self) -> str:
        """Return a digest of the model's files, wherever they are."""
        return model_digest(find_folder(self.model, self.revision, self._pickled))

    @cached_property
    def _folder(self) -> str:
        loading.require_packages(type(self).__name__)
        return str(find_folder(self.model, self.revision, self._pickled))

    @cached_property
    def _tokenizer(self) -> Any:
        return loading.load_tokenizer(self._folder, self.model)

    @cached_property
    def _config(self) -> Any:
        return loading.load_config(self._folder, self.model)

    @cached_property
    def _device(self) -> Any:
        return loading.pick_device(self.device, type(self).__name__)

    @property
    def _positions(self) -> int | None:
        """Absolute positions of the model; None where positions are relative (T5)."""
        found = getattr(self._config, "max_position_embeddings", None)
        return int(found) if found else None

    def __getstate__(self) -> dict[str, Any]:
        # A loaded model does not travel to other processes; each loads its own.
        return {name: getattr(self, name) for name in self.SETTINGS}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SETTINGS)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def at_least_one(value: Any, name: str, where: str) -> int:
    """Return a setting as an int from 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ParameterError(f"{where}: {name} must be an integer from 1; found {value!r}")
    return int(value)


def optional(value: Any, name: str, where: str) -> int | None:
    """Return a setting as `at_least_one` does, or None for None."""
    return None if value is None else at_least_one(value, name, where)
