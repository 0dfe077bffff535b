"""Run the cases in the text files of a folder and write their outputs below them.

    python tests/approved/write.py                   # rewrite tests/approved/*.txt
    python tests/approved/write.py CASES             # rewrite the files of another folder
    python tests/approved/write.py CASES FOLDER      # write to a folder

CASES is plugins/NAME/tests/approved for the cases of a plugin, which alone is loaded.

A line that begins with ``$ fairtk`` is a command and ``>>>`` is Python, which ``...`` continues;
``#`` is a comment. Everything else is output and is replaced. To add a case, add its line and run
this script. Each file runs in a new folder that has the files of ``inputs``, if there is one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
PLUGIN = "" if CASES == HERE else CASES.parents[1].name
TEMPORARY = tempfile.TemporaryDirectory(prefix="fairtk-approved-")
WORK = Path(TEMPORARY.name).resolve()
os.environ |= {
    "COLUMNS": "100",
    "CUDA_VISIBLE_DEVICES": "",
    "FAIRTK_HOME": str(WORK / "home"),
    "FAIRTK_PLUGINS": PLUGIN,  # the same outputs with and without other plugins
    "HF_HUB_OFFLINE": "1",
    "IR_DATASETS_HOME": str(WORK / "home"),
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
}

import click.testing  # noqa: E402

import fairtk  # noqa: E402
from fairtk.cli.group import cli  # noqa: E402
from fairtk.errors import FairtkWarning  # noqa: E402

CASE = re.compile(r"^>>> .*(?:\n\.\.\..*)*|^\$ fairtk .*|^#.*(?:\n#.*)*", re.MULTILINE)
REPLACED = {str(WORK): "<tmp>", fairtk.__version__: "<version>"}


def main(folder: Path) -> None:
    """Write the files with the outputs of now to a folder."""
    sys.displayhook = show
    for path in sorted(CASES.glob("*.txt")):
        place = WORK / path.stem
        if (CASES / "inputs").exists():
            shutil.copytree(CASES / "inputs", place)
        place.mkdir(exist_ok=True)
        with contextlib.chdir(place):
            text = transcript(path.read_text(encoding="utf-8"))
        (folder / path.name).write_text(text, encoding="utf-8")


def transcript(text: str) -> str:
    """Return the cases of a file, each followed by its output, indented."""
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = ""
    for case in CASE.findall(text):
        if case.startswith("#"):
            blocks += f"\n{case}\n"
        else:
            output = stable(command(case) if case.startswith("$") else python(case, names))
            blocks += f"{case}\n" + (textwrap.indent(output, "    ") + "\n\n" if output else "")
    return re.sub(r"\n{3,}", "\n\n", blocks).strip() + "\n"


def command(line: str) -> str:
    """Run a command; return what it prints, and its exit code if that is not 0."""
    result = click.testing.CliRunner().invoke(cli, shlex.split(line)[2:], prog_name="fairtk")
    code = f"exit code {result.exit_code}\n" if result.exit_code else ""
    return result.output + code


def python(source: str, names: dict[str, object]) -> str:
    """Run a statement; return what it prints, its value, its error and its warnings."""
    code = re.sub(r"^(>>>|\.\.\.) ?", "", source, flags=re.MULTILINE) + "\n"
    stream = io.StringIO()
    with (
        contextlib.redirect_stdout(stream),
        warnings.catch_warnings(record=True, action="always", category=FairtkWarning) as caught,
    ):
        try:
            exec(compile(code, "<case>", "single"), names)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    notes = [w.message for w in caught if isinstance(w.message, FairtkWarning)]
    lines = dict.fromkeys(f"{type(note).__name__}: {note}\n" for note in notes)
    return stream.getvalue() + "".join(lines)


def show(value: object) -> None:
    """Print the value of a statement, a frame with all rows and columns."""
    if hasattr(value, "to_string"):
        value = value.to_string(float_format="{:.8g}".format)
    if value is not None:
        print(value)


def stable(text: str) -> str:
    """Return a text without what differs between runs and machines."""
    for found, name in REPLACED.items():
        text = text.replace(found, name)
    text = re.sub(r"(?<=^seconds: ).*|(?<= at )0x[0-9a-f]+", "...", text, flags=re.MULTILINE)
    text = re.sub(r"\d+\.\d{11,}(e-\d+)?", lambda digits: f"{float(digits[0]):.10g}", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


if __name__ == "__main__":
    main(Path(sys.argv[2]) if len(sys.argv) > 2 else CASES)
