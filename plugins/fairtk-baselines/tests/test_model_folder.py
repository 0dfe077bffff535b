"""What all saved models have in common."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fairtk_baselines import model_folder
from fairtk_baselines.model_folder import ModelFolder

from fairtk.errors import FormatError

TOYS = ModelFolder("a toy", "toy.json", "toy", ("parts",), "toy-*.txt")
ARRAYS = ModelFolder(
    "arrays", "arrays.json", "arrays", ("weights", "digest"), "arrays-*.safetensors"
)


def save(folder, parts):
    TOYS.write(folder, {"parts": parts}, {f"toy-{parts}.txt": lambda p: p.write_text(str(parts))})


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path):
    for name in (".lock", ".0a.part.toy.json", "toy-0.txt"):
        (tmp_path / name).touch()
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert TOYS.read(tmp_path)["parts"] == 2
    assert sorted(p.name for p in tmp_path.glob("toy*")) == ["toy-2.txt", "toy.json"]


def save_arrays(folder, value=1.0):
    ARRAYS.write_arrays(folder, {}, {"one": np.array([value])}, str(value))


def content(arrays):
    return str(arrays["one"][0])


def test_arrays_come_back_and_are_replaced(tmp_path):
    folder = tmp_path / "new" / "folder"
    for value in (1.0, 2.0):
        save_arrays(folder, value)
    record, arrays = ARRAYS.read_arrays(folder, content)
    assert arrays["one"].tolist() == [2.0] and record["weights"] == "arrays-2.0.safetensors"
    assert len(list(folder.iterdir())) == 2  # the old weights are gone
    # who may read the folder may read the model: safetensors' own way of writing keeps others out
    (folder / "usual").touch()
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_killed_before_the_record_is_written(tmp_path, monkeypatch):
    """The data of the new model are there already: the old one is still whole."""
    save_arrays(tmp_path)
    real = model_folder.atomic_write

    def killed(path):
        if path.name == "arrays.json":
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(model_folder, "atomic_write", killed)
    with pytest.raises(KeyboardInterrupt):
        save_arrays(tmp_path, 2.0)
    assert ARRAYS.read_arrays(tmp_path, content)[1]["one"].tolist() == [1.0]


def data(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def flipped(folder):
    raw = bytearray(data(folder).read_bytes())
    raw[-2] ^= 1
    data(folder).write_bytes(raw)


def change(folder, name, value=...):
    path = folder / "arrays.json"
    record = json.loads(path.read_text())
    record.pop(name) if value is ... else record.update({name: value})
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, r"expected arrays \(arrays.json\), got no folder"),
        (lambda f: (f / "arrays.json").unlink(), "got 'arrays-.*safetensors'"),
        (lambda f: (f / "arrays.json").write_text("{"), "invalid description of arrays .no JSON"),
        (lambda f: (f / "arrays.json").write_bytes(b"\xff\xfe"), "no JSON"),
        (lambda f: (f / "arrays.json").write_text("[1]"), "its kind is not 'arrays'"),
        (lambda f: change(f, "kind", "other"), "its kind is not"),
        (lambda f: change(f, "version", 9), "version 9, not 1"),
        (lambda f: change(f, "digest"), "'digest' is missing"),
        (lambda f: change(f, "digest", "0"), "other content"),
        (lambda f: change(f, "weights", "../arrays-1.safetensors"), "not match arrays-"),
        (lambda f: data(f).unlink(), "missing or does not match"),
        (lambda f: data(f).write_bytes(data(f).read_bytes()[:-4]), "missing or does not match"),
        (flipped, "other content"),
    ],
)
def test_what_is_damaged_is_said(tmp_path, damage, message):
    folder = tmp_path / "model"
    save_arrays(folder)
    damage(folder)
    with pytest.raises(FormatError, match=message) as error:
        ARRAYS.read_arrays(folder, content)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="got a file"):
        save(tmp_path / "file", 1)


@pytest.mark.parametrize("other", ["model.safetensors", "x.part.txt", "zoo.txt"])
def test_the_files_of_others_are_found_behind_our_own(tmp_path, other):
    for name in (".0a.part.toy.json", "toy-0.txt", other):
        (tmp_path / name).touch()
    with pytest.raises(FormatError, match=f"got '{other}'"):
        save(tmp_path, 1)
    assert not (tmp_path / "toy.json").exists()


def test_of_models_that_are_saved_at_the_same_time_one_is_there(tmp_path):
    for turn in range(20):
        folder = tmp_path / str(turn)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(save, [folder] * 4, range(4)))
        parts = TOYS.read(folder)["parts"]
        assert [p.name for p in folder.glob("toy-*")] == [f"toy-{parts}.txt"]


def test_a_record_that_another_process_writes_meanwhile_is_no_foreign_file(tmp_path, monkeypatch):
    listed = Path.iterdir

    def late(path):
        if not (path / "toy.json").exists():
            (path / "toy.json").write_text("{}")  # after the first look, before the second
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", late)
    TOYS.check_free(tmp_path)


def test_only_data_files_in_the_folder_are_read(tmp_path):
    save(tmp_path, 1)
    assert TOYS.place(tmp_path, "toy-1.txt").read_text() == "1"
    for name in ("toy-/../../x.txt", "other.txt", 3, None):
        with pytest.raises(FormatError):
            TOYS.place(tmp_path, name)
