"""Reports: seconds to make a page, its size, and seconds until a browser lists its queries.

    python benchmarks/bench_report.py [QUERIES ...]

Seven systems (alpha 0, 0.5, 1, 2, 4, 8 and the deterministic ranking) over 100 candidates of 30
words, 100 sampled rankings of five, and an answer of up to ten words that the first two documents
decide.
The last line is a ratio within one run: seconds of the report over seconds of the means it shows.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from ir_measures import nDCG
from sizes import scale

import fairtk
from fairtk import EE_D, EE_R, EU, E, FairSampler

ALPHAS = (0, 0.5, 1, 2, 4, 8)
N_SAMPLES, N_DOCUMENTS, CUTOFF = scale((100, 100), (5, 20)) + (5,)
WORDS = [f"{a}{b}" for a in ("ba", "di", "ko", "lu", "me") for b in "bcdfghjklmnprst"]


def text(rng: np.random.Generator, n: int) -> str:
    return " ".join(rng.choice(WORDS, n))


def world(n_queries: int) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Return the rankings of the systems, and labels."""
    rng = np.random.default_rng(0)
    rows, answers, golds = [], {}, {}
    for q in range(n_queries):
        scores = np.sort(rng.random(N_DOCUMENTS))[::-1]
        golds[f"q{q}"] = text(rng, 6)
        rows += [
            (f"q{q}", text(rng, 12), f"{q}/{j:04}", scores[j], j, text(rng, 30))
            for j in range(N_DOCUMENTS)
        ]
        answers |= {f"{q}/{j:04}": text(rng, int(rng.integers(2, 6))) for j in range(N_DOCUMENTS)}
    columns = ["qid", "query", "docno", "score", "rank", "text"]
    run = pd.DataFrame(rows, columns=columns)
    systems = {f"alpha {a:g}": FairSampler(a, N_SAMPLES, CUTOFF)(run) for a in ALPHAS}
    systems["fixed"] = run[run["rank"] < CUTOFF].assign(sample=0)
    found = {}
    for name, frame in systems.items():
        top = frame[frame["rank"] < 2].sort_values(["qid", "sample", "rank"])
        said = top["docno"].map(answers).groupby([top["qid"], top["sample"]]).agg(" ".join)
        keys = pd.MultiIndex.from_frame(frame[["qid", "sample"]])
        found[name] = frame.assign(qanswer=said.reindex(keys).to_numpy())
    found["fixed"] = found["fixed"].drop(columns="sample")
    qrels = run[["qid", "docno"]].assign(
        label=(rng.random(len(run)) < 0.05).astype(int), gold_answer=run["qid"].map(golds)
    )
    return found, fairtk.drop_undefined(qrels)


def opened(path: Path) -> float:
    """Return the seconds until a browser lists the queries of a page."""
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as profile:
        for option in ("headless", "no-sandbox", "disable-gpu", f"user-data-dir={profile}"):
            options.add_argument(f"--{option}")
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            started = time.perf_counter()
            driver.get(path.as_uri())
            driver.execute_script("document.getElementById('queries').open = true")
            WebDriverWait(driver, 60, 0.02).until(
                lambda d: d.find_elements(By.CSS_SELECTOR, "details.query")
            )
            listed = time.perf_counter() - started
            started = time.perf_counter()
            driver.find_element(By.CSS_SELECTOR, "details.query > summary").click()
            WebDriverWait(driver, 60, 0.02).until(
                lambda d: d.find_elements(By.CSS_SELECTOR, ".opened details")
            )
            print(f"  listed in {listed:.2f} s, a query in {time.perf_counter() - started:.2f} s")
        finally:
            driver.quit()
    return listed


def main() -> None:
    for n_queries in map(int, sys.argv[1:] or scale(("100", "1000"), ("3",))):
        systems, qrels = world(n_queries)
        started = time.perf_counter()
        measures = [EE_D @ CUTOFF, EE_R @ CUTOFF, E(nDCG @ CUTOFF), EU(utility="rougeL")]
        results = fairtk.Experiment(systems, qrels=qrels, measures=measures, baseline="fixed")
        measured = time.perf_counter() - started
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            started = time.perf_counter()
            results.report(path)
            seconds = time.perf_counter() - started
            print(
                f"{len(results.per_query['qid'].unique())} queries x {len(systems)} systems x "
                f"{N_SAMPLES} samples: page in {seconds:.1f} s, {path.stat().st_size / 1e6:.1f} MB"
            )
            if shutil.which("chromedriver"):
                opened(path)
        print(f"  report / measuring: {seconds / measured:.2f}")


if __name__ == "__main__":
    main()
