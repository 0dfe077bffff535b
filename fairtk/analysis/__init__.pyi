from .findings import LEVELS as LEVELS
from .findings import Diagnosis as Diagnosis
from .findings import Finding as Finding
from .frontier import Frontier as Frontier
from .off_policy import OffPolicyUtility as OffPolicyUtility
from .off_policy import off_policy_utility as off_policy_utility
from .precision import Precision as Precision
from .sensitivity import CHOICES as CHOICES
from .sensitivity import Sensitivity as Sensitivity

# What other rooms use, and users need not:
# isort: split
from .evaluate import Data as Data
from .evaluate import EvaluatedRuns as EvaluatedRuns
from .evaluate import GivenGroups as GivenGroups
from .evaluate import RunValues as RunValues
from .evaluate import aggregated as aggregated
from .evaluate import as_labels as as_labels
from .evaluate import completed as completed
from .evaluate import evaluated as evaluated
from .evaluate import parse_with as parse_with
from .evaluate import unique_names as unique_names
from .precision import Margin as Margin
from .precision import SamplingVariances as SamplingVariances
from .precision import SystemComparison as SystemComparison
