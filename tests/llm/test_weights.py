"""Where models are found, and what is said when they are not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
from model_answers import answers_of

from fairtk.errors import ModelError
from fairtk.llm import HuggingFaceCausal, HuggingFaceSeq2Seq
from fairtk.llm.loading import find_folder

NAME = "fairtk-tests/not-there"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Hugging Face's own switches, read at its import: an empty cache, and no connection."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return constants


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_no_connection_and_not_cached(hub, monkeypatch):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)

    def unresolved(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    with pytest.raises(ModelError) as error:
        HuggingFaceSeq2Seq(NAME).tokenizer  # noqa: B018
    assert "huggingface.co cannot be reached" in one_line(error)


def test_a_cached_model_needs_no_connection(hub, monkeypatch, tmp_path, t5_folder):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "cache" / "models--fairtk-tests--cached"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    snapshot = repository / "snapshots" / ("0" * 40)
    shutil.copytree(t5_folder, snapshot)
    name = "fairtk-tests/cached"
    assert find_folder(name) == snapshot
    answers = answers_of(HuggingFaceSeq2Seq(name, max_new_tokens=4), ["movie"])
    assert answers == answers_of(HuggingFaceSeq2Seq(t5_folder, max_new_tokens=4), ["movie"])
    (snapshot / "model.safetensors").unlink()  # a download that was broken off
    with pytest.raises(ModelError):
        find_folder(name)


def test_a_cached_model_that_has_pickles_only(hub, monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "cache" / "models--fairtk-tests--pickled"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "pytorch_model.bin").write_bytes(b"not read")
    name = "fairtk-tests/pickled"
    with pytest.raises(ModelError, match="pytorch_model"):
        find_folder(name)
    with pytest.raises(ModelError, match="allow_pickled_weights=True"):
        find_folder(name, pickled=False)
    assert find_folder(name, pickled=True) == snapshot


def test_no_name_at_all(hub, monkeypatch):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="'what is this\\?'"):
        find_folder("what is this?")


@pytest.mark.parametrize("path", ["./missing", "/not/a/folder", "~/not-a-folder", "a/b/c"])
def test_missing_folder(path):
    with pytest.raises(ModelError, match="config.json"):
        answers_of(HuggingFaceSeq2Seq(path), ["x"])


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError):
        find_folder(str(tmp_path / "model.safetensors"))


def test_incomplete_folders(t5_folder, tmp_path):
    with pytest.raises(ModelError, match="config.json"):
        find_folder(str(tmp_path))
    folder = shutil.copytree(t5_folder, tmp_path / "none")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError):
        find_folder(str(folder))
    index = {"weight_map": {"shared.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError):
        find_folder(str(folder))
    (folder / "model.safetensors.index.json").unlink()
    shutil.copy(t5_folder / "model.safetensors", folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError):
        answers_of(HuggingFaceSeq2Seq(folder), ["x"])


def test_broken_weights_and_the_wrong_kind(t5_folder, tmp_path):
    folder = shutil.copytree(t5_folder, tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="AutoModelForSeq2SeqLM"):
        answers_of(HuggingFaceSeq2Seq(folder), ["movie"])
    with pytest.raises(ModelError, match="AutoModelForCausalLM"):
        answers_of(HuggingFaceCausal(t5_folder), ["movie"])


def test_code_of_a_repository_is_never_run(t5_folder, tmp_path):
    folder = shutil.copytree(t5_folder, tmp_path / "code")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "evil.EvilConfig",
        "AutoModelForSeq2SeqLM": "evil.EvilModel",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    )
    answers = answers_of(HuggingFaceSeq2Seq(folder, max_new_tokens=4), ["movie"])
    assert answers == answers_of(HuggingFaceSeq2Seq(t5_folder, max_new_tokens=4), ["movie"])
    assert not (tmp_path / "ran").exists()


def test_threads_wait_without_spinning_unless_the_user_says_so():
    # read by the C library when torch is loaded: set before that, and torch is not loaded for it
    code = (
        "import importlib, os, sys, fairtk.llm.loading; first = os.environ['GOMP_SPINCOUNT']; "
        "os.environ['GOMP_SPINCOUNT'] = '7'; importlib.reload(fairtk.llm.loading); "
        "print(first, os.environ['GOMP_SPINCOUNT'], *sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    words = [sys.executable, "-W", "ignore", "-c", code]
    out = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout
    first, given, *modules = out.split()
    assert (first, given) == ("1000", "7") and "torch" not in modules
