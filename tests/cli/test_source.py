"""Signatures that are read from source equal those of the imported objects."""

import importlib
import inspect

import pytest

from fairtk.cli.source import signature
from fairtk.errors import PluginError

MODULE = '''
from __future__ import annotations

import sys
from abc import ABC
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fairtk.llm import KeywordRefiner

if TYPE_CHECKING:
    import os
elif sys.version_info > (3, 0):
    def of_elif(a, b=1): ...
else:
    OTHER = 1

try:
    import no_such_library_anywhere
except ImportError:
    def of_except(c, *, d="x"): ...
else:
    ANOTHER = 3
finally:
    LEVEL = 2


def plain(a, /, b=LEVEL, *, c: int = 3): ...


@dataclass
class Base:
    """A base."""

    first: int
    KIND: ClassVar[str] = "base"
    second: str = "b"


@dataclass()
class Child(Base):
    """A child."""

    second: str = "other"
    _: KW_ONLY
    third: float = 0.5


class WithInit(ABC):
    def __init__(self, x, y=2): ...


class Heir(WithInit):
    """An heir."""


class Grandchild(Heir):
    """Two levels below."""

    def method(self, z=1): ...


class OfDataclass(Child):
    """Not a dataclass itself."""


class OfFairtk(KeywordRefiner):
    """Of another package."""


class Unknown(dict):
    """Of the standard library."""


class Nothing:
    """Has no __init__."""

    name: str = "x"


VALUE = 3
'''
READABLE = [
    *("plain", "of_elif", "of_except", "Base", "Child", "WithInit", "Heir", "Grandchild"),
    *("Grandchild.method", "OfDataclass", "OfFairtk"),
]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    (folder / "read_from_source.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("read_from_source")


@pytest.mark.parametrize("name", READABLE)
def test_the_parameters_are_those_of_the_object(module, name):
    target = module
    for part in name.split("."):
        target = getattr(target, part)
    expected = {
        p.name: p.default
        for p in inspect.signature(target).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    read, doc = signature(f"read_from_source:{name}")
    read.pop("self", None)
    expected.pop("self", None)
    assert {one.name: one.default for one in read.values()} == expected
    assert doc == (vars(target).get("__doc__", target.__doc__) or "")


@pytest.mark.parametrize("name", ["Unknown", "Nothing", "VALUE"])
def test_what_cannot_be_read_is_refused(module, name):
    with pytest.raises(PluginError, match=f"read_from_source:{name}"):
        signature(f"read_from_source:{name}")


def test_unknown_names_are_refused(module):
    for name in ("missing", "Grandchild.missing"):
        with pytest.raises(AttributeError, match="missing"):
            signature(f"read_from_source:{name}")
