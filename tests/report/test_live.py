"""`gossip.report --live`: the page of a run that grows, over HTTP."""

import _thread
import json
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from gossip import trace
from gossip.errors import UserError
from gossip.report import live, main
from gossip.storage import folder
from tests.report import made_up

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)


class Growing:
    """The folder of a run that goes on."""

    def __init__(self, path):
        self.path, self.step = path, 0
        folder.create(path)
        folder.write_config(path, made_up.config())
        self.trace = trace.Trace(path, made_up.COLUMNS)

    def grow(self, rows):
        steps = range(self.step, self.step + rows)
        self.trace.append([{"step": t, "train_loss": 0.5**t} for t in steps])
        self.step += rows


@pytest.fixture
def growing(tmp_path):
    run = Growing(tmp_path / "r")
    run.grow(10)
    with run.trace:
        yield run


@contextmanager
def served(path):
    with live.Server([path], 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(url, path="/", host=None):
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_run_that_grows_is_served_as_it_stands(growing):
    with served(growing.path) as server:
        status, page = get(server.url)
        assert status == 200
        assert '"every": 5' in page
        assert '<noscript><meta http-equiv="refresh" content="5">' in page
        for rows in (10, 25):
            status, text = get(server.url, "/data.json")
            found = json.loads(text)
            curve = found["runs"][0]["curves"]["train_loss"]
            assert (status, curve["step"]) == (200, list(range(rows)))
            assert found["rows"][0][found["head"].index("steps")] == str(rows)
            growing.grow(15)


def test_only_its_own_paths_and_names_are_answered(growing):
    with served(growing.path) as server:
        assert get(server.url, "/../secret")[0] == 404
        assert get(server.url, "/data.json", host="elsewhere.example:80")[0] == 403
        assert get(server.url, "/data.json", host=f"localhost:{server.server_port}")[0] == 200
        shutil.rmtree(growing.path)
        status, text = get(server.url, "/data.json")
        assert (status, "does not exist" in text) == (503, True)
    with pytest.raises(UserError, match="no run in"):
        live.serve([growing.path], 0)


def test_a_port_in_use_is_one_sentence_and_ctrl_c_ends_it(growing, capsys):
    with socket.create_server((live.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert main([str(growing.path), "--live", "--port", str(port)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main([str(growing.path), "--live", "--port", "70000"]) == 2
    assert main([str(growing.path), "--live", "--html", "x.html"]) == 2
    assert "from 0 to 65535" in capsys.readouterr().err

    def press():
        while True:
            try:
                answer = get(f"http://{live.HOST}:{port}/", "/data.json")
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        assert answer[0] == 200
        _thread.interrupt_main()

    thread = threading.Thread(target=press)
    thread.start()
    assert main([str(growing.path), "--live", "--port", str(port)]) == 130
    thread.join()
    assert f"http://127.0.0.1:{port}/ (until Ctrl-C)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_a_browser_shows_what_is_new(growing, tmp_path, monkeypatch):
    load = live.load_runs

    def grown(paths):
        growing.grow(10)
        return load(paths)

    monkeypatch.setattr(live, "load_runs", grown)
    monkeypatch.setattr(live, "EVERY", 1)
    with served(growing.path) as server:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        options += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3500"]
        command = [BROWSER, *options, "--enable-logging=stderr", server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "as of " in done.stdout
    assert f"<td>{growing.step}</td>" in done.stdout  # that of the last look, not of the first
    assert growing.step >= 30
