"""An object with a length is always true, so that `if ledger:` does not depend on its content."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence, Set

import pandas as pd

from fairtk import Groups
from fairtk.frames import Qrels, Run
from fairtk.llm import Ledger

CONTAINERS = (tuple, str, Sequence, Mapping, Set)
"""Their truth is that of Python's containers."""


def with_length():
    """Yield the classes of fairtk and its installed plugins that have a length of their own."""
    names = [m.name for m in pkgutil.iter_modules() if m.name.startswith("fairtk")]
    for name in [n for n in names if n != "fairtk_command"]:
        top = importlib.import_module(name)
        inner = pkgutil.walk_packages(getattr(top, "__path__", []), f"{name}.")
        modules = [top, *(importlib.import_module(m.name) for m in inner if m.name[-2:] != "__")]
        for module in modules:
            for value in vars(module).values():
                if isinstance(value, type) and value.__module__ == module.__name__:
                    owner = next((b for b in value.__mro__ if "__len__" in vars(b)), object)
                    if owner.__module__.startswith("fairtk") and not issubclass(value, CONTAINERS):
                        yield value


def test_objects_with_a_length_are_always_true():
    classes = {*with_length()}
    assert {Ledger, Groups, Run, Qrels} <= classes
    assert [c.__qualname__ for c in classes if not hasattr(c, "__bool__")] == []


def test_empty_objects_are_true(tmp_path):
    none = pd.DataFrame({"docno": pd.Series(dtype=str), "group": pd.Series(dtype=str)})
    groups = Groups.from_frame(none, name="none")
    rows = pd.DataFrame(columns=["qid", "docno", "score", "label"])
    with Ledger(tmp_path / "answers.sqlite") as ledger:
        for empty in (ledger, groups, Run(rows, "test"), Qrels(rows, "test")):
            assert len(empty) == 0 and bool(empty)
