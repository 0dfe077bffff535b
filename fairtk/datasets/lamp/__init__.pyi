from .dataset import from_folder as from_folder
from .dataset import get_license as get_license
from .dataset import get_task as get_task
from .dataset import ids as ids
from .dataset import write_folder as write_folder
