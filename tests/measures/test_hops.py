"""How often the code of one measure jumps between files: parameters are read when it is made."""

import gc
import sys
from pathlib import Path

import ir_measures
import pandas as pd

import fairtk
from fairtk import EE_D

PACKAGE = Path(fairtk.__file__).parent
DOCS = [f"d{i}" for i in range(8)]
QRELS = pd.DataFrame({"query_id": "q", "doc_id": DOCS, "relevance": [1, 0, 0, 1, 0, 0, 0, 0]})
RUN = pd.DataFrame({"query_id": "q", "doc_id": DOCS, "score": [float(-i) for i in range(8)]})


def called_files(function):
    """The file, inside the package, of every call that a function leads to, in order."""
    files = []

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            files.append(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    gc.disable()  # what else ends meanwhile is not of this function
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return files


def changes(files):
    return sum(one != other for one, other in zip([None, *files], files, strict=False))


def test_one_measure_from_its_making_to_its_value():
    def measured():
        ir_measures.calc_aggregate([EE_D @ 5], QRELS, RUN)

    measured()  # plugins are loaded, lazy modules imported
    files = called_files(measured)
    own = [f for f in files if f.startswith(("measures/ee", "measures/params", "exposure/"))]
    assert "measures/ee.py" in own and "exposure/expected.py" in own
    assert changes(own) <= 14
    assert changes(files) <= 43


def test_no_parameter_is_looked_up_while_a_measure_scores():
    evaluator = ir_measures.evaluator([EE_D @ 5], QRELS)
    list(evaluator.iter_calc(RUN))
    assert "measures/params.py" not in called_files(lambda: list(evaluator.iter_calc(RUN)))
