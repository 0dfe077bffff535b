from .data import Setting as Setting
from .data import StudyData as StudyData
from .data import Texts as Texts
from .data import from_trec_fair as from_trec_fair
from .results import StudyResults as StudyResults
from .settings import Settings as Settings
from .settings import read_study as read_study
from .study import Study as Study

# What other rooms use, and users need not:
# isort: split
from .report import need_matplotlib as need_matplotlib
from .settings import StudyFile as StudyFile
from .study import Plan as Plan
from .systems import kind_of_settings as kind_of_settings
from .systems import make_model as make_model
from .systems import make_retriever as make_retriever
from .systems import names_of as names_of
from .systems import parse_model as parse_model
from .tables import change_table as change_table
from .tables import comparison as comparison
