from .group import FairtkGroup as FairtkGroup
from .group import main as main
