"""Arguments of wrong types are accepted, or refused with an error that names the parameter."""

import inspect
import re
import tempfile
import traceback
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from api_exports import exports
from settings_calls import Echo, calls

import fairtk
from fairtk import EU, FairSampler, Groups, Target, credit, experiment, io, llm, prompts, utilities
from fairtk.batch import Batches
from fairtk.display import write_figure
from fairtk.errors import ColumnError, FairtkError, NotFoundError
from fairtk.frames import Qrels, Run, require_columns
from fairtk.groups import JensenShannon, KullbackLeibler, background
from fairtk.measures import format_measure, parse, value_bounds
from fairtk.plugins import as_position_model, parse_browsing_model
from fairtk.report import load_sections, save_sections, write_report
from fairtk.statistics import no_interval
from fairtk.testing import toy_answers, toy_groups, toy_qrels, toy_run, toy_samples, toy_topics

FRAME = pd.DataFrame(
    {"qid": ["1"] * 50, "text": "a line\n" * 5, "docno": [f"d{i}" for i in range(50)]}
)
WRONG = (object(), FRAME, 5, "x")


@cache
def more_calls():
    """Return calls of functions without settings, and of methods, as `calls` does."""
    qrels, run, samples, topics = toy_qrels(), toy_run(), toy_samples(), toy_topics()
    groups = Groups.from_frame(toy_groups(), name="toy")
    target, folder = Target.uniform(groups), Path(tempfile.mkdtemp())
    gold = qrels[["qid", "gold_answer"]].drop_duplicates("qid")
    bare = qrels.drop(columns="gold_answer")
    answers = toy_answers()
    other = run[["qid", "docno"]].assign(score=-run["score"])
    results = fairtk.evaluate(qrels, {"a": run, "b": other}, ["RR"])
    system = {"a": pt.Transformer.from_df(run)}
    fairtk.Experiment(system, topics, qrels, ["RR"], save_dir=folder / "store")
    figure = results.plot_trade_off("RR", "RR")
    results.save(folder / "saved")
    io.write_run(run, folder / "a.run")
    io.write_qrels(bare, folder / "a.qrels")
    io.write_answers(answers, folder / "answers.tsv")
    io.write_parquet(run, folder / "a.parquet")
    groups.write(folder / "groups.tsv")
    target.write(folder / "target.tsv")
    (folder / "gold.tsv").write_text("qid\tgold_answer\nq1\tbread\n")
    (folder / "sections").mkdir()
    save_sections(folder / "sections", [])
    ledger = llm.Ledger(folder / "ledger.sqlite")
    store = folder / "store"
    clusters = pd.DataFrame({"qid": sorted({*run["qid"]}), "group": list("aabb")})
    values = {"values": np.ones((1, 4))}
    return {
        "fairtk.plan": (fairtk.plan, {"systems": system, "topics": topics}),
        "fairtk.drop_undefined": (fairtk.drop_undefined, {"qrels": qrels}),
        "fairtk.join_answers": (fairtk.join_answers, {"qrels": bare, "answers": gold}),
        "fairtk.batch.Batches": (Batches, {"ledger": ledger}),
        "fairtk.credit.leave_one_out": (credit.leave_one_out, values),
        "fairtk.credit.shapley": (credit.shapley, values),
        "fairtk.credit.max_shapley": (credit.max_shapley, {"x": np.ones((1, 4))}),
        "fairtk.display.write_figure": (
            partial(write_figure, figure),
            {"path": folder / "figure.svg"},
        ),
        "fairtk.experiment.combinations": (experiment.combinations, {"grid": {"a": [1]}}),
        "fairtk.experiment.export": (
            lambda source, folder=None, **options: experiment.export(
                source, tempfile.mkdtemp() if folder is None else folder, **options
            ),
            {"source": store},
        ),
        "fairtk.experiment.open_results": (
            experiment.open_results,
            {"folder": store, "qrels": qrels, "measures": ["RR"]},
        ),
        "fairtk.experiment.prune": (experiment.prune, {"save_dir": store, "failed": True}),
        "fairtk.experiment.stored_results": (experiment.stored_results, {"save_dir": store}),
        "fairtk.frames.Qrels": (partial(Qrels, where="test"), {"data": qrels}),
        "fairtk.frames.Run": (partial(Run, where="test"), {"data": run}),
        "fairtk.frames.require_columns": (
            partial(require_columns, where="test"),
            {"frame": run, "columns": ["qid"]},
        ),
        "fairtk.groups.JensenShannon": (JensenShannon, {}),
        "fairtk.groups.KullbackLeibler": (KullbackLeibler, {}),
        "fairtk.groups.background": (background, {"name": "trec-2022-gender"}),
        "fairtk.io.add_answers": (
            partial(io.add_answers, where="answers"),
            {"run": samples, "answers": answers.drop_duplicates(["qid", "sample"])},
        ),
        "fairtk.io.read_answers": (io.read_answers, {"path": folder / "answers.tsv"}),
        "fairtk.io.read_gold_answers": (io.read_gold_answers, {"path": folder / "gold.tsv"}),
        "fairtk.io.read_parquet": (
            lambda path: io.read_parquet(path),
            {"path": folder / "a.parquet"},
        ),
        "fairtk.io.read_qrels": (io.read_qrels, {"path": folder / "a.qrels"}),
        "fairtk.io.read_run": (io.read_run, {"path": folder / "a.run"}),
        "fairtk.io.write_answers": (
            io.write_answers,
            {"frame": answers, "path": folder / "b.tsv"},
        ),
        "fairtk.io.write_parquet": (
            lambda frame, path: io.write_parquet(frame, path),
            {"frame": run, "path": folder / "b.parquet"},
        ),
        "fairtk.io.write_qrels": (io.write_qrels, {"qrels": bare, "path": folder / "b.qrels"}),
        "fairtk.io.write_task_run": (
            io.write_task_run,
            {"run": run[["qid", "score"]].assign(docno=range(len(run))), "path": folder / "t.tsv"},
        ),
        "fairtk.llm.Prices": (llm.Prices, {}),
        "fairtk.llm.as_chat_model": (llm.as_chat_model, {"model": Echo()}),
        "fairtk.llm.list_model_kinds": (llm.list_model_kinds, {"use": "answers"}),
        "fairtk.llm.parse_model": (
            llm.parse_model,
            {"text": "openai:m", "use": "answers", "what": "generator"},
        ),
        "fairtk.measures.parse": (parse, {"text": "RR"}),
        "fairtk.measures.format_measure": (format_measure, {"measure": parse("RR")}),
        "fairtk.measures.value_bounds": (value_bounds, {"measure": parse("RR")}),
        "fairtk.plugins.as_position_model": (
            partial(as_position_model, where="test"),
            {"browsing": "RBP"},
        ),
        "fairtk.plugins.parse_browsing_model": (parse_browsing_model, {"text": "RBP"}),
        "fairtk.prompts.get": (prompts.get, {"name": "rag"}),
        "fairtk.utilities.get": (utilities.get, {"name": "em"}),
        "fairtk.report.load_sections": (load_sections, {"folder": folder / "sections"}),
        "fairtk.report.save_sections": (
            save_sections,
            {"folder": folder / "sections", "sections": []},
        ),
        "fairtk.report.write_report": (
            write_report,
            {"results": results, "path": folder / "page.html"},
        ),
        "fairtk.statistics.no_interval": (no_interval, {"values": [0.1, 0.2]}),
        "fairtk.credit.query_gain": (
            credit.query_gain,
            {
                **{"qrels": qrels, "run": run.assign(qanswer="bread")},
                **{"without": gold.assign(qanswer="bread")[["qid", "qanswer"]]},
                **{"groups": clusters, "utility": EU(utility="f1"), "resamples": 9},
            },
        ),
        "Results.rankings": (results.rankings, {"name": "a"}),
        "Results.better": (results.better, {"measure": "RR"}),
        "Results.info": (results.info, {"measure": "RR"}),
        "Results.compare": (results.compare, {"baseline": "a"}),
        "Results.with_clusters": (
            partial(results.with_clusters, where="test"),
            {"cluster": {q: q for q in ("q1", "q2", "q3", "q4")}},
        ),
        "Results.with_checked": (partial(results.with_checked, where="test"), {"checked": qrels}),
        "Results.queries_needed": (results.queries_needed, {"difference": 0.1, "baseline": "a"}),
        "Results.to_markdown": (results.to_markdown, {"baseline": "a"}),
        "Results.to_latex": (results.to_latex, {"baseline": "a"}),
        "Results.to_csv": (results.to_csv, {}),
        "Results.plot_trade_off": (results.plot_trade_off, {"x": "RR", "y": "RR"}),
        "Results.save": (results.save, {"folder": folder / "again"}),
        "Results.to_trec": (results.to_trec, {"folder": folder / "trec"}),
        "Results.load": (fairtk.Results.load, {"folder": folder / "saved"}),
        "Groups.from_frame": (Groups.from_frame, {"df": toy_groups()}),
        "Groups.read": (Groups.read, {"path": folder / "groups.tsv"}),
        "Groups.of": (Groups.of, {"source": toy_groups()}),
        "Groups.with_levels": (groups.with_levels, {"names": ["a"]}),
        "Groups.write": (groups.write, {"path": folder / "g.tsv"}),
        "Groups.coverage": (groups.coverage, {"run": run}),
        "Target.uniform": (Target.uniform, {"groups": groups}),
        "Target.population": (Target.population, {"shares": groups}),
        "Target.from_qrels": (Target.from_qrels, {"qrels": qrels, "groups": groups}),
        "Target.from_frame": (Target.from_frame, {"frame": target.to_frame()}),
        "Target.read": (Target.read, {"path": folder / "target.tsv"}),
        "Target.of": (partial(Target.of, where="test"), {"source": target}),
        "Target.write": (target.write, {"path": folder / "t.tsv"}),
        "Target.for_groups": (target.for_groups, {"groups": groups}),
        "FairSampler.transform": (FairSampler(), {"inp": run}),
    }


def wrong_values(setting, parameter, wrong):
    """Return the values that the annotation of a parameter does not allow."""
    kinds = set(re.findall(r"\w+", str(parameter.annotation)))
    if setting == "where" or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return []
    allowed = {5: {"int", "float"}, "x": {"str"}}
    return [v for v in wrong if not (isinstance(v, int | str) and allowed[v] & kinds)]


ALSO_NAMED = {
    "frontier x": "measure",
    "frontier y": "measure",
    "fairtk.llm.Prices table": "prices",
    "fairtk.measures.parse text": "measure",
    "fairtk.plugins.parse_browsing_model text": "browsing model",
    "Results.plot_trade_off x": "measure",
    "Results.plot_trade_off y": "measure",
    "FairSampler.transform inp": "DataFrame",
    "Groups.of source": "expected Groups",
    "Target.of source": "expected a Target",
    "Target.population shares": "expected a series",
    "providers providers": "expected Groups",
    "fairtk.io.add_answers run": "answers",  # a run without samples and answers of samples
    "fairtk.credit.query_gain qrels": "answer",  # other queries
}
"""Other names of parameters in messages."""


def is_named(setting, value, error):
    """Return whether a message names the setting, or the string that is its value."""
    text = str(error)
    names = {setting, setting.removesuffix("s")}
    return (
        any(re.search(rf"\b{re.escape(name)}s?\b", text, re.IGNORECASE) for name in names)
        or (isinstance(value, str) and re.search(r"\bx\b", text) is not None)
        or isinstance(error, ColumnError | NotFoundError)  # has the form that is expected
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", [WRONG[:2], pytest.param(WRONG[2:], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*calls(), *more_calls()])
def test_wrong_types(name, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, arguments = {**calls(), **more_calls()}[name]
    if name in more_calls():  # `test_settings` makes the others
        call(**arguments)  # the call is valid but for the argument
    for setting, parameter in inspect.signature(call).parameters.items():
        for value in wrong_values(setting, parameter, wrong):
            what = f"{name}({setting}: {type(value).__name__})"
            try:
                call(**{**arguments, setting: value})
            except FairtkError as error:
                named = ALSO_NAMED.get(f"{name} {setting}", setting)
                assert is_named(named, value, error), f"{what}: {error}"
                assert len(str(error)) < 800 and str(error).count("\n") < 3, f"{what}: {error}"
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                raise AssertionError(
                    f"{what}: {type(error).__name__}: {str(error)[:80]} ({last.filename})"
                ) from error


NOT_CALLED = re.compile(
    # results and their parts, which users do not make
    r"fairtk\.(Results|Remark|experiment\.(Comparison|Diagnosis|Finding|Plan|Tuned))$"
    r"|fairtk\.(analysis|credit|batch|demo|display|llm|statistics)\.[A-Z]\w+$"
    r"|fairtk\.transformers\.FairQROutcome$|fairtk\.(datasets\.)?FairDataset$"
    # made by their methods in `more_calls`
    r"|fairtk\.(Groups|Target)$"
    # for authors of plugins, with arguments that fairtk makes
    r"|fairtk\.(checks|cli|display|exposure|frames|plugins|testing|wording)\."
    r"|fairtk\.measures\.(LabeledRun|MeasureInfo|ObjectParam|Param|RemarkKind|Scores|evaluate|few_known_groups)$"
    r"|fairtk\.FairMeasure$|fairtk\.groups\.(Divergence|document_attention|group_exposure)$"
    r"|fairtk\.llm\.(build_model|check_settings)$|fairtk\.(prompts|report|utilities)\.[A-Z]\w+$"
    r"|fairtk\.io\.(FormattedFile|file_lock|folder_digest|resolve_dataset|dataset_qrels|atomic_write)$"
    r"|fairtk\.report\.page_text$|fairtk\.experiment\.describe_stage$|fairtk\.batch\.paying_options$"
    r"|fairtk\.transformers\.(FairTransformer|Scorer|NeuralScorer|leave_notes|remark)$"
    # without parameters, or with names only
    r"|fairtk\.(cite|register_\w+)$|.*\.(environment|results_schema|SerialExecutor|ids|toy_\w+)$"
    r"|fairtk\.demo\.\w+$|fairtk\.transformers\.(IgnoreIdenticalIds|SingleDocumentSampler|plot_trace)$"
    # data sets, indexes and clusters, which have tests of their own
    r"|fairtk\.(Candidates|datasets\.|transformers\.CollectionBM25)|.*DaskExecutor$"
    r"|fairtk\.groups\.ReverseKullbackLeibler$"
)


def test_everything_is_called():
    called = {
        getattr(call, "func", call) for call, _ in (*calls().values(), *more_calls().values())
    }
    names = {
        name
        for name, value in exports().items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and not (inspect.isclass(value) and issubclass(value, BaseException))
        and not name.startswith("fairtk_papers.")
        and value not in called
        and name not in more_calls()
        and not NOT_CALLED.match(name)
    }
    assert names == set(), "add a valid call to more_calls"
