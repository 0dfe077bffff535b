"""The command line: ``fairtk COMMAND``.

Commands are the entry points of the group ``fairtk.commands``, one module per command.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
