"""As `output_cases`, for fairtk-papers, whose classes keep the names that they had in fairtk."""

from fairtk_papers.fair_qr.settings import Texts
from fairtk_papers.fair_qr.systems import RandomTerms
from output_cases import applied, chat_case, measured, ranked, sampled

from fairtk import demo


def texts(folder):
    stage = Texts(demo.load().dataset)
    return applied(stage, ranked().drop(columns="text").head(20))


CASES = {
    "fairtk.Texts": texts,
    "fairtk.RandomTerms": chat_case(
        lambda folder: RandomTerms(["silver", "market", "willow", "lantern"])
    ),
    **{
        f"fairtk_papers.{name.removesuffix('@5')}": measured(name, sampled)
        for name in (
            *("EE_D_expeval", "EE_R_expeval", "EE_L_expeval"),
            *("GroupEE_D_expeval", "GroupEE_R_expeval", "GroupEE_L_expeval"),
            *("EE_D_fair_rag@5", "EE_R_fair_rag@5", "EE_L_fair_rag@5"),
        )
    },
}
