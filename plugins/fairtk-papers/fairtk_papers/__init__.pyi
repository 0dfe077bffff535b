from . import fair_qr as fair_qr
from . import fair_rag as fair_rag
from . import published_code as published_code
from . import testing as testing
from .studies import StudyPlan as StudyPlan
