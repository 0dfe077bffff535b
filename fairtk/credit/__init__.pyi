from .citations import Citations as Citations
from .citations import citation_credit as citation_credit
from .subsets import Subsets as Subsets
from .subsets import from_answers as from_answers
from .subsets import leave_one_out as leave_one_out
from .subsets import max_shapley as max_shapley
from .subsets import shapley as shapley
