"""Results in the forms of others: TREC's files with ir_metadata, records of Every Eval Ever, runs
of MLflow.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import ir_datasets
import numpy as np

from fairtk import checks
from fairtk.errors import DataWarning, MissingExtraError, StoreError
from fairtk.frames import DOCNO, LABEL, QID, SCORE
from fairtk.io import atomic_text, write_qrels, write_run
from fairtk.report import mean_intervals, value_bounds

if TYPE_CHECKING:
    from fairtk.experiment.results import Results


def write_trec(results: Results, folder: Path) -> list[Path]:
    """Write run files, each with its ir_metadata, and qrels; see `Results.to_trec`."""
    files: list[Path] = []
    names = fitting(results.systems, r"[^\w.+-]+", "-")
    with _made(folder):
        for system, name in names.items():
            rows = results.rankings(system)
            lacking = [c for c in (QID, DOCNO, SCORE) if c not in rows.columns]
            if lacking:
                warnings.warn(
                    f"system {system!r} has no ranking (no column {lacking[0]!r}), so that no run "
                    "file is written of it; results.save keeps all that it has",
                    DataWarning,
                    stacklevel=4,
                )
                continue
            files += [folder / f"{name}.run", folder / f"{name}.ir-metadata.yml"]
            write_run(rows, files[-2], tag=name)
            _write(files[-1], ir_metadata(results, system, {"tag": name}))
        qrels = results.qrels
        if qrels is not None and {QID, DOCNO, LABEL} <= {*qrels.columns}:
            files.append(folder / "qrels.txt")
            write_qrels(qrels[[QID, DOCNO, LABEL]], files[-1])
    return files


def ir_metadata(results: Results, system: str, more: Mapping[str, Any] | None = None) -> str:
    """Return what is known of a run as ir_metadata has it; see `Results.to_ir_metadata`."""
    config, environment = results.config, results.environment
    name, _, processor = str(environment.get("platform", "")).partition(" ")
    packages: Mapping[str, str] = environment.get("packages", {})
    evaluation: dict[str, Any] = {"reported measures": results.measures}
    if results.baseline is not None:
        evaluation["baseline"] = [results.baseline]
    goal = {"research goal": {"evaluation": evaluation}} if results.measures else {}
    components: dict[str, Any] = {
        "tag": system,
        "platform": {
            "hardware": {"cpu": {"architecture": processor}},
            "operating system": {"kernel": name},
            "software": {
                "libraries": {"python": [f"{p}=={v}" for p, v in packages.items()]},
                "retrieval toolkit": [f"{p}=={packages[p]}" for p in _TOOLKITS if p in packages],
            },
        },
        "implementation": {"source": {"lang": ["Python"]}},
        **goal,
        "method": {"automatic": True, "retrieval": list(_retrieval(results, system))},
    }
    if config.get("command"):
        components["implementation"]["executable"] = {"cmd": config["command"]}
    if config.get("dataset"):
        collection = {"name": config["dataset"], "ir_datasets": config["dataset"]}
        components["data"] = {"test collection": collection}
    yaml: Any = ir_datasets.lazy_libs.yaml()
    text = yaml.safe_dump({**components, **(more or {})}, sort_keys=False, allow_unicode=True)
    return str(text)


_TOOLKITS = ("pyterrier", "pyterrier-pisa", "fairtk")


def _retrieval(results: Results, system: str) -> Iterator[dict[str, Any]]:
    """Yield the stages of a system; each but the first ranks anew what the one before gave."""
    before = None
    for number, name, stage in _stages(results, system):
        entry = {"name": f"{number} {name}", **{k: v for k, v in stage.items() if _is_plain(v)}}
        entry["method"] = entry.pop("class", name)
        yield entry if before is None else {**entry, "reranks": before}
        before = entry["name"]


def _stages(results: Results, system: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield number, name and settings of the stages of a system of which something is known."""
    for number, stage in enumerate(results.config.get("stages", {}).get(system, []), 1):
        if stage:
            name = stage.get("identified") or str(stage.get("class", "stage")).rpartition(".")[2]
            yield number, str(name), stage


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


EVERY_EVAL_EVER = "0.2.1"
"""The version of the schema that records are written by."""


def every_eval_ever(
    results: Results, system: str, organization: str, relationship: str
) -> dict[str, Any]:
    """Return a system's means as a record; see `Results.to_every_eval_ever`."""
    checks.choice("relationship", relationship, _RELATIONSHIPS, "to_every_eval_ever")
    config, environment = results.config, results.environment
    about = {key: config[key] for key in ("dataset", "license", "title") if config.get(key)}
    data = str(next((config[k] for k in ("dataset", "data", "title") if config.get(k)), _UNKNOWN))
    counts = results.counts
    own = counts[counts["system"] == system]
    values = dict(iter(results.per_query[results.per_query["system"] == system].groupby("measure")))
    entries = []
    for row in own.itertuples(index=False):
        if math.isnan(row.mean):
            warnings.warn(
                f"{row.measure} of system {system!r} is undefined for every query, so that the "
                "record has no score of it",
                DataWarning,
                stacklevel=3,
            )
            continue
        numbers = values[row.measure]["value"].dropna().to_numpy(dtype=np.float64)
        low, high = value_bounds(row.measure)
        bounded = math.isfinite(low) and math.isfinite(high)
        ends = (low, high) if bounded else (numbers.min(), numbers.max())
        range_of = "of the measure" if bounded else "of the values: the measure has none"
        entries.append(
            {
                "evaluation_name": row.measure,
                "source_data": {
                    "dataset_name": data,
                    "source_type": "other",
                    "additional_details": {k: str(v) for k, v in about.items()},
                },
                "metric_config": {
                    "evaluation_description": f"fairtk.measures.parse({row.measure!r})",
                    "lower_is_better": results.better(row.measure) == "lower",
                    "score_type": "continuous",
                    "min_score": float(ends[0]),
                    "max_score": float(ends[1]),
                    "additional_details": {"range": range_of},
                },
                "score_details": {
                    "score": float(row.mean),
                    "uncertainty": _uncertainty(float(row.mean), numbers),
                    "details": {n: str(getattr(row, n)) for n in ("n", "undefined", "failed")},
                },
            }
        )
    now = str(int(time.time()))
    record = {
        "schema_version": EVERY_EVAL_EVER,
        "evaluation_id": f"{data}/{system}/{now}",
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "fairtk",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": relationship,
        },
        "eval_library": {
            "name": "fairtk",
            "version": str(environment.get("fairtk", "unknown")),
            "additional_details": {k: str(v) for k, v in environment.get("packages", {}).items()},
        },
        "model_info": {
            "name": system,
            "id": system,
            "additional_details": {"pipeline": str(config.get("systems", {}).get(system, system))},
        },
        "evaluation_results": entries,
    }
    if "time" in environment:
        record["evaluation_timestamp"] = str(environment["time"])
    return record


_RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_UNKNOWN = "not stated"


def _uncertainty(mean: float, values: Any) -> dict[str, Any]:
    """Return what the spread over queries says of a mean; of another aggregate their number."""
    spread: dict[str, Any] = {"num_samples": len(values)}
    if len(values) > 1 and math.isclose(mean, values.mean(), rel_tol=1e-9, abs_tol=1e-12):
        deviation = float(values.std(ddof=1))
        error = {"value": deviation / math.sqrt(len(values)), "method": "analytic"}
        ends = [float(end[0]) for end in mean_intervals(values[None])]
        interval = {"lower": ends[0], "upper": ends[1], "confidence_level": 0.95, "method": "t"}
        spread |= {"standard_deviation": deviation, "standard_error": error}
        spread["confidence_interval"] = interval
    return spread


def write_every_eval_ever(results: Results, folder: Path) -> list[Path]:
    """Write the record of each system to a file of its own."""
    files = []
    with _made(folder):
        for system, name in fitting(results.systems, r"[^\w.+-]+", "-").items():
            files.append(folder / f"{name}.json")
            record = results.to_every_eval_ever(system)
            _write(files[-1], json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return files


def log_to_mlflow(
    results: Results,
    experiment: str,
    tracking_uri: str | PathLike[str] | None,
    name: str | None,
) -> str:
    """Log results as a run of MLflow with one below it per system; see `Results.log_to_mlflow`."""
    config, environment = results.config, results.environment
    with _client(tracking_uri) as client:
        there = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if there is None else there.experiment_id
        title = name or str(config.get("title") or "fairtk results")

        def begun(run_name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> str:
            run = client.create_run(place, run_name=run_name, tags={**tags})
            for key, value in params.items():
                client.log_param(run.info.run_id, key, str(value)[:_LONGEST])
            return str(run.info.run_id)

        facts = {k: v for k, v in {**environment, **config}.items() if _is_plain(v)}
        parent = begun(title, {**facts, "baseline": results.baseline}, {"fairtk": "results"})
        metrics = fitting(results.measures, r"[^\w.-]+", "_")
        means = results.means
        for system in results.systems:
            settings = {
                f"{number}.{stage}.{key}": value
                for number, stage, values in _stages(results, system)
                for key, value in values.items()
                if _is_plain(value)
            }
            keys = fitting(settings, r"[^\w. -]+", "_")
            own = begun(
                system,
                {keys[key]: value for key, value in settings.items()},
                {
                    "mlflow.parentRunId": parent,
                    "fairtk.system": system,
                    **{f"fairtk.measure.{key}": label for label, key in metrics.items()},
                },
            )
            for label, key in metrics.items():
                if not math.isnan(means.loc[system, label]):  # undefined for every query
                    client.log_metric(own, key, float(means.loc[system, label]))
            client.set_terminated(own)
        with tempfile.TemporaryDirectory() as scratch:
            results.save(scratch)
            client.log_artifacts(parent, scratch, "results")
        client.set_terminated(parent)
    return parent


_LONGEST = 500  # characters of a parameter, of old servers, too
_ALLOW = "MLFLOW_ALLOW_FILE_STORE"


@contextlib.contextmanager
def _client(tracking_uri: str | PathLike[str] | None) -> Iterator[Any]:
    """Give a client of MLflow; a folder, which newer versions open only if told so, is a store."""
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise MissingExtraError("mlflow", "mlflow", "Results.log_to_mlflow") from error
    address = None if tracking_uri is None else os.fspath(tracking_uri)
    scheme = "" if address is None else urlsplit(address).scheme
    if address is not None and len(scheme) < 2:  # a drive of Windows is no scheme
        address, scheme = Path(address).resolve().as_uri(), "file"
    before = os.environ.get(_ALLOW)
    if scheme == "file":
        os.environ[_ALLOW] = "true"
    try:
        yield MlflowClient(tracking_uri=address)
    finally:
        if before is not None:
            os.environ[_ALLOW] = before
        elif scheme == "file":
            del os.environ[_ALLOW]


def fitting(names: Iterable[str], odd: str, instead: str) -> dict[str, str]:
    """Return other names, by name, without what a pattern matches; no two are alike in any case."""
    fit: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        base = re.sub(odd, instead, name).strip(f"{instead}.")[:150] or "unnamed"
        new, number = base, 2
        while new.casefold() in taken:
            new, number = f"{base}{instead}{number}", number + 1
        taken.add(new.casefold())
        fit[name] = new
    return fit


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder for files; what keeps them from being written is said in one line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StoreError(
            f"{folder}: the files cannot be written ({error.strerror or error}); give a folder "
            "that can be written to and has room"
        ) from error


def returned(text: str, path: str | PathLike[str] | None) -> str | None:
    """Return a text, or write it to a file and return nothing, as pandas does."""
    if path is None:
        return text
    _write(Path(path), text)
    return None


def _write(path: Path, text: str) -> None:
    with atomic_text(path) as stream:
        stream.write(text)
