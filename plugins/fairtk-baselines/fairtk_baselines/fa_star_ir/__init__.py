"""FA*IR: enough protected documents in every prefix of a ranking.

`FAStarIR` reranks; `mtable` and `multinomial_test` are the tests behind it, `fail_probability` says
how often an m-table rejects a fair ranking, and `mtree` lists the smallest fair counts of groups.
"""

from fairtk_baselines.fa_star_ir.binomial import MTable, fail_probability, mtable
from fairtk_baselines.fa_star_ir.multinomial import MultinomialTest, mtree, multinomial_test
from fairtk_baselines.fa_star_ir.reranker import FAStarIR

__all__ = [
    "FAStarIR",
    "MTable",
    "MultinomialTest",
    "fail_probability",
    "mtable",
    "mtree",
    "multinomial_test",
]
