"""The page of remarks has every kind, with its class, its text and what to do."""

import re

from test_architecture import ROOT

from fairtk.remarks import KINDS


def test_the_page_has_every_kind():
    text = (ROOT / "docs" / "remarks.md").read_text(encoding="utf-8")
    rows = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line[:1] == "|"]
    listed = {kind: rest for kind, *rest in rows if kind not in ("kind", "---")}
    assert all(len(rest) == 3 and all(rest) for rest in listed.values())
    expected = {
        name: ["none" if kind.warning is None else f"`{kind.warning.__name__}`", kind.template]
        for name, kind in KINDS.items()
        if ":" not in name
    }
    assert {name: rest[:2] for name, rest in listed.items()} == expected
