"""A plugin that adds kinds of models: ``lab`` and ``lab-server``."""

import pytest

from fairtk import hookimpl, plugins
from fairtk.plugins import ChatModelSpec


class Lab:
    """A plugin's model: the model's name stands before each prompt."""

    tokenizer = None

    def __init__(self, model, *, device="cpu", dtype="float32", revision=None, cutoff=5):
        self.name = model
        self.device, self.dtype, self.revision, self.cutoff = device, dtype, revision, cutoff

    def generate(self, prompts):
        return [f"{self.name}: {prompt}" for prompt in prompts]

    def digest(self):
        return f"{self.name} {self.device} {self.dtype} {self.revision} {self.cutoff}"


class LabPlugin:
    @staticmethod
    @hookimpl
    def fairtk_chat_models():
        return [
            ChatModelSpec("lab", f"{__name__}:Lab", "the lab's models", example="tiny"),
            ChatModelSpec("lab-server", "fairtk.llm:OpenAICompatible", "the lab's", server=True),
        ]


@pytest.fixture(name="lab")
def lab_fixture():
    """Register the plugin."""
    plugin = LabPlugin()
    plugins.register(plugin, "fairtk-lab")
    yield
    plugins.unregister(plugin)
