"""Objects that plugins give, read from strings such as ``"RBP(p=0.8)"`` and ``"kl"``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from fairtk.errors import NotFoundError, ParameterError, suggestion
from fairtk.exposure import BrowsingModel
from fairtk.groups import Divergence
from fairtk.plugins import registry
from fairtk.plugins.registry import Registry

_CALL = re.compile(r"([^\W\d][\w-]*)\s*(\(.*\))?", re.DOTALL)


def parse_call(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """Split ``"Name(a=1, b='x')"`` into the name and its named, literal arguments."""
    found = _CALL.fullmatch(text.strip())
    if found:
        try:
            node = ast.parse(f"name{found.group(2) or '()'}", mode="eval").body
            if isinstance(node, ast.Call) and not node.args:
                given = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
                return found.group(1), given
        except (SyntaxError, ValueError):
            pass
    raise ParameterError(f"cannot read the {kind} {text!r}; write Name or Name(option=value)")


def refuse_unknown_options(
    what: str, factory: Callable[..., Any], options: dict[str, Any]
) -> Mapping[str, inspect.Parameter]:
    """Raise for an option that a factory does not take; return the parameters that it has."""
    known = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for option in options:
        if option not in known and not takes_any:
            tail = suggestion(option, known) if known else "; it has no options"
            raise ParameterError(f"{what} has no option {option!r}{tail}")
    return known


def read_browsing(text: str) -> BrowsingModel:
    """Return the browsing model that a string like ``"RBP(p=0.8)"`` names."""
    found: BrowsingModel = _read(text, registry.browsing_models)
    return found


def read_divergence(text: str, **settings: Any) -> Divergence:
    """Return the divergence that a string like ``"kl(smoothing=0.01)"`` names.

    Settings are those that the string leaves open; what the divergence does not have is left out.
    """
    found: Divergence = _read(text, registry.divergences, settings)
    return found


def as_position_model(given: str | BrowsingModel, where: str) -> BrowsingModel:
    """Return a browsing model whose reader looks at positions alone; others are refused."""
    model = _given(given, read_browsing, f"{where}: browsing")
    if not isinstance(model, BrowsingModel) or model.stop > 0:
        raise ParameterError(
            f"{where}: browsing must be a browsing model without a cascade, whose reader does not "
            f"stop at useful documents, such as TREC, DCG or RBP(p=0.8); found {given!r}"
        )
    return model


def as_divergence(given: str | Divergence, where: str, **settings: Any) -> Divergence:
    """Return a divergence, given as such or as a string; settings as in `read_divergence`."""
    found = _given(given, lambda text: read_divergence(text, **settings), f"{where}: divergence")
    if not isinstance(found, Divergence):
        raise ParameterError(
            f"{where}: divergence must be a fairtk.groups.Divergence or its string form, such "
            f"as 'kl', 'reverse-kl' or 'js'; found {given!r}"
        )
    return found


def _given(given: Any, read: Callable[[str], Any], where: str) -> Any:
    try:
        return read(given) if isinstance(given, str) else given
    except NotFoundError as error:
        raise ParameterError(f"{where}: {error}") from None


def _read(text: str, known: Registry[Any], settings: dict[str, Any] | None = None) -> Any:
    name, options = parse_call(text, known.kind)
    kind = known.get(name)
    open_ = {k: v for k, v in (settings or {}).items() if k in kind.__dataclass_fields__}
    try:
        return kind(**{**open_, **options})
    except TypeError as error:
        raise ParameterError(f"{known.kind} {text!r}: {error}") from None
