"""Time the command line and ``import fairtk``, each against the import of its libraries.

Run: ``python benchmarks/bench_start.py``. Seconds of CPU, the median of each, with compiled
files as an installed package has them. ``fairtk --help`` and ``fairtk evaluate --help``, which
import neither, should take at most 0.3 times ``import click, pandas``, ``import fairtk`` at most
1.2 times ``import pandas, ir_measures, ir_datasets``.
"""

import os
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

from sizes import scale

SCRIPT = str(Path(sysconfig.get_path("scripts"), "fairtk"))
CLICK, LIBRARIES = "import click, pandas", "import pandas, ir_measures, ir_datasets"
WORDS = {
    CLICK: (CLICK, ["-c", CLICK]),
    "fairtk --help": (CLICK, [SCRIPT, "--help"]),
    "fairtk evaluate --help": (CLICK, [SCRIPT, "evaluate", "--help"]),
    LIBRARIES: (LIBRARIES, ["-c", LIBRARIES]),
    "import fairtk": (LIBRARIES, ["-c", "import fairtk"]),
}
"""What is measured, beside what, and the arguments of Python."""
COMPILED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def seconds(words):
    before = os.times()
    command = [sys.executable, *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, env=COMPILED, check=True)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def main(repeats: int = scale(9, 1)):
    taken = {name: [] for name in WORDS}
    for turn in range(repeats + 1):  # in turns: what else the machine does falls on all alike
        for name, (_, words) in WORDS.items():
            spent = seconds(words)
            if turn > 0:  # the first one may compile
                taken[name].append(spent)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, median in medians.items():
        print(f"{name:<42}{median:6.2f} s  {median / medians[WORDS[name][0]]:5.2f}")


if __name__ == "__main__":
    main()
