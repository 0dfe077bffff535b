"""An answer takes the place of an earlier failure, and nested experiments share a ledger."""

import threading

from fairtk import stage_context
from fairtk.llm import ChatModel, Completion, Failure, Ledger
from fairtk.llm.chat import questions
from fairtk.stage_context import Recording


class Once(ChatModel):
    """Refuses its first call and answers the others, cut at the token limit."""

    name = "once"

    def __init__(self):
        self.calls = 0

    def parameters(self):
        return {}

    def outcomes(self, chats):
        for index, _ in enumerate(chats):
            self.calls += 1
            refused = Failure("too long", can_pass=False)
            yield index, refused if self.calls == 1 else Completion("cut", finish="length")


def test_a_stored_failure_does_not_come_back_after_an_answer(tmp_path):
    llm, path = Once(), tmp_path / "l"
    for settings, expected in (
        ({}, "too long"),
        ({"retry_failed": True}, "cut"),
        ({}, "cut"),
        ({"retry_unusable": True}, "cut"),
    ):
        with Ledger(path, **settings) as ledger:
            [outcome] = ledger.wrap(llm).complete(questions(["a"]))
        assert expected in (getattr(outcome, "reason", ""), getattr(outcome, "text", ""))
    assert isinstance(outcome, Completion) and llm.calls == 3


def test_threads_of_an_experiment_inside_a_stage_use_the_ledger_around_it(tmp_path):
    llm, outcomes = Once(), []
    with (
        Ledger(tmp_path / "l") as ledger,
        stage_context.recorded(Recording(ledger)),
        stage_context.recorded(Recording(ledger, "2026")),
    ):
        thread = threading.Thread(target=lambda: outcomes.extend(llm.complete(questions(["a"]))))
        thread.start()
        thread.join()
        [question] = questions(["a"])
        assert len(outcomes) == 1 and ledger.failures([ledger.wrap(llm).key(question)])
