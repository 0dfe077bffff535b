"""What the plugin's parts cite is in its references."""

import re
from pathlib import Path

import fairtk_baselines


def test_what_is_cited_is_in_the_references_and_no_more():
    text = (Path(fairtk_baselines.__file__).parent / "references.bib").read_text(encoding="utf-8")
    given = [*fairtk_baselines.fairtk_transformers(), *fairtk_baselines.fairtk_study_systems()]
    cited = set(" ".join(spec.citation or "" for spec in given).split())
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE))
