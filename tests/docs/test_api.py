"""`docs/api.txt`, the decided public API, agrees with the exports, the pages and the plugins.

After an export was removed or renamed, ``python tests/docs/test_api.py`` updates `docs/api.txt` and
`pending_api.txt`.
"""

import ast
import re
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "api.txt"
PENDING = Path(__file__).with_name("pending_api.txt")
MODULES = ("checks", "demo/__init__", "errors", "prompts", "utilities", "wording")
"""Public modules without a stub."""
PACKAGES = (
    (ROOT, "fairtk", MODULES),
    (ROOT / "plugins" / "fairtk-papers", "fairtk_papers", ("testing",)),
)
"""The packages with a decided API, each with its folder and its public modules without a stub."""


class Decision(NamedTuple):
    kind: str
    target: str
    """The name after the change: qualified; empty if it is dropped."""

    page: str


def decisions():
    """Return the decision about each name of `docs/api.txt`."""
    decided = {}
    for line in API.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, words, page, *_ = [*re.split(r"  +", line), ""]
            assert name not in decided, f"{name} has two lines"
            decided[name] = Decision(words.split()[0], target_of(name, words), page)
    return decided


def target_of(name, words):
    """Return the qualified name that a decision, such as ``rename to NEW``, leads to."""
    if re.fullmatch(r"keep|new \(piece \d+\)", words):
        return name
    if words == "drop":
        return ""
    new = re.fullmatch(r"rename to ([\w.]+)", words)
    assert new, f"{name} has the unknown decision {words!r}"
    return new[1] if "." in new[1] else f"{package_of(name)}.{new[1]}"


def package_of(name):
    return name.rpartition(".")[0]


def name_of(name):
    return name.rpartition(".")[2]


def stub_names(tree):
    """Yield the names that a stub imports to export them."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def module_names(tree):
    """Return the names in `__all__`, or the public names that a module defines."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            targets = [getattr(target, "id", "") for target in node.targets]
            if targets == ["__all__"]:
                return ast.literal_eval(node.value)
            names += targets
    return [name for name in names if name and not name.startswith("_")]


def exported():
    """Return all exported names, qualified."""
    names = set()
    for root, package, modules in PACKAGES:
        names |= exported_by(root, package, modules)
    return names


def exported_by(root, package, modules):
    """Return the qualified names that a package exports from stubs and from some modules."""
    names = set()
    stubs = {path: stub_names for path in (root / package).rglob("__init__.pyi")}
    modules = {root / package / f"{module}.py": module_names for module in modules}
    for path, names_in in (stubs | modules).items():
        parts = path.relative_to(root).with_suffix("").parts
        package = ".".join(part for part in parts if part != "__init__")
        if path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names |= {f"{package}.{name}" for name in names_in(tree)}
    return names


def pending():
    """Return the names of `pending_api.txt`, where a line ``PACKAGE: NAMES`` may go on below."""
    names, package = set(), ""
    for line in PENDING.read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            package, _, line = line.partition(":")
        names |= {f"{package}.{name}" for name in line.split() if not line.startswith("#")}
    return names


def to_change(decided):
    """Return the names that are to be renamed or dropped."""
    return {name for name, decision in decided.items() if decision.target != name}


def test_each_exported_name_has_a_decision():
    decided = decisions()
    assert len(decided) > 300
    assert sorted(exported() - decided.keys()) == [], "add lines to docs/api.txt"
    early = [name for name in exported() if decided[name].kind == "new"]
    assert early == [], "exported already: replace `new` by `keep`"


def test_each_decision_is_about_an_exported_name():
    decided, names = decisions(), exported()
    to_keep = {name for name, decision in decided.items() if decision.kind == "keep"}
    assert sorted(to_keep - names) == [], "export these or delete their lines"
    done = sorted(to_change(decided) - names)
    assert done == [], "renamed or dropped: run `python tests/docs/test_api.py`"


def test_the_names_still_to_be_changed_are_listed():
    left, listed = to_change(decisions()), pending()
    assert sorted(left - listed) == [], "the list only shrinks: keep new names, or export none"
    assert sorted(listed - left) == [], "run `python tests/docs/test_api.py`"


def test_names_differ_after_the_changes():
    targets = [decision.target for decision in decisions().values() if decision.target]
    assert sorted(t for t in set(targets) if targets.count(t) > 1) == []


def test_each_public_name_has_a_page():
    decided = decisions()
    targets = {decision.target for decision in decided.values()}
    measures = {path.stem for path in (ROOT / "fairtk").rglob("pages/*.md")}
    tutorials = {path.stem for path in (ROOT / "tutorials").glob("*.py")}
    wrong = []
    for name, (_, target, page) in decided.items():
        folder, _, stem = page.rpartition("/")
        short = name_of(target)
        if not target:
            exists = not page
        elif folder == "api":  # the page of a package has its names; that of a module is its own
            exists = stem == target or f"{stem}.{short}" in targets
        elif folder == "measures":
            exists = stem == short and stem in measures
        elif folder == "tutorials":
            exists = stem in tutorials
        else:
            path = ROOT / "docs" / f"{page}.md"
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            exists = bool({name_of(name), short} & set(re.findall(r"\w+", text)))
        if not exists:
            wrong.append((name, page))
    assert wrong == []


def imports(path):
    """Return the names that a file imports from packages of fairtk, qualified."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


def test_tutorials_and_examples_import_no_name_that_will_be_dropped():
    """Plugins: `test_private_imports_of_plugins_are_listed` of test_architecture.py."""
    paths = [path for root in ("tutorials", "examples") for path in files(root)]
    used = set().union(*map(imports, paths))
    decided = decisions()
    assert len(used & decided.keys()) > 20
    assert {name for name in used & decided.keys() if not decided[name].target} == set()


def files(root):
    return [path for path in (ROOT / root).rglob("*.py") if "build" not in path.parts]


def update():
    """Delete names that are no longer exported from both files; renamed ones become `keep`."""
    names, lines = exported(), []
    for line in API.read_text(encoding="utf-8").splitlines():
        name, words, page, *_ = [*re.split(r"  +", line), "", ""]
        is_done = name not in names and words.startswith(("rename to ", "drop"))
        if line.startswith("#") or not is_done:
            lines.append(line)
        elif target_of(name, words) in names:
            lines.append(f"{target_of(name, words):46}  {'keep':48}  {page}")
    API.write_text("\n".join(lines) + "\n", encoding="utf-8")
    packages = defaultdict(list)
    still_pending = pending() & to_change(decisions())
    for name in sorted(sorted(still_pending), key=str.lower):
        packages[package_of(name)].append(name_of(name))
    rows = [f"{package}: {' '.join(names)}" for package, names in packages.items()]
    head = "# The names of docs/api.txt that are still to be renamed or dropped; see test_api.py."
    wrapped = [textwrap.fill(row, 100, subsequent_indent="    ") for row in rows]
    PENDING.write_text("\n".join([head, *wrapped]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    update()
