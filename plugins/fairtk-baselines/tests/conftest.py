"""The plugin is registered by hand where it is not installed."""

import fairtk_baselines
from hypothesis import settings

from fairtk import plugins
from fairtk.plugins import registry

if "MMR" not in registry.transformers.names():
    plugins.register(fairtk_baselines, "fairtk-baselines")

settings.register_profile("baselines", deadline=None, max_examples=15, print_blob=True)
settings.load_profile("baselines")
