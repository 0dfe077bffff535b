"""What all saved models have in common."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fairtk_baselines.model_folder import ModelFolder

from fairtk.errors import FormatError

TOYS = ModelFolder("a toy", "toy.json", "toy", ("parts",), "toy-*.txt")


def save(folder, parts):
    TOYS.write(folder, {"parts": parts}, {f"toy-{parts}.txt": lambda p: p.write_text(str(parts))})


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path):
    for name in (".lock", ".0a.part.toy.json", "toy-0.txt"):
        (tmp_path / name).touch()
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert TOYS.read(tmp_path)["parts"] == 2
    assert sorted(p.name for p in tmp_path.glob("toy*")) == ["toy-2.txt", "toy.json"]


@pytest.mark.parametrize("other", ["model.safetensors", "x.part.txt", "zoo.txt"])
def test_the_files_of_others_are_found_behind_our_own(tmp_path, other):
    for name in (".0a.part.toy.json", "toy-0.txt", other):
        (tmp_path / name).touch()
    with pytest.raises(FormatError, match=f"found '{other}'.*nothing here is overwritten"):
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
