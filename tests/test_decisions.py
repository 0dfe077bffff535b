"""No code decides by the words of a message or of a label: kinds and `MeasureInfo` are for that."""

import ast

from test_architecture import ROOT, parsed, sources

READERS = {"startswith", "endswith", "removeprefix", "removesuffix", "find", "partition"}
SUBJECTS = {
    *("measure", "measures", "label", "labels", "m", "text", "texts", "message"),
    *("error", "warning", "remark"),
}
"""Names of variables and attributes that hold labels and messages."""

ALLOWED = {
    # messages of other libraries, which have no class of their own
    ("fairtk/datasets/fetching.py", "JSON is malformed: "): "msgspec",
    ("fairtk/io/lines.py", "Calling read(nbytes) on source failed"): "pyarrow",
    ("fairtk/io/rows.py", "field limit"): "csv",
    ("fairtk/io/rows.py", "new-line"): "csv",
    ("fairtk/llm/loading.py", "out of memory"): "torch",
    ("fairtk/llm/loading.py", "not enough memory"): "torch",
    ("fairtk/llm/loading.py", "can't allocate memory"): "torch",
    ("fairtk/llm/replies.py", "too large"): "servers of models",
    ("fairtk/llm/replies.py", "context"): "servers of models",
    ("fairtk/measures/base.py", "None"): "plugins",
    ("plugins/fairtk-baselines/fairtk_baselines/vectors.py", "empty vocabulary"): "scikit-learn",
    (
        "plugins/fairtk-baselines/fairtk_baselines/vector_search.py",
        "The given buffer is not writable",
    ): "torch",
    # the grammar of strings of measures: E(nDCG@5) and A * B
    ("fairtk/measures/parsing.py", "E"): "NAME",
    ("fairtk/measures/parsing.py", "Product"): "NAME",
}
"""The places that read words, with the library that the words are from; the list only shrinks."""


def subject(node):
    """Return the name of the variable or attribute that an expression reads."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "str" and node.args:
        node = node.args[0]
    return getattr(node, "id", getattr(node, "attr", ""))


def words(node):
    """Return the constant texts with letters in an expression."""
    nodes = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [text for text in texts if any(sign.isalpha() for sign in text)]


def words_read(tree):
    """Yield the words that code compares labels, messages and names of measures with."""
    for node in ast.walk(tree):
        is_reader = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in READERS
        if is_reader and node.args and subject(node.func.value) in SUBJECTS:
            yield from words(node.args[0])
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "filterwarnings":
            yield from (word for argument in node.args[1:2] for word in words(argument))
            named = [keyword.value for keyword in node.keywords if keyword.arg == "message"]
            yield from (word for value in named for word in words(value))
        if not isinstance(node, ast.Compare):
            continue
        for operator, other in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn) and subject(other) in SUBJECTS:
                yield from words(node.left)
            if subject(node.left) in {"NAME", "measure", "label", "message"}:
                yield from words(other)


def test_words_are_noticed():
    code = """
measure.startswith(("EE_D", "EE_L"))
" * " in measure
"by='query'" in label
str(error).partition("EE_R")
part.NAME in ("E", "EU")
remark.kind == "undefined"
"x" in columns
warnings.filterwarnings("ignore", "equal scores", DataWarning)
warnings.filterwarnings("ignore", message="ties", category=DataWarning)
"""
    noticed = ["EE_D", "EE_L", "by='query'", "EE_R", "E", "EU", "equal scores", "ties"]
    assert sorted(words_read(ast.parse(code))) == sorted(noticed)


def test_nothing_decides_by_words():
    places = {
        (path.relative_to(ROOT).as_posix(), word)
        for path in sources("fairtk", "plugins")
        if "testing" not in path.relative_to(ROOT).parts
        for word in words_read(parsed(path))
    }
    assert places == ALLOWED.keys()
