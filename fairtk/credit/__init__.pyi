from .subsets import leave_one_out as leave_one_out
from .subsets import max_shapley as max_shapley
from .subsets import shapley as shapley
