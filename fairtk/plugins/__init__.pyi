from . import host as host
from . import registry as registry
from .hookspecs import hookimpl as hookimpl
from .host import HOST as HOST
from .host import loaded as loaded
from .host import register as register
from .host import unregister as unregister
from .references import bibliography as bibliography
from .references import citation_keys as citation_keys
from .references import cite as cite
from .references import cite_results as cite_results
from .references import help_address as help_address
from .registry import BackendSpec as BackendSpec
from .registry import ChatModelSpec as ChatModelSpec
from .registry import DatasetSpec as DatasetSpec
from .registry import PromptSpec as PromptSpec
from .registry import StudySpec as StudySpec
from .registry import StudySystemSpec as StudySystemSpec
from .registry import TransformerSpec as TransformerSpec
from .registry import UtilitySpec as UtilitySpec

# What other rooms use, and users need not:
# isort: split
from .references import SITE as SITE
from .registry import GROUPS as GROUPS
from .registry import ModelSpec as ModelSpec
from .registry import as_divergence as as_divergence
from .registry import as_position_model as as_position_model
from .registry import load_target as load_target
from .registry import parse_call as parse_call
from .registry import read_browsing as read_browsing
from .registry import refuse_other_than_text as refuse_other_than_text
from .registry import refuse_unknown_options as refuse_unknown_options
from .registry import register_groups as register_groups
from .registry import register_target as register_target
from .streams import on_terminal as on_terminal
from .streams import to_stderr as to_stderr
