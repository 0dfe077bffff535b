"""A study of models that answer in sentences."""

import re

import pytest
from fairtk_papers.fair_rag import RagSettings
from rag_world import study

from fairtk import EU, Generator, prompts
from fairtk.errors import InputError, NotFoundError, ParameterError

TAG = re.compile(r"\. is ([\w -]+)[.,]")


class Sentences:
    """A model that names the tags of the passages."""

    name = "sentences"

    def generate(self, prompts):
        return [f"It is {' or '.join(TAG.findall(text))}." for text in prompts]

    def digest(self):
        return "sentences, v1"


def reader(task, cutoff):
    return Generator(Sentences(), prompts.get(f"lamp-{task}"), cutoff)


def test_answers_in_sentences(tmp_path):
    settings = {"make": reader, "utility": "contains", "credit": "one-out"}
    results = study(tmp_path, **settings).run()
    values = results.values.query("measure == 'EU' and alpha == 'oracle'")["value"]
    # the useful documents are those with the gold tag, and the oracle shows them
    assert values.tolist() == [1.0] * len(values) and len(values)
    with pytest.raises(InputError, match="of 3 queries"):
        study(tmp_path / "accuracy", make=reader).run()


def test_settings():
    settings = RagSettings(utility="contains")
    assert settings.get_utility(3).measure == EU(utility="contains")
    assert settings.get_label_utility(4).name == "contains"
    assert RagSettings().get_utility(4).name == "rougeL"
    assert settings.name != RagSettings().name


@pytest.mark.parametrize(("utility", "error"), [("mae", ParameterError), ("same", NotFoundError)])
def test_bad_utilities(utility, error):
    with pytest.raises(error, match=f"'{utility}'"):
        RagSettings(utility=utility)
