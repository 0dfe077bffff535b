from .figures import plot_credit as plot_credit
from .figures import plot_requests as plot_requests
from .figures import plot_spread as plot_spread
from .figures import plot_trade_off as plot_trade_off
from .labels import UtilityLabels as UtilityLabels
from .labels import agreement as agreement
from .labels import label_agreement as label_agreement
from .labels import statistics as statistics
from .labels import utility_labels as utility_labels
from .results import RagResults as RagResults
from .results import save_model_sections as save_model_sections
from .results import saved_settings as saved_settings
from .results import write_figures as write_figures
from .settings import LampTask as LampTask
from .settings import RagConfiguration as RagConfiguration
from .settings import RagSettings as RagSettings
from .settings import make_generator as make_generator
from .settings import make_retriever as make_retriever
from .settings import read_tasks as read_tasks
from .study import RagStudy as RagStudy
from .study import credit_values as credit_values
from .tables import beside_paper as beside_paper
from .tables import credit_table as credit_table
from .tables import fairness_intervals as fairness_intervals
from .tables import normalized_utility as normalized_utility
from .tables import paper_numbers as paper_numbers
from .tables import paper_tables as paper_tables
from .tables import place_table as place_table
from .tables import trade_offs as trade_offs
from .tables import uniform_end as uniform_end

# What other rooms use, and users need not:
# isort: split
from .study import n_subsets as n_subsets
from .study import subsets_of as subsets_of
