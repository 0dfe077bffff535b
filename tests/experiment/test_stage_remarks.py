"""Remarks of stages: warnings outside of experiments, otherwise stored and repeated."""

import warnings
from dataclasses import replace

import pytest
from dask_cluster import settings_of
from experiment_stages import FailsFor, Retriever
from ledger_files import change
from remarking_stages import ODD, OWN, PIPELINES, QIDS, TOPICS, Shorter

import fairtk
from fairtk.errors import DataWarning, ParameterError, PluginError
from fairtk.experiment import Results, open_results, prune, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm.store import FORMAT, Database
from fairtk.remarks import FAILED, KINDS, NOT_REFINED, text_of
from fairtk.transformers import FairTransformer, remark

# those of plugins are tested there
STAGE_KINDS = [k for k, of in KINDS.items() if "{stage}" in of.template and ":" not in k]


def systems(folder):
    return {kind: make(folder / "data") for kind, (make, _) in PIPELINES.items()}


def run(pipelines, **options):
    """Run an experiment; return its results and the texts of its warnings, without failures."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = fairtk.Experiment(pipelines, TOPICS, **options)
    failures = [remark for remark in results.remarks if remark.kind == FAILED]
    texts = [str(warning.message) for warning in caught]
    if failures:
        texts.remove(text_of(failures))
    return replace(results, remarks=of_stages(results)), texts


def of_stages(results):
    """Return the remarks of stages; failed queries have a remark of their own."""
    return tuple(remark for remark in results.remarks if remark.stage)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a folder with the data of the pipelines, and with a store in ``store``."""
    return tmp_path_factory.mktemp("remarks")


@pytest.fixture(scope="module")
def first(store):
    """Return the remarks of the first run."""
    results, texts = run(systems(store), save_dir=store / "store", batch_size=7)
    assert len(texts) == len(set(texts))
    return results.remarks


def test_every_kind_of_stages_has_a_pipeline():
    assert set(STAGE_KINDS) <= PIPELINES.keys()


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_remark_names_its_queries(first, kind):
    [one] = [remark for remark in first if (remark.kind, remark.system) == (kind, kind)]
    qids = PIPELINES[kind][1]
    assert (one.qids, one.n_queries, one.total) == (tuple(qids), len(qids), len(QIDS))
    assert one.measure == "" and one.stage and one.count >= one.n_queries


@pytest.mark.parametrize("kind", PIPELINES)
def test_outside_of_an_experiment_it_is_a_warning(store, first, kind):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PIPELINES[kind][0](store / "data")(TOPICS)
    texts = {str(w.message): w.category for w in caught}
    expected = [replace(remark, system="") for remark in first if remark.system == kind]
    assert texts == {remark.text: KINDS[remark.kind].warning for remark in expected}


@pytest.mark.parametrize(
    "batch_size", [4, *(pytest.param(size, marks=pytest.mark.nightly) for size in (1, 2, 3))]
)
def test_batches_change_no_remark(store, first, batch_size):
    assert run(systems(store), batch_size=batch_size)[0].remarks == first


def test_workers_return_them_and_warnings_once(store, first):
    pipelines = {**systems(store), "warns": Retriever() >> Warns()}
    results, texts = run(pipelines, executor="processes", workers=1, batch_size=4)
    assert results.remarks == first and len(texts) == len(set(texts))
    assert texts.count("overflow") == 1  # of two batches


@pytest.mark.slow
def test_clusters_return_them(store, first, tmp_path):
    with settings_of("dask", tmp_path) as settings:
        results, _ = run(systems(store), **settings, batch_size=2)
    assert results.remarks == first


def test_a_resumed_run_repeats_them(store, first, tmp_path):
    for _ in range(2):
        results, texts = run(systems(store), save_dir=store / "store")
        assert results.remarks == first
        assert len(texts) == len(set(texts)) > len(PIPELINES) / 2
    with pytest.warns(DataWarning):
        opened = open_results(store / "store")
    assert sorted(of_stages(opened), key=str) == sorted(first, key=str)
    results.save(tmp_path)
    assert Results.load(tmp_path).remarks == first


class Stops(FairTransformer):
    """Passes rows on, and interrupts the run in the batch with the last query."""

    SETTINGS = ()

    def __init__(self, stops):
        self.stops = stops

    def transform(self, inp):
        if self.stops and QIDS[-1] in set(inp["qid"]):
            raise KeyboardInterrupt
        return inp


def test_an_interrupted_run_repeats_them(tmp_path):
    def pipelines(stops):
        start = Retriever() >> Shorter()  # stored, because a system ends here
        sampler = fairtk.FairSampler(target_disparity=0.7, cutoff=4)  # its rankings are not stored
        return {"a": start, "b": start >> sampler >> Stops(stops)}

    with pytest.raises(KeyboardInterrupt):
        run(pipelines(True), save_dir=tmp_path, batch_size=3)
    assert stored_results(tmp_path)["queries"].max() == 6
    resumed = run(pipelines(False), save_dir=tmp_path, batch_size=3)[0].remarks
    assert resumed == run(pipelines(False), batch_size=3)[0].remarks
    assert [(remark.system, remark.stage) for remark in resumed] == [
        ("a", "Shorter"), ("b", "Shorter"), ("b", "FairSampler"),
    ]  # fmt: skip


def test_systems_with_equal_remarks_are_one_warning():
    pipelines = {"a": Retriever() >> Shorter(), "b": Retriever(seed=1) >> Shorter()}
    results, texts = run(pipelines)
    assert len(results.remarks) == 2
    [text] = texts
    assert "3 of 7 queries of a, b" in text


class RemarksAndFails(FairTransformer):
    """Remarks on all queries, then fails if the batch has a certain one."""

    SETTINGS = ()

    def transform(self, inp):
        remark(OWN, "RemarksAndFails", [1] * len(inp), inp["qid"])
        if "q3" in set(inp["qid"]):
            raise RuntimeError("q3")
        return inp


def test_queries_of_a_batch_that_fails_count_once():
    results, _ = run({"a": RemarksAndFails()}, batch_size=7)
    assert results.failures["qid"].tolist() == ["q3"]
    [one] = results.remarks
    assert one.qids == ("q0", "q1", "q2", "q4", "q5", "q6") and one.count == 6


@pytest.mark.parametrize("joint", [False, True])
def test_remarks_on_samples_are_remarks_on_queries(joint):
    sampled = Retriever() >> fairtk.FairSampler(n_samples=3, seed=1)
    results, _ = run({"a": sampled >> fairtk.PerSample(Shorter(), joint=joint)})
    [one] = results.remarks
    # three samples of eight documents each, of which four are left
    assert (one.qids, one.n_queries, one.count) == (tuple(ODD), 3, 3 * 3 * 4)


class GivesUp(FairTransformer):
    """Has no result for the queries that a file names, and remarks on them."""

    SETTINGS = ()

    def __init__(self, path):
        self.path = path

    def transform(self, inp):
        is_lost = inp["qid"].isin(self.path.read_text().split())
        remark(NOT_REFINED, "GivesUp", is_lost, inp["qid"], "today")
        self.missing = inp.loc[is_lost, ["qid"]].assign(reason="lost")
        return inp[~is_lost]


def test_remarks_on_failed_queries_give_way_with_the_failure(tmp_path):
    path, pipeline = tmp_path / "lost", GivesUp(tmp_path / "lost") >> Retriever() >> Shorter()
    path.write_text("q1 q2")
    results, _ = run({"a": pipeline}, save_dir=tmp_path)
    assert [(one.kind, one.qids) for one in results.remarks] == [
        (NOT_REFINED, ("q1", "q2")), (OWN, ("q3", "q5")),
    ]  # fmt: skip
    path.write_text("")
    results, _ = run({"a": pipeline}, save_dir=tmp_path)
    assert [(one.kind, one.qids) for one in results.remarks] == [(OWN, ("q1", "q3", "q5"))]


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_wrong_remarks_are_refused(executor):
    class Wrong(FairTransformer):
        SETTINGS = ("kind", "qid")

        def __init__(self, kind, qid):
            self.kind, self.qid = kind, qid

        def transform(self, inp):
            remark(self.kind, "Wrong", [True], [self.qid])
            return inp

    options = {"executor": executor, "workers": 1}
    with pytest.raises(PluginError, match="'nonsense'"):
        run({"a": Retriever() >> Wrong("nonsense", "q0")}, **options)
    if executor == "processes":  # its workers do not know the kind, which Shorter declares
        return
    results, texts = run({"a": Retriever() >> Wrong(OWN, "other")}, **options)
    assert results.remarks == () and "'other'" in texts[0]  # maybe of a query to train on
    for qid in ("q0", "other"):
        with pytest.raises(PluginError, match="'nonsense'"):
            run({"a": Retriever() >> Wrong("nonsense", qid)}, **options)
    with pytest.raises(PluginError, match="'nonsense'"):
        Wrong("nonsense", "q0").transform(TOPICS)
    with pytest.raises(PluginError, match="'nonsense'"):  # also if it concerns no query
        remark("nonsense", "Wrong", [False], ["q0"])
    with pytest.raises(ParameterError, match="`numbers`.*2.*got 1"):
        remark(OWN, "Wrong", [True], ["q0", "q1"])
    with pytest.raises(ParameterError, match="`detail`.*1.*got 2"):
        remark(OWN, "Wrong", [True], ["q0"], [["a"], ["b"]])


class Warns(FairTransformer):
    """Passes rows on with a warning of another library."""

    SETTINGS = ()

    def transform(self, inp):
        warnings.warn("overflow", RuntimeWarning, stacklevel=2)
        return inp


# Stores of format 5 have no remarks --------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    """Return a folder with a store of format 5, its systems, and the log of their stage."""
    log = tmp_path / "log"
    pipelines = {"a": Retriever(log=log) >> Shorter(), "failed": FailsFor(tmp_path / "bad")}
    (tmp_path / "bad").write_text("q1")
    run(pipelines, save_dir=tmp_path)
    change(tmp_path / FILE, "ALTER TABLE cells DROP COLUMN remarks")
    change(tmp_path / FILE, "ALTER TABLE answers DROP COLUMN cached_tokens")
    for table in ("payments", "claims", "owners"):
        change(tmp_path / FILE, f"ALTER TABLE {table} DROP COLUMN tokens")
    change(tmp_path / FILE, "PRAGMA user_version = 5")
    return tmp_path, pipelines, log


def test_stores_without_remarks_are_upgraded(old):
    folder, pipelines, log = old
    before = log.read_text()
    results, _ = run(pipelines, save_dir=folder)
    assert log.read_text() == before and results.remarks == ()
    assert len(results.rankings("a")) == 4 * 8 + 3 * 4
    file = Database(folder / FILE)
    assert file.read("PRAGMA user_version") == [(FORMAT,)]
    assert file.read("SELECT count(*) FROM cells WHERE remarks IS NOT NULL") == [(0,)]
    file.close()
    new = {"b": Retriever(seed=3) >> Shorter()}
    assert [one.kind for one in run(new, save_dir=folder)[0].remarks] == [OWN]


@pytest.mark.parametrize("is_read_only", [True, False])
def test_stores_without_remarks_are_read(old, monkeypatch, is_read_only):
    folder, pipelines, _ = old
    before = (folder / FILE).read_bytes()
    if is_read_only:
        monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root
    assert stored_results(folder)["failed"].tolist() == [0, 0, 1]
    opened = open_results(folder)
    assert of_stages(opened) == () and len(opened.rankings("a")) == 4 * 8 + 3 * 4
    assert ((folder / FILE).read_bytes() == before) == is_read_only
    monkeypatch.undo()
    stored = fairtk.plan(pipelines, TOPICS, save_dir=folder).cells["stored"]
    assert stored.tolist() == [7, 6]
    assert prune(folder, failed=True) == 1
