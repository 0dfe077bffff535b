"""Artifacts of PyTerrier: each is packed, shared and checked in the same way."""

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
import threading
from contextlib import closing
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.errors import DataWarning, DownloadError, FormatError, InputError, ParameterError
from fairtk.io.artifacts import METADATA
from fairtk.io.manifest import MANIFEST
from fairtk.llm import Chat, Ledger, Message, OfflineError


def upper(prompts):
    return [prompt.upper() for prompt in prompts]


def chats(*texts):
    return [Chat((Message("user", text),)) for text in texts]


@cache
def results():
    run = pd.DataFrame(
        [("q1", "d1", 2.0), ("q1", "d2", 1.0), ("q2", "d1", 2.0)],
        columns=["qid", "docno", "score"],
    )
    qrels = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d1"], "label": [1, 1]})
    topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", "b"]})
    return fairtk.Experiment({"one": run}, topics, qrels, ["EE_R@1"])


def same_results(one, other):
    pd.testing.assert_frame_equal(one.per_query, other.per_query)
    pd.testing.assert_frame_equal(one.rankings("one"), other.rankings("one"))


def ledger():
    made = Ledger("own.sqlite")
    made.wrap(upper).complete(chats("a", "b"))
    return made


def same_answers(one, other):
    texts = [c.text for c in other.wrap(upper).complete(chats("a", "b"))]
    assert texts == ["A", "B"] and len(one) == len(other) == 2


KINDS = {
    "results": (fairtk.Results, results, same_results),
    "ledger": (Ledger, ledger, same_answers),
}


def test_all_kinds_are_tested():
    ours = [e for e in entry_points(group="pyterrier.artifact") if e.value.startswith("fairtk")]
    assert {e.name for e in ours} == {f"{kind}.fairtk" for kind in KINDS}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder, with PyTerrier's folder next to it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pt.io, "pyterrier_home", lambda: str(tmp_path / "home"))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    """Serve the folder of the test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=Path.cwd())) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def members(path):
    """Return the files of a package by name."""
    from lz4.frame import LZ4FrameFile

    with LZ4FrameFile(path) as stream, tarfile.open(fileobj=stream) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}


def pack(files, path="bad.tar"):
    """Write a package of files, or of other members, as somebody else may do."""
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = content if isinstance(content, bytes) else b""
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_what_is_read_is_what_was_shared(kind, url):
    cls, make, same = KINDS[kind]
    made = make()
    path = made.build_package(verbose=False)
    assert path == f"{kind}.tar.lz4"
    published = json.loads(Path(f"{path}.json").read_text())
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert published["expected_sha256"] == digest
    for read in (cls.from_url, pt.Artifact.from_url):
        again = read(f"{url}/{path}", expected_sha256=digest)
        assert type(again) is cls
        same(made, again)
    same(made, cls.from_url(Path(path)))  # of this machine
    again.build_package("again.tar.lz4", verbose=False)
    same(made, cls.from_url("again.tar.lz4"))
    Path(path).unlink()
    same(made, cls.from_url(f"{url}/{path}"))  # stored here


def test_a_package_in_segments(kind, url):
    cls, make, same = KINDS[kind]
    made = make()
    made.build_package("parts.tar.lz4", max_file_size=100, verbose=False)
    assert Path("parts.tar.lz4.1").exists() and not Path("parts.tar.lz4").exists()
    same(made, cls.from_url(f"{url}/parts.tar.lz4"))
    shutil.rmtree(Path(pt.io.pyterrier_home()) / "artifacts")
    Path("parts.tar.lz4.1").unlink()
    with pytest.raises(DownloadError, match=r"parts\.tar\.lz4\.1"):
        cls.from_url(f"{url}/parts.tar.lz4")


def test_a_new_package_at_the_same_address_is_downloaded(url):
    made = results()
    path = made.build_package(verbose=False)
    fairtk.Results.from_url(f"{url}/{path}")
    fairtk.evaluate(made.qrels, {"other": made.rankings("one")}, ["EE_D@1"]).build_package(
        path, verbose=False
    )
    assert fairtk.Results.from_url(f"{url}/{path}").systems == ["other"]


def test_each_file_that_is_missing_or_changed_is_named(kind):
    cls, make, same = KINDS[kind]
    made = make()
    files = members(made.build_package(verbose=False))
    same(made, cls.from_url(pack(files)))
    for name, content in files.items():
        # a reader cannot save them again
        place = f"{name}.*download" if name != METADATA else r"bad\.tar|pt_meta"
        with pytest.raises(FormatError, match=place):
            cls.from_url(pack({n: c for n, c in files.items() if n != name}))
        if name in (MANIFEST, METADATA):
            continue
        for changed in (content[:-1] + bytes([content[-1] ^ 1]), b""):
            with pytest.raises(FormatError, match=f"{name}.*download"):
                cls.from_url(pack({**files, name: changed}))
    for content in (b"{", b"[]", b'{"form": 1}'):
        with pytest.raises(FormatError, match=MANIFEST):
            cls.from_url(pack({**files, MANIFEST: content}))


def test_a_newer_format_is_refused(kind):
    cls, make, _ = KINDS[kind]
    files = members(make().build_package(verbose=False))
    manifest = json.loads(files[MANIFEST])
    form = manifest["form"]
    newer = json.dumps({**manifest, "form": form + 1}).encode()
    with pytest.raises(FormatError, match=f"{form}, got format {form + 1}.*newer"):
        cls.from_url(pack({**files, MANIFEST: newer}))


def test_a_newer_ledger_is_refused():
    made = ledger()
    with closing(sqlite3.connect(made.path)) as file:
        file.execute("PRAGMA user_version=99")
    with pytest.raises(FormatError, match="99"):
        Ledger(made.path)


OUTSIDE = (
    "../out.txt",
    "/tmp/of-an-artifact-out.txt",
    "a/../../out.txt",
    "..\\out.txt",
    "C:out.txt",
)
ODD = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


def test_unsafe_members_are_refused(kind):
    cls, make, _ = KINDS[kind]
    files = members(make().build_package(verbose=False))
    for name in OUTSIDE:
        with pytest.raises(FormatError, match=r"out\.txt"):
            cls.from_url(pack({**files, name: b"x"}))
    for type_ in ODD:
        member = tarfile.TarInfo("rankings/odd")
        member.type, member.linkname = type_, "/etc/passwd"
        with pytest.raises(FormatError, match="rankings/odd"):
            cls.from_url(pack({**files, "rankings/odd": member}))
    assert not list(Path.cwd().parent.rglob("*out.txt")) and not Path(OUTSIDE[1]).exists()
    assert not list(Path(pt.io.pyterrier_home(), "artifacts").iterdir())  # nothing is left


def test_packages_of_another_type_or_of_none(kind, url):
    cls = KINDS[kind][0]
    other = next(name for name in KINDS if name != kind)
    path = KINDS[other][1]().build_package(verbose=False)
    with pytest.raises(FormatError, match=f"'{kind}'.*'{other}'"):
        cls.from_url(path)
    Path("text.tar.lz4").write_text("no package")
    with pytest.raises(FormatError, match=r"text\.tar\.lz4"):
        cls.from_url("text.tar.lz4")
    Path("cut.tar.lz4").write_bytes(Path(path).read_bytes()[:500])
    with pytest.raises(FormatError, match=r"cut\.tar\.lz4"):
        cls.from_url("cut.tar.lz4")
    for address in (f"{url}/none.tar.lz4", "none.tar.lz4", "odd://none.tar.lz4"):
        with pytest.raises(DownloadError, match=address):
            cls.from_url(address)
    with pytest.raises(FormatError, match="changed.*expected 00ff"):
        cls.from_url(path, expected_sha256="00FF")
    Path("text.tar.lz4.json").write_text("<html>")
    with pytest.raises(FormatError, match=r"text\.tar\.lz4\.json"):
        cls.from_url(f"{url}/text.tar.lz4")


def test_a_server_that_fails_is_not_a_package_without_a_digest(kind, url, monkeypatch):
    cls, make, same = KINDS[kind]
    made = make()
    path = made.build_package(verbose=False)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    Path(f"{path}.json").unlink()
    same(made, cls.from_url(f"{url}/{path}"))  # 404: nothing is published
    monkeypatch.setattr(Quiet, "do_GET", lambda handler: handler.send_error(500))
    with pytest.raises(DownloadError, match=rf"{url}/{path}\.json.*HTTP 500"):
        cls.from_url(f"{url}/{path}")
    same(made, cls.from_url(f"{url}/{path}", expected_sha256=digest.upper()))


def test_a_damaged_package_is_refused_before_it_is_opened(kind, url):
    cls, make, same = KINDS[kind]
    made = make()
    path = Path(made.build_package(verbose=False))
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"x" + content[-8:])
    with pytest.raises(FormatError, match=path.name):
        cls.from_url(f"{url}/{path}")
    path.write_bytes(content)
    same(made, cls.from_url(f"{url}/{path}"))


def test_the_folder_of_a_package_must_exist(kind):
    with pytest.raises(InputError, match="nowhere"):
        KINDS[kind][1]().build_package("nowhere/x.tar.lz4")


@pytest.mark.parametrize("name", ["hf", "zenodo"])
def test_the_addresses_of_hosts(kind, name, monkeypatch):
    """Nothing listens at the proxy, so that no test leaves this machine."""
    for variable in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    address = {"hf": r"huggingface\.co.*me/mine", "zenodo": r"zenodo\.org.*1234"}[name]
    with pytest.raises(DownloadError, match=address):
        getattr(KINDS[kind][0], f"from_{name}")({"hf": "me/mine", "zenodo": "1234"}[name])


def test_saved_results_are_an_artifact():
    made = results()
    made.save("saved")
    same_results(made, pt.Artifact.load("saved"))


def test_other_measures_need_nothing_but_the_package():
    """EE_R@1 = 1 in both queries: the useful document is the first. nDCG@1, too."""
    again = fairtk.Results.from_url(results().build_package(verbose=False))
    other = fairtk.evaluate(again.qrels, {n: again.rankings(n) for n in again.systems}, ["nDCG@1"])
    assert other.means.loc["one"].tolist() == [1.0]


def test_a_packaged_ledger_answers_offline_and_is_not_changed():
    path = ledger().build_package(verbose=False)
    with Ledger.from_url(path) as again:
        assert again.offline
        before = again.path.read_bytes()
        with pytest.raises(OfflineError, match="'c'"):
            again.wrap(upper).complete(chats("a", "c"))
    assert before == again.path.read_bytes()
    with pytest.raises(ParameterError, match="offline=True"):
        Ledger(again.path)
    with pytest.raises(ParameterError, match="offline=True"):
        Ledger.from_url(path, offline=False)
    shutil.copy(again.path, "mine.sqlite")
    with Ledger("mine.sqlite") as mine:
        assert mine.wrap(upper).complete(chats("c"))[0].text == "C" and len(mine) == 3


def test_a_packaged_ledger_has_answers_only():
    files = members(ledger().build_package(verbose=False))
    Path("read.sqlite").write_bytes(files["ledger.sqlite"])
    with closing(sqlite3.connect("read.sqlite")) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master "
                                                   "WHERE type = 'table'")]  # fmt: skip
        counts = {t: file.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}
    filled = {t for t, n in counts.items() if n} - {"sqlite_sequence"}
    assert filled == {"answers", "writers"}


def test_no_package_has_a_key(monkeypatch):
    """The model repeats its key, and the server its request."""
    pytest.importorskip("openai")
    from chat_clients import client
    from chat_server import KEY, serving

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    echo = f"your key is {KEY}"
    reply = {
        "a": echo,
        "b": {"status": 400, "body": json.dumps({"error": {"message": echo}}).encode()},
    }
    with serving(lambda prompt, _: reply[prompt]) as server, Ledger("own.sqlite") as made:
        llm = made.wrap(client(server))
        with pytest.warns(DataWarning):  # of the key in the answer
            dict(llm.outcomes(chats("a", "b")))
        files = members(made.build_package(verbose=False))
    assert b"your key is" in files["ledger.sqlite"]
    assert all(KEY.encode() not in content for content in files.values())


class WithKey(fairtk.transformers.FairTransformer):
    """A stage of a plugin that is given a key."""

    SETTINGS = ("api_key", "token")

    output_version = 1

    def __init__(self, api_key, token="none"):
        self.api_key, self.token = api_key, token

    def transform(self, inp):
        return inp.assign(docno="d1", score=1.0, rank=0)


def test_keys_of_stages_are_not_saved():
    key = "sk-0123456789abcdef"
    topics = pd.DataFrame({"qid": ["q1"], "query": ["a"]})
    qrels = pd.DataFrame({"qid": ["q1"], "docno": ["d1"], "label": [1]})
    systems = {"one": WithKey(key), "two": WithKey("another", token=key)}
    made = fairtk.Experiment(systems, topics, qrels, ["EE_R@1"], save_dir="store")
    files = members(made.build_package(verbose=False))
    assert b"WithKey" in files["config.json"]
    stored = [path.read_bytes() for path in Path("store").iterdir()]
    assert all(key.encode() not in content for content in [*files.values(), *stored])
