"""The answers of a model to prompts."""

from fairtk.llm import as_chat_model
from fairtk.llm.chat import questions


def answers_of(model, prompts):
    """Return one answer per prompt, without surrounding white space; each must be answered."""
    return [outcome.text.strip() for outcome in as_chat_model(model).complete(questions(prompts))]
