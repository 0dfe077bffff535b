"""Plugins and their objects may be made anywhere: in a script, a notebook, by exec, in a zip file.

Each function that looks up the module or the distribution of a registered object works for each of
them, or is refused with a reason.
"""

import runpy
import subprocess
import sys
import textwrap
import types
import zipfile

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import plugins
from fairtk.cli.group import cli
from fairtk.errors import IdentityError, MeasureError
from fairtk.experiment.identity import describe
from fairtk.measures.pages import page_of
from fairtk.plugins import references
from fairtk.plugins.references import help_address

CODE = textwrap.dedent(
    '''
    from fairtk import FairMeasure, hookimpl
    from fairtk.plugins import TransformerSpec
    from fairtk.transformers import FairTransformer


    class Anywhere(FairMeasure):
        """A measure that is always wrong."""

        NAME, PRETTY_NAME, BETTER, MISSING = "Anywhere", "Anywhere", "higher", 0.0
        SUPPORTED_PARAMS = {}

        def score_query(self, qrels, run):
            return "no number"


    class Nothing(FairTransformer):
        """R -> R: does nothing."""

        def transform(self, inp):
            return inp


    def function(frame):
        return frame


    @hookimpl
    def fairtk_measures():
        return [Anywhere()]


    @hookimpl
    def fairtk_transformers():
        return [TransformerSpec("Nothing", "anywhere:Nothing", "nothing", "R", "R")]


    class Plugin:
        @hookimpl
        def fairtk_measures(self):
            return fairtk_measures()

        @hookimpl
        def fairtk_transformers(self):
            return fairtk_transformers()
    '''
)


def script(folder, name="__main__"):
    path = folder / "anywhere_script.py"
    path.write_text(CODE)
    return runpy.run_path(str(path), run_name=name)


def script_of_runpy(folder):
    return script(folder, "<run_path>")


def bare_exec(folder):
    exec(CODE, names := {})
    return names


def notebook(folder):
    exec(CODE, names := {"__name__": "__main__", "__package__": None, "__spec__": None})
    return names


def made_module(folder):
    """Return the names of a module that has neither a spec nor a file, as `exec` in tools makes."""
    module = types.ModuleType("anywhere_made")
    sys.modules["anywhere_made"] = module
    exec(CODE, vars(module))
    return vars(module)


def imported(folder, name):
    sys.path.insert(0, str(folder))
    try:
        __import__(name)
    finally:
        sys.path.remove(str(folder))
    return vars(sys.modules[name])


def namespace_package(folder):
    (folder / "anywhere_space").mkdir()
    (folder / "anywhere_space" / "part.py").write_text(CODE)
    return imported(folder, "anywhere_space.part")


def package(folder):
    (folder / "anywhere_package").mkdir()
    (folder / "anywhere_package" / "__init__.py").write_text(CODE)
    return imported(folder, "anywhere_package")


def zip_file(folder):
    path = folder / "anywhere.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("anywhere_zipped.py", CODE)
    return imported(path, "anywhere_zipped")


def deleted_file(folder):
    path = folder / "anywhere_deleted.py"
    path.write_text(CODE)
    names = imported(folder, "anywhere_deleted")
    path.unlink()
    return names


def deleted_module(folder):
    (folder / "anywhere_gone.py").write_text(CODE)
    names = imported(folder, "anywhere_gone")
    del sys.modules["anywhere_gone"]
    return names


HAS_FILE = (namespace_package, package)
PLACES = (
    *(script, script_of_runpy, bare_exec, notebook, made_module, zip_file, deleted_file),
    *(deleted_module, *HAS_FILE),
)
FORMS = ("module", "instance", "class")


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request):
    return request.param


@pytest.fixture
def names(place, tmp_path):
    before = set(sys.modules)
    yield place(tmp_path)
    for name in set(sys.modules) - before:
        if name.startswith("anywhere"):
            del sys.modules[name]


def as_plugin(names, form):
    if form == "instance":
        return names["Plugin"]()
    name = names.get("__name__") or "anywhere"
    module = types.ModuleType(name)
    vars(module).update({n: names[n] for n in ("fairtk_measures", "fairtk_transformers")})
    if form == "module":
        return module
    functions = {n: staticmethod(names[n]) for n in ("fairtk_measures", "fairtk_transformers")}
    return type("PluginClass", (), {**functions, "__module__": name})


@pytest.fixture(params=FORMS)
def registered(request, names):
    plugin = as_plugin(names, request.param)
    plugins.register(plugin, "anywhere", "1.0")
    yield names
    plugins.unregister(plugin)


def test_everything_about_a_registered_plugin(registered):
    assert fairtk.cite().startswith("@")
    assert fairtk.cite("Anywhere") == fairtk.cite("Nothing") == ""
    assert fairtk.cite(registered["Anywhere"]()) == ""
    assert fairtk.cite("EE_D").startswith("@")
    assert references.bibliography() and references.cite_results(["Nothing"], ["Anywhere"])
    assert "anywhere" in [plugin.name for plugin in plugins.loaded_plugins()]
    for command in (["plugins"], ["measures", "Anywhere"], ["cite", "EE_D", "Anywhere"]):
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert result.exit_code == 0, result.stderr


def test_everything_about_its_objects(names, place):
    measure, stage = names["Anywhere"](), names["Nothing"]()
    assert page_of(measure).name == "Anywhere"
    run = pd.DataFrame({"qid": ["q"], "docno": ["d"], "score": [1.0]})
    qrels = pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": [1]})
    with pytest.raises(MeasureError, match="no number"):
        fairtk.evaluate(qrels, run, [measure])
    assert stage(run).equals(run)
    assert help_address(names["Nothing"]) is None and stage.schematic["help_url"] is None
    if place in HAS_FILE:
        assert describe(stage, "a stage")["class"].endswith(".Nothing")
        assert describe(measure, "a measure")
    else:
        for value in (stage, measure):
            with pytest.raises(IdentityError, match="Nothing|Anywhere"):
                describe(value, "a stage")
    with pytest.raises(IdentityError, match="function"):
        describe(names["function"], "a stage")


def test_references_of_an_instance_are_in_its_package(tmp_path):
    folder = tmp_path / "anywhere_cited"
    folder.mkdir()
    (folder / "__init__.py").write_text(f'{CODE}\nAnywhere.CITATION = "anyone2026"\n')
    (folder / "references.bib").write_text("@article{anyone2026,\n  title = {Any},\n}\n")
    plugin = imported(tmp_path, "anywhere_cited")["Plugin"]()
    plugins.register(plugin, "anywhere")
    try:
        assert fairtk.cite("Anywhere").startswith("@article{anyone2026,")
    finally:
        plugins.unregister(plugin)
        del sys.modules["anywhere_cited"]


def test_the_plugin_is_the_script_itself(tmp_path):
    lines = [CODE, "import sys", "import fairtk", "from fairtk import plugins"]
    lines += ["plugins.register(sys.modules['__main__'], 'mine')", "print(fairtk.cite()[0])"]
    (tmp_path / "plugin.py").write_text("\n".join(lines))
    call = [sys.executable, str(tmp_path / "plugin.py")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("@\n", "")
