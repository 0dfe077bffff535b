from .divergence import Distributions as Distributions
from .divergence import Divergence as Divergence
from .divergence import JensenShannon as JensenShannon
from .divergence import KullbackLeibler as KullbackLeibler
from .divergence import ReverseKullbackLeibler as ReverseKullbackLeibler
from .divergence import SparseRows as SparseRows
from .divergence import js_divergence as js_divergence
from .divergence import js_terms as js_terms
from .divergence import kl_divergence as kl_divergence
from .divergence import log_of as log_of
from .divergence import spread as spread
from .exposure import Memberships as Memberships
from .exposure import group_exposure as group_exposure
from .exposure import shown_documents as shown_documents
from .factored import BACKGROUNDS as BACKGROUNDS
from .factored import background as background
from .groups import Groups as Groups
from .levels import UNKNOWN as UNKNOWN
from .levels import Level as Level
from .levels import LevelSpace as LevelSpace
from .target import Target as Target

# What other rooms use, and users need not:
# isort: split
from .exposure import attention_matrix as attention_matrix
from .exposure import coverage as coverage
from .exposure import coverage_of as coverage_of
from .exposure import expeval_group_values as expeval_group_values
from .exposure import expeval_target as expeval_target
from .exposure import free_attention as free_attention
from .exposure import jensen_shannon_bounds as jensen_shannon_bounds
from .exposure import loss_parts as loss_parts
from .exposure import rank_fairness as rank_fairness
from .exposure import unreachable as unreachable
from .groups import attribute_of_rows as attribute_of_rows
from .levels import Documents as Documents
from .memberships import Attribute as Attribute
