"""fairtk: who gets seen, by people or by a language model, and what that costs or gains.

Importing fairtk loads the plugins, makes their measures known to ir_measures and their data sets
to ir_datasets. Transformers and everything heavy are imported on first use; by the command line,
everything is.
"""

from __future__ import annotations

import lazy_loader

from fairtk.plugins import is_command_line

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

if not is_command_line():  # which does it when a command runs, not for its help
    from fairtk.builtin import connect

    connect()
