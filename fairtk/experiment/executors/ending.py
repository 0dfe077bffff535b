"""Run inside the scheduler and nannies of a cluster on this machine: they end with their starter.

Dask reads this file by its path, so that these processes need not import fairtk.
"""

import os
import threading
import time


def dask_setup(_server: object) -> None:
    """Watch the process that started this one; if it is killed, the system gives another parent."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
