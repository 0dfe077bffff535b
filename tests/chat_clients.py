"""Clients of the servers of `chat_server`, and what they ask."""

from __future__ import annotations

from fairtk.llm import Chat, Message, OpenAICompatible


def chats(*texts):
    """Return a chat of one message for each text."""
    return [Chat((Message("user", text),)) for text in texts]


def client(server, **options):
    """Return a model behind a server, which is asked twice at most and has long to answer."""
    settings = {"backoff": 0.01, "retries": 1, "timeout": 600.0} | options
    return OpenAICompatible("toy", server.url, **settings)
