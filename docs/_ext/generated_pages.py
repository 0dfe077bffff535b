"""Pages that are written from what fairtk and its plugins declare, before Sphinx reads the sources.

``measures/`` has one page per measure of the registry, ``api/`` one per package of ``api.txt``,
``tutorials/`` the tutorials as notebooks, ``references.bib`` all bibliographies. Git ignores all
of them.
"""

import base64
import importlib
import inspect
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from jupyter_cache import get_cache
from release import placeholders, read
from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.inspect import signature as signature_of
from sphinx.util.inspect import stringify_signature

import fairtk
from fairtk.measures import FairMeasure
from fairtk.measures.pages import SECTIONS, page_of
from fairtk.plugins import loaded_plugins, registry
from fairtk.plugins.references import SITE, bibliography, help_address

DOCS = Path(__file__).parents[1]
TUTORIALS = DOCS.parent / "tutorials"


def measure_pages():
    """Yield the name and the text of each measure's page, then of their list."""
    entries = registry.measures.entries()
    names = [entry.name for entry in entries]
    by_owner = {}
    for entry in entries:
        page = page_of(entry.value)
        by_owner.setdefault(entry.owner, []).append(page)
        yield entry.name, _measure_page(page, entry, names)
    lines = [
        "# Measures",
        "",
        "What each number says, and what it does not. `fairtk measures NAME` prints the same"
        " text. Measures of ir_measures work, too; for sampled rankings, write"
        " [`E(nDCG@5)`](E.md).",
        "",
    ]
    for owner, pages in by_owner.items():
        lines += [f"## {owner}", "", "| measure | says | better |", "| --- | --- | --- |"]
        lines += [
            f"| [{p.name}]({p.name}.md) | {_escaped(p.description.splitlines()[0])} | "
            f"{p.facts['direction'].split()[0]} |"
            for p in pages
        ]
        lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *names, "```", ""]
    yield "index", "\n".join(lines)


def _measure_page(page, entry, names):
    lines = [f"# {page.name}: {page.title[0].lower() + page.title[1:]}", ""]
    lines += [_prose(page.description), "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_escaped(text)} |" for name, text in page.facts.items()]
    lines += [f"| from | {entry.owner} |", ""]
    for heading in SECTIONS:
        text = page.sections.get(heading)
        if text:
            lines += [f"## {heading}", "", _linked(text, names, heading), ""]
    cited = entry.value.CITATION.split()
    if cited:
        lines += ["## References", "", f"Cite {{footcite:p}}`{','.join(cited)}`; BibTeX: "
                  f"`fairtk cite {page.name}`.", "", "```{footbibliography}", "```"]  # fmt: skip
        lines.append("")
    if page.parameters:
        lines += ["## Parameters", "", "| parameter | default | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{name}` | {f'`{default}`' if default else ''} | {_escaped(meaning)} |"
            for name, default, meaning in page.parameters
        ]
    lines.append("")
    return "\n".join(lines)


def _prose(text):
    return text.replace("*", r"\*")


def _escaped(text):
    return text.replace("|", r"\|").replace("*", r"\*")


def _linked(text, names, heading):
    if heading == "Related":
        return re.sub(r"`(\w+)`", lambda m: _link(m.group(1), names), text)
    return text


def _link(name, names):
    return f"[{name}]({name}.md)" if name in names else f"`{name}`"


DOCUMENTED_PACKAGES = {
    "fairtk": "What most programs need: measures, transformers, experiments.",
    "fairtk.measures": "Measures as objects and strings, and the base class of your own.",
    "fairtk.transformers": "Samplers, scorers, generators and FAIR-QR for PyTerrier pipelines.",
    "fairtk.groups": "Memberships of documents in groups, targets, and how far apart the two are.",
    "fairtk.exposure": "Browsing models, expected exposure, Plackett-Luce, on arrays.",
    "fairtk.credit": "Credit of documents in answers: methods, measures, providers.",
    "fairtk.statistics": "Paired tests, intervals, corrections, slopes and areas.",
    "fairtk.experiment": "The durable experiment: store, executors, results.",
    "fairtk.analysis": "Curves over alpha, precision, sensitivity, off-policy estimates.",
    "fairtk.report": "Results as one page of HTML.",
    "fairtk.llm": "Local models and servers, and the ledger of their answers.",
    "fairtk.prompts": "Prompt builders for generators.",
    "fairtk.utilities": "String utilities of answers.",
    "fairtk.datasets": "LaMP and TREC Fair Ranking 2022 as ir_datasets.",
    "fairtk.io": "Run files, qrels and answers, read strictly.",
    "fairtk.display": "Tables as text and figures in one style.",
    "fairtk.testing": "Contracts for plugin authors' tests.",
    "fairtk.plugins": "Hooks, registries and specs for plugins, and citations.",
    "fairtk.errors": "All exceptions and warnings.",
    "fairtk.wording": "Texts of messages, for plugins.",
    "fairtk.demo": "The packaged demo: a collection and a model.",
    "fairtk_classic": "The plugin of classic group-fairness measures.",
    "fairtk_baselines": "The plugin of FA*IR, DetConstSort, DELTR, DLF, MMR and vector search.",
    "fairtk_papers": "The plugin of the two papers' studies: Towards Fair RAG, FAIR-QR.",
}
"""The packages with a page in the API reference; those of plugins if they are installed."""


def api_pages():
    """Yield the name and the text of each package's page, then of their list."""
    installed = {plugin.module.partition(".")[0] for plugin in loaded_plugins()}
    packages = {
        p: text for p, text in DOCUMENTED_PACKAGES.items() if p.partition(".")[0] in installed
    }
    public = {p: names for p, names in public_names().items() if p.partition(".")[0] in installed}
    for package in public:
        summary = inspect.getdoc(importlib.import_module(package)).partition("\n\n")[0]
        packages.setdefault(package, " ".join(summary.split()))
    described = set()
    for package, summary in packages.items():
        if package == "fairtk":
            yield package, _top_page(summary, public)
            continue
        yield package, _package_page(package, public.get(package), described)
    lines = ["# API by package", "", "Import the names that are listed here; others may move.", ""]
    lines += ["| package | contents |", "| --- | --- |"]
    lines += [f"| [{package}]({package}.md) | {text} |" for package, text in packages.items()]
    lines += ["", "```{toctree}", ":hidden:", "", *packages, "```", ""]
    yield "index", "\n".join(lines)


def public_names():
    """Return the names that each API page shows, by package: those of ``api.txt`` with such a page.

    A name that is to be renamed is shown under its present name.
    """
    names = {}
    for line in (DOCS / "api.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, decision, page, *_ = [*re.split(r"  +", line), ""]
            package, _, short = name.rpartition(".")
            if page.startswith(("api/", "measures/")) and not decision.startswith("new"):
                names.setdefault(package, []).append(short)
    return names


def _package_page(package, names, described):
    module = importlib.import_module(package)
    lines = [
        f"# {package}",
        "",
        "```{eval-rst}",
        f".. automodule:: {package}",
        "   :no-members:",
        "",
    ]
    measures = []
    for name in sorted(names or getattr(module, "__all__", ()), key=str.lower):
        value = getattr(module, name)
        if isinstance(value, FairMeasure):
            measures += [name] * (name in registry.measures)  # ABR is EXP with settings
        elif not inspect.ismodule(value):
            lines.append(f".. {_directive(value)}:: {package}.{name}")
            if isinstance(value, type):  # Sphinx takes one description of a class, the first
                lines += ["   :no-index:"] * (value in described)
                described.add(value)
            lines.append("")
    lines += ["```", ""]
    if measures:
        pages = ", ".join(f"[{name}](../measures/{name}.md)" for name in measures)
        lines += [f"Measures, one page per measure: {pages}.", ""]
    return "\n".join(lines)


def _directive(value):
    if isinstance(value, type):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) and value.__doc__ else "autodata"


def _top_page(summary, public):
    """Return the page of the package itself: its names, and where each is described.

    What no page of another package describes is described here.
    """
    values = [
        getattr(importlib.import_module(package), name)
        for package, names in public.items()
        if package != "fairtk"
        for name in names
    ]
    lines = ["# fairtk", "", summary, "", "| name | says |", "| --- | --- |"]
    described_here = []
    for name in sorted(fairtk.__all__, key=str.lower):
        value = getattr(fairtk, name)
        kind = value if isinstance(value, type) or inspect.isfunction(value) else type(value)
        first = (inspect.getdoc(kind) or "").partition("\n")[0]
        package = ".".join(kind.__module__.split(".")[:2])
        page = help_address(kind).removeprefix(SITE) if package in DOCUMENTED_PACKAGES else ""
        link = f"{{py:obj}}`{name} <{page.partition('#')[2]}>`" if page else f"`{name}`"
        if name in registry.measures:
            link = f"[{name}](../measures/{name}.md)"
        elif kind.__module__.startswith("fairtk") and not any(value is v for v in values):
            link = f"[{name}](#fairtk.{name})"
            described_here += [f".. {_directive(value)}:: fairtk.{name}", ""]
        text = first.replace("|", r"\|")
        lines.append(f"| {link} | {text} |")
    return "\n".join([*lines, "", "```{eval-rst}", *described_here, "```", ""])


def tutorial_pages():
    """Yield the name and the notebook of each numbered tutorial, without outputs."""
    svg = base64.b64encode((DOCS / "_static" / "colab.svg").read_bytes()).decode()
    for path in sorted(TUTORIALS.glob("[0-9]*.py")):
        notebook = jupytext.read(path)
        # the branch is written by the workflow that publishes; the badge is inside the page
        place = f"{read()['owner']}/fairtk/blob/notebooks/{path.stem}.ipynb"
        colab = (
            f'<a href="https://colab.research.google.com/github/{place}">'
            f'<img alt="Open in Colab" src="data:image/svg+xml;base64,{svg}"></a>\n\n'
        )
        download = (
            f"{'' if placeholders(read()) else colab}"
            f'Download it with its outputs: <a href="{path.stem}.ipynb" download>{path.stem}'
            ".ipynb</a>. The script is "
            f"`tutorials/{path.name}` in the repository."
        )
        introduction = notebook.cells[0]
        introduction.source = introduction.source.replace("../docs/", "../")  # a page's folder
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(download))
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"
        yield path.stem, nbformat.writes(notebook)


def write(path, text):
    """Write a file if it is new or has changed: Sphinx reads again what has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def generate(app, config):
    """Write all pages."""
    write(DOCS / "references.bib", bibliography())
    for folder, pages, ending in (
        ("measures", measure_pages, "md"),
        ("api", api_pages, "md"),
        ("tutorials", tutorial_pages, "ipynb"),
    ):
        texts = {f"{name}.{ending}": text for name, text in pages()}
        if folder == "tutorials":
            texts["index.md"] = _tutorial_list(texts)
        for old in (DOCS / folder).glob("*"):
            if old.is_file() and old.name not in texts:
                old.unlink()
        for name, text in texts.items():
            write(DOCS / folder / name, text)


def _tutorial_list(notebooks):
    text = (
        "Each page is a script in `tutorials/`, executed with `FAIRTK_TUTORIAL_FAST=1`: the data "
        "are small, and the numbers rough. A full run takes minutes."
    )
    lines = ["# Tutorials", "", text, "", "```{toctree}", ":maxdepth: 1", ""]
    return "\n".join([*lines, *(Path(name).stem for name in notebooks), "```", ""])


def with_outputs(app, error):
    """Write the tutorials as notebooks with their outputs beside the pages."""
    if error is not None or app.builder.format != "html" or app.config.nb_execution_mode != "cache":
        return
    cache = get_cache(app.config.nb_execution_cache_path)
    for path in (DOCS / "tutorials").glob("*.ipynb"):
        _, executed = cache.merge_match_into_notebook(nbformat.read(path, 4))
        write(Path(app.outdir) / "tutorials" / path.name, nbformat.writes(executed))


def constructor(app, what, name, obj, options, signature, note):
    """Return the signature of a class without types and private fields.

    PyTerrier's ``__new__`` hides that of a transformer's constructor.
    """
    if what != "class" or signature is None:
        return None
    if signature == "(*args, **kwargs)":
        if not inspect.isfunction(obj.__init__):
            return "", note
        real = signature_of(obj.__init__, bound_method=True)
        signature = stringify_signature(real, show_annotation=False, show_return_annotation=False)
    return re.sub(r", _\w+(=<factory>|=\w+)?(?=[,)])", "", signature), note


def fields(app, what, name, obj, skip, options):
    """Leave out the fields of a named tuple, which its own words describe."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


LONGEST_VALUE = 120


def without_values(app, doctree):
    """Leave out values that are objects, or longer than their description."""
    for value in list(doctree.findall(addnodes.desc_annotation)):
        text = value.astext()
        if text.startswith(" = ") and ("<" in text or len(text) > LONGEST_VALUE):
            value.parent.remove(value)


def described(app, what, name, obj, options, lines):
    """Take a constant's words from where it is written; those of its type are none.

    Napoleon reads the words before a colon as a type: they are put back.
    """
    kind = next((line for line in lines if line.startswith(":type: ")), None)
    if what in ("attribute", "property") and kind is not None:
        lines.remove(kind)
        lines[0] = f"{kind.removeprefix(':type: ')}: {lines[0]}"
    if what != "data":
        return
    lines.clear()
    short = name.rpartition(".")[2]
    for place, module in sorted(sys.modules.items()):
        if place.startswith("fairtk") and vars(module).get(short) is obj:
            lines += ModuleAnalyzer.for_module(place).find_attr_docs().get(("", short), [])
    if not lines:
        logging.getLogger(__name__).warning("nothing says what %s is", name)


def plain(app, context, lines):
    """Escape the help of a command, which is not markup; blocks are code."""
    written, in_block = [], False
    for line in lines:
        if line.strip().startswith(":default:"):
            written.append(line.replace("'", ""))  # of repr
            continue
        line = line.replace("**Required** ", "Required. ")
        block = line.startswith("| ")
        if block and not in_block:
            written += ["::", ""]
        if block:
            written.append(f"    {line[2:]}")
        elif line.startswith(".. "):
            written.append(line)
        else:
            parts = line.split("`")
            for place, part in enumerate(parts[::2]):
                part = re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", part)
                parts[2 * place] = part.replace("*", r"\*").replace("@", r"\@")
            written += [""] * in_block + ["`".join(parts)]
        in_block = block
    lines[:] = written


def setup(app):
    app.connect("config-inited", generate)
    app.connect("build-finished", with_outputs)
    app.connect("autodoc-process-signature", constructor)
    app.connect("autodoc-process-docstring", described)
    app.connect("autodoc-skip-member", fields)
    app.connect("doctree-read", without_values)
    for part in ("description", "options", "epilog"):
        app.connect(f"sphinx-click-process-{part}", plain)
    return {"parallel_read_safe": True}
