"""Divergences as objects: values, string forms, and one that a plugin adds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fairtk
from fairtk import plugins
from fairtk.errors import NotFoundError, ParameterError
from fairtk.groups import (
    Divergence,
    JensenShannon,
    KullbackLeibler,
    ReverseKullbackLeibler,
    js_divergence,
    kl_divergence,
)
from fairtk.groups.rows import SparseRows
from fairtk.plugins.registry import as_divergence, read_divergence


def row(*weights):
    dense = np.array(weights, dtype=float)
    cell = np.flatnonzero(dense)
    return SparseRows.collect(np.zeros_like(cell), cell, dense[cell], 1, len(dense))


P, Q = row(0.7, 0.3, 0), row(0.2, 0.5, 0.3)


@dataclass(frozen=True, repr=False)
class TotalVariation(Divergence):
    """Half the sum of the differences."""

    NAME: ClassVar[str] = "tv"

    factor: float = 0.5

    def between(self, shown, target):
        gap = shown.normalized().dense() - target.expanded().normalized().dense()
        return self.factor * np.abs(gap).sum(axis=1)


class Scaled(TotalVariation):
    """Has settings of its own, without checks."""

    NAME: ClassVar[str] = "scaled"

    def __init__(self, **settings):
        super().__init__(settings.get("factor", 1) / 2)


class Plugin:
    @fairtk.hookimpl
    def fairtk_divergences(self):
        return [TotalVariation, Scaled]


def test_values_are_those_of_the_functions():
    assert KullbackLeibler(smoothing=0.1).between(P, Q) == kl_divergence(P, Q, smoothing=0.1)
    assert ReverseKullbackLeibler(smoothing=0.1).between(P, Q) == kl_divergence(Q, P, smoothing=0.1)
    assert JensenShannon(base=2).between(P, Q) == js_divergence(P, Q, 2)


@pytest.mark.parametrize(
    "made",
    [KullbackLeibler(), ReverseKullbackLeibler(smoothing=0.2), JensenShannon(base=2)],
    ids=repr,
)
def test_string_forms_are_read_back(made):
    assert read_divergence(repr(made)) == made


def test_what_a_string_leaves_open():
    assert as_divergence("kl", "FairQR", smoothing=0.3) == KullbackLeibler(smoothing=0.3)
    assert as_divergence("kl(smoothing=0)", "x", smoothing=0.3) == KullbackLeibler(smoothing=0)
    assert as_divergence("js", "FairQR", smoothing=0.3) == JensenShannon()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kl(smoothing=1)", r"smoothing must be in \[0, 1\)"),
        ("kl(smooth=0)", "kl: unknown parameter 'smooth'"),
        ("kl(0.1)", "invalid divergence"),
    ],
)
def test_bad_strings(text, message):
    with pytest.raises(ParameterError, match=message):
        read_divergence(text)


def test_a_plugin_adds_one():
    with pytest.raises(NotFoundError, match="'tv'"):
        read_divergence("tv")
    plugin = Plugin()
    plugins.register(plugin, "fairtk-toy", "1")
    try:
        assert read_divergence("tv(factor=1.0)").between(P, Q) == pytest.approx(1.0)
        assert read_divergence("scaled").factor == 0.5
        with pytest.raises(ParameterError, match="^scaled: "):
            read_divergence("scaled(factor='a')")
    finally:
        plugins.unregister(plugin)
