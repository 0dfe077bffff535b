from .results import QrResults as QrResults
from .settings import QrConfiguration as QrConfiguration
from .settings import QrData as QrData
from .settings import QrSettings as QrSettings
from .settings import Setting as Setting
from .settings import from_trec_fair as from_trec_fair
from .study import QrStudy as QrStudy
