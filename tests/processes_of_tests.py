"""What holds in each process that runs tests, and in those that it starts; conftests import it."""

import gc
import os
import signal
import ssl
import sys
import tempfile

# Tests run in several processes: torch's threads would only get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start would each compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each client of a server would read all certificates of the system; those of a folder are read
# when they are needed, and servers of tests need none.
os.environ.setdefault("SSL_CERT_DIR", ssl.get_default_verify_paths().openssl_capath)

# A shell ignores Ctrl-C for what it starts in the background, and what that starts, too: processes
# that tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Caches of data files, which are many and small here, go with the tests.
if "FAIRTK_HOME" not in os.environ:
    CACHES = tempfile.TemporaryDirectory(prefix="fairtk-tests-")
    os.environ["FAIRTK_HOME"] = CACHES.name


def pytest_collection_finish():
    """Collect garbage more rarely, and never among all that modules consist of: it stays anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
