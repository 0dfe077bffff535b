"""A Dask preload that ends the scheduler and nannies of a local cluster with their parent process.

Dask loads this file by its path, so these processes need not import fairtk.
"""

import os
import threading
import time

STARTER = "FAIRTK_STARTER"
"""The variable with the id of the process that starts the cluster."""


def _watch(starter: int) -> None:
    while os.getppid() == starter:  # the parent of an orphan is another process
        time.sleep(1)
    os._exit(1)


if __name__ == "orphan_guard":  # loaded by path; workers import fairtk and end with their nanny
    threading.Thread(target=_watch, args=(int(os.environ[STARTER]),), daemon=True).start()
