"""Read by the scheduler and nannies of a cluster on this machine: they end with their starter.

Dask reads this file by its path as soon as such a process begins, so that it need not import
fairtk. Elsewhere it does nothing.
"""

import os
import threading
import time

STARTER = "FAIRTK_STARTER"
"""The variable that holds the number of the process that starts the cluster."""


def _watch(starter: int) -> None:
    while os.getppid() == starter:  # the parent of an orphan is another process
        time.sleep(1)
    os._exit(1)


if __name__ == "ending":  # read by its path; workers, which import fairtk, end with their nanny
    threading.Thread(target=_watch, args=(int(os.environ[STARTER]),), daemon=True).start()
