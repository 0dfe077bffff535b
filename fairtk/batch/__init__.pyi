from .batches import Batches as Batches
from .batches import ReadReport as ReadReport
