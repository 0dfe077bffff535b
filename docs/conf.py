"""The documentation site: ``sphinx-build -W -b html docs docs/_build/html``."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import fairtk

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE / "makers")]

from release import full_name, read  # noqa: E402 - of makers

project = "fairtk"
author = ", ".join(full_name(author) for author in read()["authors"])
copyright = author  # noqa: A001 - Sphinx's name
version = release = fairtk.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinxcontrib.bibtex",
    "accessible",
    "commands",
    "formulas",
    "generated_pages",
    "llms",
]
exclude_patterns = [
    "_build",
    "_ext",
    "makers",
    "upstream",
    "**/.ipynb_checkpoints",
    "jupyter_execute",
]
templates_path = []

html_math_renderer = "drawn"  # see formulas.py
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_theme = "furo"
html_title = f"fairtk {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

default_role = "code"
smartquotes_action = "D"  # dashes alone: what is quoted is copied
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # the signature has them

bibtex_bibfiles = ["references.bib"]  # written by generated_pages, of fairtk and its plugins
bibtex_default_style = "plain"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type", "myst-nb.lexer"]

_startup = HERE / "_build" / "ipython" / "profile_default" / "startup" / "start.py"
_startup.parent.mkdir(parents=True, exist_ok=True)
shutil.copy(HERE / "_ext" / "notebook_start.py", _startup)
os.environ["IPYTHONDIR"] = str(_startup.parents[2])

# recipes call `fairtk` by name: that of this Python
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

nb_execution_excludepatterns = []
if importlib.util.find_spec("pyterrier_rag") is None:  # no extra has it; see .ci/run
    nb_execution_excludepatterns += ["cookbook/pyterrier_rag*", "cookbook/agents*"]
nb_execution_mode = os.environ.get("FAIRTK_DOCS_EXECUTE", "cache")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_execution_cache_path = str(HERE / "_build" / "executed")
os.environ.setdefault("FAIRTK_TUTORIAL_FAST", "1")
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
