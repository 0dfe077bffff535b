"""Runs, labels and groups are taken as objects, frames and files by every function."""

import pandas as pd
import pytest

import fairtk
from fairtk import AWRF, EE_D, EE_L, GroupEE_L, Groups, Target
from fairtk.errors import InputError, ParameterError
from fairtk.io import read_qrels, read_run

MEASURE = "AWRF@2"


@pytest.fixture
def files(tmp_path):
    paths = {name: tmp_path / name for name in ("qrels.txt", "fair.run", "toy.tsv", "target.tsv")}
    paths["qrels.txt"].write_text("1 0 a 1\n1 0 b 0\n2 0 c 1\n")
    rows = [
        "1 0 a 0 2 t",
        "1 0 b 1 1 t",
        "1 1 b 0 2 t",
        "1 1 a 1 1 t",
        "2 0 c 0 2 t",
        "2 1 c 0 2 t",
    ]
    paths["fair.run"].write_text("\n".join(rows) + "\n")
    paths["toy.tsv"].write_text("docno\tgroup\tweight\na\tx\t1\nb\ty\t2\nc\tx\t1\n")
    paths["target.tsv"].write_text("group\tweight\nx\t0.5\ny\t0.5\n")
    return {name.partition(".")[0]: path for name, path in paths.items()}


def test_a_frame_of_groups_has_the_name_that_it_notes(files):
    frame = pd.read_csv(files["toy"], sep="\t")
    frame.attrs["name"] = "toy"
    assert Groups.of(frame).key == Groups.read(files["toy"]).key == Groups.of(files["toy"]).key


def test_the_note_of_a_groups_file_is_kept(tmp_path):
    frame = pd.DataFrame({"docno": ["a"], "group": ["x"]})
    groups = Groups.from_frame(frame, "other name", levels=["z", "x"])
    groups.write(tmp_path / "toy.tsv")
    assert Groups.of(tmp_path / "toy.tsv").key == groups.key


def test_a_file_of_groups_without_a_column_is_named(tmp_path):
    (tmp_path / "toy.tsv").write_text("docno\tgroups\na\tx\n")
    with pytest.raises(InputError, match="toy.tsv.*'group'"):
        Groups.read(tmp_path / "toy.tsv")


@pytest.mark.parametrize("form", ["file", "frame", "object"])
def test_every_form_is_the_same(files, form):
    if form == "file":
        run, qrels, groups, target = (files[n] for n in ("fair", "qrels", "toy", "target"))
    else:
        run, qrels = read_run(files["fair"]), read_qrels(files["qrels"])
        groups, target = (pd.read_csv(files[name], sep="\t") for name in ("toy", "target"))
        groups.attrs["name"] = "toy"
    if form == "object":
        groups = Groups.of(groups)
        target = Target.from_frame(target, groups)
    attribute = Groups.read(files["toy"])
    measure = AWRF(groups=attribute, target=Target.read(files["target"], attribute)) @ 2
    expected = fairtk.evaluate(files["qrels"], files["fair"], [measure]).per_query["value"].tolist()

    result = fairtk.evaluate(qrels, run, [MEASURE], groups=[groups], target=target)
    assert result.per_query["value"].tolist() == expected
    explanation = fairtk.explain(qrels, run, MEASURE, groups=groups, target=target)
    assert explanation.by_query.sort_values("qid")["value"].tolist() == expected
    both = fairtk.explain(qrels, run, measure, baseline=run)
    assert both.by_query.sort_values("qid")["value"].tolist() == expected
    named = AWRF(groups=groups, target=target) @ 2
    assert fairtk.evaluate(qrels, run, [named]).per_query["value"].tolist() == expected
    sure = fairtk.precision(qrels, run, [EE_D @ 1])
    assert sure.means["value"].tolist() == [0.75]  # (0.5^2 + 0.5^2 + 1) / 2
    assert fairtk.coverage(groups, run)["with_label"].tolist() == [4, 2]  # over the two samples


def test_targets_with_a_name(files):
    uniform = fairtk.explain(files["qrels"], files["fair"], MEASURE, groups=files["toy"],
                             target="uniform")  # fmt: skip
    of_labels = fairtk.explain(files["qrels"], files["fair"], GroupEE_L @ 2, groups=files["toy"],
                               target="relevance")  # fmt: skip
    assert uniform.measure["target"] == Target.uniform(Groups.read(files["toy"]))
    assert of_labels.measure["groups"] == Groups.read(files["toy"])
    aside = fairtk.explain(files["qrels"], files["fair"], EE_L @ 2, groups=files["toy"])
    assert aside.measure == EE_L @ 2


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.parametrize(
    ("function", "made"),
    [
        ("evaluate", "files"),
        ("compare", "objects"),
        ("sensitivity", "files"),
        ("frontier", "files"),
        ("frontier", "objects"),
    ],
)
def test_one_attribute_and_one_target_stand_alone(files, function, made):
    groups, target = files["toy"], str(files["target"])
    if made == "objects":
        groups = Groups.read(groups)
        target = Target.read(target, groups)
    again = files["fair"].with_name("again.run")
    again.write_text("1 Q0 a 1 2 t\n2 Q0 c 1 2 t\n2 Q0 b 2 1 t\n")
    several = [files["fair"], again]
    options = (
        {"x": "EE_D@1", "y": MEASURE, "alphas": [0, 2], "resamples": 5}
        if function == "frontier"
        else {"measures": [MEASURE]}
    )
    alone, listed = (
        getattr(fairtk, function)(files["qrels"], several, groups=g, target=t, **options)
        for g, t in ((groups, target), ([groups], [target]))
    )
    assert str(alone) == str(listed)


def test_a_lazy_frame_is_no_file(files):
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(read_run(files["fair"])).lazy()
    for runs, name in (([lazy], "run 1"), ({"mine": lazy}, "mine")):
        with pytest.raises(InputError, match=f"{name}: .*LazyFrame"):
            fairtk.evaluate(files["qrels"], runs, [EE_D @ 1])


def test_what_is_no_data_is_said(files):
    with pytest.raises(InputError, match="DataFrame"):
        fairtk.explain(files["qrels"], 3, EE_L @ 2)
    with pytest.raises(InputError, match="DataFrame"):
        fairtk.precision(3, files["fair"], [EE_D @ 1])
    with pytest.raises(InputError):
        fairtk.explain("nowhere", files["fair"], EE_L @ 2)
    with pytest.raises(ParameterError):
        fairtk.explain(files["qrels"], files["fair"], EE_L @ 2, target="uniform")
    with pytest.raises(InputError, match="got 3"):
        fairtk.coverage(3, files["fair"])
    with pytest.raises(InputError, match="AWRF@2 requires a target"):
        fairtk.evaluate(files["qrels"], files["fair"], [MEASURE], groups=[files["toy"]])
