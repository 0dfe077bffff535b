"""Downloads over real HTTP: resumed, checked, atomic, and clear when they fail."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairtk.datasets import lamp
from fairtk.datasets.fetching import addresses, check_json, download
from fairtk.datasets.lamp import dataset as lamp_dataset
from fairtk.datasets.lamp.records import Lamp4Doc
from fairtk.errors import DownloadError

pytestmark = pytest.mark.usefixtures("home")
CONTENT = json.dumps([{"id": str(i), "text": "x" * 200} for i in range(400)]).encode()
BLOCK = 1 << 14  # the unit of transfers


class Server(ThreadingHTTPServer):
    """Serves ``files``; its switches make it misbehave."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/data.json": CONTENT}
        self.ranges = True  # knows Range
        self.tag = '"v1"'
        self.break_after = []  # for each coming request: bytes after which the line goes dead
        self.status = []  # for each coming request: an error status instead
        self.log = []  # (path, Range header) of each request

    def url(self, path="/data.json"):
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        byte_range = self.headers.get("Range")
        server.log.append((self.path, byte_range))
        if server.status:
            self.send_error(server.status.pop(0))
            return
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        same = self.headers.get("If-Range") in (None, server.tag)
        if byte_range and server.ranges and same:
            start = int(byte_range.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        body = content[start:]
        if server.break_after:
            body = body[: server.break_after.pop(0)]
            self.wfile.write(body)
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_plain_download_leaves_the_file_alone(server, tmp_path, capsys):
    target = tmp_path / "deep" / "data.json"
    download(server.url(), target, check=check_json)
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == ["data.json", "data.json.lock"]
    assert capsys.readouterr().err == ""  # no progress bar where there is no terminal


def test_a_broken_transfer_is_resumed_where_it_stopped(server, tmp_path):
    server.break_after = [2 * BLOCK, BLOCK + 100]
    target = tmp_path / "data.json"
    download(server.url(), target, check=check_json, pause=0)
    assert target.read_bytes() == CONTENT
    assert [asked for _, asked in server.log] == [
        None,
        f"bytes={2 * BLOCK}-",
        f"bytes={3 * BLOCK}-",
    ]


def test_a_later_process_resumes_too(server, tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "1")
    server.break_after = [BLOCK + 1]
    target = tmp_path / "data.json"
    with pytest.raises(DownloadError, match=r"cannot download http.*data\.json \(.*from_folder"):
        download(server.url(), target)
    assert not target.exists()
    assert (tmp_path / "data.json.part").stat().st_size == BLOCK
    download(server.url(), target, check=check_json)
    assert target.read_bytes() == CONTENT
    assert server.log[-1] == ("/data.json", f"bytes={BLOCK}-")
    assert names(tmp_path) == ["data.json", "data.json.lock"]


def test_a_file_that_changed_on_the_server_starts_again(server, tmp_path, monkeypatch):
    server.break_after = [BLOCK + 1]
    target = tmp_path / "data.json"
    newer = CONTENT.replace(b"x", b"y")

    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "1")
    with pytest.raises(DownloadError):
        download(server.url(), target)
    server.files["/data.json"], server.tag = newer, '"v2"'
    download(server.url(), target, check=check_json)
    assert target.read_bytes() == newer


@pytest.mark.parametrize("tag", ['"v1"', ""])
def test_a_server_that_ignores_ranges(server, tmp_path, tag):
    server.ranges, server.tag, server.break_after = False, tag, [BLOCK + 1]
    target = tmp_path / "data.json"
    download(server.url(), target, check=check_json, pause=0)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("more", [b"", b"more"])
def test_a_part_that_is_complete_or_longer_than_the_file(server, tmp_path, more):
    (tmp_path / "data.json.part").write_bytes(CONTENT + more)
    (tmp_path / "data.json.part.version").write_text('"v1"')
    download(server.url(), tmp_path / "data.json", check=check_json, pause=0)
    assert (tmp_path / "data.json").read_bytes() == CONTENT


def test_a_missing_page_is_not_tried_twice(server, tmp_path):
    with pytest.raises(DownloadError, match="404"):
        download(server.url("/none.json"), tmp_path / "none.json", pause=0)
    assert len(server.log) == 1
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_busy_server_is_tried_again(server, tmp_path, status):
    server.status = [status, status]
    download(server.url(), tmp_path / "data.json", pause=0)
    assert len(server.log) == 3


def test_no_server_at_all(server, tmp_path):
    url = server.url().replace(str(server.server_port), "1")
    with pytest.raises(DownloadError, match=r"ConnectionError"):
        download(url, tmp_path / "data.json", pause=0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<!DOCTYPE html><html>Page not found</html>", r"expected JSON, got '<'"),
        (CONTENT[:-1], r"expected a JSON array"),
        (b"", r"expected JSON"),
    ],
)
def test_a_wrong_page_with_status_200_is_refused(server, tmp_path, body, message):
    server.files["/data.json"] = body
    target = tmp_path / "data.json"
    with pytest.raises(DownloadError, match="the server sent a wrong file: " + message) as error:
        download(server.url(), target, check=check_json)
    assert ".part" not in str(error.value)
    assert names(tmp_path) == ["data.json.lock"]


def test_checksum(server, tmp_path):
    good = hashlib.sha256(CONTENT).hexdigest()
    download(server.url(), tmp_path / "a.json", checksums={"sha256": good})
    with pytest.raises(DownloadError, match=f"expected SHA-256 00, got {good}"):
        download(server.url(), tmp_path / "b.json", checksums={"sha256": "00"})
    assert not (tmp_path / "b.json").exists()


def test_two_at_once_download_once(server, tmp_path):
    target = tmp_path / "data.json"
    threads = [threading.Thread(target=download, args=(server.url(), target)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == CONTENT
    assert len(server.log) == 1


def test_a_dataset_is_downloaded_on_use_only(server, home, lamp_case, lamp_folder):
    folder = lamp_folder()
    table = {"lamp/4/dev": {}}
    for name in ("dev_questions.json", "dev_outputs.json"):
        server.files[f"/{name}"] = (folder / name).read_bytes()
        table["lamp/4/dev"][name] = {"url": server.url(f"/{name}")}
    dataset = lamp_dataset.build("lamp/4/dev", table)
    assert dataset.has_docs() and dataset.docs_cls() is Lamp4Doc
    assert server.log == []
    assert [q.query_id for q in dataset.queries_iter()] == ["31", "312"]
    assert len(list(dataset.docs_iter())) == 5
    assert [path for path, _ in server.log] == ["/dev_questions.json", "/dev_outputs.json"]
    assert (home / "lamp" / "4" / "dev" / "dev_questions.json").exists()
    server.log.clear()
    assert lamp_dataset.build("lamp/4/dev", table).queries_count() == 2
    assert server.log == []


def test_files_put_into_the_data_folder_work_offline(home, lamp_folder):
    for path in lamp_folder(6).iterdir():
        place = home / "lamp" / "6" / "dev" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    assert lamp_dataset.build("lamp/6/dev").queries_count() == 2


def test_lamp_6_says_which_license_it_needs(home):
    with pytest.raises(DownloadError) as error:
        lamp_dataset.build("lamp/6/train").queries_count()
    assert str(home / "lamp" / "6" / "train") in str(error.value)


def test_every_dataset_has_addresses():
    table = {name: files for name, files in addresses().items() if name.startswith("lamp/")}
    official = [name for name in lamp.ids() if "/flan-t5-" not in name]
    assert sorted(table) == sorted(official)
    for dataset_id, files in table.items():
        split = dataset_id.rsplit("/", 1)[1]
        assert sorted(files) == [f"{split}_outputs.json", f"{split}_questions.json"]
        for name, source in files.items():
            if "/6/" in dataset_id:
                assert set(source) == {"instructions"}
                continue
            url = source["url"]
            assert url.startswith("https://ciir.cs.umass.edu/downloads/LaMP/")
            assert url.endswith(f"/{split}/{name}")
            assert ("/LaMP/time/" in url) == ("/time/" in dataset_id)
            # without "new", LaMP-2 is the older news categorization
            assert ("LaMP_2/new/" in url) == ("/2/" in dataset_id)
