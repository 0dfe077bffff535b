"""Each transformer has an address in the API reference."""

import fairtk
from fairtk.plugins import registry
from fairtk.plugins.references import SITE, help_address


def test_every_transformer_has_a_place():
    for entry in registry.transformers.entries():
        kind = registry.transformers.load(entry.name)
        assert help_address(kind).startswith(SITE)
        assert help_address(kind).endswith(f".{kind.__name__}")
    assert help_address(type("Mine", (), {"__module__": "__main__"})) is None


def test_schematics_lead_to_the_place():
    assert fairtk.FairSampler().schematic["help_url"] == help_address(fairtk.FairSampler)
