"""Groups and targets from the reference files' worlds."""

import numpy as np
import pandas as pd

from fairtk.groups import Groups, Target


def groups_of(world, names):
    """Return the crossed attributes of a world, and the backgrounds of those that have one."""
    dims = {dim["name"]: dim for dim in world["dims"]}
    result = None
    for name in names:
        dim = dims[name]
        rows = [
            (page, dim["levels"][level], weight)
            for page, row in dim["rows"].items()
            for level, weight in row
        ]
        one = Groups.from_frame(
            pd.DataFrame(rows, columns=["docno", "group", "weight"]),
            name=name,
            levels=dim["levels"],
            unknown="@UNKNOWN" if dim["has_unknown"] else None,
        )
        result = one if result is None else result * one
    return result, {n: dims[n]["background"] for n in names if dims[n].get("background")}


def weights_of(target):
    """Return a target of a reference file as a flat array."""
    if isinstance(target, list):
        return np.array(target)
    result = np.zeros(target["size"])
    cells, weights = zip(*target["sparse"], strict=True)
    result[list(cells)] = weights
    return result


def target_of(case, groups):
    """Return a case's target through the frame form."""
    weights = weights_of(case["target"])
    cells = np.arange(len(weights))
    columns = {
        name if groups.space.crossed else "group": [levels[i] for i in groups.space.codes(cells, p)]
        for p, (name, levels) in enumerate(
            zip(groups.space.names, groups.space.levels, strict=True)
        )
    }
    return Target.from_frame(pd.DataFrame({**columns, "weight": weights}), groups)


def qrels_of(case):
    return pd.DataFrame({"qid": "q", "docno": [str(p) for p in case["rel"]], "label": 1})
