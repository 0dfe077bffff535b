"""Fixtures of all tests; the plugin is registered by hand where it is not installed."""

import os
import signal
import tempfile

import click.testing
import fairtk_papers.fair_qr.command
import fairtk_papers.fair_rag.command
import fairtk_papers.plugin
import pytest
from hypothesis import HealthCheck, settings

from fairtk import plugins
from fairtk.cli.group import cli
from fairtk.plugins import registry

# Tests run in several processes: torch's threads would only get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell ignores Ctrl-C for what it starts in the background: see tests/conftest.py of the core.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Caches of data files, which are many and small here, go with the tests.
if "FAIRTK_HOME" not in os.environ:
    CACHES = tempfile.TemporaryDirectory(prefix="fairtk-tests-")
    os.environ["FAIRTK_HOME"] = CACHES.name

if not registry.studies.names():
    plugins.register(fairtk_papers.plugin, "fairtk-papers")
    cli.add_command(fairtk_papers.fair_qr.command.command, "qr")
    cli.add_command(fairtk_papers.fair_rag.command.command, "rag")


@pytest.fixture
def fairtk():
    """Run the command line in this process: ``fairtk("rag", ...)``."""
    runner = click.testing.CliRunner()
    return lambda *words, stdin=None: runner.invoke(cli, [str(w) for w in words], input=stdin)


# A shared machine may be slow at any moment: examples are bounded in number, not in time.
settings.register_profile(
    "papers", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("papers")
