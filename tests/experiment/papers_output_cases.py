"""As `output_cases`, for fairtk-papers, whose classes keep the names that they had in fairtk."""

from fairtk_papers.fair_qr.settings import Texts
from fairtk_papers.fair_qr.systems import RandomTerms
from output_cases import applied, chat_case, ranked

from fairtk import demo


def texts(folder):
    stage = Texts(demo.load().dataset)
    return applied(stage, ranked().drop(columns="text").head(20))


CASES = {
    "fairtk.Texts": texts,
    "fairtk.RandomTerms": chat_case(
        lambda folder: RandomTerms(["silver", "market", "willow", "lantern"])
    ),
}
