"""A key in the environment, no proxy between tests and their server; tiny saved models."""

from __future__ import annotations

import sys

import pytest
from chat_server import KEY

from fairtk.llm import server


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """Let a check wait for its server, however slow the machine is."""
    monkeypatch.setattr(server, "CHECK_TIMEOUT", 300.0)


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small are only slowed down by several threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory):
    import tiny_models

    return tiny_models.save_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    import tiny_models

    return tiny_models.save_llama(tmp_path_factory.mktemp("llama"))
