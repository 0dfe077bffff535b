from .results import StudyResults as StudyResults
from .settings import QrConfiguration as QrConfiguration
from .settings import Setting as Setting
from .settings import Settings as Settings
from .settings import StudyData as StudyData
from .settings import Texts as Texts
from .settings import from_trec_fair as from_trec_fair
from .study import Study as Study

# What other rooms use, and users need not:
# isort: split
from .report import change_table as change_table
from .report import comparison as comparison
from .report import paper_table as paper_table
from .systems import make_model as make_model
from .systems import with_model as with_model
