"""`from PACKAGE import *` gives documented objects, and hides no name of Python or IPython."""

import builtins
import importlib
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import fairtk

ROOT = Path(__file__).parents[1]
API = (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines()
DOCUMENTED = {line.split()[0] for line in API if line and not line.startswith("#")}
PLUGINS = sorted({path.parent.name for path in ROOT.glob("plugins/*/*/__init__.py")} - {"tests"})
NAMESPACE = {*dir(builtins), "display", "get_ipython", "In", "Out"}


def packages():
    """Return the packages of fairtk and of its installed plugins, and documented modules."""
    tops = ["fairtk", *(name for name in PLUGINS if find_spec(name))]
    names = {name.rpartition(".")[0] for name in DOCUMENTED}
    for top in tops:
        path = importlib.import_module(top).__path__
        names |= {top, *(m.name for m in pkgutil.walk_packages(path, f"{top}.") if m.ispkg)}
    return sorted(name for name in names if name.partition(".")[0] in tops and is_module(name))


def is_module(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a class, in the name of a method
        return False


@pytest.mark.parametrize("package", packages())
def test_only_documented_objects(package):
    names = {}
    exec(f"from {package} import *", names)
    del names["__builtins__"]
    assert not [name for name, value in names.items() if isinstance(value, ModuleType)]
    assert not NAMESPACE & names.keys()
    if any(name.startswith(f"{package}.") for name in DOCUMENTED):
        assert not [name for name in names if f"{package}.{name}" not in DOCUMENTED]
    else:  # of a plugin, or internal
        assert names.keys() <= set(getattr(importlib.import_module(package), "__all__", ()))


def test_subpackages_are_attributes():
    assert "display" in dir(fairtk) and isinstance(fairtk.display, ModuleType)
    assert {"EE_D", "Experiment", "FairSampler"} <= set(fairtk.__all__)


def test_ipython_keeps_its_display():
    pytest.importorskip("IPython")
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
        "shell = Shell()\n"
        "before = shell.ev('display')\n"
        "shell.run_cell('from fairtk import *').raise_error()\n"
        "assert shell.ev('display') is before and shell.ev('EE_D').NAME == 'EE_D'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
