"""The documented commands of pip install what they name, in an order that old versions accept.

Before version 23.3, pip finds fairtk for ``fairtk[extra]`` of a plugin only if fairtk comes first,
and it takes editable projects after all others. Therefore fairtk comes before its plugins, and all
are editable or none is.
"""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "docs/**/*.md", "plugins/*/README.md", "tutorials/*.py", ".ci/run")
COMMAND = re.compile(r"\bpip install ([^`&\n]*)")


def commands():
    paths = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
    for path in paths:
        if "_build" in path.parts or path.name == "CHANGELOG.md":
            continue
        for match in COMMAND.finditer(path.read_text(encoding="utf-8")):
            if "plugins/fairtk-" in match[1]:
                yield path.relative_to(ROOT).as_posix(), match[1].partition("#")[0].strip()


def projects(arguments):
    """Return the folders that a command installs, with whether each is editable."""
    words = shlex.split(arguments.rstrip(").,"))
    return [
        (word.removeprefix("./").partition("[")[0] or ".", words[i - 1] == "-e")
        for i, word in enumerate(words)
        if re.match(r"\.|plugins/", word)
    ]


def test_projects():
    text = "-c constraints.txt -e '.[docs]' ./plugins/fairtk-papers"
    assert projects(text) == [(".", True), ("plugins/fairtk-papers", False)]


@pytest.mark.parametrize("page, arguments", [*commands()])
def test_fairtk_comes_first_and_all_are_alike(page, arguments):
    folders = projects(arguments)
    assert all((ROOT / name / "setup.cfg").is_file() for name, _ in folders)
    assert len({editable for _, editable in folders}) == 1
    names = [name for name, _ in folders]
    # a plugin alone is for an environment that has fairtk
    assert names[0] == "." or len(names) == 1


def test_the_gate_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.findall(r"<!-- (\w+) -->\n```sh\n(.+)\n```", readme)
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [name for name, _ in marked] == ["demo", "tests", "site"]
    assert "for name in demo tests; do" in gate and "$(readme site)" in gate
    unmarked = re.sub(r"<!-- \w+ -->\n```sh\n.+\n```", "", readme)
    assert ".venv/bin/" not in unmarked
