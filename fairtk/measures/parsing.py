"""Measures as strings: those of ``ir_measures.parse_measure``, ``E(nDCG@5)`` for
``E(measure='nDCG@5')``, and ``A * B`` for ``Product(left='A', right='B')``.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ir_measures

from fairtk import checks
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.measures.params import NamedParam, ObjectParam, count
from fairtk.plugins import registry
from fairtk.wording import did_you_mean, short


def parse(text: Any, groups: Callable[[str | None], Any] | None = None) -> Any:
    """Return the measure that a string names; a measure is returned unchanged.

    The string is parsed, not executed. Errors end with the position in it, from 1.

    Args:
        text: e.g. ``"EE_D@5"``, ``"EE_D(browsing='RBP(p=0.8)')"``, ``"E(nDCG@5)"``, ``"nDCG@10"``.
        groups: returns the groups of a name in the string, or of `None` if it names a target but no
            groups; by default those that are registered or in use by a measure.

    Raises:
        ParameterError: the string is not a measure, or a parameter is unknown or invalid.
        NotFoundError: the measure is unknown; the nearest, or that of a name of trec_eval, is
            suggested.
    """
    if isinstance(text, ir_measures.Measure):
        check_params(text)
        return text
    if not isinstance(text, str):
        raise ParameterError(
            f"expected a measure or its name, got {short(text)}; a measure of your own is an "
            "instance of a subclass of fairtk.FairMeasure"
        )
    reader = _Reader(text.strip(), groups)
    try:
        return reader.read()
    except InputError as error:
        error.args = (f"{error} ({reader.place()})",)
        raise


def format_measure(measure: Any) -> str:
    """Return the short form of a measure, such as ``"E(nDCG@5)"``, which `parse` reads back.

    Its `repr` is ir_measures' form: ``"E(measure='nDCG@5')"``.
    """
    checks.instance("measure", measure, ir_measures.Measure)
    if measure.NAME == "E" and "measure" in measure.params:
        return f"E({format_measure(measure['measure'])})"
    if measure.NAME != "Product" or not {"left", "right"} <= measure.params.keys():
        return repr(measure)
    left, right = map(format_measure, measure.factors)
    # `*` and `@` have equal precedence: "A * B@5" is "(A * B)@5", which also cuts A
    cuts_both = right.rpartition("@")[2].isdecimal() and not has_cutoff(measure["left"])
    if cuts_both or measure["right"].NAME == "Product":
        right = f"({right})"
    return f"{left} * {right}"


def named_objects(measures: Iterable[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield measure, parameter and object for all groups and targets of measures and parts."""
    for measure in measures:
        for name, param in measure.SUPPORTED_PARAMS.items():
            if isinstance(param, NamedParam) and name in measure.params:
                yield measure, name, measure[name]
        yield from named_objects(getattr(measure, "parts", ()))


def check_names(measures: Iterable[Any]) -> None:
    """Raise an `InputError` if measures have different groups or targets with the same name.

    The labels of such measures would be equal.
    """
    held: dict[Any, Any] = {}
    for measure, name, value in named_objects(measures):
        text = measure.params[name]
        # "uniform" is a different target for different groups
        other = held.setdefault((name, text, measure.params.get("groups")), value)
        if other is not value and other != value:
            remedy = "register_target"
            if name == "groups":
                remedy = "-g NAME=FILE, or Groups.read(path, name)"
            raise InputError(
                f"{format_measure(measure)}: duplicate name {text!r} of different {name} in two "
                f"measures; rename one with {remedy}"
            )


def digests_of(measures: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Return the digests of groups and targets, by the measure's label and the parameter."""
    digests: dict[str, dict[str, str]] = {}
    for measure, name, value in named_objects(measures):
        digests.setdefault(format_measure(measure), {})[name] = value.digest()
    return digests


def has_cutoff(measure: Any) -> bool:
    """Return whether a measure, or each factor of a product, has a cutoff ``@k``."""
    if measure.NAME == "Product":
        return all(map(has_cutoff, measure.factors))
    inner = getattr(measure, "inner", measure)  # E(nDCG@5) has its cutoff inside
    return inner.AT_PARAM in inner.params


def check_params(measure: Any) -> None:
    """Raise a `ParameterError` for an invalid parameter; ir_measures checks only on request."""
    for name, value in measure.params.items():
        if name in measure.SUPPORTED_PARAMS:
            default = measure.SUPPORTED_PARAMS[name].default
            checks.refuse_missing(name, value, measure.NAME, default)
    needed = getattr(measure.SUPPORTED_PARAMS.get(measure.AT_PARAM), "required", False)
    if needed and not has_cutoff(measure):
        return  # "P(rel=2)" in "P(rel=2)@3"
    try:
        measure.validate_params()
    except AssertionError as error:
        raise ParameterError(f"{measure.NAME}: {error}") from None
    # with a cutoff of 0, evaluators written in C end the process
    for name in ("cutoff", "rel"):
        value = measure.params.get(name)
        if isinstance(value, int):
            count(name, value, measure.NAME)


class MeasureParam(ObjectParam):
    """A parameter that is a measure, stored as its string form."""

    def __init__(self, desc: str) -> None:
        super().__init__(parse, ir_measures.Measure, desc=desc, write=format_measure)

    def _text(self, value: Any, name: str, measure: str) -> str:
        check_params(value)
        known = type(ir_measures.measures.registry.get(value.NAME)) is type(value)
        if known and hasattr(value, "parts"):
            return self.write(value)  # checked when the measure was made
        return super()._text(value, name, measure)


def with_cutoff(measure: Any, cutoff: Any) -> Any:
    """Return ``measure @ cutoff`` with checked parameters."""
    cut = measure @ cutoff
    check_params(cut)
    return cut


def name_and_params(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters in the string of one measure, whatever they mean.

    Raises:
        ParameterError: the string is not of the form ``Name(parameter=value)@5``.
    """
    with contextlib.suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        node = ast.parse(text.strip(), mode="eval").body
        params: dict[str, Any] = {}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            params["cutoff"] = ast.literal_eval(node.right)
            node = node.left
        if isinstance(node, ast.Call) and not node.args:
            params |= {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
            node = node.func
        if isinstance(node, ast.Name):
            return node.id, params
    raise ParameterError(f"invalid measure {_clipped(text, 100)!r}")


def known_names() -> list[str]:
    """Return the names of all measures, including those of ir_measures and of plugins."""
    registry.measures.names()  # loads the plugins
    return sorted(ir_measures.measures.registry)


class _Reader:
    """A reader of one string by Python's grammar; `node`, or `start`, is its position."""

    def __init__(self, text: str, groups: Callable[[str | None], Any] | None) -> None:
        self.groups = groups
        self.text = re.sub(r"\s", " ", text)  # one line, so that positions are columns
        self.start = 0
        self.node: ast.expr | None = None

    def read(self) -> Any:
        """Return the measure."""
        try:
            return self._measure(ast.parse(self.text, mode="eval").body)
        except (RecursionError, MemoryError):  # `ast.parse` raises MemoryError
            raise ParameterError("the measures are nested too deep") from None
        except SyntaxError as error:
            self.start = (error.offset or len(self.text) or 1) - 1  # offset 0 is the end
        except UnicodeEncodeError as error:
            self.start = error.start
        raise self._unreadable()

    def place(self) -> str:
        """Return the current position and the characters at it."""
        if self.node is not None:
            self.start = len(self.text.encode()[: self.node.col_offset].decode())
        return f"character {self.start + 1}: {_clipped(self.text[self.start :], 20)!r}"

    def _measure(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left, ast.MatMult(), right):
                measure, cutoff = self._measure(left), self._literal(right)
                self.node = node
                result = with_cutoff(measure, cutoff)
                if has_cutoff(measure) and measure.NAME != "Product":
                    raise ParameterError(f"{measure!r}: duplicate cutoff; drop @{cutoff}")
                return result
            case ast.BinOp(left, ast.Mult(), right):
                factors = {"left": self._measure(left), "right": self._measure(right)}
                self.node = node
                return ir_measures.measures.registry["Product"](**factors)
            case ast.Call(function):
                return self._called(node, self._measure(function))
            case ast.Name(name):
                self.node = node
                known = ir_measures.measures.registry
                if name not in known and name not in (names := known_names()):
                    raise _unknown_measure(name, names)
                return known[name]
            case ast.Tuple([_, second, *_]):
                self.node = second
                raise ParameterError(
                    f"expected one measure, got several: {_clipped(self.text, 100)!r}"
                )
        self.node = node
        raise self._unreadable()

    def _called(self, node: ast.Call, measure: Any) -> Any:
        order: Sequence[str] = getattr(measure, "POSITIONAL", ())
        if len(node.args) > len(order):
            raise ParameterError(f"{measure.NAME}: parameters must have names, name=value")
        named: dict[str, Any] = {}
        keywords = [ast.keyword(n, a) for n, a in zip(order, node.args, strict=False)]
        for keyword in [*keywords, *node.keywords]:
            self.node, name = keyword.value, str(keyword.arg)
            if name not in measure.SUPPORTED_PARAMS:
                hint = getattr(measure, "hint_for", None)
                near = hint(name) if hint else did_you_mean(name, measure.SUPPORTED_PARAMS)
                raise ParameterError(f"{measure.NAME}: unknown parameter {name!r}{near}")
            if name in named or name in measure.params:
                raise ParameterError(f"{measure.NAME}: got multiple values for {name}")
            match keyword.value:
                case ast.Name():
                    is_unquoted = True
                case ast.Call(ast.Name(function)):
                    is_unquoted = function in registry.browsing_models
                case _:
                    is_unquoted = False
            if is_unquoted and not isinstance(measure.SUPPORTED_PARAMS[name], MeasureParam):
                text, kinds = ast.unparse(keyword.value), measure.SUPPORTED_PARAMS[name].dtype
                kinds = kinds if isinstance(kinds, tuple) else (kinds,)
                if set(kinds) <= {bool, int, float}:  # quotes would not help
                    types = " or ".join(kind.__name__ for kind in kinds)
                    raise ParameterError(
                        f"{measure.NAME}: {name} must be of type {types}, got {text}"
                    )
                raise ParameterError(f"{measure.NAME}: {name} must be quoted, {name}={text!r}")
            is_measure = isinstance(keyword.value, ast.BinOp | ast.Call | ast.Name)
            read = self._measure if is_measure else self._literal
            value = read(keyword.value)
            if self.groups is not None and isinstance(value, str):
                if name == "groups":
                    value = self.groups(value)
                elif isinstance(measure.SUPPORTED_PARAMS[name], MeasureParam):
                    value = parse(value, self.groups)
            named[name] = value
        self.node = node
        missing = measure.SUPPORTED_PARAMS.keys() - measure.params.keys() - named.keys()
        if self.groups is not None and "target" in named and "groups" in missing:
            named["groups"] = self.groups(None)
        made = measure(**named)
        check_params(made)
        return made

    def _literal(self, node: ast.expr) -> Any:
        self.node = node
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            raise self._unreadable() from None

    def _unreadable(self) -> ParameterError:
        invalid = f"invalid measure {_clipped(self.text, 100)!r}"
        similar = re.sub(r"(?<=\w)-(?=\w)", "_", self.text)  # papers write EE-D
        if similar != self.text:
            with contextlib.suppress(ParameterError):
                if name_and_params(similar)[0] in known_names():
                    return ParameterError(f"{invalid}; did you mean {similar!r}?")
        return ParameterError(f"{invalid}; write Name, Name@5 or Name(parameter=value)@5")


def _unknown_measure(name: str, names: Sequence[str]) -> NotFoundError:
    """Return the error for an unknown measure, which may be one of trec_eval."""
    error = NotFoundError("measure", name, names)
    with contextlib.suppress(ValueError):
        same = ir_measures.parse_trec_measure(name)
        if len(same) == 1:
            error.args = (f"unknown measure {name!r}, trec_eval's name; write {same[0]}",)
    return error


def _clipped(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."
