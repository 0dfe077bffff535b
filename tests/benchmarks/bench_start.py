"""How long the command line takes to say something, beside importing click and pandas.

Run: ``python tests/benchmarks/bench_start.py``. Seconds of CPU, the median of each; the ratio of
``fairtk --help`` should be at most 0.6.
"""

import os
import statistics
import subprocess
import sys

WORDS = {
    "import click, pandas": ["-c", "import click, pandas"],
    "fairtk --help": ["-m", "fairtk", "--help"],
    "fairtk evaluate --help": ["-m", "fairtk", "evaluate", "--help"],
    "import pandas, ir_measures, ir_datasets": ["-c", "import pandas, ir_measures, ir_datasets"],
    "import fairtk": ["-c", "import fairtk"],
}


def seconds(words):
    before = os.times()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def main(repeats=9):
    taken = {name: [] for name in WORDS}
    for _ in range(repeats):  # in turns, so that what else the machine does falls on all alike
        for name, words in WORDS.items():
            taken[name].append(seconds(words))
    base = statistics.median(taken["import click, pandas"])
    for name, values in taken.items():
        median = statistics.median(values)
        print(f"{name:<42}{median:6.2f} s  {median / base:5.2f}")


if __name__ == "__main__":
    main()
