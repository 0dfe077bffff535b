from .dataset import from_folder as from_folder
from .dataset import ids as ids
from .dataset import license_of as license_of
from .dataset import task_of as task_of
from .dataset import write_folder as write_folder
