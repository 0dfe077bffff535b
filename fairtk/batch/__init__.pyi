from .batches import Batches as Batches
from .batches import ReadReport as ReadReport
from .options import paying_options as paying_options
