"""A model with known costs, importable by other processes."""

import os
import signal

from fairtk.llm import ChatModel, Completion, Failure


class Metered(ChatModel):
    """Answers with keywords; each call has the same time and tokens. `log` has its prompts.

    It samples, so that there are several answers to a prompt. It kills its process instead of
    giving answer number `kills`, and fails for prompts with the text `fails`.
    """

    identity_name, output_version = "tests.Metered", 1

    def __init__(self, seconds=0.5, counts=(10, 2), kills=None, fails=None, seed=0, log=None):
        self.seconds, self.counts, self.kills, self.fails = seconds, counts, kills, fails
        self.seed = seed
        self.log = [] if log is None else log

    name = "metered"

    def parameters(self):
        return {"counts": self.counts, "seed": self.seed}

    repeats = ""

    def numbered(self, number):
        settings = (self.seconds, self.counts, self.kills, self.fails)
        return Metered(*settings, seed=number, log=self.log) if number else self

    def outcomes(self, chats):
        for index, chat in enumerate(chats):
            if self.kills == len(self.log):
                os.kill(os.getpid(), signal.SIGKILL)
            self.log.append(chat.text)
            if self.fails and self.fails in chat.text:
                yield index, Failure("refused", can_pass=False)
            else:
                words = f"new words {len(self.log)}"
                yield index, Completion(words, *(self.counts or (None, None)), self.seconds)
