"""What every string utility must keep to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairtk.measures import EU, parse
from fairtk.plugins import registry
from fairtk.testing.agreement import check, same_number

Gold = str | Sequence[str]


class UtilityContract:
    """Tests of a string utility; subclass it and set `name`.

    Attributes:
        name: the name it is registered under.
        options: its options.
        pairs: answers with their gold answers, so unlike each other that values differ.
    """

    name: str
    options: dict[str, Any] = {}
    pairs: Sequence[tuple[str, Gold]] = (
        ("a red fox", "a red fox"),
        ("a fox", "a red fox"),
        ("the sea", "a red fox"),
        ("ships cross the sea", ["a lighthouse", "ships cross the sea"]),
        ("", "a red fox"),
        ("...", "a red fox"),
    )

    def make(self) -> Any:
        """Return the utility under test."""
        from fairtk import utilities

        return utilities.get(self.name, **self.options)

    def values(self, pairs: Sequence[tuple[str, Gold]]) -> list[float]:
        """Return the utility's values for pairs of answer and gold answer."""
        found: list[float] = self.make()([p for p, _ in pairs], [g for _, g in pairs])
        return found

    def test_declarations(self) -> None:
        """Name and direction are those of the registered spec."""
        utility, spec = self.make(), registry.utilities.get(self.name)
        check(utility.name == self.name, f"{utility!r} is registered as {self.name!r}")
        check(
            utility.higher_is_better is spec.higher_is_better,
            f"{self.name}: its spec says higher_is_better={spec.higher_is_better}, the utility "
            f"{utility.higher_is_better}",
        )
        check(bool(spec.summary), f"{self.name}: its spec has no summary")

    def test_one_finite_float_for_each_answer(self) -> None:
        """As many values as answers, all finite floats; none for none."""
        values = self.values(self.pairs)
        check(isinstance(values, list), f"{self.name} must return a list; found {type(values)}")
        check(len(values) == len(self.pairs), f"{self.name}: {len(values)} values")
        for (answer, gold), value in zip(self.pairs, values, strict=True):
            check(
                isinstance(value, float) and math.isfinite(value),
                f"{self.name}: the value of {answer!r} against {gold!r} is {value!r}",
            )
        check(self.make()([], []) == [], f"{self.name} must return an empty list for no answers")

    def test_other_answers_do_not_matter(self) -> None:
        """One by one, and in reverse, the values are the same."""
        wanted = self.values(self.pairs)
        alone = [self.values([pair])[0] for pair in self.pairs]
        back = self.values(self.pairs[::-1])[::-1]
        for found in (alone, back):
            agree = all(same_number(a, b) for a, b in zip(found, wanted, strict=True))
            check(agree, f"{self.name} depends on the other answers: {found} and {wanted}")

    def test_right_answer_is_best(self) -> None:
        """No answer is better than the gold answer itself."""
        for _, gold in self.pairs:
            gold_texts = [gold] if isinstance(gold, str) else list(gold)
            best = self.values([(gold_texts[0], gold)])[0]
            for answer, _ in self.pairs:
                value = self.values([(answer, gold)])[0]
                gain = value - best if self.make().higher_is_better else best - value
                check(
                    not gain > 1e-9,
                    f"{self.name}: {answer!r} has {value!r} against {gold!r}, better than the gold "
                    f"answer's {best!r}",
                )

    def test_best_of_several_gold_answers_counts(self) -> None:
        """A list of gold answers gives the value of the best match, in any order."""
        better = max if self.make().higher_is_better else min
        every = [[gold] if isinstance(gold, str) else gold for _, gold in self.pairs]
        golds = list(dict.fromkeys(text for texts in every for text in texts))
        for answer, _ in self.pairs:
            single = [self.values([(answer, gold)])[0] for gold in golds]
            for listed in (golds, golds[::-1], tuple(golds)):
                value = self.values([(answer, listed)])[0]
                check(
                    same_number(value, better(single)),
                    f"{self.name}: {answer!r} against {listed!r} has {value!r}; the best single "
                    f"value is {better(single)!r}",
                )

    def test_unequal_lengths_are_an_error(self) -> None:
        """One gold answer too many or too few is a ValueError."""
        answer, gold = self.pairs[0]
        for answers, golds in (([answer], [gold, gold]), ([answer, answer], [gold])):
            try:
                self.make()(answers, golds)
            except ValueError:
                continue
            raise AssertionError(
                f"{self.name} takes {len(answers)} answers and {len(golds)} gold answers"
            )

    def test_works_in_the_measure(self) -> None:
        """``EU(utility=...)`` prints itself so that it is read back."""
        measure = EU(utility=self.make())
        read = parse(repr(measure))
        check(
            read.utility == self.make(),
            f"{measure!r} is read back with the utility {read.utility!r}; it was {self.make()!r}",
        )
        check(repr(self.make()) == repr(self.make()), f"{self.name} prints differently each time")
