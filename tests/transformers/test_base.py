"""What all transformers share: stages that PyTerrier can see."""

import pyterrier as pt

from fairtk.transformers.base import FairTransformer


class Several(FairTransformer):
    SETTINGS = ("first", "others", "names")

    def __init__(self, first, others=(), names=()):
        super().__init__()
        self.first, self.others, self.names = first, others, names

    def transform(self, inp):
        return self.first.transform(inp)


def test_settings_that_are_transformers_are_stages():
    one, two = pt.Transformer.identity(), Several(pt.Transformer.identity())
    assert pt.inspect.subtransformers(Several(one)) == {"first": one}
    assert pt.inspect.subtransformers(Several(one, [two])) == {"first": one, "others": [two]}
    # an empty tuple, or one of other things, is no list of stages
    assert pt.inspect.subtransformers(Several(one, (), ("a", "b"))) == {"first": one}
    assert pt.inspect.subtransformers(Several("none")) == {}
    assert "Several" in pt.schematic.draw(Several("none", [Several("none")], ()))
