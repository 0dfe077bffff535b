"""Reads measures from strings, with the shorthand that the command line uses.

Everything that ``ir_measures.parse_measure`` reads, ``E(nDCG@5)`` for ``E(measure='nDCG@5')``, and
``A * B`` for ``Product(left='A', right='B')``. Unknown names and parameters come with the nearest
known one.
"""

from __future__ import annotations

import ast
from typing import Any

import ir_measures

from fairtk.errors import InputError, NotFoundError, ParameterError, suggestion
from fairtk.plugins import registry
from fairtk.renamed import refuse_old_word


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
            refuse_old_word(name, measure.SUPPORTED_PARAMS, measure.NAME)
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
