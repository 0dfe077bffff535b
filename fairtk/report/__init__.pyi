from .page import Section as Section
from .page import load_sections as load_sections
from .page import page_text as page_text
from .page import save_sections as save_sections
from .page import write_report as write_report

# What other rooms use, and users need not:
# isort: split
from .curves import CURVES as CURVES
from .curves import CurveValue as CurveValue
from .curves import TwoLevels as TwoLevels
from .curves import area_under as area_under
from .curves import curve_values as curve_values
from .curves import plot_trade_off as plot_trade_off
from .curves import power_of_test as power_of_test
from .curves import queries_needed as queries_needed
from .curves import two_levels as two_levels
from .statistics import CORRECTIONS as CORRECTIONS
from .statistics import TESTS as TESTS
from .statistics import MarginTest as MarginTest
from .statistics import PairedTest as PairedTest
from .statistics import cohens_dz as cohens_dz
from .statistics import correct as correct
from .statistics import equivalence_test as equivalence_test
from .statistics import mean_intervals as mean_intervals
from .statistics import non_inferiority_test as non_inferiority_test
from .statistics import paired_test as paired_test
from .tables import TEST_NAMES as TEST_NAMES
from .tables import baseline_table as baseline_table
from .tables import compares_queries as compares_queries
from .tables import corrected_for as corrected_for
from .tables import interval as interval
from .tables import queries_tested as queries_tested
from .tables import signed as signed
