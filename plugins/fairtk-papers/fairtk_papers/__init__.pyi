from . import fair_qr as fair_qr
from . import fair_rag as fair_rag
from . import testing as testing
from .studies import StudyPlan as StudyPlan
