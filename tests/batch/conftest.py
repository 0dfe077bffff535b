"""A key in the environment, and no proxy between tests and their server."""

from __future__ import annotations

import pytest
from chat_server import KEY


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
