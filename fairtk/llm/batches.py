"""Answers to prompts in files: read from batch APIs and ``vllm run-batch``; files submitted."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

import pandas as pd

from fairtk import checks
from fairtk.errors import (
    DataWarning,
    FormatError,
    InputError,
    MissingExtraError,
    ParameterError,
    advice,
)
from fairtk.io import atomic_write, locked
from fairtk.llm.batch_files import (
    FAILED,
    MANIFEST,
    OUT,
    RATE,
    Place,
    Written,
    begin_batches,
    count_out,
    index_batch,
    read_manifest,
    recount,
    write_prompts,
)
from fairtk.llm.chat import Chat, Completion, LLMError, Message, Row
from fairtk.llm.ledger import Ledger
from fairtk.llm.replies import (
    SHORTEST_KEY,
    AnswerLine,
    answer_lines,
    byte_lines,
    detail,
    headers_of,
    is_model,
    json_object,
    keyless,
    line_digest,
    one_line,
    told_of,
    without_keys,
)
from fairtk.llm.server import OpenAICompatible

STATUS = ["round", "file", "model", "prompts", "answered", "failed", "out", "job", "status"]
KINDS = (
    *("taken", "unusable", "there", "duplicate", "error", "unknown", "other model", "edited"),
    *("broken", "cut", "empty"),
)
"""Of lines of answers; see `Reading`."""

ANSWERS = "answers"
"""In a batch's folder: the folder of what was fetched."""

TIMEOUT, UPLOAD = 45.0, 600.0
"""Seconds that a server may say nothing; after a file was sent, which it may look through."""

_TOGETHER = 500  # lines of answers that are committed together
_NAMED = 1000  # problems of a kind that are named


@dataclass
class Reading:
    """What `Batches.read` made of files.

    Attributes:
        counts: lines by what they are. ``taken``: answers that are in the ledger now; ``unusable``
            of these: refused, cut off at the most tokens, or no text; ``there``: read earlier;
            ``duplicate``: a second answer; ``error``: the prompt failed, and may be written again;
            ``unknown``: an id of no prompt of this batch; ``other model``: answered by another;
            ``edited``: the prompt's line in the folder is no longer what was written; ``broken``:
            no answer at all; ``cut``: the last line is not whole; ``empty``: files of 0 bytes.
        problems: what is wrong with lines, file and line first, of each kind up to 1,000.
        price: what the answers cost, at batch rates; NaN: unknown.
        out: prompts of the batch that have no answer yet.
        foreign: files with no line that answers a prompt of the batch.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    problems: dict[str, list[str]] = field(default_factory=dict)
    price: float = 0.0
    out: int = 0
    foreign: list[Path] = field(default_factory=list)

    def add(self, kind: str, line: AnswerLine | None = None, reason: str = "") -> None:
        """Count a line; name it, if there is a reason."""
        self.counts[kind] += 1
        texts = self.problems.setdefault(kind, []) if reason else []
        if reason and len(texts) < _NAMED:
            place = "" if line is None else f"{line.path}:{line.number}: "
            name = "" if line is None or not line.key else f"{line.key}: "
            texts.append(f"{place}{one_line(name + reason, 300)}")


class Batches:
    """Prompts in files for others to answer, and their answers, of one ledger.

        batches = Batches(ledger)
        batches.write(lambda: fairtk.Experiment(systems, ..., save_dir="study"), "prompts")
        ...  # a batch API, or vllm run-batch
        batches.read("prompts", ["answers.jsonl"])

    What is missing is claimed in the ledger when it is written, with what it may cost, and paid for
    when its answer is read. While it is out nobody else asks for it: work that needs it ends with a
    `DeferredError` after all else is done. Nothing is lost or taken twice when a process dies.

    Args:
        ledger: of the models; its limits and prices count.
        rate: what a call costs in a batch, as a share of its price; 0.5 is OpenAI's.

    Raises:
        ParameterError: the rate is negative or no number, or the ledger is offline.
    """

    def __init__(self, ledger: Ledger, rate: float = RATE) -> None:
        if ledger.offline:
            raise ParameterError("Batches needs a ledger that may be written, without offline=True")
        self.ledger = ledger
        self.rate = checks.number("rate", rate, "Batches", rule="be finite and not negative")

    def write(self, work: Callable[[], Any], folder: Place, command: str = "") -> Written:
        """Write the prompts that are missing as JSON lines of OpenAI's batch API.

        The work is done as far as recorded answers go: what it can keep is kept, models of servers
        are not asked, and those of this machine are. Prompts that depend on answers come to light
        when these were read, and are written by another call, also to the same folder: a round.
        Files have at most 50,000 lines and 200 MB, and prompts of one model; `MANIFEST` lists them.
        A call that is killed leaves nothing behind that counts.

        Args:
            work: what asks models behind the ledger: a function without arguments that runs a
                study or `fairtk.Experiment`.
            folder: where files go; made when it is not there.
            command: that goes on when answers are read, for `fairtk prompts status`.

        Raises:
            ParameterError: a model is behind another ledger.
            InputError: the folder has prompts of another ledger.
        """
        return write_prompts(work, folder, self.ledger, self.rate, command)

    def read(self, folder: Place, files: Iterable[Place], models: Sequence[str] = ()) -> Reading:
        """Take answers from files of OpenAI's batch API or of ``vllm run-batch``, in any order.

        What is there stays; reading again, or after a kill, takes what is left.

        Args:
            folder: of the prompts.
            files: output and error files.
            models: other names of the models that answered. Without: a name that was asked for,
                or a version of it, such as ``gpt-4o-2024-08-06`` of ``gpt-4o``.

        Raises:
            InputError: there is no batch in the folder, or a file is not there.
        """
        paths = [Path(file) for file in files]
        for path in paths:
            if not path.is_file():
                raise InputError(f"{path}: there is no such file of answers")
        with self._opened(folder) as (place, manifest):
            return self._read(place, manifest, paths, models)

    def status(self, folder: Place) -> pd.DataFrame:
        """Return what became of each file of prompts.

        Columns: ``round``, ``file``, ``model``, ``prompts``, ``answered``, ``failed`` (to be
        written again), ``out``, and of the server that it was submitted to ``job`` and ``status``.

        Raises:
            InputError: there is no batch in the folder.
        """
        with self._opened(folder) as (_, manifest):
            return self._status(manifest)

    def drop(self, folder: Place) -> int:
        """Give up what is out in a folder, which may be gone; return how many prompts it was.

        They may be asked, or written, again. What a server still answers is paid for, and its
        answers can be read.
        """
        place = Path(folder).absolute()
        begin_batches(self.ledger)
        manifest = read_manifest(place) if (place / MANIFEST).exists() else {"batch": ""}

        def write(database: sqlite3.Connection) -> int:
            which = "SELECT batch FROM batches WHERE folder = ? OR batch = ?"
            count = 0
            for (batch,) in database.execute(which, (str(place), manifest["batch"])).fetchall():
                lost = "UPDATE batched SET state = -1 WHERE batch = ? AND state = 0"
                count += database.execute(lost, (batch,)).rowcount
                recount(database, batch)
            return count

        return self.ledger.store.file.write(write)

    # Reading ------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, folder: Place) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Give a folder that nobody else uses, with its manifest."""
        place = Path(folder).absolute()
        read_manifest(place)
        with locked(place):
            manifest = read_manifest(place)
            index_batch(self.ledger, place, manifest)
            yield place, manifest

    def _status(self, manifest: Mapping[str, Any]) -> pd.DataFrame:
        read, batch = self.ledger.store.file.read, manifest["batch"]
        counts = "SELECT file, total(state > 0), total(state = 0) FROM batched WHERE batch = ? "
        states = {name: states for name, *states in read(f"{counts} GROUP BY file", (batch,))}
        jobs = self._jobs(batch)
        rows = []
        for file in manifest["files"]:
            answered, out = map(int, states.get(file["name"], (0, 0)))
            job = jobs.get(file["name"])
            model = manifest["models"][file["model"]]["name"]
            counted = [file["lines"], answered, file["lines"] - answered - out, out]
            shown = [job.job, job.status] if job else ["", ""]
            rows.append([file["round"], file["name"], model, *counted, *shown])
        return pd.DataFrame(rows, columns=STATUS)

    def _read(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        paths: Sequence[Path],
        models: Sequence[str] = (),
        server: Mapping[str, Any] | None = None,
    ) -> Reading:
        reading, number = Reading(), secrets.randbits(62) | 2
        keys, repeated = _keys(manifest, server), 0
        for path in paths:
            if not path.stat().st_size:
                reading.add("empty", None, f"{path}: the file is empty")
            some: list[AnswerLine] = []
            lines, strange = 0, _strange(reading)
            for answer in answer_lines(path):
                lines += 1
                if answer.kind in ("broken", "cut"):
                    reading.add(answer.kind, answer, answer.reason)
                    continue
                some.append(_without_keys(answer, keys))
                text = answer.answer.text if answer.answer is not None else ""
                repeated += any(len(key) >= SHORTEST_KEY and key in text for key in keys)
                if len(some) == _TOGETHER:
                    self._take(folder, manifest, some, number, models, reading)
                    some = []
            self._take(folder, manifest, some, number, models, reading)
            if path.stat().st_size and _strange(reading) - strange == lines:
                reading.foreign.append(path)
        if repeated:
            _warn_of_keys(repeated)
        reading.out = int(self._status(manifest)["out"].sum())
        return reading

    def _take(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        answers: Sequence[AnswerLine],
        number: int,
        models: Sequence[str],
        reading: Reading,
    ) -> None:
        """Commit some answers with what they cost, all or none; a reading has a number."""
        files = {file["name"]: file for file in manifest["files"]}
        batch, ledger = manifest["batch"], self.ledger

        def write(database: sqlite3.Connection) -> list[tuple[Any, ...]]:
            told: list[tuple[Any, ...]] = []
            which = "SELECT file, start, line, price, state FROM batched WHERE batch=? AND key=?"
            seen = "SELECT 1 FROM settled WHERE batch = ? AND line = ?"
            settle = "INSERT OR IGNORE INTO settled VALUES (?, ?)"
            for one in answers:
                row = database.execute(which, (batch, one.key)).fetchone()
                if row is None:
                    told.append(("unknown", one, "no prompt of this batch has this id"))
                    continue
                name, start, line, most, state = row
                if name not in files:
                    told.append(("edited", one, f"its file {name} is not in {MANIFEST}"))
                    continue
                model = manifest["models"][files[name]["model"]]
                known = (batch, one.digest)
                if state == OUT and database.execute(seen, known).fetchone():
                    told.append(("there", one, ""))  # of an earlier round, and not of this one
                    continue
                if state > 0:
                    there = "duplicate" if state == number else "there"
                    repeats = "the prompt was answered before in these files"
                    told.append((there, one, repeats if state == number else ""))
                    database.execute(settle, known)
                elif one.answer is None:
                    told.append(("error", one, one.reason))
                    _settle(database, batch, one.key, state, FAILED, most)
                    database.execute(settle, known)
                elif not is_model(one.model, model["name"], models):
                    told.append(
                        ("other model", one, f"asked was {model['name']!r}, not {one.model!r}")
                    )
                else:
                    chat = _chat(folder / name, start, line)
                    if chat is None:
                        place = f"its line in {name} is not what was written"
                        told.append(("edited", one, f"{place}, and nobody knows what was asked"))
                        continue
                    about = (model["name"], model["parameters"])
                    kept = ledger.row(one.key, *about, chat, one.answer)
                    price = _price(one.answer, model["prices"], files[name]["rate"], most)
                    if not _is_kept(database, one.key):
                        ledger.store.insert(database, [kept])
                    ledger.claims.note(database, kept, price)
                    _settle(database, batch, one.key, state, number, most)
                    database.execute(settle, known)
                    why = "" if one.answer.usable else f"no use: {one.answer.finish}"
                    told.append(("taken", one, "", kept, price, why))
            return told

        if not answers:
            return
        for kind, one, reason, *paid in ledger.store.file.write(write):
            reading.add(kind, one, reason)
            if paid:
                kept, price, why = paid
                assert isinstance(kept, Row)
                cost = math.nan if price is None else price
                ledger.budget.count(kept.completion, cost)
                reading.price += cost
                if why:
                    reading.add("unusable", one, why)

    # Submitting ---------------------------------------------------------------------------------

    def submit(self, folder: Place, server: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Give files to OpenAI's batch API, through its client; return `status`.

        Each file once, less what is answered: what a server took is in the ledger, and what was
        under way when a process died is looked up there, so that nothing is paid for twice. A file
        that a server refused as a whole is submitted again.

        Args:
            folder: of the prompts.
            server: ``base_url`` and ``api_key_env`` in place of the model's.

        Raises:
            InputError: all files are submitted.
            FormatError: a file is not as it was written.
            LLMError: the server cannot be reached, or refuses.
        """
        with self._opened(folder) as (place, manifest):
            jobs, out = self._jobs(manifest["batch"]), self._status(manifest)
            waiting = dict(zip(out["file"], out["out"], strict=True))
            left = [
                file
                for file in manifest["files"]
                if waiting[file["name"]] and not _is_submitted(jobs.get(file["name"]))
            ]
            if not left:
                raise InputError(
                    f"{folder}: nothing is left to submit: {len(jobs)} files are submitted, and "
                    f"would be paid for twice; {advice('poll', 'fairtk prompts poll')} says how "
                    "they stand"
                )
            for file in left:
                if _sha256(place / file["name"]) != file["sha256"]:
                    raise FormatError(
                        "the file is not what was written: write its prompts anew, after "
                        + advice("drop", "fairtk prompts drop"),
                        place / file["name"],
                    )
                model = manifest["models"][file["model"]]
                with _client({**model, **(server or {})}) as client:
                    self._submit(client, place, manifest["batch"], file["name"], model["url"])
            return self._status(manifest)

    def _submit(self, client: Any, folder: Path, batch: str, name: str, url: str) -> None:
        job = self._jobs(batch).get(name)
        if job is None or job.status == "failed":
            job = _Job(name, "", "", "", "", "")
        if not job.upload:
            file = (name, self._asked(folder / name, batch))
            files = client.with_options(timeout=UPLOAD).files
            job = job._replace(upload=files.create(file=file, purpose="batch").id)
            self._note(batch, job)
        taken = None
        if job.step == "creating":  # by a process that ended: the server may have it
            jobs = client.batches.list(limit=100)
            taken = next((one for one in jobs if one.input_file_id == job.upload), None)
        job = job._replace(step="creating")
        self._note(batch, job)
        if taken is None:
            taken = client.with_options(max_retries=0).batches.create(
                input_file_id=job.upload,
                endpoint=url,
                completion_window="24h",
                metadata={"fairtk": f"{batch}/{name}"},
            )
        self._note(batch, job._replace(step="created", job=taken.id, status=taken.status))

    def _asked(self, path: Path, batch: str) -> bytes:
        """Return the lines of a file whose prompts have no answer yet."""
        out = "SELECT key FROM batched WHERE batch = ? AND file = ? AND state = 0"
        keys = {key for (key,) in self.ledger.store.file.read(out, (batch, path.name))}
        return b"".join(x for x in byte_lines(path) if json_object(x).get("custom_id") in keys)

    def poll(self, folder: Place, server: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Ask the server how files stand that were submitted; return `status`.

        Raises:
            InputError: nothing is submitted.
            LLMError: the server cannot be reached, or refuses.
        """
        with self._opened(folder) as (_, manifest):
            self._poll(manifest, server)
            return self._status(manifest)

    def _poll(self, manifest: Mapping[str, Any], server: Mapping[str, Any] | None) -> None:
        jobs = self._jobs(manifest["batch"])
        if not any(job.job for job in jobs.values()):
            way = advice("submit", "fairtk prompts submit")
            raise InputError(f"nothing of this batch is submitted: {way} does it")
        for file in manifest["files"]:
            job = jobs.get(file["name"])
            if job is not None and job.job and job.status not in _FINAL:
                with _client({**manifest["models"][file["model"]], **(server or {})}) as client:
                    one = client.batches.retrieve(job.job)
                told = {
                    "output": one.output_file_id or "",
                    "errors": one.error_file_id or "",
                    "answers": one.request_counts.completed if one.request_counts else None,
                    "reason": told_of(one.errors.data[0].to_dict())
                    if one.errors and one.errors.data
                    else "",
                }
                self._note(
                    manifest["batch"], job._replace(status=one.status, told=json.dumps(told))
                )

    def fetch(self, folder: Place, server: Mapping[str, Any] | None = None) -> Reading:
        """Take the answers of files that the server has finished; see `poll` and `read`.

        They are downloaded once, to the folder ``answers`` beside the prompts. What a job that
        ended, expired or was canceled has no answer to may be written again.

        Raises:
            InputError: nothing is submitted.
            LLMError: the server cannot be reached, or refuses.
        """
        with self._opened(folder) as (place, manifest):
            self._poll(manifest, server)
            jobs, paths, short = self._jobs(manifest["batch"]), [], dict[Path, str]()
            for file in manifest["files"]:
                job = jobs.get(file["name"])
                told = json.loads(job.told) if job is not None and job.told else {}
                for kind in ("output", "errors"):
                    if job is None or not told.get(kind) or job.status not in _FINAL:
                        continue
                    path = place / ANSWERS / f"{Path(job.file).stem}-{job.job}.{kind}.jsonl"
                    path.parent.mkdir(exist_ok=True)
                    if not path.exists():
                        model = manifest["models"][file["model"]]
                        with (
                            _client({**model, **(server or {})}) as client,
                            atomic_write(path) as p,
                        ):
                            get = client.files.with_streaming_response.content
                            with get(told[kind]) as reply:
                                reply.stream_to_file(p)
                            _hide(p, _keys(manifest, server))
                    paths.append(path)
                    count = sum(1 for line in byte_lines(path) if line.strip())
                    due = told.get("answers")
                    due = 1 if due is None else due
                    if kind == "output" and count < due:
                        short[path] = (
                            f"{count} of {due} answers came: fetch again, or give up the rest"
                        )
            reading = self._read(place, manifest, paths, server=server)
            for path, reason in short.items():  # what was paid is at the server still
                reading.add("cut", None, f"{path}: {reason}")
                path.unlink()
            if not any(reading.counts[kind] for kind in _ODD):
                ended = [j.file for j in jobs.values() if j.status in _FINAL[1:] and j.job]
                reading.out -= self._free(manifest["batch"], ended)
            return reading

    def _free(self, batch: str, files: Sequence[str]) -> int:
        """Free prompts that jobs which ended passed over; return how many."""
        lost = "UPDATE batched SET state = -1 WHERE batch = ? AND file = ? AND state = 0"

        def write(database: sqlite3.Connection) -> int:
            count = sum(database.execute(lost, (batch, file)).rowcount for file in files)
            recount(database, batch)
            return count

        return self.ledger.store.file.write(write)

    def _jobs(self, batch: str) -> dict[str, _Job]:
        """Return what servers have of a batch, by file."""
        rows = self.ledger.store.file.read(
            "SELECT file, step, upload, job, status, told FROM submissions WHERE batch = ?",
            (batch,),
        )
        return {row[0]: _Job(*row) for row in rows}

    def _note(self, batch: str, job: _Job) -> None:
        self.ledger.store.file.write(
            lambda database: database.execute(
                "INSERT OR REPLACE INTO submissions VALUES (?,?,?,?,?,?,?)", (batch, *job)
            )
        )


class _Job(NamedTuple):
    """What a server has of a file; see `BATCH_TABLES`."""

    file: str
    step: str
    upload: str
    job: str
    status: str
    told: str


_FINAL = ("failed", "completed", "expired", "cancelled")  # the first of them ran nothing


def _strange(reading: Reading) -> int:
    """Return how many lines belong to no prompt of the batch."""
    return sum(reading.counts[kind] for kind in ("unknown", "broken", "cut"))


_ODD = ("other model", "edited", "broken", "cut")  # lines that may be paid for, and are not taken


def _is_submitted(job: _Job | None) -> bool:
    return job is not None and bool(job.job) and job.status != "failed"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"the file cannot be read ({error.strerror})", path) from None


@contextmanager
def _client(model: Mapping[str, Any]) -> Iterator[Any]:
    """Give a client of a model's server; its errors become ours, without the key."""
    try:
        import openai
    except ImportError:
        raise MissingExtraError("openai", "llm", "submitting prompts") from None
    name, base_url, variable = model["name"], model["base_url"], model["api_key_env"]
    base_url = base_url[0] if isinstance(base_url, list) else base_url  # of several the first
    server = OpenAICompatible(name, base_url=base_url, api_key_env=variable)
    key = os.environ.get(variable or "", "").strip()
    if variable and not key:
        raise ParameterError(
            f"submitting prompts needs an API key in the environment variable {variable!r}, which "
            "is not set: export it, or name another one with "
            + advice("server={'api_key_env': ...}", "--api-key-env")
        )
    url = server.urls[0]
    try:
        # a redirect would carry prompts to a host that nobody named
        http = openai.DefaultHttpxClient(base_url=url, follow_redirects=False)
        options: dict[str, Any] = {"base_url": url, "http_client": http, "timeout": TIMEOUT}
        with closing(openai.OpenAI(api_key=key or "none", max_retries=1, **options)) as client:
            yield client
    except openai.OpenAIError as error:
        status = getattr(error, "status_code", None)
        text = one_line(without_keys(detail(error), key))
        if isinstance(status, int) and 300 <= status < 400:
            place = urljoin(f"{url}/", headers_of(error).get("location", ""))
            raise LLMError(
                f"the server {url} redirects calls to {one_line(without_keys(place, key))} (status "
                f"{status}), where prompts and the key are not sent: give the address that answers "
                f"as {advice('base_url', '--base-url')}"
            ) from None
        what = f"status {status}: {text}" if status else text
        raise LLMError(f"the server {server.urls[0]} did not do it ({what}); run again") from None


def _keys(manifest: Mapping[str, Any], server: Mapping[str, Any] | None) -> set[str]:
    """Return the keys of a batch's servers, as far as they are set."""
    names = {model["api_key_env"] for model in manifest["models"]}
    names |= {(server or {}).get("api_key_env")}
    return {key for name in names if (key := os.environ.get(name or "", "").strip())}


def _without_keys(line: AnswerLine, keys: Iterable[str]) -> AnswerLine:
    """Return a line without keys, which a server may repeat."""
    answer, reason = line.answer, line.reason
    for key in keys or ("",):
        answer = None if answer is None else keyless(answer, key)
        reason = without_keys(reason, key)
    return line._replace(answer=answer, reason=reason)


def _hide(path: Path, keys: Iterable[str]) -> None:
    """Take keys out of a file that a server sent."""
    hidden = [key.encode() for key in keys if len(key) >= SHORTEST_KEY]
    count = sum(any(key in line for key in hidden) for line in byte_lines(path))
    if not count:
        return
    with atomic_write(path) as part, part.open("wb") as stream:
        for line in byte_lines(path):
            for key in hidden:
                line = line.replace(key, b"<hidden>")
            stream.write(line)
    _warn_of_keys(count)


def _warn_of_keys(count: int) -> None:
    text = f"{count} answers repeat the API key; <hidden> stands in its place"
    warnings.warn(text, DataWarning, stacklevel=4)


def _settle(
    database: sqlite3.Connection, batch: str, key: str, before: int, state: int, most: float
) -> None:
    """Note what became of a prompt, which is out no more."""
    change = "UPDATE batched SET state = ? WHERE batch = ? AND key = ?"
    database.execute(change, (state, batch, key))
    if before == OUT:
        count_out(database, batch, -1, -most)


def _is_kept(database: sqlite3.Connection, key: str) -> bool:
    """Return whether there is an answer of use, which stays."""
    row = database.execute("SELECT unusable FROM answers WHERE key = ?", (key,)).fetchone()
    return row is not None and not row[0]


def _chat(path: Path, start: int, digest: str) -> Chat | None:
    """Return the chat of a line of prompts; None: the line is not what was written."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            line = stream.readline()
    except OSError as error:
        raise FormatError(f"the prompts cannot be read ({error.strerror})", path) from None
    if line_digest(line) != digest:
        return None
    body = json_object(line)["body"]
    messages = body.get("messages") or [{"role": "user", "content": body.get("prompt", "")}]
    return Chat(tuple(Message(one["role"], one["content"]) for one in messages))


def _price(
    answer: Completion, prices: Sequence[float] | None, rate: float, most: float
) -> float | None:
    """Return the price of an answer; the most that it can cost where that is not to be known."""
    counts = (answer.prompt_tokens, answer.completion_tokens)
    if prices is None or None in counts:
        return most or None
    return rate * sum(p * (n or 0) for p, n in zip(prices, counts, strict=True)) / 1e6
