from .alpha_sweep import Frontier as Frontier
from .alpha_sweep import frontier as frontier
from .choices import Sensitivity as Sensitivity
from .choices import sensitivity as sensitivity
from .off_policy import OffPolicyUtility as OffPolicyUtility
from .off_policy import off_policy_utility as off_policy_utility
from .sample_size import Precision as Precision
from .sample_size import precision as precision
