from .compare_runs import Comparison as Comparison
from .compare_runs import compare as compare
from .compare_runs import evaluate as evaluate
from .executors import DaskExecutor as DaskExecutor
from .executors import ProcessExecutor as ProcessExecutor
from .executors import SerialExecutor as SerialExecutor
from .findings import Diagnosis as Diagnosis
from .findings import Finding as Finding
from .identity import identified as identified
from .results import Results as Results
from .run import Experiment as Experiment
from .run import Plan as Plan
from .run import export as export
from .run import open_results as open_results
from .run import plan as plan
from .saved import results_schema as results_schema
from .store import prune as prune
from .store import stored as stored
from .tuning import folds as folds
from .tuning import tune as tune

# What other rooms use, and users need not:
# isort: split
from .engine import Topics as Topics
from .identity import Tree as Tree
from .identity import describe_stage as describe_stage
from .identity import environment as environment
from .packing import unpack as unpack
from .store import Store as Store
from .tuning import Tuner as Tuner
from .tuning import combinations as combinations
