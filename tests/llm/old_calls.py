# ruff: noqa: E501
"""What was asked of fairtk 0.2 for tests/golden/old_ledgers, and the server that answered.

It answers by a digest of what it is sent: another prompt or parameter gives another answer.
"""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd


# the server ------------------------------------------------------------------------------------
def error(status, message, param=None, code=None):
    return status, {
        "error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    }


def refusal(model, body):
    """The refusals of servers, by the name of the model."""
    if model in ("new-names", "strict") and "max_tokens" in body:
        return error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        )
    if model == "no-limit" and ({"max_tokens", "max_completion_tokens"} & set(body)):
        name = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        return error(400, f"unknown field: {name}")
    if model in ("cold", "strict") and body.get("temperature", 1) != 1:
        return error(
            400,
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
            "Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        )
    if model == "no-seed" and "seed" in body:
        return error(422, "seed: Extra inputs are not permitted")
    return None


def text_of(body):
    prompt = body["messages"][-1]["content"]
    found = re.search("Current keywords: (.*)", prompt)
    if found:  # a refinement: the keywords and one word of the group
        group = re.search(r"shown too little: (.*?)(?: \(|\.|\n|$)", prompt)
        return ", ".join(
            [
                *re.findall(r"\w+", found[1])[:20],
                {"women": "woman", "men": "man"}.get(group[1] if group else "", "also"),
            ]
        )
    if (
        body["model"] == "tagger"
    ):  # says the last tag of the profile that it is shown: documents gain something
        tags = re.findall(r"\. is ([a-z -]+?)(?:\.|, and )", prompt)
        return tags[-1] if tags else "none"
    raw = json.dumps(body, sort_keys=True, ensure_ascii=True)
    return f" answer {hashlib.blake2b(raw.encode(), digest_size=6).hexdigest()} of {body['model']} "


def reply(body):
    """(status, body) for a request."""
    prompt = body["messages"][-1]["content"]
    refused = refusal(body["model"], body)
    if refused:
        return refused
    if "please fail" in prompt:
        return error(400, "this prompt cannot be answered")
    message, finish = {"role": "assistant", "content": text_of(body), "refusal": None}, "stop"
    if "please refuse" in prompt:
        message |= {"content": None, "refusal": "I won't do that."}
    if "please cut" in prompt:
        finish = "length"
    if "please filter" in prompt:
        finish = "content_filter"
    if "odd letters" in prompt:
        message["content"] = "na\u00efve \u4e2d\u6587 \U0001f600 nul\x00 lone\ud800 end\n"
    return 200, {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": 5,
            "total_tokens": len(prompt.split()) + 5,
        },
    }


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client went away; a later test may look at standard error

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.asked, self.lock = [], threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = reply(body)
        with self.server.lock:
            self.server.asked.append((status, body))
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


# calls through a ledger ------------------------------------------------------------------------
USER = [["user", "Which river is the longest?"]]
BOTH = [["system", "You answer in one word."], ["user", "Which ship was first?"]]


def user(text):
    return [["user", text]]


def ledger_calls():
    """Return the calls, in order: model's arguments, messages; what they are kept under, if it differs.

    `stored_as`: the arguments of a model whose own key is the one that the answer has.
    """
    toy = {"model": "toy", "temperature": 0.3, "max_tokens": 256}
    calls = [
        ("plain, all defaults", {"model": "toy"}, USER, None),
        ("system and user", toy, BOTH, None),
        ("repeated: no second request", {"model": "toy"}, USER, None),
        ("temperature 0", {**toy, "temperature": 0}, USER, None),
        ("temperature 1", {**toy, "temperature": 1.0}, USER, None),
        ("no temperature", {**toy, "temperature": None}, USER, None),
        ("max_tokens 16", {**toy, "max_tokens": 16}, USER, None),
        ("no limit", {**toy, "max_tokens": None}, USER, None),
        ("max_completion_tokens", {**toy, "max_completion_tokens": 64}, USER, None),
        ("a sample: seed 1", {**toy, "seed": 1}, USER, None),
        ("a sample: seed 2", {**toy, "seed": 2}, USER, None),
        ("a sample: seed 3", {**toy, "seed": 3, "temperature": 0.9}, USER, None),
        ("reasoning effort", {**toy, "reasoning_effort": "low"}, USER, None),
        (
            "more of the body",
            {**toy, "extra_body": {"top_p": 0.9, "logit_bias": {"5": 1}}},
            USER,
            None,
        ),
        (
            "odd letters in prompt and answer",
            toy,
            user("odd letters: \u4e2d\ud800\x00 \U0001f600"),
            None,
        ),
        ("a refusal: paid for, of no use", toy, user("please refuse"), None),
        ("cut off: paid for, of no use", toy, user("please cut"), None),
        ("filtered", toy, user("please filter"), None),
        ("rejected by its reader (Recorded.reject)", toy, user("to be rejected"), None),
        ("a failure: not kept", toy, user("please fail"), None),
        ("several chats at once", toy, [user("one"), user("two"), user("one"), BOTH], None),
        # servers that refuse parameters: 0.2 learned it from the refusal, and kept the answer under what it sent at last
        (
            "refuses max_tokens",
            {"model": "new-names", "temperature": 0.3, "max_tokens": 40},
            [user("one"), user("two")],
            {
                "model": "new-names",
                "temperature": 0.3,
                "max_tokens": None,
                "max_completion_tokens": 40,
            },
        ),
        (
            "refuses max_tokens, known from the ledger by now",
            {"model": "new-names", "temperature": 0.7, "max_tokens": 40},
            [user("one"), user("three")],
            {
                "model": "new-names",
                "temperature": 0.7,
                "max_tokens": None,
                "max_completion_tokens": 40,
            },
        ),
        (
            "refuses a temperature",
            {"model": "cold", "temperature": 0.3, "max_tokens": 40},
            USER,
            {"model": "cold", "temperature": None, "max_tokens": 40},
        ),
        (
            "refuses both",
            {"model": "strict", "temperature": 0.3, "max_tokens": 40},
            BOTH,
            {
                "model": "strict",
                "temperature": None,
                "max_tokens": None,
                "max_completion_tokens": 40,
            },
        ),
        (
            "refuses any limit",
            {"model": "no-limit", "temperature": 0.3, "max_tokens": 40},
            USER,
            {"model": "no-limit", "temperature": 0.3, "max_tokens": None},
        ),
        (
            "refuses a seed",
            {"model": "no-seed", "temperature": 0.3, "max_tokens": 40, "seed": 5},
            USER,
            {"model": "no-seed", "temperature": 0.3, "max_tokens": 40},
        ),
    ]
    return [
        {
            "what": w,
            "class": "OpenAICompatible",
            "arguments": a,
            "chats": m if isinstance(m[0][0], list) else [m],
            "stored_as": s,
        }
        for w, a, m, s in calls
    ]


def server_model(arguments, url):
    from fairtk.llm import OpenAICompatible

    return OpenAICompatible(base_url=url, api_key_env=None, backoff=0.01, retries=1, **arguments)


def chat(messages, facts=None):
    from fairtk.llm import Chat, Message

    return Chat(tuple(Message(*m) for m in messages), facts or {})


LOCAL = "demo_model"  # a local model's name is in the key: a relative path is the same everywhere


def upper_case(prompts):  # a function as a model: a ledger knows it by its name
    return [prompt.upper() for prompt in prompts]


def local_models():
    """Models without a server that stood behind the ledger, and the chats they were asked."""
    from fairtk.llm import HuggingFaceSeq2Seq, KeywordRefiner, LocalChat

    facts = {
        "query": "chess",
        "keywords": "chess players",
        "group": ["female"],
        "attribute": "gender",
    }
    return {
        "keyword": (KeywordRefiner(terms=2), [chat(user("refine chess players"), facts)]),
        "function": (upper_case, [chat(user("loud")), chat(BOTH)]),
        "local": (
            LocalChat(HuggingFaceSeq2Seq(LOCAL, device="cpu", max_new_tokens=8)),
            [chat(user("which tag does this movie have? a small town")), chat(BOTH)],
        ),
    }


# experiments -----------------------------------------------------------------------------------
QIDS = 2
LIMITED = {"temperature": 0.3, "max_tokens": 48}


def demo_topics():
    import fairtk

    data = fairtk.demo.load()
    best = data.qrels.groupby("qid", sort=False)["label"].max()
    qids = list(best.index[best > 0][:QIDS])
    candidates = (
        data.candidates[data.candidates.qid.isin(qids)]
        .groupby("qid", sort=False)
        .head(8)
        .reset_index(drop=True)
    )
    topics = data.topics[data.topics.qid.isin(qids)].reset_index(drop=True)[["qid", "query"]]
    qrels = data.qrels[
        data.qrels.qid.isin(qids) & data.qrels.docno.isin(candidates.docno)
    ].reset_index(drop=True)
    return candidates, topics, qrels, data.groups


def retriever(candidates):
    """Return a retriever (Q -> R) over the candidates: overlap of words."""
    import pyterrier as pt

    texts = candidates[["docno", "text"]].drop_duplicates("docno")
    bags = {
        d: set(re.findall(r"\w+", t.lower())) for d, t in zip(texts.docno, texts.text, strict=True)
    }

    def retrieve(inp):
        rows = []
        for row in inp.itertuples():
            words = set(re.findall(r"\w+", row.query.lower()))
            scored = sorted(
                ((len(words & bag), d) for d, bag in bags.items()), key=lambda s: (-s[0], s[1])
            )[:10]
            rows += [
                (row.qid, row.query, d, float(s) - i / 100, i) for i, (s, d) in enumerate(scored)
            ]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])

    return pt.apply.generic(retrieve)


def experiments(url, mine=None, adapted=True):
    """Return the experiments of the store, by name: (systems, topics, qrels, measures).

    `mine`: a Ledger of the user's. `adapted`: with the arguments as they were given, which the
    servers refused; False: with those that the servers take.
    """
    import fairtk
    from fairtk import BM25Scorer, FairQR, FairSampler, FlanT5, Generator, QueryRefiner

    candidates, topics, qrels, groups = demo_topics()
    sampled = BM25Scorer() >> FairSampler(alpha=2, n_samples=3, cutoff=3)
    measures = ["EE_D@3", "EU(utility='accuracy')"]

    def reads(arguments):
        return Generator(server_model(arguments, url), prompt="lamp-2", cutoff=3)

    local = FlanT5(model=LOCAL, prompt="lamp-2", cutoff=3, device="cpu", max_new_tokens=8)
    new_names = (
        {"model": "new-names", **LIMITED}
        if adapted
        else {
            "model": "new-names",
            "temperature": 0.3,
            "max_tokens": None,
            "max_completion_tokens": 48,
        }
    )
    cold = (
        {"model": "cold", **LIMITED}
        if adapted
        else {"model": "cold", "temperature": None, "max_tokens": 48}
    )
    found = {
        "local": (
            {"t5 sampled": sampled >> local, "t5 fixed": BM25Scorer() % 3 >> local},
            candidates,
            qrels,
            measures,
        ),
        "server": (
            {
                "toy sampled": sampled >> reads({"model": "toy", **LIMITED}),
                "toy fixed": BM25Scorer() % 3 >> reads({"model": "toy", **LIMITED}),
            },
            candidates,
            qrels,
            measures,
        ),
        "refused max_tokens": (
            {"new-names": sampled >> reads(new_names)},
            candidates,
            qrels,
            measures,
        ),
        "refused temperature": ({"cold": sampled >> reads(cold)}, candidates, qrels, measures),
        "refined": (
            {
                "refined": QueryRefiner(
                    server_model({"model": "toy", **LIMITED}, url),
                    group="major",
                    attribute="production",
                )
                >> fairtk.experiment.identified(retriever(candidates), "words of 792ea1b")
            },
            topics,
            qrels,
            ["nDCG@5"],
        ),
    }
    by_production = groups[(groups.attribute == "production") & groups.docno.isin(candidates.docno)]
    known = fairtk.Groups.from_frame(
        by_production[["docno", "group"]].reset_index(drop=True), "production"
    )
    found["fair-qr"] = (
        {
            "fair-qr": FairQR(
                fairtk.experiment.identified(retriever(candidates), "words of 792ea1b"),
                known,
                fairtk.Target.uniform(known, unknown=False),
                server_model({"model": "toy", **LIMITED}, url),
                depth=5,
                max_iterations=2,
                threshold=0.001,
            )
        },
        topics,
        qrels,
        ["nDCG@5"],
    )
    if mine is not None:
        paid = Generator(
            mine.wrap(server_model({"model": "toy", "temperature": 0.5, "max_tokens": 48}, url)),
            prompt="lamp-2",
            cutoff=3,
        )
        found["user's ledger"] = ({"paid": sampled >> paid}, candidates, qrels, measures)
    return found
