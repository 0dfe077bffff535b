"""The plugin is registered by hand where it is not installed; vLLM is the fake one."""

import fairtk_vllm
import pytest
import vllm

from fairtk import plugins
from fairtk.plugins import registry

if "vllm" not in registry.chat_models.names():
    plugins.register(fairtk_vllm, "fairtk-vllm")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Forget what was loaded, and the variables that loading sets."""
    assert hasattr(vllm, "loaded"), "these tests need the fake vllm of tests/fake"
    for name in ("BATCH_INVARIANT", "ENABLE_V1_MULTIPROCESSING", "NO_USAGE_STATS", "LOGGING_LEVEL"):
        monkeypatch.setenv(f"VLLM_{name}", "")
        monkeypatch.delenv(f"VLLM_{name}")
    vllm.loaded.clear()
