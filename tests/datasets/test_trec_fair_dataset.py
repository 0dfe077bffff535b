"""The data sets of TREC Fair Ranking 2022, from folders and addresses."""

from __future__ import annotations

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import ir_datasets
import pytest
import trec_fair_files as data

import fairtk  # noqa: F401
from fairtk.datasets import trec_fair
from fairtk.datasets.provider import FairDataset
from fairtk.datasets.trec_fair import dataset as trec_fair_dataset
from fairtk.datasets.trec_fair.dataset import NAMES, OFFICIAL, TrecFairDoc
from fairtk.datasets.trec_fair.topics import read_topics
from fairtk.errors import DataWarning, DownloadError, FormatError, InputError, NotFoundError
from fairtk.testing import DatasetContract

# PyTerrier 1.1.2 renames in place, which pandas 3.1 announces to drop
pytestmark = [
    pytest.mark.usefixtures("home"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]


@pytest.fixture
def folder(tmp_path):
    return data.write_folder(tmp_path / "wiki")


class TestFolderContract(DatasetContract):
    @pytest.fixture(autouse=True)
    def _made(self, folder):
        self.made = trec_fair.from_folder(folder)

    def dataset(self):
        return self.made

    def test_candidates_and_labels_refer_to_what_is_there(self):
        # page 999 is relevant and not in the corpus, as in the official files
        docs = self.made.docs_store().get_many([q.doc_id for q in self.made.qrels_iter()])
        assert set(docs) == {"30", "55", "7", "12", "101"}


def test_topics_have_three_texts(folder):
    dataset = trec_fair.from_folder(folder)
    assert list(dataset.queries_iter()) == [
        ("4", "sea wall tide", "Harbors", "Harbors sea wall tide", ("sea wall", "tide")),
        ("9", "verse", "Poets", "Poets verse", ("verse",)),
    ]
    assert dataset.queries_count() == 2
    topics = FairDataset(dataset).get_topics()
    assert topics["qid"].tolist() == ["4", "9"]
    assert topics["query"].tolist() == ["sea wall tide", "verse"]
    assert FairDataset(dataset).get_topics("title")["query"].tolist() == ["Harbors", "Poets"]
    both = FairDataset(dataset).get_topics("title_keywords")
    assert both["query"].tolist() == ["Harbors sea wall tide", "Poets verse"]


def test_relevant_pages_count_once(folder):
    dataset = trec_fair.from_folder(folder, "train/keywords")
    qrels = FairDataset(dataset).get_qrels()
    assert list(zip(qrels["qid"], qrels["docno"], strict=True)) == [
        ("4", "30"), ("4", "55"), ("9", "7"), ("9", "12"), ("9", "101"), ("9", "999"),
    ]  # fmt: skip
    assert qrels["label"].eq(1).all()
    assert dataset.qrels_count() == 6 and dataset.qrels_defs() == {1: "relevant"}


def test_of_a_repeated_article_the_first_counts(folder):
    corpus = [*data.CORPUS[:3], data.article(30, "Tide mill again"), *data.CORPUS[3:]]
    data.write(folder / NAMES["corpus"], data.lines(corpus))
    dataset = trec_fair.from_folder(folder)
    message = r"gz: 1 articles with duplicate ids \(line 4: page 30\)"
    with pytest.warns(DataWarning, match=message):
        docs = list(dataset.docs_iter())
    data.write(folder / NAMES["corpus"], data.lines(data.CORPUS))
    assert [d.doc_id for d in docs] == ["30", "7", "12", "101", "55"]
    assert docs[0] == ("30", "Tide mill", "on 30", "https://pages.invalid/30")
    assert docs[0].default_text() == "Tide mill on 30"
    assert dataset.docs_count() == 5
    assert dataset.docs_store().count() == 5
    assert dataset.docs_store().get("30").title == "Tide mill"
    assert [d.doc_id for d in dataset.docs_iter()[1:3]] == ["7", "12"]
    with pytest.raises(KeyError):
        dataset.docs_store().get("31")


def test_topics_without_keywords_are_their_titles_and_say_so(folder):
    dataset = trec_fair.from_folder(folder, "eval")
    with pytest.warns(DataWarning, match="2 of 2.*keywords=FILE"):
        queries = list(dataset.queries_iter())
    assert [q.query for q in queries] == ["Harbors", "Poets"]
    assert queries[0].title_keywords == "Harbors" and queries[0].keywords == ()
    assert len(list(dataset.queries_iter())) == 2  # said once


def test_keywords_come_from_the_file_or_from_another(folder, tmp_path):
    given = trec_fair.from_folder(folder, "eval", keywords=folder / "train_topics_meta.jsonl")
    assert [q.query for q in given.queries_iter()] == ["sea wall tide", "verse"]
    assert given.dataset_id() != trec_fair.from_folder(folder, "eval").dataset_id()
    data.write(folder / "trec_2022_eval_reldocs.jsonl.gz", data.reldocs(data.TOPICS, True))
    own = trec_fair.from_folder(folder, "eval")
    assert [q.query for q in own.queries_iter()] == ["sea wall tide", "verse"]
    words = tmp_path / "words.jsonl"
    data.write(words, '{"id": 4, "title": "Harbors", "keywords": "[\'quay\']"}\n')
    data.write(folder / "trec_2022_eval_reldocs.jsonl.gz", data.reldocs(data.TOPICS))
    some = trec_fair.from_folder(folder, "eval", keywords=words)
    with pytest.warns(DataWarning, match="1 of 2"):
        assert [q.query for q in some.queries_iter()] == ["quay", "Poets"]
    with pytest.raises(FormatError):
        trec_fair.from_folder(folder, "eval", keywords=tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        "id,keywords\n4,\"['sea wall', 'tide']\"\n9,\"['verse']\"\n",
        "4,['sea wall', 'tide']\n9,['verse']\n",
        "id\tkeywords\n4\t['sea wall', 'tide']\n9\t['verse']\n",
    ],
)
def test_keywords_come_from_the_official_table(folder, tmp_path, text):
    words = tmp_path / "eval_topic_keywords.csv"
    data.write(words, text)
    qids = list(trec_fair.from_folder(folder, "eval").qrels_dict())
    data.write(words, text.replace("4", qids[0]).replace("9", qids[1]))
    given = trec_fair.from_folder(folder, "eval", keywords=words)
    assert [q.query for q in given.queries_iter()] == ["sea wall tide", "verse"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4,['a']\n4,['b']\n", "2: duplicate id '4'"),
        ("4,['a']\n9,f()\n", "2: topic '9': 'keywords' must be a list"),
        ("4,['a']\n9,\"['b']\n", "2: .*unexpected end of data"),
        ("id,keywords\n", "the file has no keywords"),
    ],
)
def test_broken_tables_of_keywords(folder, tmp_path, text, message):
    words = tmp_path / "eval_topic_keywords.csv"
    data.write(words, text)
    given = trec_fair.from_folder(folder, "eval", keywords=words)
    with pytest.raises(FormatError, match=f"eval_topic_keywords.csv:.*{message}"):
        list(given.queries_iter())


def test_files_may_be_packed_or_not(folder):
    corpus = folder / "trec_corpus_20220301_plain.json.gz"
    data.write(folder / "trec_corpus_20220301_plain.json", data.lines(data.CORPUS))
    corpus.unlink()
    train = folder / "train_topics_meta.jsonl"
    data.write(folder / "train_topics_meta.jsonl.gz", train.read_text())
    train.unlink()
    dataset = trec_fair.from_folder(folder)
    assert dataset.docs_count() == 5 and dataset.queries_count() == 2


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(NotFoundError, match="split"):
        trec_fair.from_folder(folder, "test")
    with pytest.raises(FormatError):
        trec_fair.from_folder(tmp_path / "nowhere")
    (folder / "trec_2022_eval_reldocs.jsonl.gz").unlink()
    with pytest.raises(FormatError, match=r"missing trec_2022_eval_reldocs.*'train_top"):
        trec_fair.from_folder(folder, "eval")
    (folder / "trec_corpus_20220301_plain.json.gz").unlink()
    dataset = trec_fair.from_folder(folder)
    assert dataset.queries_count() == 2
    for use in (dataset.docs_count, lambda: next(dataset.docs_iter()), dataset.docs_store().count):
        with pytest.raises(FormatError):
            use()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]\n", "1: expected a JSON object, got a list"),
        ('{"id": 1, "title": "a"}\n', "1: .*'rel_docs' is missing"),
        ('\n{"id": 1, "title": "a", "rel_docs": 3}\n', "2: topic '1': 'rel_docs' must be a list"),
        ('{"id": 1, "title": "a", "rel_docs": [1.5]}\n', "1: .*must be a number, got float '1.5"),
        ('{"id": 1, "title": 2, "rel_docs": []}\n', "1: .*'title' must be a string"),
        ('{"id": null, "title": "a", "rel_docs": []}\n', "1: 'id' must be a number or a string"),
        ('{"id": 1, "title": "a", "rel_docs": [], "keywords": "f()"}', "1: .*'keywords' must be"),
        ('{"id": 1, "title": "a", "rel_docs": [], "keywords": [3]}', "1: .*'keywords' must be"),
        ("""{"id": 1, "title": "a", "rel_docs": [], "keywords": "['b' 'c']"}""", "'keywords' must"),
        (
            r"""{"id": 1, "title": "a", "rel_docs": [], "keywords": "['\b']"}""",
            "'keywords' must be",
        ),
        ('{"id": 1, "title": "a", "rel_docs": []}\n' * 2, "2: duplicate id '1'"),
        ("{", "1: invalid JSON"),
        ("\n", "the file has no topics"),
        (
            '{"id": {"0": 1}, "title": ["a"]}',
            "1: expected columns keyed by row, got a list of 1 for 'title'",
        ),
        ('{"id": {"0": 1}, "title": {"1": "a"}}', "1: row '0' has no 'title'"),
        ('{"id": {"0": 1}, "title": {"0": "a"}, "rel_docs": {"0": "1,"}}', "1: row '0': topic '1'"),
        (
            '{"id": {"0": 1}, "title": {"0": "a", "1": "b"}, "rel_docs": {"0": [1], "1": [2]}}',
            "1: row '1' has no 'id'",
        ),
        (
            f'{{"id": {{"0": 1}}, "title": {{"0": "a"}}, "rel_docs": {{"0": "[{"1" * 5000}]"}}}}',
            "1: row '0': topic '1': 'rel_docs' must be a list of pages",
        ),
        (
            f'{{"id": {{"0": 1}}, "title": {{"0": "a"}}, "rel_docs": {{"0": "{"[" * 100_000}"}}}}',
            "1: row '0': topic '1': 'rel_docs' must be a list of pages",
        ),
        (r'{"id": 1, "title": "\ud800", "rel_docs": []}', "1: .*surrogate"),
        (
            r"""{"id": 1, "title": "a", "rel_docs": [], "keywords": "['\\ud800']"}""",
            "1: topic '1': 'keywords' must be a list of strings",
        ),
        (f'{{"id": {"1" * 5000}, "title": "a", "rel_docs": []}}', "1: .*thousands of digits"),
    ],
)
def test_malformed_topics_are_named_by_line(folder, text, message):
    path = folder / "train_topics_meta.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message) as error:
        trec_fair.from_folder(folder).queries_count()
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_page_and_topic_names_may_be_strings(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "x1", "title": "a", "rel_docs": ["p", 3, "3", 99999999999999999999]}')
    (topic,) = read_topics(path)
    assert topic.qid == "x1" and topic.docnos == ["p", "3", "99999999999999999999"]
    path.write_text('{"id": 1, "title": "a", "rel_docs": [99999999999999999999, 2]}')
    assert read_topics(path)[0].docnos == ["99999999999999999999", "2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "2: invalid JSON"),
        ("[]", "2: expected a JSON object, got a list"),
        ('{"id": 3, "title": "a", "url": "u"}', "2: missing key 'plain'"),
        ('{"id": 3.5, "title": "a", "url": "u", "plain": ""}', "2: 'id' must be a page id"),
        ('{"id": 3, "title": null, "url": "u", "plain": ""}', "2: 'title' of page 3 must be"),
        (r'{"id": 3, "title": "\ud800", "url": "u", "plain": ""}', "2: .*surrogate"),
    ],
)
def test_malformed_articles_are_named_by_line(folder, line, message):
    path = folder / "trec_corpus_20220301_plain.json.gz"
    data.write(path, data.lines(data.CORPUS[:1]) + line + "\n")
    with pytest.raises(FormatError, match=message):
        list(trec_fair.from_folder(folder).docs_iter())
    with pytest.raises(FormatError, match=message):
        trec_fair.from_folder(folder).docs_store().get("30")
    assert not list(folder.glob(".*")) and not list(folder.glob("*.sqlite"))


def test_the_store_belongs_to_the_corpus(folder, home):
    store = trec_fair.from_folder(folder).docs_store()
    assert store.built() is None
    assert store.get("7").text == "on 7"
    path = store.built()
    assert path.parent == home.parent / ".fairtk" / "caches"
    assert path.name.endswith("-trec_corpus_20220301_plain.json.gz.sqlite")
    assert len(list(folder.iterdir())) == 4  # nothing between the data files
    changed = [data.article(7, "another")]
    data.write(folder / "trec_corpus_20220301_plain.json.gz", data.lines(changed))
    assert store.built() is None
    assert store.get("7").title == "another" and store.count() == 1
    path.unlink()
    path.parent.chmod(0o555)  # the superuser leaves such folders alone, too
    with pytest.raises(InputError):
        store.get("7")
    path.parent.chmod(0o755)
    with pytest.raises(InputError, match="doc_id"):
        trec_fair.from_folder(folder).docs_store("title")


def test_caches_of_equal_names_are_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRTK_HOME", str(tmp_path / "caches"))
    stores = {}
    for name in ("one", "two"):
        folder = data.write_folder(tmp_path / name)
        corpus = [data.article(7, name)]
        data.write(folder / "trec_corpus_20220301_plain.json.gz", data.lines(corpus))
        stores[name] = trec_fair.from_folder(folder).docs_store()
    assert {name: store.get("7").title for name, store in stores.items()} == {
        "one": "one", "two": "two"
    }  # fmt: skip
    paths = {store.built() for store in stores.values()}
    assert len(paths) == 2 and {path.parents[1] for path in paths} == {tmp_path / "caches"}


@pytest.fixture
def served(folder):
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    handler.func.log_message = lambda *args: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_official_files_are_downloaded_and_checked(served, folder, home):
    table = {name: {"url": f"{served}/{name}"} for name in NAMES.values()}
    corpus = folder / NAMES["corpus"]
    table[NAMES["corpus"]]["md5"] = hashlib.md5(corpus.read_bytes()).hexdigest()
    table[NAMES["metadata"]]["md5"] = "0" * 32
    dataset = trec_fair_dataset.build(trec_fair.ids()[0], {OFFICIAL: table})
    assert dataset.dataset_id() == "trec-fair/2022/train/keywords"
    assert not home.exists()
    assert [q.query_id for q in dataset.queries_iter()] == ["4", "9"]
    assert next(dataset.docs_iter()).doc_id == "30"
    assert dataset.docs_store().get("7").title == "Ada Reed"
    assert (home / "trec-fair" / "2022" / NAMES["corpus"]).read_bytes() == corpus.read_bytes()
    with pytest.raises(DownloadError, match="trec_fair"):
        trec_fair.groups(dataset, "gender")
    (folder / NAMES["train"]).write_text("<html>")
    (home / "trec-fair" / "2022" / NAMES["train"]).unlink()
    with pytest.raises(DownloadError, match="JSON"):
        trec_fair_dataset.build(trec_fair.ids()[0], {OFFICIAL: table}).queries_count()


def test_ids_are_registered_beside_those_of_ir_datasets(home, folder):
    for name in trec_fair.ids():
        dataset = ir_datasets.load(name)
        assert dataset.dataset_id() == name
        assert dataset.docs_cls() is TrecFairDoc
        assert dataset.docs_count() == 6_475_537  # of the official corpus, not read
        assert "TREC" in json.dumps(dataset.documentation())
    assert ir_datasets.load("trec-fair/2022/train").queries_cls()._fields == (
        "query_id", "text", "url",
    )  # fmt: skip
    place = home / "trec-fair" / "2022"
    place.mkdir(parents=True)
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    assert ir_datasets.load("trec-fair/2022/train/keywords").queries_count() == 2
    # the data folder is shared with ir_datasets' own data set
    assert len(trec_fair.groups("trec-fair/2022", "gender")) == 5
    with pytest.raises(NotFoundError):
        trec_fair_dataset.build("trec-fair/2022/test")
