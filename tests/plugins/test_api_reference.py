"""Each transformer has an address in the API reference."""

from pathlib import Path

import fairtk
from fairtk.plugins import registry
from fairtk.plugins.references import DOCUMENTED_PACKAGES, SITE, help_address

ROOT = Path(__file__).parents[2]


def test_every_transformer_has_a_place():
    for entry in registry.transformers.entries():
        kind = registry.transformers.load(entry.name)
        assert help_address(kind).startswith(SITE)
        assert help_address(kind).endswith(f".{kind.__name__}")
    assert help_address(type("Mine", (), {"__module__": "__main__"})) is None


def test_schematics_lead_to_the_place():
    assert fairtk.FairSampler().schematic["help_url"] == help_address(fairtk.FairSampler)


def test_rooms_exist():
    folders = {p.parent.name for p in (ROOT / "fairtk").glob("*/__init__.py")}
    folders |= {p.stem for p in (ROOT / "fairtk").glob("*.py")}
    for room in DOCUMENTED_PACKAGES:
        first, _, name = room.partition(".")
        assert first != "fairtk" or not name or name in folders, room
