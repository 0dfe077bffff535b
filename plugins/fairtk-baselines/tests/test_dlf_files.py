"""What DLF keeps in a folder."""

import json

import pandas as pd
import pytest
from dlf_collection import make_collection
from fairtk_baselines import DLF

from fairtk import Groups, Target
from fairtk.errors import FormatError, InputError


@pytest.fixture(scope="module")
def small():
    return make_collection(n_queries=4, n_docs=12, dimension=8)


@pytest.fixture(scope="module")
def trained(small):
    options = {"hidden": (4,), "browsing": "RBP(p=0.8)", "drop": ("doc_vec",), "weight": 0.3}
    return DLF(small.groups, small.target, epochs=5, **options).fit(small.run, small.qrels)


@pytest.fixture
def folder(trained, tmp_path):
    trained.save(tmp_path / "new" / "dlf")
    return tmp_path / "new" / "dlf"


def test_ranks_as_before(small, trained, folder):
    text = (folder / "dlf.json").read_text(encoding="utf-8")
    assert small.groups.key in text
    assert not any(docno in text for docno in small.groups.docnos)  # no document's group
    loaded = DLF.load(folder)
    pd.testing.assert_frame_equal(loaded(small.run), trained(small.run))
    assert loaded == trained and repr(loaded) == repr(trained) and loaded.fitted is not None
    assert loaded.at_weight(0.9) == trained.at_weight(0.9)
    loaded.save(folder)
    assert DLF.load(folder) == trained
    with pytest.raises(InputError):  # cannot be trained again
        loaded.fit(small.run, small.qrels)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: change(d, dimension=9), "invalid description.*size mismatch"),
        (lambda d: change(d, dimension="wide"), "invalid description"),
        (lambda d: setting(d, weight=7), "weight must be in"),
        (lambda d: setting(d, hidden=[5]), "invalid description.*size mismatch"),
        (lambda d: setting(d, seed=None), "seed must be an integer"),
        (lambda d: setting(d, weight=...), "'weight' is missing"),
    ],
)  # fmt: skip
def test_what_is_broken_is_said(folder, spoil, message):
    spoil(folder)
    with pytest.raises(FormatError, match=message) as error:
        DLF.load(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_keys_tell_groups_apart(small):
    """Equal names and other memberships are other groups, in what is printed, too."""
    swapped = small.groups.to_frame().assign(group=lambda f: f["group"].map({"a": "b", "b": "a"}))
    other = Groups.from_frame(swapped, name="side", levels=["a", "b"])
    one, two = (DLF(g, Target.uniform(g)) for g in (small.groups, other))
    assert one != two and repr(one) != repr(two)


def change(folder, **values):
    path = folder / "dlf.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values))


def setting(folder, **values):
    path = folder / "dlf.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for name, value in values.items():
        record["settings"].pop(name) if value is ... else record["settings"].update({name: value})
    path.write_text(json.dumps(record))
