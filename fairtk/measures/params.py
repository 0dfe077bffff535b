"""Parameters of measures: declared once, checked when a measure is built, and read from strings.

Everything that ``ir_measures.parse_measure`` reads, ``E(nDCG@5)`` for ``E(measure='nDCG@5')``, and
``A * B`` for ``Product(left='A', right='B')``. Unknown names and parameters come with the nearest
known one.

ir_measures reads named scalar arguments only. A parameter that is an object (a browsing model, a
utility) is therefore kept as the string that leads back to it, e.g. ``"RBP(p=0.8)"``; an object
whose string cannot be read back is remembered under it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any
from weakref import WeakValueDictionary

import ir_measures
from ir_measures import ParamInfo

from fairtk.errors import InputError, NotFoundError, ParameterError, suggestion
from fairtk.exposure import MU, BrowsingModel
from fairtk.measures.utilities import get as get_utility
from fairtk.plugins import load_target, parse_call, read_browsing, registry


def parse(text: Any) -> Any:
    """Return the measure that a string names; a measure is returned as it is.

    Args:
        text: e.g. ``"EE_D@5"``, ``"EE_D(browsing='RBP(p=0.8)')"``, ``"E(nDCG@5)"``, ``"nDCG@10"``.

    Raises:
        ParameterError: the string is no measure, or a parameter is unknown or wrong.
        NotFoundError: no measure has that name; the nearest is suggested.
    """
    if isinstance(text, ir_measures.Measure):
        return text
    try:
        node = ast.parse(str(text).strip(), mode="eval").body
    except SyntaxError:
        raise ParameterError(_unreadable(text)) from None
    return _measure(node, str(text))


def written(measure: Any) -> str:
    """Return a measure as people write it and `parse` reads it: ``"E(nDCG@5)"``.

    It is the measure's `repr` (``"E(measure='nDCG@5')"``, which ir_measures reads as well) wherever
    the shorter form would be read as another measure.
    """
    short = repr(measure)
    if measure.NAME == "E" and "measure" in measure.params:
        short = f"E({written(measure['measure'])})"
    elif hasattr(measure, "factors"):
        left, right = map(written, measure.factors)
        right = f"({right})" if hasattr(measure.factors[1], "factors") else right
        short = f"{left} * {right}"
    try:
        return short if repr(parse(short)) == repr(measure) else repr(measure)
    except InputError:
        return repr(measure)


def known_names() -> list[str]:
    """Return the names of all measures, those of ir_measures and those of plugins."""
    registry.measures.names()  # makes sure that plugins are loaded
    return sorted(ir_measures.measures.registry)


def _measure(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        try:
            cutoff = ast.literal_eval(node.right)
        except ValueError:
            raise ParameterError(_unreadable(text)) from None
        return _checked(_measure(node.left, text) @ cutoff)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        product = ir_measures.measures.registry["Product"]
        return product(left=_measure(node.left, text), right=_measure(node.right, text))
    if isinstance(node, ast.Call):
        measure = _measure(node.func, text)
        positional = [_argument(a, text) for a in node.args]
        named = {str(k.arg): _argument(k.value, text) for k in node.keywords}
        return _called(measure, positional, named)
    if isinstance(node, ast.Name):
        names = known_names()
        if node.id not in names:
            raise NotFoundError("measure", node.id, names)
        return ir_measures.measures.registry[node.id]
    raise ParameterError(_unreadable(text))


def _called(measure: Any, positional: list[Any], named: dict[str, Any]) -> Any:
    for name in named:
        if name not in measure.SUPPORTED_PARAMS:
            known = suggestion(name, measure.SUPPORTED_PARAMS)
            raise ParameterError(f"{measure.NAME} has no parameter {name!r}{known}")
    try:
        return _checked(measure(*positional, **named))
    except TypeError:
        raise ParameterError(f"{measure.NAME}: parameters must be named, name=value") from None


def _checked(measure: Any) -> Any:
    try:
        measure.validate_params()  # ir_measures checks by assertion, and only when asked
    except AssertionError as error:
        raise ParameterError(f"{measure.NAME}: {error}") from None
    return measure


def _argument(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    try:
        return _measure(node, text)
    except NotFoundError:
        raise
    except InputError as error:
        raise ParameterError(f"{_unreadable(text)} ({error})") from None


def _unreadable(text: Any) -> str:
    return f"cannot read the measure {text!r}; write Name, Name@5 or Name(parameter=value)@5"


NOT_GIVEN: Any = ParamInfo().default


class Param(ParamInfo):  # type: ignore[misc]
    """A scalar parameter.

    Args:
        dtype: the type or types that a value may have.
        default: the value when it is not given.
        choices: the values that are allowed, if they are few.
        desc: one line for ``fairtk measures``.
        check: returns what is wrong with a value, or ``""``.
    """

    def __init__(
        self,
        dtype: type | tuple[type, ...],
        default: Any = NOT_GIVEN,
        choices: Any = NOT_GIVEN,
        desc: str = "",
        check: Callable[[Any], str] | None = None,
    ) -> None:
        super().__init__(dtype=dtype, default=default, choices=choices, desc=desc)
        self.check = check
        self.ready = True  # whether the default is at hand, or has to be read first
        self.default_object = None if default is NOT_GIVEN else default

    def accept(self, value: Any, name: str, measure: str) -> tuple[Any, Any]:
        """Return the value as the measure keeps and prints it, and what it works with.

        Raises:
            ParameterError: the value has the wrong type, or is none of the choices.
        """
        kinds = self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)
        wrong_bool = isinstance(value, bool) and bool not in kinds
        if value is not None and (wrong_bool or not isinstance(value, kinds)):
            wanted = " or ".join(k.__name__ for k in kinds)
            is_measure = isinstance(value, ir_measures.Measure)  # RBP is a measure's name, too
            quoted = f"; in quotes: {name}={str(value)!r}" if is_measure and str in kinds else ""
            raise ParameterError(
                f"{measure}: {name} must be of type {wanted}; found {_one_line(value)}{quoted}"
            )
        if self.choices is not NOT_GIVEN and value not in self.choices:
            raise ParameterError(
                f"{measure}: {name} must be one of {list(self.choices)}; found {value!r}"
            )
        problem = self.check(value) if self.check is not None and value is not None else ""
        if problem:
            raise ParameterError(f"{measure}: {name} {problem}; found {value!r}")
        return value, value

    def resolve(self, value: Any) -> Any:
        """Return what a measure works with: the value itself, or the object it names."""
        return value


def _one_line(value: Any) -> str:
    """Return a value as a message shows it; a frame or array by its type alone."""
    text = repr(value)
    return f"a {type(value).__name__}" if "\n" in text or len(text) > 100 else text


class ObjectParam(Param):
    """A parameter that is an object with a string form.

    An object whose string form cannot be read back (a browsing model of no plugin) is remembered
    under it as long as a measure uses it.

    Args:
        read: turns the string form into the object; raises for an unknown name.
        accepts: the type of object that may be given directly, or ``"package.module:Class"``,
            imported when the first object is given.
        default: the default, an object or its string form. A string is read when a measure first
            asks for it, an object needs no plugin.
        desc: one line for ``fairtk measures``.
        write: the string form of an object; equal for equal objects alone.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        accepts: type | str,
        default: Any = NOT_GIVEN,
        desc: str = "",
        write: Callable[[Any], str] = repr,
    ) -> None:
        self._given: WeakValueDictionary[str, Any] = WeakValueDictionary()
        text = default
        if default is not NOT_GIVEN and not isinstance(default, str):
            text = write(default)
            self._given[text] = default
        super().__init__(dtype=(str,), default=text, desc=desc)
        self.ready = not isinstance(default, str)
        self.default_object = None if default is NOT_GIVEN else default
        self.read = read
        self.write = write
        self.accepts = accepts

    def accept(self, value: Any, name: str, measure: str) -> tuple[Any, Any]:
        """Return the string form, checked by reading it, and the object."""
        if isinstance(value, PathLike):
            value = fspath(value)
        if not isinstance(value, str) and value is not None:
            cls: type = load_target(self.accepts) if isinstance(self.accepts, str) else self.accepts
            self.dtype = (str, cls)
            if isinstance(value, type) and issubclass(value, cls):
                value = value()
            if isinstance(value, cls):
                return self._remembered(value, name, measure), value
        value, _ = super().accept(value, name, measure)
        try:
            found = self.resolve(value)
        except InputError as error:
            raise ParameterError(f"{measure}: {name}: {error}") from None
        return self._remembered(found, name, measure), found

    def _remembered(self, value: Any, name: str, measure: str) -> str:
        text = self.write(value)
        try:
            other = self.resolve(text)
        except InputError:
            self._given[text] = value
            return text
        if other != value:
            raise ParameterError(
                f"{measure}: {name}: {type(value).__module__}.{type(value).__name__} prints as "
                f"{text!r}, like another object; give it another name"
            )
        return text

    def resolve(self, value: Any) -> Any:
        """Return the object that the string form leads to."""
        given = self._given.get(value)
        return self.read(value) if given is None else given


class MeasureParam(ObjectParam):
    """A parameter that is itself a measure, kept as its string form."""

    def __init__(self, desc: str) -> None:
        super().__init__(parse, ir_measures.Measure, desc=desc)


def read_utility(text: str) -> Any:
    """Return the utility that a string like ``"rougeL"`` names."""
    name, options = parse_call(text, "utility")
    return get_utility(name, **options)


def at_least(low: int) -> Callable[[Any], str]:
    """Return a check that a number is at least `low`."""
    return lambda value: "" if value >= low else f"must be at least {low}"


def _is_cutoff(value: Any) -> str:
    return at_least(1)(value) or ("" if value <= _MOST else f"must be at most {_MOST}")


_MOST = 2**31 - 1  # what evaluators that are written in C can hold
CUTOFF = Param(int, desc="ranks read in each ranking (each sample on its own)", check=_is_cutoff)
"""The parameter ``@k``."""
BROWSING = ObjectParam(
    read_browsing,
    BrowsingModel,
    default=MU(),
    desc="browsing model: MU, RBP(p=0.5), GERR(p=0.5, u=0.5), DCG, TREC",
)
"""The parameter ``browsing`` of measures of exposure."""
GROUPS = ObjectParam(
    registry.GROUPS.find,
    "fairtk.groups:Groups",
    desc="the groups of the documents: an object, a registered name, or a file",
    write=registry.GROUPS.key,
)
"""The parameter ``groups`` of measures of groups."""
TARGET = ObjectParam(
    registry.TARGETS.find,
    "fairtk.groups:Target",
    desc="the distribution to compare with: an object, a registered name, or a file",
    write=registry.TARGETS.key,
)
"""The parameter ``target`` of measures that compare with one."""
_POLICIES = ("drop", "unknown", "uniform", "best", "worst")


def _policy(value: str) -> str:
    if value == "bounds":
        return "'bounds' is two values: measure 'best' and 'worst', its two ends"
    return "" if value in _POLICIES else f"must be one of {list(_POLICIES)}"


UNLABELED = Param(
    str,
    default="drop",
    check=_policy,
    desc="documents without a group: drop (TREC), unknown, uniform; best and worst: over all ways "
    "to complete what is unknown",
)
AMORTIZE = Param(bool, default=True, desc="average exposure over samples first, then compare")
