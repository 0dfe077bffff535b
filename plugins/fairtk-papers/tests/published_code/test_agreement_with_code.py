"""The measures of published code agree with plain implementations of it, on random queries.

`docs/concepts/agreement.md` of fairtk has the table.
"""

import plain
import pytest
from agreement_table import PAGE, Definition, absent, agreement, all_useful, no_useful, rows_of
from fairtk_papers import published_code as code

EXPEVAL = [
    {"p": 0.5, "u": None, "complete": False, "graded": True},
    {"p": 0.8, "u": None, "complete": True, "graded": False},
    {"p": 0.5, "u": 0.5, "complete": True, "graded": True},
    {"p": 0.9, "u": 0.3, "complete": False, "graded": False},
    {"p": 0.0, "u": None, "complete": False, "graded": True},
]


def of(name):
    """Return the measures of a code: EE_D, EE_R and EE_L."""
    return {part: getattr(code, f"{part}_{name}") for part in ("EE_D", "EE_R", "EE_L")}


def definitions(k, groups, target):
    """Yield the definitions; expeval has no cutoff."""
    yield Definition(
        "fair-rag",
        plain.fair_rag,
        {name: measure @ k for name, measure in of("fair_rag").items()},
        {"EE_D": (absent, no_useful, all_useful), "EE_R": (absent,), "EE_L": (absent,)},
    )
    for settings in EXPEVAL:
        p, u = settings["p"], settings["u"]
        options = {key: settings[key] for key in ("complete", "graded")}
        options["browsing"] = f"RBP(p={p})" if u is None else f"GERR(p={p}, u={u})"
        yield Definition(
            "expeval",
            plain.expeval,
            {name: measure(**options) for name, measure in of("expeval").items()},
            {"EE_D": (no_useful,), "EE_R": (absent,), "EE_L": (absent,)},
            settings,
            has_missing=True,
        )


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
def test_values_agree_and_the_page_has_the_table():
    assert rows_of(agreement(definitions)) in PAGE.read_text(encoding="utf-8")


def test_an_absent_query_is_no_empty_ranking():
    """Its values by expeval's own rule, of a topic that the run lacks; EE-D is 1 in both.

    p = .5, without u, one grade: EE-D its upper bound, 1; both bounds of EE-R equal, 1 by default;
    EE-L the bound of EE-R, 0. Two grades, 2 and 1: targets 1 and .5, EE-R its lower bound, 0; EE-L
    1 + .25 over 1.25 + 1 / (1 - .5) = 3.25.
    """
    settings = {"p": 0.5, "u": None, "complete": False}
    one = plain.expeval(plain.Query({"a": 1, "b": 1, "c": 0}, []), **settings)
    assert one == {"EE_D": 1.0, "EE_R": 1.0, "EE_L": 0.0}
    two = plain.expeval(plain.Query({"a": 2, "b": 1}, []), **settings)
    assert two == {"EE_D": 1.0, "EE_R": 0.0, "EE_L": pytest.approx(1.25 / 3.25)}
