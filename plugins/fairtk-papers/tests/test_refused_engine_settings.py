"""Each setting of [engine] that `fairtk.Experiment` refuses is refused with its key and file."""

import pytest
from fairtk_papers.fair_qr import QrConfiguration
from fairtk_papers.fair_rag import RagConfiguration
from fairtk_papers.options import engine_options
from fairtk_papers.studies import ENGINE

from fairtk.errors import FormatError, ParameterError

NUMBERS = (["1", "16"], ["0", "-1", "1.5", "true", "'2'", "inf"])
VALUES = {
    "executor": (["'serial'", "'processes'", "'dask'"], ["'serail'", "'threads'", "''", "1"]),
    "scheduler": (["'tcp://10.0.0.1:8786'"], ["1", "['tcp://10.0.0.1:8786']"]),
    **dict.fromkeys(("workers", "threads", "batch_size"), NUMBERS),
}


def test_each_setting_has_values():
    assert VALUES.keys() == ENGINE.keys()


@pytest.mark.parametrize("kind", [RagConfiguration, QrConfiguration])
@pytest.mark.parametrize("key", ENGINE)
def test_values_of_a_setting(kind, key, tmp_path):
    path = tmp_path / "study.toml"
    accepted, refused = VALUES[key]
    for value in accepted:
        path.write_text(f"folder = 'x'\n[engine]\n{key} = {value}\n", encoding="utf-8")
        assert list(kind.read(path).engine) == [key]
    for value in refused:
        path.write_text(f"folder = 'x'\n[engine]\n{key} = {value}\n", encoding="utf-8")
        with pytest.raises(FormatError, match=f"'{key}' must be") as error:
            kind.read(path)
        assert error.value.path == path


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_of_the_command_line(workers):
    given = {"executor": None, "workers": workers, "scheduler": None}
    with pytest.raises(ParameterError, match="workers"):
        engine_options({"workers": 2}, given)
