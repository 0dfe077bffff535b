"""What DLF keeps in a folder."""

import json
import shutil

import pandas as pd
import pytest
from dlf_collection import make_collection
from fairtk_baselines import DLF, model_folder

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
    loaded = DLF.load(folder)
    pd.testing.assert_frame_equal(loaded(small.run), trained(small.run))
    assert loaded == trained and repr(loaded) == repr(trained) and loaded.fitted is not None
    assert loaded.at_weight(0.9) == trained.at_weight(0.9)


def test_no_group_of_a_document_is_written(small, folder):
    text = (folder / "dlf.json").read_text(encoding="utf-8")
    assert small.groups.key in text
    assert not any(docno in text for docno in small.groups.docnos)


def test_cannot_be_trained_again(small, folder):
    with pytest.raises(InputError):
        DLF.load(folder).fit(small.run, small.qrels)


def test_saving_again_replaces(small, trained, folder):
    other = DLF(small.groups, Target.uniform(small.groups), epochs=2).fit(small.run, small.qrels)
    other.save(folder)
    assert DLF.load(folder) == other
    assert len(list(folder.iterdir())) == 2  # the old weights are gone
    DLF.load(folder).save(folder)
    assert DLF.load(folder) == other


def test_killed_before_the_description_is_written(small, trained, folder, monkeypatch):
    """The weights of the new model are there already: the old one is still whole."""
    other = DLF(small.groups, small.target, epochs=1).fit(small.run, small.qrels)
    real = model_folder.atomic_write

    def killed(path):
        if path.name == "dlf.json":
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(model_folder, "atomic_write", killed)
    with pytest.raises(KeyboardInterrupt):
        other.save(folder)
    assert DLF.load(folder) == trained


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: shutil.rmtree(d), "expected a DLF model.*no folder"),
        (lambda d: (d / "dlf.json").unlink(), r"found 'dlf-.*safetensors'"),
        (lambda d: (d / "dlf.json").write_text("{"), "no JSON"),
        (lambda d: (d / "dlf.json").write_text("[1]"), "its kind is not"),
        (lambda d: change(d, version=9), "version 9, not 1"),
        (lambda d: change(d, weights="../other.safetensors"), "no name like dlf-"),
        (lambda d: change(d, dimension=9), "damaged one.*size mismatch"),
        (lambda d: change(d, dimension="wide"), "damaged one"),
        (lambda d: setting(d, weight=7), "weight must lie in"),
        (lambda d: setting(d, hidden=[5]), "damaged one.*size mismatch"),
        (lambda d: setting(d, seed=None), "seed must be an integer"),
        (lambda d: setting(d, weight=...), "'weight' is missing"),
        (lambda d: weights(d).unlink(), "a damaged one or none"),
        (lambda d: weights(d).write_bytes(b"\x00" * 9), "a damaged one or none"),
        (lambda d: weights(d).write_bytes(weights(d).read_bytes()[:-4]), "a damaged one or none"),
        (lambda d: flipped(weights(d)), "other content"),
    ],
)  # fmt: skip
def test_what_is_broken_is_said(folder, spoil, message):
    spoil(folder)
    with pytest.raises(FormatError, match=message) as error:
        DLF.load(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_nothing_else_is_overwritten(trained, tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(FormatError, match="'thesis.txt'"):
        trained.save(tmp_path)
    with pytest.raises(FormatError, match="found a"):
        trained.save(tmp_path / "thesis.txt")


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


def weights(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def flipped(path):
    raw = bytearray(path.read_bytes())
    raw[-2] ^= 1
    path.write_bytes(raw)


def test_who_may_read_the_folder_may_read_the_model(folder):
    (folder / "usual").touch()
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
