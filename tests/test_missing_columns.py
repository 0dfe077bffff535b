"""A missing column is named with the way to give it that name."""

import pandas as pd
import pytest

from fairtk import Generator, Groups, Target
from fairtk.errors import ColumnError, FormatError, ParameterError
from fairtk.io import read_qrels, read_run
from fairtk.wording import rename_hint

GENDER = pd.DataFrame({"docno": ["a", "b"], "gender": ["f", "m"]})


def test_hint_only_if_another_column_can_have_the_values():
    assert "'group'" in rename_hint(["group"], "'docno', 'group'", ["docno", "gender"])
    assert rename_hint(["group"], "'docno', 'group'", ["docno"]) == ""
    assert rename_hint(["docno", "group"], "'docno', 'group'", ["x", "y"]) == ""


def test_frames():
    with pytest.raises(ColumnError, match="rename it to 'group'"):
        Groups.from_frame(GENDER)
    shares = pd.DataFrame({"group": ["f", "m"], "share": [0.3, 0.7]})
    # 'share' is not a group, so it is not among the expected columns
    with pytest.raises(
        ColumnError, match="expected 'group', 'weight', got .* rename it to 'weight'"
    ):
        Target.from_frame(shares)
    groups = Groups.from_frame(GENDER.rename(columns={"gender": "group"}), name="gender")
    named = shares.rename(columns={"group": "gender"})
    with pytest.raises(
        ColumnError, match="expected 'gender', 'weight', got .* rename it to 'weight'"
    ):
        Target.from_frame(named, groups)


@pytest.mark.parametrize(
    ("read", "text", "column"),
    [
        (Groups.read, "docno,gender\na,f\n", "group"),
        (Groups.read, "docno,gender,region\na,f,eu\n", "group"),
        (Target.read, "group,share\nf,1\n", "weight"),
        (read_qrels, "qid,docno,relevant\n1,a,1\n", "label"),
        (read_run, "qid,docno,similarity\n1,a,0.3\n", "score"),
    ],
)
def test_files(tmp_path, read, text, column):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=f"rename it to '{column}'"):
        read(path)


def test_a_file_without_a_header(tmp_path):
    path = tmp_path / "groups.tsv"
    path.write_text("a\tf\nb\tm\n")
    with pytest.raises(FormatError, match="first line"):
        Groups.read(path)


@pytest.mark.parametrize("prompt", ["Answer {question} from {documents}", len])
def test_a_text_as_prompt(prompt):
    with pytest.raises(ParameterError, match=r"get\('template', template=\.\.\.\)"):
        Generator(lambda prompts: prompts, prompt=prompt)
