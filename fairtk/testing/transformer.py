"""Contracts of transformers and scorers."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk import stage_context
from fairtk.errors import FairtkError, InputError
from fairtk.frames import DOCNO, QID, RANK, SCORE, Run, digest
from fairtk.remarks import StageRemark
from fairtk.settings import Configurable, names_of_settings, remade
from fairtk.testing.toys import check_frames, snapshot, toy_run, toy_samples, with_other_indexes
from fairtk.transformers import FairTransformer


class TransformerContract:
    """Tests of a transformer; subclass it and define `make`.

    Attributes:
        per_query: whether the rows of a query depend only on the query's own input, so that batches
            may be split between queries.
    """

    per_query: bool = True
    fitted: Sequence[str] = ()
    """The names in ``SETTINGS`` that are no arguments, because ``fit`` sets them."""

    def make(self) -> Any:
        """Return a new transformer under test."""
        raise NotImplementedError(f"{type(self).__name__} must define make()")

    def others(self) -> Sequence[Any]:
        """Return transformers with other settings, all different from each other and `make`."""
        return ()

    def other_values(self) -> Mapping[str, Any]:
        """Return a value of each setting that differs from that of `make`.

        Numbers, booleans and settings in which one of `others` differs need no entry. Give a value
        that is refused to a setting that cannot be changed alone.
        """
        return {}

    def new(self, **settings: Any) -> Any:
        """Return a new transformer: that of `make`, with other settings."""
        return remade(self.make(), **settings)

    def inp(self) -> pd.DataFrame:
        """Return an input frame with several queries."""
        return toy_run()

    def _name(self) -> str:
        return type(self.make()).__name__

    # Frames ------------------------------------------------------------------------------------

    def test_input_stays_as_it_is(self) -> None:
        """``transform`` does not change its input, and its output can be changed freely."""
        inp = self.inp()
        before = snapshot(inp)
        out = self.make().transform(inp)
        assert snapshot(inp) == before, f"{self._name()} changes its input"
        assert out is not inp, f"{self._name()} returns its input frame, not a new one"
        for column in out.columns:
            out[column] = None
        assert snapshot(inp) == before, f"{self._name()} shares data between input and output"

    def test_empty_frame_has_the_output_columns(self) -> None:
        """An empty input gives no rows, and the usual columns."""
        columns = list(self.make().transform(self.inp()).columns)
        untyped = pd.DataFrame([], columns=self.inp().columns)
        for empty in (self.inp()[:0], untyped):
            out = self.make().transform(empty)
            assert len(out) == 0, f"{self._name()} returns {len(out)} rows for an empty frame"
            assert list(out.columns) == columns, (
                f"{self._name()} returns the columns {list(out.columns)} for an empty frame, but "
                f"{columns} otherwise"
            )

    def test_rankings_are_in_order(self) -> None:
        """Scores are finite and agree with ranks; no document or rank occurs twice."""
        out = self.make().transform(self.inp())
        if {QID, DOCNO, SCORE} <= set(out.columns):
            try:
                Run(out, self._name()).checked()
            except InputError as error:
                raise AssertionError(f"{self._name()} returns an invalid run: {error}") from error

    def test_output_has_no_other_queries(self) -> None:
        """Only queries of the input occur in the output."""
        out = self.make().transform(self.inp())
        new = set(out[QID]) - set(self.inp()[QID])
        assert not new, f"{self._name()} returns rows for the qids {sorted(map(str, new))}"

    # What must not matter ----------------------------------------------------------------------

    def test_deterministic(self) -> None:
        """Equal settings and input give equal output, each time and in each object."""
        first = self.make()
        expected = first.transform(self.inp())
        message = f"{self._name()} returns another output"
        check_frames(first.transform(self.inp()), expected, f"{message} when it is used twice")
        check_frames(
            self.make().transform(self.inp()), expected, f"{message} when it is made twice"
        )

    def test_global_random_state_stays(self) -> None:
        """Numpy's global random state is neither read nor changed."""
        np.random.seed(5)  # noqa: NPY002 - the test is about the global state
        frame = self.make().transform(self.inp())
        state = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
        np.random.seed(5)  # noqa: NPY002
        untouched = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
        assert np.array_equal(state, untouched), f"{self._name()} uses numpy's global random state"
        np.random.seed(6)  # noqa: NPY002
        message = f"{self._name()} depends on numpy's global random state"
        check_frames(self.make().transform(self.inp()), frame, message)

    def test_batches_do_not_matter(self) -> None:
        """Queries one by one give the same rows and remarks as all at once."""
        if not self.per_query:
            return
        inp = self.inp()
        remarks: dict[str, list[StageRemark]] = {}
        with stage_context.changed(remarks=remarks):
            expected = self.make().transform(inp)
        transformer = self.make()
        remarks_on_parts: dict[str, list[StageRemark]] = {}
        with stage_context.changed(remarks=remarks_on_parts):
            parts = [transformer.transform(inp[inp[QID] == qid]) for qid in inp[QID].unique()]
        actual = pd.concat([p for p in parts if len(p)], ignore_index=True)
        check_frames(actual, expected, f"{self._name()} depends on how queries are batched")
        assert remarks_on_parts == remarks, (
            f"the remarks of {self._name()} depend on how queries are batched"
        )

    def test_order_of_rows_does_not_matter(self) -> None:
        """A shuffled input, with a shuffled index, gives the same rows."""
        inp = self.inp()
        expected = self.make().transform(inp)
        rng = np.random.default_rng(3)
        for _ in range(2):
            actual = self.make().transform(inp.iloc[rng.permutation(len(inp))])
            check_frames(actual, expected, f"{self._name()} depends on the order of rows")

    def test_index_does_not_matter(self) -> None:
        """Any index of the input gives the same rows in the same order."""
        expected = self.make().transform(self.inp())
        for kind, inp in with_other_indexes(self.inp()).items():
            actual = self.make().transform(inp)
            assert snapshot(actual.reset_index(drop=True)) == snapshot(
                expected.reset_index(drop=True)
            ), f"{self._name()} depends on the index: {kind}"

    # Settings ----------------------------------------------------------------------------------

    def test_equality_is_by_settings(self) -> None:
        """Transformers with equal settings are equal, others are not."""
        one = self.make()
        assert one == self.make(), f"{one!r}: two with equal settings are not equal"
        assert hash(one) == hash(self.make()), f"{one!r}: two equal ones have different hashes"
        assert one == copy.copy(one), f"{one!r} is not equal to its copy"
        assert one != "something else", f"{one!r} is equal to a string"
        every = [one, *self.others()]
        for i, left in enumerate(every):
            for right in every[i + 1 :]:
                assert left != right, f"{left!r} and {right!r} are equal, but have other settings"

    def test_printable(self) -> None:
        """The `repr` has the class and the settings, and no address."""
        every = [self.make(), *self.others()]
        text = repr(every[0])
        assert self._name() in text, f"{text!r} does not name the class {self._name()}"
        assert not re.search(r"0x[0-9a-f]{6,}", text), (
            f"{text!r} has a memory address; print the settings (FairTransformer does)"
        )
        assert text == repr(self.make()), f"{text!r} differs for a new object"
        assert len({repr(t) for t in every}) == len(every), (
            f"transformers with different settings have the same repr: {sorted(map(repr, every))}"
        )

    def test_settings_can_be_changed(self) -> None:
        """A setting that is set or assigned has the effect of a new transformer."""
        if not isinstance(self.make(), FairTransformer):
            return
        kind = type(self.make())
        for name in {*kind.SETTINGS} - {*names_of_settings(self.make()), *self.fitted}:
            try:
                setattr(self.make(), name, None)
            except AttributeError:
                continue
            raise AssertionError(
                f"{kind.__name__}: the setting {name!r} must be an argument or a read-only property"
            )
        used = self.make()
        _output(used, self.inp())  # fills caches
        for name, value in self._values().items():
            try:
                expected = self.new(**{name: value})
            except Exception as error:
                self._check_refusal(name, value, type(error))
                continue
            changed, assigned = copy.copy(used), copy.copy(used)
            before = vars(changed)
            changed.set_parameter(name, value)
            setattr(assigned, name, value)
            message = f"{kind.__name__}: {name}={value!r:.80} does not have the effect of a new one"
            for transformer in (changed, assigned):
                assert transformer == expected, f"{message}: {transformer!r}"
            assert _identity(changed) == _identity(expected), f"{message}: identity"
            actual, target = _output(changed, self.inp()), _output(expected, self.inp())
            if isinstance(actual, pd.DataFrame) and isinstance(target, pd.DataFrame):
                check_frames(actual, target, message)
            else:
                assert actual is target, f"{message}: {actual} instead of {target}"
            _check_loaded(kind, name, before, vars(changed))

    def test_invalid_settings_change_nothing(self) -> None:
        """A value that the constructor refuses is refused, and leaves the transformer unchanged."""
        if not isinstance(self.make(), FairTransformer):
            return
        for name in names_of_settings(self.make()):
            value = object()
            try:
                self.new(**{name: value})
            except Exception as error:
                self._check_refusal(name, value, type(error))

    def _check_refusal(self, name: str, value: Any, error: type[Exception]) -> None:
        """Raise unless a transformer refuses a value and stays as it was."""
        transformer = self.make()
        before = dict(vars(transformer))
        for change in (transformer.set_parameter, functools.partial(setattr, transformer)):
            try:
                change(name, value)
            except error:
                pass
            else:
                raise AssertionError(
                    f"{self._name()}: a new transformer with {name}={value!r:.80} is refused, but "
                    "the setting can be changed to it"
                )
            after = vars(transformer)
            is_same = before.keys() == after.keys() and all(after[n] is before[n] for n in after)
            assert is_same, f"{self._name()}: the refused {name}={value!r:.80} changed something"

    def _values(self) -> dict[str, Any]:
        """Return a value of each setting that differs from that of `make`."""
        made = self.make()
        names = names_of_settings(made)
        others = dict(self.other_values())
        for other in self.others():
            differ = [name for name in names if _differ(made, other, name)]
            if len(differ) == 1:
                others.setdefault(differ[0], other.given(differ[0]))
        return {n: others[n] if n in others else self._guess(n, made.given(n)) for n in names}

    def _guess(self, name: str, now: Any) -> Any:
        """Return a valid value of a setting that differs from the value of `make`."""
        for value in [not now] if isinstance(now, bool) else [1, 2, 4, 500, 0.25, 0.75]:
            try:
                self.new(**{name: value})
            except (FairtkError, TypeError, ValueError):  # not a valid value
                continue
            if value != now:
                return value
        raise AssertionError(f"{self._name()}: other_values() must have a value of {name!r}")

    # Where it is used --------------------------------------------------------------------------

    def test_inspect(self) -> None:
        """pt.inspect knows its input and output columns."""
        import pyterrier as pt

        transformer = self.make()
        inputs = pt.inspect.transformer_inputs(transformer)
        columns = list(self.inp().columns)
        assert any(set(mode) <= set(columns) for mode in inputs), (
            f"{self._name()} takes {inputs} by pt.inspect, but the test's input has {columns}"
        )
        inspected = pt.inspect.transformer_outputs(transformer, columns)
        outputs = list(transformer.transform(self.inp()).columns)
        assert inspected == outputs, (
            f"{self._name()} returns {inspected} by pt.inspect, but really {outputs}"
        )

    def test_missing_columns_are_named(self) -> None:
        """If a required column is missing, the error names the transformer and the column."""
        import pyterrier as pt

        inputs = pt.inspect.transformer_inputs(self.make())
        if len(inputs) != 1:
            return
        inner = pt.inspect.subtransformers(self.make()).values()
        names = [self._name(), *(type(t).__name__ for t in inner)]
        for column in inputs[0]:
            try:
                self.make().transform(self.inp().drop(columns=column))
            except (ValueError, pt.validate.InputValidationError) as error:
                named = any(name in str(error) for name in names) and column in str(error)
                assert named, f"the error must name {self._name()} and {column!r}, got: {error}"
            except Exception as error:
                raise AssertionError(
                    f"{self._name()} without the column {column!r} must raise a ValueError that "
                    f"names both, got {type(error).__name__}: {error}"
                ) from error
            else:
                raise AssertionError(
                    f"{self._name()} declares the column {column!r}, but works without it"
                )


def _output(transformer: Any, inp: pd.DataFrame) -> Any:
    """Return the output, or the type of the error."""
    try:
        return transformer.transform(inp)
    except Exception as error:
        return type(error)


def _identity(transformer: Any) -> Any:
    from fairtk.experiment.identity import describe_stage

    try:
        return describe_stage(transformer)
    except FairtkError as error:
        return str(error)


def _differ(one: Any, other: Any, name: str) -> bool:
    if type(one) is not type(other):
        return True
    left, right = one.given(name), other.given(name)
    return left is not right and digest(left) != digest(right)


def _check_loaded(
    kind: type, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Raise unless what was loaded with other settings is the same object as before."""
    for attribute, settings in kind.LOADED.items():  # type: ignore[attr-defined]
        if name not in settings and attribute in before:
            assert after.get(attribute) is before[attribute], (
                f"{kind.__name__}: {attribute} must stay loaded if {name} is set"
            )
    for attribute, part in after.items():
        old = before.get(attribute)
        if isinstance(part, Configurable) and type(part) is type(old) and part == old:
            for loaded in vars(old).keys() & part.LOADED.keys():
                assert vars(part).get(loaded) is vars(old)[loaded], (
                    f"{kind.__name__}: {attribute}.{loaded} must stay loaded if {name} is set"
                )


class ScorerContract(TransformerContract):
    """Tests of a scorer of candidates, such as a `fairtk.transformers.Scorer`; define `make`."""

    def test_keeps_the_candidates(self) -> None:
        """Each candidate has one row with the input's columns; only score and rank may change."""
        inp, out = self.inp(), self.make().transform(self.inp())
        columns = [column for column in inp.columns if column not in (SCORE, RANK)]
        check_frames(out[columns], inp[columns], f"{self._name()} changes the candidates")
        assert {SCORE, RANK} <= set(out.columns), f"{self._name()} must add {SCORE!r} and {RANK!r}"

    def test_scores_of_the_input_do_not_matter(self) -> None:
        """Candidates without score and rank have the same output."""
        bare = self.inp().drop(columns=[SCORE, RANK], errors="ignore")
        actual = self.make().transform(bare)[[QID, DOCNO, SCORE, RANK]]
        expected = self.make().transform(self.inp())[[QID, DOCNO, SCORE, RANK]]
        check_frames(actual, expected, f"{self._name()} depends on the scores of its input")

    def test_samples_are_refused(self) -> None:
        """Sampled rankings are an error: candidates are scored before sampling."""
        try:
            self.make().transform(toy_samples())
        except InputError:
            return
        raise AssertionError(f"{self._name()} accepts a sampled run; score first, then sample")
