from . import fair_qr as fair_qr
from . import fair_rag as fair_rag
from .frame import StudyPlan as StudyPlan
