"""Groups and official targets from the metadata of TREC Fair Ranking 2022."""

from __future__ import annotations

import math
from functools import reduce
from operator import mul

import numpy as np
import pytest
import trec_fair_files as data
from hypothesis import given
from hypothesis import strategies as st

from fairtk.datasets import trec_fair
from fairtk.datasets.trec_fair import metadata
from fairtk.datasets.trec_fair.metadata import DIMENSIONS, read_pages
from fairtk.errors import DataWarning, FormatError, InputError, NotFoundError, ParameterError
from fairtk.groups import Target, background
from fairtk.measures import AWRF, nDCG_TREC

pytestmark = pytest.mark.usefixtures("home")
METADATA = "trec_2022_articles_discrete.json.gz"


@pytest.fixture
def folder(tmp_path):
    return data.write_folder(tmp_path / "wiki")


def members(groups):
    """Return level and weight by docno."""
    found = {}
    for row in groups.to_frame().itertuples():
        found.setdefault(row.docno, {})[row.group] = row.weight
    return found


def test_official_levels():
    sizes = {name: len(trec_fair.levels(name)) for name in trec_fair.dimensions()}
    assert sizes == {
        "sub-geo": 21, "src-geo": 21, "gender": 4, "occ": 33, "alpha": 4, "age": 4, "pop": 4,
        "langs": 3,
    }  # fmt: skip
    assert math.prod(sizes.values()) == 11_176_704
    for name in ("sub-geo", "src-geo", "gender", "occ"):
        assert trec_fair.levels(name)[0] == "@UNKNOWN"
    world = background("trec-2022-world-population")
    assert set(world.index) == set(trec_fair.levels("sub-geo")[1:])
    with pytest.raises(NotFoundError, match="'gender'"):
        trec_fair.levels("genders")


def test_regions(folder):
    groups = trec_fair.groups(folder, "sub-geo")
    assert tuple(groups.levels) == trec_fair.levels("sub-geo")
    # two of the three regions are merged into Oceania: 2/3
    assert members(groups) == {
        "30": {"Oceania": pytest.approx(2 / 3), "Caribbean": pytest.approx(1 / 3)},
        "7": {"Northern Europe": 1.0},
        "12": {"@UNKNOWN": 1.0},
        "101": {"@UNKNOWN": 1.0},
        "55": {"@UNKNOWN": 1.0},
    }


def test_sources_are_counts_with_a_fractional_unknown(folder):
    assert members(trec_fair.groups(folder, "src-geo")) == {
        "30": {"@UNKNOWN": 1.0},
        "7": {"@UNKNOWN": 0.25, "Northern Europe": 0.75},
        "12": {"@UNKNOWN": 1.0},
        "101": {"Oceania": 1.0},  # 2 of Micronesia, 2 of Australia and New Zealand, 0 unknown
        "55": {"@UNKNOWN": 1.0},
    }


def test_gender_is_not_normalized(folder):
    assert members(trec_fair.groups(folder, "gender")) == {
        "30": {"@UNKNOWN": 1.0},
        "7": {"female": 1.0},
        "12": {"male": 1.0, "NB": 1.0},
        "101": {"NB": 1.0},
        "55": {"@UNKNOWN": 1.0},
    }


def test_occupations_and_categories(folder):
    occupations = members(trec_fair.groups(folder, "occ"))
    assert occupations["7"] == {"artist": 0.5, "writer": 0.5}
    assert occupations["30"] == {"@UNKNOWN": 1.0}
    popularity = members(trec_fair.groups(folder, "pop"))
    assert popularity["101"] == {"Medium-High": 1.0} and popularity["7"] == {"Low": 1.0}
    languages = trec_fair.groups(folder, "langs")
    assert set(members(languages)) == {"30", "7", "12", "101"}  # nothing is known of 55
    assert tuple(languages.levels) == ("English only", "2-4 languages", "5+ languages")


def test_crossed_dimensions_come_in_the_order_asked_for(folder):
    dataset = trec_fair.from_folder(folder)
    both = trec_fair.groups(dataset, "gender", "sub-geo")
    assert both == trec_fair.groups(dataset, "gender") * trec_fair.groups(dataset, "sub-geo")
    everything = trec_fair.groups(dataset)
    assert everything.name == "sub-geo*src-geo*gender*occ*alpha*age*pop*langs"
    assert len(everything.levels) == 11_176_704 and len(everything) == 4


def test_targets_of_task_1(folder):
    # topic 9: pages 7 (female), 12 (male and NB), 101 (NB); 999 has no metadata: 1/4, 1/4, 1/2;
    # half of that and half of the background
    target = (
        trec_fair.targets(folder, "gender", task=1).to_frame().set_index(["qid", "group"])["weight"]
    )
    assert target["9", "female"] == pytest.approx(0.5 / 4 + 0.495 / 2)
    assert target["9", "male"] == pytest.approx(0.5 / 4 + 0.495 / 2)
    assert target["9", "NB"] == pytest.approx(0.5 / 2 + 0.01 / 2)
    assert target["4"].to_dict() == {"@UNKNOWN": 1.0}
    # topic 4, regions: page 30 is 2/3 Oceania, 1/3 Caribbean, page 55 unknown
    world = background("trec-2022-world-population")
    region = (
        trec_fair.targets(folder, "sub-geo", task=1)
        .to_frame()
        .set_index(["qid", "group"])["weight"]
    )
    assert region["4", "@UNKNOWN"] == pytest.approx(0.5)
    assert region["4", "Oceania"] == pytest.approx(0.5 / 3 + 0.25 * world["Oceania"])
    assert region["4", "Eastern Asia"] == pytest.approx(0.25 * world["Eastern Asia"])
    # no background: the relevant pages as they are
    occupation = (
        trec_fair.targets(folder, "occ", task=1).to_frame().set_index(["qid", "group"])["weight"]
    )
    assert occupation["9"].to_dict() == pytest.approx(
        {"@UNKNOWN": 1 / 3, "writer": 0.5, "artist": 1 / 6}
    )


def test_targets_of_task_2(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    records = [
        data.record(1, qual_cat="Stub", gender=["female"]),
        data.record(2, qual_cat="Stub", gender=["male"]),
        data.record(3, qual_cat="FA", gender=["male"]),
    ]
    data.write(folder / METADATA, data.lines(records))
    data.write(folder / "train_topics_meta.jsonl", data.columns({1: ("a", ["a"], [3, 2, 1])}))
    target = trec_fair.targets(folder, "gender", task=2).to_frame().set_index("group")["weight"]
    # the stubs have ranks 1 and 2 (weights 1, 1), the featured article rank 3 (1 / log2 3)
    last = 1 / math.log2(3)
    female = 1 / (2 + last)
    assert target["female"] == pytest.approx(female / 2 + 0.495 / 2)
    assert target["male"] == pytest.approx((1 - female) / 2 + 0.495 / 2)


def test_work_needed(folder):
    assert trec_fair.work_needed(folder).to_dict() == {
        "7": "Start", "12": "FA", "30": "Stub", "55": "Start",
    }  # fmt: skip
    assert trec_fair.work_needed(folder, ["30", "101", "no"]).to_dict() == {"30": "Stub"}
    with pytest.warns(DataWarning, match="2 of 6"):
        trec_fair.targets(folder, "gender", task=2)


def test_joint_targets_are_those_of_the_crossed_groups(folder):
    dataset = trec_fair.from_folder(folder)
    names = ("gender", "sub-geo", "alpha")
    world = background("trec-2022-world-population")
    expected = Target.from_qrels(
        dataset_qrels(dataset),
        reduce(mul, [trec_fair.groups(dataset, n) for n in names]),
        background={"gender": background("trec-2022-gender"), "sub-geo": world},
    )
    assert trec_fair.targets(dataset, *names, task=1) == expected


def dataset_qrels(dataset):
    import pandas as pd

    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


def test_targets_ask_for_what_they_need(folder):
    train = trec_fair.targets(folder, "gender", task=1)
    assert trec_fair.targets(folder, "gender", task=1, split="eval") == train
    with pytest.raises(ParameterError, match="1.*2"):
        trec_fair.targets(folder, "gender", task=3)
    with pytest.raises(ParameterError):
        trec_fair.targets(trec_fair.from_folder(folder), "gender", task=1, split="eval")
    with pytest.raises(NotFoundError):
        trec_fair.groups(folder, "geography")
    with pytest.raises(ParameterError):
        trec_fair.groups(folder, ["gender"])
    with pytest.raises(InputError):
        trec_fair.groups(str(folder / "nowhere"), "gender")
    with pytest.raises(InputError, match="2022"):
        trec_fair.groups("antique/test", "gender")


def test_the_assessed_file_is_used_where_it_is_the_only_one(folder):
    changed = [{**r, "qual_cat": "GA"} for r in data.RECORDS]
    assessed = "trec_2022_articles_discrete_assessed.json.gz"
    data.write(folder / assessed, data.lines(changed))
    assert set(trec_fair.work_needed(folder)) == {"Stub", "Start", "FA"}
    assert set(trec_fair.work_needed(folder, assessed=True)) == {"GA"}
    for path in folder.glob(f"{METADATA}*"):
        path.unlink()
    assert set(trec_fair.work_needed(folder)) == {"GA"}
    with pytest.raises(FormatError, match=f"missing {METADATA}"):
        trec_fair.work_needed(folder, assessed=False)


def test_dimensions_that_the_file_carries(folder):
    assert trec_fair.dimensions(folder) == trec_fair.dimensions()
    keys = {"page_id", "gender", "qual_cat", "first_letter_category"}
    partial = [{k: v for k, v in r.items() if k in keys} for r in data.RECORDS]
    data.write(folder / METADATA, data.lines(partial))
    assert trec_fair.dimensions(folder) == ("gender", "alpha")
    with pytest.raises(FormatError, match="'occ'.*'occupations'"):
        trec_fair.groups(folder, "occ")


def test_levels_that_are_not_official(folder):
    records = [
        data.record(1, page_subcont_regions=["Atlantis"], occupations=["sailor"]),
        data.record(2, num_sitelinks_category="none"),
    ]
    data.write(folder / METADATA, data.lines(records))
    with pytest.warns(DataWarning, match="'sub-geo'.*'Atlantis'"):
        groups = trec_fair.groups(folder, "sub-geo")
    assert tuple(groups.levels) == (*trec_fair.levels("sub-geo"), "Atlantis")
    assert members(groups)["1"] == {"Atlantis": 1.0}
    with pytest.warns(DataWarning, match="'none'"):
        trec_fair.groups(folder, "langs")
    # occupations are whatever the metadata have
    assert tuple(trec_fair.groups(folder, "occ").levels)[-1] == "sailor"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "2: invalid JSON"),
        ("[1]", "2: expected a page with 'page_id', got a list"),
        ('{"gender": []}', "2: expected a page with 'page_id'"),
        ('{"page_id": "7"}', "2: 'page_id' must be an integer, got '7'"),
        ('{"page_id": 7, "gender": "male"}', "2: 'gender' must be a list, got 'male'"),
        ('{"page_id": 7, "gender": [3]}', "2: 'gender' must contain strings, got 3"),
        ('{"page_id": 7, "gender": [[]]}', "2: page 7: a value has the wrong type"),
        (
            '{"page_id": 7, "source_subcont_regions": {"UNK": -1}}',
            "2: .*count of 'UNK' must be at least 0",
        ),
        ('{"page_id": 7, "source_subcont_regions": ["UNK"]}', "2: .*must be an object"),
        ('{"page_id": 7, "first_letter_category": 3}', "2: a category must be a string, got 3"),
        ('{"page_id": 99999999999999999999}', "2: page 99999999999999999999"),
    ],
)
def test_malformed_metadata_are_named_by_line(folder, line, message):
    data.write(folder / METADATA, data.lines(data.RECORDS[:1]) + line + "\n")
    with pytest.raises(FormatError, match=message) as error:
        trec_fair.groups(folder, "gender")
    assert METADATA in str(error.value) and "\n" not in str(error.value)


def test_metadata_are_read_once(folder, home, monkeypatch):
    first = {name: trec_fair.groups(folder, name) for name in trec_fair.dimensions()}
    (kept,) = (home.parent / ".fairtk" / "caches").iterdir()
    assert kept.is_file()
    with monkeypatch.context() as patch:
        patch.setattr(metadata, "read_pages", None)
        for name, groups in first.items():
            assert trec_fair.groups(folder, name) == groups
        assert trec_fair.groups(folder) == reduce(mul, first.values())
        assert len(trec_fair.work_needed(folder)) == 4
    data.write(folder / METADATA, data.lines(data.RECORDS[:2]))
    assert len(trec_fair.groups(folder, "gender")) == 2


def test_a_folder_that_cannot_be_written_is_left_alone(folder, home):
    caches = home.parent / ".fairtk" / "caches"
    caches.mkdir(parents=True)
    caches.chmod(0o555)
    trec_fair.groups(folder, "gender")
    assert len(list(folder.iterdir())) == 4 and not list(caches.iterdir())
    caches.chmod(0o755)


LEVELS = {
    "page_subcont_regions": ["Polynesia", "Melanesia", "Caribbean", "Western Asia"],
    "gender": ["female", "cisgender female", "transgender male", "agender"],
    "occupations": ["writer", "chemist"],
}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.lists(st.sampled_from(LEVELS["page_subcont_regions"]), unique=True, max_size=4),
            st.lists(st.sampled_from(LEVELS["gender"]), unique=True, max_size=3),
            st.dictionaries(
                st.sampled_from(["UNK", "Polynesia", "Melanesia", "Caribbean"]), st.integers(0, 5)
            ),
        ),
        max_size=12,
    )
)
def test_pages_follow_the_rules_one_by_one(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("meta") / "metadata.json"
    records = [
        data.record(p, page_subcont_regions=r, gender=g, source_subcont_regions=s)
        for p, r, g, s in rows
    ]
    path.write_text(data.lines(records), encoding="utf-8")
    pages = read_pages(path)
    first = {p: (r, g, s) for p, r, g, s in reversed(rows)}
    assert pages.ids.tolist() == sorted(first)
    if not rows:
        return
    for name, field in (("sub-geo", 0), ("gender", 1), ("src-geo", 2)):
        column, dimension = pages.columns[name], DIMENSIONS[name]
        weights = np.ones(len(column.level)) if column.weight is None else column.weight
        for place, page in enumerate(sorted(first)):
            value = first[page][field]
            counts = value if isinstance(value, dict) else dict.fromkeys(value, 1)
            expected = {}
            for key, count in counts.items():
                level = dimension.level(key)
                added = expected.get(level, 0) + count
                expected[level] = min(added, 1) if name == "gender" else added
            expected = {k: v for k, v in expected.items() if v} or {"@UNKNOWN": 1}
            part = slice(column.start[place], column.start[place + 1])
            found = {
                column.levels[i]: w for i, w in zip(column.level[part], weights[part], strict=True)
            }
            assert found == expected


def test_oracle_runs(folder):
    dataset = trec_fair.from_folder(folder)
    run = trec_fair.oracle_run(dataset, 3)
    assert run.to_dict("list") == {
        "qid": ["4", "4", "9", "9", "9"],
        "docno": ["30", "55", "7", "12", "101"],
        "score": [0.0, -1.0, 0.0, -1.0, -2.0],
        "rank": [0, 1, 0, 1, 2],
    }
    assert run.index.tolist() == [0, 1, 2, 3, 4]
    assert trec_fair.oracle_run(folder, 3, split="eval").equals(run)
    assert trec_fair.oracle_run(dataset, 1)["docno"].tolist() == ["30", "7"]
    with pytest.raises(ParameterError):
        trec_fair.oracle_run(dataset, groups=trec_fair.groups(dataset, "gender"))
    with pytest.raises(ParameterError, match="cutoff"):
        trec_fair.oracle_run(dataset, 0)
    with pytest.raises(ParameterError, match="4096"):
        everything = trec_fair.groups(dataset)
        trec_fair.oracle_run(dataset, groups=everything, target=Target.uniform(everything))


def test_an_oracle_run_is_ideal(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    genders = [["male"]] * 30 + [["female"]] * 10 + [["agender"]] * 2 + [[]] * 8
    records = [data.record(i, gender=g) for i, g in enumerate(genders)]
    data.write(folder / METADATA, data.lines(records))
    topics = {1: ("a", ["a"], list(range(50))), 2: ("b", ["b"], list(range(35)))}
    data.write(folder / "train_topics_meta.jsonl", data.columns(topics))
    groups = trec_fair.groups(folder, "gender")
    target = trec_fair.targets(folder, "gender", task=1)
    qrels = dataset_qrels(trec_fair.from_folder(folder))
    fair = trec_fair.oracle_run(folder, 20, groups, target)
    plain = trec_fair.oracle_run(folder, 20)
    measure = AWRF(groups=groups, target=target) @ 20
    names = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
    values = {}
    for key, run in (("fair", fair), ("plain", plain)):
        assert run.groupby("qid").size().eq(20).all()
        assert not run.duplicated(["qid", "docno"]).any()
        frames = (qrels.rename(columns=names), run.rename(columns=names))
        assert (nDCG_TREC @ 20).calc_aggregate(*frames) == pytest.approx(1)
        values[key] = measure.calc_aggregate(*frames)
    assert values["fair"] > 0.99 > values["plain"]
    assert np.isfinite(values["plain"])


def test_a_page_with_two_different_records(folder):
    # lines 2 and 7 are both of page 7; that of page 55 is there twice, and the same: no doubt
    second = data.record(7, gender=["male"])
    data.write(folder / METADATA, data.lines([*data.RECORDS, second]))
    message = r"1 duplicate records.*page 7 in lines 2 and 7"
    for _ in range(2):  # what is read once more comes from the Parquet file
        with pytest.warns(DataWarning, match=message):
            groups = trec_fair.groups(folder, "gender")
        assert members(groups)["7"] == {"female": 1.0}


def test_a_record_without_an_attribute_that_others_have(folder):
    records = [dict(record) for record in data.RECORDS]
    del records[1]["gender"], records[3]["gender"], records[2]["qual_cat"]
    data.write(folder / METADATA, data.lines(records))
    message = r"gz: 2 of 6 records have no 'gender'.*\(line 2: page 7\)"
    for _ in range(2):
        with pytest.warns(DataWarning, match=message):
            groups = trec_fair.groups(folder, "gender")
        assert members(groups)["7"] == {"@UNKNOWN": 1.0}
    trec_fair.groups(folder, "occ")  # of which no record says nothing
    with pytest.warns(DataWarning, match="1 of 6.*'qual_cat'.*line 3.*12"):
        trec_fair.work_needed(folder)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"writer", "artist"', r'"writer", "\ud800"', "surrogate"),
        ('"UNK": 1', r'"\udead": 1', "surrogate"),
        ('"UNK": 1', '"UNK": ' + "1" * 5000, "thousands of digits"),
    ],
)
def test_metadata_that_is_no_text_or_number(folder, before, after, reason):
    text = data.lines(data.RECORDS)
    assert before in text
    data.write(folder / METADATA, text.replace(before, after, 1))
    with pytest.raises(FormatError, match=rf"{METADATA}:[23]: .*{reason}") as caught:
        trec_fair.groups(folder, "gender")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    data.write(folder / METADATA, text.replace('"artist"', r'"\ud83c\udf3b"', 1))  # a whole one
    assert "\U0001f33b" in trec_fair.groups(folder, "occ").levels
