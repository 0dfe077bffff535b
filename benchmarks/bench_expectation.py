"""E(...) over all samples at once against its providers, and what the check for samples costs.

Run manually: ``python benchmarks/bench_expectation.py``. All numbers are ratios in one run.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import ir_measures
import numpy as np
from bench_measures import REPEATS, frames
from ir_measures import AP, RR, P, R, Success, nDCG

from fairtk import E
from fairtk.measures import expectation

ALL = [nDCG @ 5, P @ 5, R @ 5, AP, RR, RR @ 5, Success @ 5]


def seconds(function: object, *args: object) -> float:
    """Return the median processor time of some calls: others may use this machine, too."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function(*args)  # type: ignore[operator]
        times.append(time.process_time() - start)
    return float(np.median(times))


def main() -> None:
    """Print the ratios."""
    qrels, sampled, plain = frames()
    for measures in (*([measure] for measure in ALL), ALL):
        wanted = [E(m) for m in measures]
        ours = seconds(ir_measures.calc_aggregate, wanted, qrels, sampled)
        with patch.object(expectation, "kernel_of", lambda measure: None):
            theirs = seconds(ir_measures.calc_aggregate, wanted, qrels, sampled)
        print(f"E of {measures}, {len(sampled):,} rows: {ours:.2f} s; by providers {theirs:.2f} s")
        print(f"  ratio {theirs / ours:.1f} (wanted: at least 8)")
    providers = ir_measures.DefaultPipeline.providers
    bare = ir_measures.providers.FallbackProvider([p for p in providers if "fairtk" not in p.NAME])
    rows = list(ir_measures.util.RunConverter(plain).as_namedtuple_iter())
    for name, run in {"frame": plain, "rows": rows}.items():
        checked = seconds(ir_measures.calc_aggregate, [nDCG @ 5], qrels, run)
        without = seconds(bare.calc_aggregate, [nDCG @ 5], qrels, run)
        print(f"nDCG@5 of a {name} without samples, by its time without the check: ", end="")
        print(f"{checked / without:.2f} (wanted: at most 1.10)")


if __name__ == "__main__":
    main()
