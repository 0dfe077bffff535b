"""Groups and targets that were given beside measures, and measures that get them."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import mul
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.errors import InputError, ParameterError, listed, suggestion

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

UNIFORM, FROM_QRELS = "uniform", "qrels"


@dataclass
class GivenGroups:
    """What ``--groups`` and ``--target`` gave."""

    attributes: dict[str, Groups]  # by name
    targets: tuple[Any, ...] = ()  # objects, ``uniform``, ``qrels`` or files
    labels: pd.DataFrame | None = None  # for the target ``qrels``
    used: bool = False
    _made: dict[tuple[str, str], Target] = field(default_factory=dict)

    @classmethod
    def read(cls, files: tuple[Any, ...], targets: tuple[Any, ...] = ()) -> GivenGroups:
        """Read group files; groups and targets may be objects already."""
        from fairtk.groups import Groups

        found: dict[str, Groups] = {}
        for path in files:
            groups = path if isinstance(path, Groups) else Groups.read(path)
            if groups.name in found:
                raise InputError(
                    f"{path}: the attribute {groups.name!r} is given twice; attributes are named "
                    "after their files"
                )
            found[groups.name] = groups
        return cls(found, targets)

    @cached_property
    def crossed(self) -> Groups:
        """All attributes crossed, in the order of the files."""
        return reduce(mul, self.attributes.values())

    def named(self, text: str) -> Groups | None:
        """Return the groups that ``gender`` or ``gender*region`` names; None: it names no file."""
        if text in self.attributes:
            return self.attributes[text]
        names = text.split("*")
        if len(names) > 1 and all(name in self.attributes for name in names):
            return reduce(mul, (self.attributes[name] for name in names))
        return None

    def target(self, groups: Groups, where: str) -> Target:
        """Return the target over the levels of groups, for a measure or command that asks."""
        if not self.targets:
            raise InputError(f"{where} needs a target: give --target FILE, uniform or qrels")
        chosen = self.targets[0] if len(self.targets) == 1 else self._fitting(groups, where)
        key = (str(getattr(chosen, "key", chosen)), groups.key)
        if key not in self._made:
            self._made[key] = self._make(chosen, groups, where)
        return self._made[key]

    def _make(self, text: Any, groups: Groups, where: str) -> Target:
        from fairtk.groups import Target

        if isinstance(text, Target):
            return text
        if text == UNIFORM:
            return Target.uniform(groups)
        if text == FROM_QRELS:
            if self.labels is None:
                raise InputError(
                    f"{where}: the target 'qrels' needs relevance labels: --qrels FILE"
                )
            return Target.from_qrels(self.labels, groups)
        return Target.read(text, groups)

    def _fitting(self, groups: Groups, where: str) -> Any:
        from fairtk.groups import Target

        for text in self.targets:
            if text in (UNIFORM, FROM_QRELS):
                return text
            target = text if isinstance(text, Target) else Target.read(text)
            with contextlib.suppress(InputError):
                target.for_groups(groups)
                return text
        raise InputError(f"{where}: no target fits {groups.name!r}; found {listed(self.targets)}")


def parse_with(given: GivenGroups, text: Any) -> Any:
    """Return the measure that a string names; ``groups='gender'`` may name a given attribute."""
    from fairtk.groups.registered import GROUPS
    from fairtk.measures import parse

    if not isinstance(text, str):
        return parse(text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "groups":
            name = node.value.value if isinstance(node.value, ast.Constant) else None
            found = given.named(name) if isinstance(name, str) else None
            if found is not None:
                node.value = ast.Constant(GROUPS.key(found))
                given.used = True
            elif given.attributes and isinstance(name, str) and "." not in name:
                known = suggestion(name, given.attributes)
                raise ParameterError(f"{text}: --groups has no attribute {name!r}{known}")
    return parse(ast.unparse(tree))


def completed(given: GivenGroups, measure: Any) -> Any:
    """Return the measure with the groups and the target that it needs and lacks.

    Measures inside it get theirs, too. EE_D, EE_R and EE_L have a form without groups, so they get
    groups only by name.
    """
    from fairtk.measures import FairMeasure
    from fairtk.measures.ee import ExpectedExposure
    from fairtk.measures.params import MeasureParam

    if not isinstance(measure, FairMeasure):
        return measure
    params = dict(measure.params)
    for name, param in measure.SUPPORTED_PARAMS.items():
        if isinstance(param, MeasureParam) and name in params:
            params[name] = completed(given, measure[name])
    if "groups" in measure.SUPPORTED_PARAMS:
        by_document = isinstance(measure, ExpectedExposure)
        if "groups" not in params and not by_document:
            if not given.attributes:
                if not _is_ours(measure):
                    return measure
                raise InputError(f"{measure!r} needs groups: give --groups FILE")
            params["groups"] = given.crossed
            given.used = True
        if "target" not in params and _wants_target(measure, params):
            groups = params["groups"]
            if isinstance(groups, str):
                groups = measure["groups"]
            if given.targets or _is_ours(measure):
                params["target"] = given.target(groups, repr(measure))
    return measure if params == measure.params else type(measure)(**params)


def _wants_target(measure: Any, params: dict[str, Any]) -> bool:
    from fairtk.measures.ee import ExpectedExposure

    if "target" not in measure.SUPPORTED_PARAMS or "groups" not in params:
        return False
    if isinstance(measure, ExpectedExposure):
        return measure["variant"] == "paper" and measure.PART != "disparity"
    return True


def _is_ours(measure: Any) -> bool:
    return type(measure).__module__.partition(".")[0] == "fairtk"
