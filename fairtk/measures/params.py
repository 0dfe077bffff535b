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
import re
from collections import Counter
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import ParamInfo

from fairtk import checks
from fairtk.errors import InputError, NotFoundError, ParameterError, suggestion
from fairtk.exposure import MU, BrowsingModel
from fairtk.measures.utilities import get as get_utility
from fairtk.plugins import load_target, parse_call, read_browsing, registry


def parse(text: Any) -> Any:
    """Return the measure that a string names; a measure is returned as it is. No code is run.

    Args:
        text: e.g. ``"EE_D@5"``, ``"EE_D(browsing='RBP(p=0.8)')"``, ``"E(nDCG@5)"``, ``"nDCG@10"``.

    Raises:
        ParameterError: the string is no measure, or a parameter is unknown or wrong.
        NotFoundError: no measure has that name; the nearest is suggested.

        Both end with the place in the string, in characters from 1.
    """
    if isinstance(text, ir_measures.Measure):
        check_params(text)
        return text
    reader = _Reader(str(text).strip())
    try:
        return reader.read()
    except InputError as error:
        error.args = (f"{error} ({reader.place()})",)
        raise


def written(measure: Any) -> str:
    """Return a measure's label, as people write it and `parse` reads it: ``"E(nDCG@5)"``.

    Its `repr` (``"E(measure='nDCG@5')"``) has quotes within quotes and is what ir_measures reads.
    """
    if measure.NAME == "E" and "measure" in measure.params:
        return f"E({written(measure['measure'])})"
    if measure.NAME != "Product" or not {"left", "right"} <= measure.params.keys():
        return repr(measure)
    left, right = map(written, measure.factors)
    # `*` and `@` bind alike: "A * B@5" is "(A * B)@5", which cuts A, too
    cuts_both = right.rpartition("@")[2].isdecimal() and not has_cutoff(measure["left"])
    if cuts_both or measure["right"].NAME == "Product":
        right = f"({right})"
    return f"{left} * {right}"


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return the name that tables print for each measure's label: ``"AWRF gender@20"``.

    Digests are left out, and so are names of parameters whose values need no name. Labels that
    would get the same short name keep the label. Data have labels only.

    Args:
        labels: what `written` returns for measures; any other text is its own name.
    """
    names = {label: short_name(label) for label in labels}
    count = Counter(names.values())
    return {label: name if count[name] == 1 else label for label, name in names.items()}


def short_name(label: str) -> str:
    """Return the short name of a single label; see `short_names`."""
    try:
        return _brief(ast.parse(label, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return label


_DIGEST = re.compile(r"#[0-9a-f]{8}$")
_PLAIN = {"browsing", "estimator", "groups", "utility"}
"""Parameters whose values need no name."""
_INNER = {"measure", "left", "right"}
"""Parameters that are measures."""


def _brief(node: ast.expr) -> str:
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return f"{_brief(node.left)}@{_brief(node.right)}"
        case ast.BinOp(op=ast.Mult()):
            right = _brief(node.right)
            return f"{_brief(node.left)} * {f'({right})' if ' * ' in right else right}"
        case ast.Name():
            return node.id
        case ast.Constant():
            return str(node.value)
        case ast.Call(func=ast.Name(id=name)):
            return _brief_call(name, node)
    raise ValueError(f"{ast.unparse(node)} is in no measure's label")


def _brief_call(name: str, call: ast.Call) -> str:
    inner = [_brief(node) for node in call.args]
    words: list[str] = []
    groups = None
    for keyword in call.keywords:
        text = _brief(keyword.value)
        value = _DIGEST.sub("", text)
        if keyword.arg in _INNER:
            inner.append(short_name(text))
            continue
        groups = value if keyword.arg == "groups" else groups
        if keyword.arg in _PLAIN:
            words.append(value)
        elif keyword.arg != "target" or value != groups:
            words.append(f"{keyword.arg}={value}")
    if name == "Product" and len(inner) == 2:
        return " * ".join(inner)
    return " ".join([f"{name}({', '.join(inner)})" if inner else name, *words])


def has_cutoff(measure: Any) -> bool:
    """Return whether a measure has its ``@k``; a product: whether all of its factors have."""
    if measure.NAME == "Product":
        return all(map(has_cutoff, measure.factors))
    inner = getattr(measure, "inner", measure)  # E(nDCG@5) has its cutoff inside
    return inner.params.get(inner.AT_PARAM) is not None


def check_params(measure: Any) -> None:
    """Raise a `ParameterError` if a parameter is wrong; ir_measures looks only when asked."""
    needed = getattr(measure.SUPPORTED_PARAMS.get(measure.AT_PARAM), "required", False)
    if needed and not has_cutoff(measure):
        return  # "P(rel=2)" in "P(rel=2)@3"
    try:
        measure.validate_params()
    except AssertionError as error:
        raise ParameterError(f"{measure.NAME}: {error}") from None
    # what is written in C ends the whole process at a cutoff of 0
    for name in ("cutoff", "rel"):
        value = measure.params.get(name)
        if isinstance(value, int):
            count(name, value, measure.NAME)


def known_names() -> list[str]:
    """Return the names of all measures, those of ir_measures and those of plugins."""
    registry.measures.names()  # makes sure that plugins are loaded
    return sorted(ir_measures.measures.registry)


class _Reader:
    """Reads a string by Python's grammar, and keeps the place that it is at: `node`, or `start`."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"\s", " ", text)  # in one line, places are simple
        self.start = 0
        self.node: ast.expr | None = None

    def read(self) -> Any:
        """Return the measure."""
        try:
            return self._measure(ast.parse(self.text, mode="eval").body)
        except (RecursionError, MemoryError):  # MemoryError is that of `ast.parse`
            raise ParameterError("the measures are nested too deep") from None
        except SyntaxError as error:
            self.start = (error.offset or len(self.text) or 1) - 1  # it has 0 for the end
        except UnicodeEncodeError as error:
            self.start = error.start
        raise self._unreadable()

    def place(self) -> str:
        """Return where the reader is, and what is there."""
        if self.node is not None:
            self.start = len(self.text.encode()[: self.node.col_offset].decode())
        return f"character {self.start + 1}: {_clipped(self.text[self.start :], 20)!r}"

    def _measure(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left, ast.MatMult(), right):
                measure, cutoff = self._measure(left), self._literal(right)
                result = self._made(node, lambda: measure @ cutoff)
                if has_cutoff(measure) and measure.NAME != "Product":
                    raise ParameterError(f"{measure!r} has a cutoff already; drop @{cutoff}")
                return result
            case ast.BinOp(left, ast.Mult(), right):
                product = ir_measures.measures.registry["Product"]
                factors = {"left": self._measure(left), "right": self._measure(right)}
                return self._made(node, lambda: product(**factors))
            case ast.Call(function):
                return self._called(node, self._measure(function))
            case ast.Name(name):
                self.node = node
                known = ir_measures.measures.registry
                if name not in known and name not in (names := known_names()):
                    raise NotFoundError("measure", name, names)
                return known[name]
            case ast.Tuple([_, second, *_]):
                self.node = second
                raise ParameterError(
                    f"{_clipped(self.text, 100)!r} is several measures; give them one by one"
                )
        self.node = node
        raise self._unreadable()

    def _called(self, node: ast.Call, measure: Any) -> Any:
        order: Sequence[str] = getattr(measure, "POSITIONAL", ())
        if len(node.args) > len(order):
            raise ParameterError(f"{measure.NAME}: parameters must be named, name=value")
        named: dict[str, Any] = {}
        keywords = [ast.keyword(n, a) for n, a in zip(order, node.args, strict=False)]
        for keyword in [*keywords, *node.keywords]:
            self.node, name = keyword.value, str(keyword.arg)
            if name not in measure.SUPPORTED_PARAMS:
                near = suggestion(name, measure.SUPPORTED_PARAMS)
                raise ParameterError(f"{measure.NAME} has no parameter {name!r}{near}")
            if name in named or name in measure.params:
                raise ParameterError(f"{measure.NAME} has two values of {name}")
            named[name] = self._argument(keyword.value)
        return self._made(node, lambda: measure(**named))

    def _made(self, node: ast.expr, make: Callable[[], Any]) -> Any:
        self.node = node
        measure = make()
        check_params(measure)
        return measure

    def _argument(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp | ast.Call | ast.Name):
            return self._measure(node)
        return self._literal(node)

    def _literal(self, node: ast.expr) -> Any:
        self.node = node
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            raise self._unreadable() from None

    def _unreadable(self) -> ParameterError:
        return ParameterError(
            f"cannot read the measure {_clipped(self.text, 100)!r}; write Name, Name@5 or "
            "Name(parameter=value)@5"
        )


def _clipped(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _parts(measure: Any) -> list[Any]:
    return getattr(measure, "parts", [])


NOT_GIVEN: Any = ParamInfo().default


class Param(ParamInfo):  # type: ignore[misc]
    """A scalar parameter.

    Args:
        dtype: the type or types that a value may have.
        default: the value when it is not given.
        choices: the values that are allowed, if they are few.
        desc: one line for ``fairtk measures``.
        check: what `fairtk.checks` has: it gets the parameter's name, a value and the measure's
            name, and raises `ParameterError` if the value is wrong.
        later: whether the measure got it when results were kept already: at its default it is no
            part of their identity.
    """

    def __init__(
        self,
        dtype: type | tuple[type, ...],
        default: Any = NOT_GIVEN,
        choices: Any = NOT_GIVEN,
        desc: str = "",
        check: Callable[[str, Any, str], object] | None = None,
        later: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, default=default, choices=choices, desc=desc)
        self.later = later
        self.check = check
        self.ready = True  # whether the default is at hand, or has to be read first
        self.default_object = None if default is NOT_GIVEN else default

    @classmethod
    def of(cls, info: Any, name: str, measure: str) -> Param:
        """Return a declaration of ir_measures (``ParamInfo``) as a parameter; one of ours as it is.

        Its own ``validate`` decides about values.

        Raises:
            ParameterError: it is neither.
        """
        if isinstance(info, Param):
            return info
        if not isinstance(info, ParamInfo):
            raise ParameterError(
                f"{measure}: the parameter {name!r} must be declared by a Param or an "
                f"ir_measures.ParamInfo; found {info!r}"
            )

        def check(name: str, value: Any, where: str) -> None:
            if not info.validate(value):
                raise ParameterError(
                    f"{where}: {name} is not what its ParamInfo takes; found {value!r}"
                )
            if name == "cutoff" and CUTOFF.check is not None:
                CUTOFF.check(name, value, where)

        kinds = (object, bool) if info.dtype is None else info.dtype
        param = cls(kinds, info.default, info.choices, info.desc or "", check)
        param.required = info.required
        return param

    def accept(self, value: Any, name: str, measure: str) -> tuple[Any, Any]:
        """Return the value as the measure keeps and prints it, and what it works with.

        Raises:
            ParameterError: the value has the wrong type, or is none of the choices.
        """
        kinds = self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)
        wrong_bool = isinstance(value, bool) and bool not in kinds
        if value is not None and (wrong_bool or not isinstance(value, kinds)):
            types = " or ".join(k.__name__ for k in kinds)
            is_measure = isinstance(value, ir_measures.Measure)  # RBP is a measure's name, too
            quoted = f"; in quotes: {name}={str(value)!r}" if is_measure and str in kinds else ""
            raise ParameterError(
                f"{measure}: {name} must be of type {types}; found {_one_line(value)}{quoted}"
            )
        if self.choices is not NOT_GIVEN and value is not None:
            checks.choice(name, value, self.choices, measure)
        if self.check is not None and value is not None:
            self.check(name, value, measure)
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
        self._given = registry.Living()
        text = default
        if default is not NOT_GIVEN and not isinstance(default, str):
            text = write(default)
            self._given.add(text, default)
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
            elif isinstance(value, pd.DataFrame) and hasattr(cls, "of"):
                value = cls.of(value)
            if isinstance(value, cls):
                return self._remembered(value, name, measure), value
        value, _ = super().accept(value, name, measure)
        try:
            meant = self.resolve(value)
        except InputError as error:
            raise ParameterError(f"{measure}: {name}: {error}") from None
        return self._remembered(meant, name, measure), meant

    def _remembered(self, value: Any, name: str, measure: str) -> str:
        text = self.write(value)
        try:
            other = self.resolve(text)
        except InputError:
            other = value
            self._given.add(text, value)
        if other is not value and other != value:
            raise ParameterError(
                f"{measure}: {name}: {type(value).__module__}.{type(value).__name__} prints as "
                f"{text!r}, like another object; give it another name"
            )
        if self._given.get(text) is not None:
            self._given.add(text, value)
        return text

    def resolve(self, value: Any) -> Any:
        """Return the object that the string form leads to."""
        remembered = self._given.get(value)
        return self.read(value) if remembered is None else remembered


class MeasureParam(ObjectParam):
    """A parameter that is itself a measure, kept as its string form."""

    def __init__(self, desc: str) -> None:
        super().__init__(parse, ir_measures.Measure, desc=desc, write=written)

    def _remembered(self, value: Any, name: str, measure: str) -> str:
        check_params(value)
        ours = type(ir_measures.measures.registry.get(value.NAME)) is type(value)
        if ours and _parts(value):
            return self.write(value)  # its parts were read back when it was made
        return super()._remembered(value, name, measure)


def read_utility(text: str) -> Any:
    """Return the utility that a string like ``"rougeL"`` names."""
    name, options = parse_call(text, "utility")
    return get_utility(name, **options)


def count(name: str, value: Any, where: str) -> None:
    """Check a count of documents or ranks, as a `Param` does; words that stand for one pass."""
    if not isinstance(value, str):
        checks.whole(name, value, where, rule="be at least 1", most=_MOST)


_MOST = 2**31 - 1  # what evaluators that are written in C can hold
CUTOFF = Param(int, desc="ranks read in each ranking (each sample on its own)", check=count)
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


def _policy(name: str, value: str, where: str) -> None:
    if value == "bounds":
        raise ParameterError(
            f"{where}: {name} 'bounds' is two values: measure 'best' and 'worst', its two ends"
        )
    checks.choice(name, value, _POLICIES, where)


UNLABELED = Param(
    str,
    default="drop",
    check=_policy,
    desc="documents without a group: drop (TREC), unknown, uniform; best and worst: over all ways "
    "to complete what is unknown",
)
AMORTIZE = Param(bool, default=True, desc="average exposure over samples first, then compare")
