"""Lines of answers as OpenAI's batch API writes them; the text follows a rule of the prompt."""

from __future__ import annotations


def answer_of(prompt):
    """Return a text that depends on the prompt alone."""
    return f"answer to {len(prompt)}: {prompt[-20:]}"


def completion(body, text, finish="stop"):
    """Return the body of a chat completion, as a server would give it to one call."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {
                "cached_tokens": len(" ".join(m["content"] for m in body["messages"]).split())
            },
        },
    }


def answered(line, rule=answer_of):
    """Return the line of answers to a line of prompts."""
    body = completion(line["body"], rule(line["body"]["messages"][-1]["content"]))
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": line["custom_id"], "response": response, "error": None}
