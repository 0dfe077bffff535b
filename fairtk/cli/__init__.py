"""The command line: ``fairtk COMMAND``.

Each command is a module of its own, imported when it is called. Plugins add commands with the hook
``fairtk_commands(cli)``.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
