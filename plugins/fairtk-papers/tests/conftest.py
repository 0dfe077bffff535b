"""Fixtures of all tests; the plugin is registered by hand where it is not installed."""

import shutil
from dataclasses import replace

import click.testing
import fairtk_papers.fair_qr.command
import fairtk_papers.fair_rag.command
import fairtk_papers.plugin
import pytest
import qr_world
import rag_world
from chat_server import KEY
from fairtk_papers.fair_qr import from_trec_fair
from hypothesis import HealthCheck, settings

from fairtk import plugins
from fairtk.cli.group import cli
from fairtk.llm import OpenAICompatible
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25

pytest_plugins = ["processes_of_tests"]

if not registry.studies.names():
    plugins.register(fairtk_papers.plugin, "fairtk-papers")
    cli.add_command(fairtk_papers.fair_qr.command.command, "qr")
    cli.add_command(fairtk_papers.fair_rag.command.command, "rag")


@pytest.fixture
def fairtk():
    """Run the command line in this process: ``fairtk("rag", ...)``."""
    runner = click.testing.CliRunner()
    return lambda *words, stdin=None: runner.invoke(cli, [str(w) for w in words], input=stdin)


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory):
    """Keep secrets, proxies and the user's home out of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture(scope="session", autouse=True)
def indexes(tmp_path_factory):
    """Build the index of a data set once, because each build starts a process."""
    build, built = CollectionBM25._build, {}

    def build_or_copy(bm25, folder):
        name, documents = folder.parent.name, bm25.documents
        # a study names the folder by the content of the collection
        key = (name if name.startswith("index-") else documents, folder.name)
        if documents.__module__ != from_trec_fair.__module__:  # a test's own documents
            build(bm25, folder)
        elif key in built:
            shutil.copytree(built[key], folder)
        else:
            build(bm25, folder)
            built[key] = shutil.copytree(folder, tmp_path_factory.mktemp("index") / "index")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CollectionBM25, "_build", build_or_copy)
        yield


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def wiki(tmp_path_factory):
    """The folder of the invented collection; not to be changed."""
    return qr_world.write_world(tmp_path_factory.mktemp("collection") / "wiki")


@pytest.fixture(scope="session")
def data(wiki):
    return qr_world.read(wiki)


@pytest.fixture(scope="session")
def gender(data):
    """Return the collection with one attribute alone."""
    return replace(data, attributes={"gender": data.attributes["gender"]})


@pytest.fixture(scope="session")
def finished_rag(tmp_path_factory):
    """The folder of a small study of Towards Fair RAG whose answers are stored; not to be changed.

    Copies of it spare other studies of the same topics the time of the model.
    """
    folder = tmp_path_factory.mktemp("finished") / "rag"
    rag_world.study(folder).run()
    return folder


@pytest.fixture
def client():
    """Return a model behind a server: ``client(server, retries=0)``."""
    return lambda server, **options: OpenAICompatible(
        "toy", server.url, **({"backoff": 0.01, "retries": 1, "timeout": 300.0} | options)
    )


# A shared machine may be slow at any moment: examples are bounded in number, not in time.
settings.register_profile(
    "papers", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("papers")
