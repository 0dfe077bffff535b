"""The plugin is registered by hand where it is not installed."""

import fairtk_classic
from hypothesis import settings

from fairtk import plugins
from fairtk.plugins import registry

if "rND" not in registry.measures.names():
    plugins.register(fairtk_classic, "fairtk-classic")

settings.register_profile("classic", deadline=None, max_examples=15, print_blob=True)
settings.load_profile("classic")
