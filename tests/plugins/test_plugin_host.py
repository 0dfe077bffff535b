"""The plugin host in this process: what a plugin gives, what is refused, what is taken back."""

import sys
import types
from email.message import Message

import ir_measures
import pytest
from test_measure_contract import Share, Waste

from fairtk import EE_D, hookimpl, plugins
from fairtk.errors import NotFoundError, ParameterError, PluginError, PluginWarning
from fairtk.exposure.browsing import DCG, BrowsingModel
from fairtk.plugins import entry_points, registry
from fairtk.plugins.entry_points import RESTRICT, STRICT, Plugin
from fairtk.plugins.host import ALL, PluginHost, _is_partly_imported
from fairtk.plugins.registry import (
    DatasetSpec,
    PromptSpec,
    Registry,
    StudySpec,
    StudySystemSpec,
    TransformerSpec,
    UtilitySpec,
)


class Generous:
    """Implements every hook that returns values."""

    @hookimpl
    def fairtk_measures(self):
        return [Share(), EE_D_of_twice()]

    @hookimpl
    def fairtk_utilities(self):
        return (UtilitySpec("toy-u", "pkg:u", "a utility") for _ in range(1))

    @hookimpl
    def fairtk_browsing_models(self):
        return [Twice]

    @hookimpl
    def fairtk_transformers(self):
        return [TransformerSpec("ToyT", "pkg:T", "a transformer", "R", "R")]

    @hookimpl
    def fairtk_datasets(self):
        return [DatasetSpec("toy/data", "pkg:load", "data")]

    @hookimpl
    def fairtk_prompts(self):
        return [PromptSpec("toy-p", "pkg:P", "a prompt")]

    @hookimpl
    def fairtk_studies(self):
        return [StudySpec("toy-study", "pkg:Settings", "a study")]

    @hookimpl
    def fairtk_study_systems(self):
        return [StudySystemSpec("toy-s", "pkg:build", "a system")]


class Twice(BrowsingModel):
    """Pays every rank the same attention."""

    def weights(self, ranks):
        return 2.0 + 0 * ranks


def EE_D_of_twice():  # noqa: N802
    return type(
        "Given",
        (Waste,),
        {"NAME": "ToyGiven", "__doc__": "A measure.", "model": EE_D(browsing="Twice")},
    )()


@pytest.fixture
def host(monkeypatch):
    """Return a host of its own, with registries of its own."""
    monkeypatch.delenv(RESTRICT, raising=False)
    monkeypatch.delenv(STRICT, raising=False)
    return PluginHost({hook: Registry(r.kind, r.base, r.classes) for hook, r in ALL.items()})


def empty(host):
    return not any(r._entries for r in host.registries.values()) and not host.plugins


@pytest.fixture
def unloaded(host, monkeypatch):
    """Return a host that finds no installed plugin."""
    monkeypatch.setattr(plugins.host, "installed_plugins", lambda group: [])
    return host


# Register and unregister -------------------------------------------------------------------------


def test_register_and_unregister():
    before = {hook: r.names() for hook, r in ALL.items()}
    plugin = Generous()
    known = plugins.register(plugin, "fairtk-toy", "3.1")
    try:
        assert known in plugins.loaded_plugins()
        assert (known.name, known.version, known.module) == ("fairtk-toy", "3.1", __name__)
        assert str(known) == "fairtk-toy 3.1"
        assert sorted(known.hooks) == sorted(n for n in dir(Generous) if n.startswith("fairtk_"))
        assert known.gave == {
            "fairtk_browsing_models": ["Twice"],
            "fairtk_datasets": ["toy/data"],
            "fairtk_measures": ["ToyShare", "ToyGiven"],
            "fairtk_prompts": ["toy-p"],
            "fairtk_studies": ["toy-study"],
            "fairtk_study_systems": ["toy-s"],
            "fairtk_transformers": ["ToyT"],
            "fairtk_utilities": ["toy-u"],
        }
        assert registry.measures.get("ToyShare") == Share()
        assert ir_measures.parse_measure("ToyShare(rel=2)@5") == Share(rel=2) @ 5
        assert registry.browsing_models.get("Twice") is Twice
        owners = {e.name: e.owner for e in registry.utilities.entries()}
        assert owners["toy-u"] == "fairtk-toy 3.1"
        assert owners["rougeL"].startswith("fairtk 0")
        assert known.implementation is plugin
    finally:
        plugins.unregister(plugin)
    assert {hook: r.names() for hook, r in ALL.items()} == before
    assert known not in plugins.loaded_plugins()
    with pytest.raises(NameError):
        ir_measures.parse_measure("ToyShare")
    with pytest.raises(NotFoundError):
        registry.utilities.get("toy-u")


def test_a_module_is_a_plugin():
    module = types.ModuleType("toy_module")

    @hookimpl
    def fairtk_measures():
        return [Share()]

    module.fairtk_measures = fairtk_measures
    known = plugins.register(module, "fairtk-toy")
    try:
        assert known.module == "toy_module"
        assert str(known) == "fairtk-toy"
        assert "ToyShare" in registry.measures
    finally:
        plugins.unregister(module)


def test_the_builtins_are_a_plugin_like_any_other():
    builtin = plugins.loaded_plugins()[0]
    assert (builtin.name, builtin.module) == ("fairtk", "fairtk.builtin")
    assert builtin.problem == ""
    for own in ALL.values():
        # every name has an owner that says so; two hooks fill the registry of models
        hooks = [hook for hook, filled in ALL.items() if filled is own]
        given = {
            n for p in plugins.loaded_plugins() for hook in hooks for n in p.gave.get(hook, [])
        }
        assert given == set(own.names())


def test_a_listener_hears_everything(unloaded):
    events = []
    unloaded.registries["fairtk_measures"].listener = lambda *said: events.append(said)

    class Toy:
        @hookimpl
        def fairtk_measures(self):
            return [Share()]

    toy = Toy()
    unloaded.register(toy, "fairtk-toy")
    unloaded.unregister(toy)
    assert events == [("ToyShare", Share()), ("ToyShare", None)]


# What is refused, and leaves nothing behind ------------------------------------------------------


def refused(host, plugin, message):
    with pytest.raises(PluginError, match=message):
        host.register(plugin, "fairtk-bad", "0.3")
    assert empty(host)
    assert not host.manager.get_plugins()
    host.load()  # and the error is not raised again


def make(**hooks):
    """Return a plugin with the given hooks; each gives what its function returns."""
    return type("Toy", (), {name: hookimpl(function) for name, function in hooks.items()})()


def test_misspelt_hook(unloaded):
    plugin = make(fairtk_measure=lambda self: [], fairtk_utilities=lambda self: [])
    refused(unloaded, plugin, "fairtk-bad 0.3: unknown hook 'fairtk_measure'; did you mean")


def test_hook_without_its_mark(unloaded):
    class Forgotten:
        def fairtk_measures(self):
            return [Share()]

        @hookimpl
        def fairtk_utilities(self):
            return []

    refused(unloaded, Forgotten(), "fairtk_measures requires the marker @fairtk.hookimpl")


def test_no_hook_at_all(unloaded):
    refused(unloaded, types.ModuleType("nothing"), "no hook with @fairtk.hookimpl; known: fairtk_b")


@pytest.mark.parametrize(
    ("hook", "given", "message"),
    [
        ("fairtk_measures", None, "must return a list, got None"),
        ("fairtk_measures", Share(), "must return a list"),
        (
            "fairtk_measures",
            [Share],
            "a measure must be an instance of FairMeasure, got <class",
        ),
        ("fairtk_measures", ["ToyShare"], "an instance of FairMeasure, got 'ToyShare'"),
        ("fairtk_measures", [Share(), Share() @ 5], "duplicate measure 'ToyShare'"),
        (
            "fairtk_utilities",
            ["rouge"],
            "a utility must be an instance of UtilitySpec, got 'rouge'",
        ),
        ("fairtk_utilities", "rouge", "must return a list"),
        ("fairtk_utilities", {"rouge": 1}, "must return a list"),
        ("fairtk_datasets", [UtilitySpec("u", "p:u", "")], "must be an instance of DatasetSpec"),
        ("fairtk_prompts", [PromptSpec("", "p:u", "")], "must have a name"),
        ("fairtk_study_systems", ["mmr"], "must be an instance of StudySystemSpec, got 'mmr'"),
        ("fairtk_browsing_models", [DCG()], "must be a subclass of BrowsingModel, got DCG"),
        ("fairtk_browsing_models", [Share], "must be a subclass of BrowsingModel"),
    ],
)
def test_wrong_values(unloaded, hook, given, message):
    # a good hook, called before or after, is taken back too
    good = "fairtk_prompts" if hook != "fairtk_prompts" else "fairtk_measures"
    values = [PromptSpec("good", "p:u", "")] if hook != "fairtk_prompts" else [Share()]
    plugin = make(**{hook: lambda self: given, good: lambda self: values})
    refused(unloaded, plugin, message)


def test_a_hook_that_fails_half_way(unloaded):
    def half(self):
        yield Share()
        raise KeyError("half")

    first = make(fairtk_browsing_models=lambda self: [Twice], fairtk_measures=half)
    refused(unloaded, first, "fairtk-bad 0.3: KeyError: 'half'")


def test_a_listener_that_fails(unloaded):
    def listener(name, value):
        if value is not None:
            raise RuntimeError("cannot take it")

    unloaded.registries["fairtk_measures"].listener = listener
    refused(unloaded, make(fairtk_measures=lambda self: [Share()]), "RuntimeError: cannot take it")


def test_not_a_fair_measure():
    class Other(ir_measures.Measure):
        NAME = "ToyOther"
        __name__ = "ToyOther"

    with pytest.raises(PluginError):
        plugins.register(make(fairtk_measures=lambda self: [Other()]), "fairtk-toy")
    assert "ToyOther" not in registry.measures
    assert "ToyOther" not in ir_measures.measures.registry


def test_a_name_of_ir_measures():
    named = type("Named", (Share,), {"NAME": "nDCG", "__doc__": "A clash."})
    with pytest.raises(PluginError, match="'nDCG'"):
        plugins.register(make(fairtk_measures=lambda self: [named()]), "fairtk-toy")
    assert ir_measures.parse_measure("nDCG@5") == ir_measures.nDCG @ 5
    assert "nDCG" not in registry.measures


def test_a_name_that_is_taken():
    plugin = make(
        fairtk_browsing_models=lambda self: [Twice],
        fairtk_utilities=lambda self: [UtilitySpec("f1", "p:u", "")],
    )
    with pytest.raises(PluginError, match="'f1'"):
        plugins.register(plugin, "fairtk-toy")
    assert registry.utilities.get("f1").target.startswith("fairtk.")
    assert "Twice" not in registry.browsing_models
    with pytest.raises(ParameterError):
        EE_D(browsing="Twice")


def test_registered_twice(unloaded):
    plugin = make(fairtk_measures=lambda self: [Share()])
    unloaded.register(plugin, "fairtk-toy")
    with pytest.raises(PluginError):
        unloaded.register(plugin, "fairtk-toy")
    with pytest.raises(PluginError):
        unloaded.register(plugin, "fairtk-other")
    assert [p.name for p in unloaded.plugins] == ["fairtk-toy"]
    unloaded.unregister(plugin)
    assert empty(unloaded)
    with pytest.raises(PluginError):
        unloaded.unregister(plugin)


# Loading entry points ----------------------------------------------------------------------------


class Point:
    """An entry point, as importlib.metadata gives it."""

    def __init__(self, name, load, value="toy_module", version="1.0"):
        metadata = Message()
        for key, text in {"Name": name, "Version": version}.items():
            if text is not None:
                metadata[key] = text
        self.dist = type("Distribution", (), {"metadata": metadata})()
        self.name = self.value = value
        self.load, self.group = load, "fairtk"


def points(monkeypatch, *more):
    """Make entry points the installed ones, with a stand-in for the built-ins."""
    builtin = Point(
        "fairtk", lambda: make(fairtk_measures=lambda self: [Waste0()]), "fairtk.builtin"
    )
    installed = types.SimpleNamespace(
        select=lambda group: [point for point in (*more, builtin) if point.group == group]
    )
    monkeypatch.setattr(entry_points, "entry_points", lambda: installed)


class Waste0(Waste):
    """A built-in measure."""

    NAME = "ToyBuiltin"


def good(name="ToyShare"):
    measure = type("Good", (Share,), {"NAME": name, "__doc__": "A measure."})
    return lambda: make(fairtk_measures=lambda self: [measure()])


def failing(error):
    def load():
        raise error

    return load


def bad_and_good(monkeypatch):
    points(
        monkeypatch,
        Point("a-typo", lambda: make(fairtk_mesures=lambda self: []), "a"),
        Point("b-clash", good("ToyBuiltin"), "b"),
        Point("c-good", good(), "c"),
    )
    return "plugin a-typo 1.0 .*'fairtk_mesures'", "fairtk 1.0 and b-clash 1.0"


def test_a_broken_rule_leaves_a_plugin_out(host, monkeypatch):
    """A misspelt hook or a name taken twice was an error of every look-up of all others."""
    typo, clash = bad_and_good(monkeypatch)
    measures = host.registries["fairtk_measures"]
    with pytest.warns(PluginWarning, match=typo), pytest.warns(PluginWarning, match=clash):
        assert measures.names() == ["ToyBuiltin", "ToyShare"]
    assert isinstance(measures.get("ToyBuiltin"), Waste0) and "ToyShare" in measures  # said once
    assert [(p.name, bool(p.problem)) for p in host.plugins] == [
        ("fairtk", False),
        ("a-typo", True),
        ("b-clash", True),
        ("c-good", False),
    ]


@pytest.mark.parametrize("strict", ["variable", "warnings"])
def test_strict_makes_a_broken_rule_an_error(host, monkeypatch, strict):
    """Each once: what comes after it still loads."""
    rules = bad_and_good(monkeypatch)
    error = PluginWarning
    if strict == "variable":
        monkeypatch.setenv(STRICT, "1")
        error = PluginError
    measures = host.registries["fairtk_measures"]
    for rule in rules:
        with pytest.raises(error, match=rule):
            measures.names()
    assert measures.names() == ["ToyBuiltin", "ToyShare"]


@pytest.mark.parametrize(
    "error",
    [ImportError("no such thing"), SystemExit(2), SyntaxError("bad"), PluginError("by itself")],
)
def test_a_broken_one_is_a_warning(host, monkeypatch, error):
    points(monkeypatch, Point("bad", failing(error), "a"), Point("good", good(), "b"))
    with pytest.warns(PluginWarning, match=f"plugin bad 1.0 is left out: .*{error}"):
        host.load()
    assert host.registries["fairtk_measures"].names() == ["ToyBuiltin", "ToyShare"]


def test_a_hook_that_looks_something_up(host, monkeypatch):
    def hook(self):
        assert "ToyBuiltin" in host.registries["fairtk_measures"]  # built-ins come first
        return [Share()]

    points(monkeypatch, Point("a-curious", lambda: make(fairtk_measures=hook)))
    host.load()
    assert host.registries["fairtk_measures"].names() == ["ToyBuiltin", "ToyShare"]


def test_restriction(host, monkeypatch):
    monkeypatch.setenv(RESTRICT, "Toy.One")
    points(monkeypatch, Point("toy_one", good(), "a"), Point("toy-two", failing(OSError()), "b"))
    host.load()
    assert [p.name for p in host.plugins] == ["fairtk", "toy_one"]


def test_restriction_to_something_unknown(host, monkeypatch):
    monkeypatch.setenv(RESTRICT, "toy-on")
    points(monkeypatch, Point("toy-one", good(), "a"))
    with pytest.warns(PluginWarning, match="'toy-on'.*'toy-one'"):
        host.load()
    assert [p.name for p in host.plugins] == ["fairtk"]


def test_strict_restriction_to_something_unknown(host, monkeypatch):
    monkeypatch.setenv(RESTRICT, "toy-on")
    monkeypatch.setenv(STRICT, "1")
    points(monkeypatch)
    with pytest.raises(PluginError, match="'toy-on'"):
        host.load()


def test_no_name_and_no_version(host, monkeypatch):
    points(monkeypatch, Point(None, good(), "nameless", None), Point("other", good("B"), "b"))
    host.load()
    assert {"nameless", "other"} <= {str(p).split()[0] for p in host.plugins}


def test_a_rejected_plugin_knows_why(monkeypatch):
    monkeypatch.delenv(STRICT, raising=False)
    plugin = Plugin("fairtk-toy", "1", "toy")
    with pytest.warns(PluginWarning, match="'no such option'"):
        plugin.reject(KeyError("no such option"))
    assert plugin.problem == "KeyError: 'no such option'"


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda self: sys.exit(3), "SystemExit: 3"),
        (lambda self, register: [], "invalid hook implementation: .*'register'"),
        (lambda self: [1 / 0], "ZeroDivisionError"),
    ],
)
def test_a_hook_that_fails_leaves_the_others_alone(host, monkeypatch, hook, message):
    bad = make(fairtk_measures=hook)
    points(monkeypatch, Point("bad", lambda: bad, "a"), Point("good", good(), "b"))
    with pytest.warns(PluginWarning, match=f"plugin bad 1.0 is left out: .*{message}"):
        host.load()
    assert host.registries["fairtk_measures"].names() == ["ToyBuiltin", "ToyShare"]
    with pytest.raises(PluginError, match=message):
        host.register(bad, "bad")


def test_what_a_plugin_prints_is_no_output(host, monkeypatch, capsys):
    def load():
        print("loading")
        return make(fairtk_measures=lambda self: print("giving") or [])

    points(monkeypatch, Point("chatty", load, "a"))
    host.load()
    assert capsys.readouterr() == ("", "loading\ngiving\n")


# Half imported modules ---------------------------------------------------------------------------


def test_half_imported(tmp_path, monkeypatch):
    (tmp_path / "toy_package").mkdir()
    (tmp_path / "toy_package" / "__init__.py").write_text("import toy_package.inner\n")
    (tmp_path / "toy_package" / "inner.py").write_text(
        "from test_plugin_host import SEEN, look\nlook()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    import test_plugin_host  # the module that toy_package imports, under pytest's name or anew

    test_plugin_host.SEEN.clear()
    import toy_package  # noqa: F401

    assert test_plugin_host.SEEN == [True]
    assert not _is_partly_imported("toy_package.inner")
    assert not _is_partly_imported("never.heard.of.it")


SEEN = []


def look():
    SEEN.append(_is_partly_imported("toy_package.inner"))


def test_a_half_imported_module_is_tried_again(host, monkeypatch):
    half = {"a"}
    monkeypatch.setattr(plugins.host, "_is_partly_imported", lambda module: module in half)
    late = ImportError("cannot import name 'DEPTH'", name="its_library")

    def load():
        if "its_library" in half:
            raise late
        return good()()

    points(monkeypatch, Point("lab", load, "a"))
    host.load()
    names = host.registries["fairtk_measures"].names
    assert [str(p) for p in host.plugins] == ["fairtk 1.0"]
    half.add("its_library")
    half.discard("a")
    assert names() == ["ToyBuiltin"]
    half.clear()
    assert names() == ["ToyBuiltin", "ToyShare"]
    assert [str(p) for p in host.plugins] == ["fairtk 1.0", "lab 1.0"]
