from .figures import plot_requests as plot_requests
from .figures import plot_spread as plot_spread
from .figures import plot_trade_off as plot_trade_off
from .labels import UtilityLabels as UtilityLabels
from .labels import agreement as agreement
from .labels import statistics as statistics
from .labels import utility_labels as utility_labels
from .results import RagResults as RagResults
from .results import model_sections as model_sections
from .results import save_model_sections as save_model_sections
from .results import saved_settings as saved_settings
from .results import write_figures as write_figures
from .settings import LampTask as LampTask
from .settings import RagSettings as RagSettings
from .settings import label_agreement as label_agreement
from .settings import make_generator as make_generator
from .settings import make_retriever as make_retriever
from .settings import read_tasks as read_tasks
from .study import Configuration as Configuration
from .study import RagPlan as RagPlan
from .study import RagStudy as RagStudy
from .study import make_plan as make_plan
from .study import read_configuration as read_configuration
from .tables import baselines as baselines
from .tables import beside_paper as beside_paper
from .tables import fairness_intervals as fairness_intervals
from .tables import normalized_utility as normalized_utility
from .tables import paper_numbers as paper_numbers
from .tables import trade_offs as trade_offs
from .tables import uniform_end as uniform_end

# What other rooms use, and users need not:
# isort: split
from .study import of_source as of_source
