"""Tiny saved models, made once per session."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny_models  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small are only slowed down by several threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory):
    return tiny_models.save_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    return tiny_models.save_llama(tmp_path_factory.mktemp("llama"))
