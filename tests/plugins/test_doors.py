"""Names of packages are imported on first use, and written once."""

import sys

import pytest

import fairtk
from fairtk.starting.doors import lazily


def test_a_package_of_ones_own(tmp_path, monkeypatch):
    package = tmp_path / "toy_door"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from fairtk.starting.doors import lazily\n"
        "if TYPE_CHECKING:\n"
        "    from toy_door import room as room\n"
        "    from toy_door.room import CHAIR as CHAIR\n"
        "__getattr__, __dir__, __all__ = lazily(__name__)\n"
    )
    (package / "room.py").write_text("CHAIR = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import toy_door

    assert "toy_door.room" not in sys.modules
    assert toy_door.__all__ == ["CHAIR"]
    assert {"CHAIR", "room", "__name__"} <= set(dir(toy_door))
    assert toy_door.CHAIR == 3
    assert toy_door.room.CHAIR == 3
    with pytest.raises(AttributeError, match="module 'toy_door' has no attribute 'TABLE'"):
        toy_door.TABLE  # noqa: B018


@pytest.mark.parametrize(
    "package", ["", ".datasets", ".experiment", ".groups", ".studies.fair_qr", ".transformers"]
)
def test_every_name_is_there(package):
    find, known, names = lazily(f"fairtk{package}")
    assert len(names) > 3 and set(names) <= set(known())
    for name in names:
        assert find(name) is not None
    assert fairtk.measures.EE_D is fairtk.EE_D
