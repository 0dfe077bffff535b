"""The invented collection, read once, and an environment without secrets and proxies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import qr_world
from chat_server import KEY

from fairtk.llm import OpenAICompatible


@pytest.fixture(scope="session")
def wiki(tmp_path_factory):
    """The folder of the collection; not to be changed."""
    return qr_world.write_world(tmp_path_factory.mktemp("collection") / "wiki")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def environment(monkeypatch, home):
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def data(wiki, home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(home))
        return qr_world.read(wiki)


@pytest.fixture(scope="session")
def gender(data):
    """Return the collection with one attribute alone."""
    return replace(data, attributes={"gender": data.attributes["gender"]})


@pytest.fixture
def client():
    """Return a model behind a server: ``client(server, retries=0)``."""
    return lambda server, **options: OpenAICompatible(
        "toy", server.url, **({"backoff": 0.01, "retries": 1, "timeout": 300.0} | options)
    )
