"""The page of a report: what it holds, what it looks like in a browser, what it takes."""

import html.parser
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gossip.report import load_runs, main
from gossip.report.page import build, points
from gossip.report.runs import Run, apart_from_seed
from tests.report import made_up

EVIL = "</script><script>throw 1</script><b>&amp;"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
DRAWN = """
<script>
addEventListener("error", (event) => { document.title = `error: ${event.message}` });
addEventListener("load", () => setTimeout(() => {
  const act = (name, x, y) => figures[0].svg.dispatchEvent(new PointerEvent(name, {
    clientX: figures[0].svg.getBoundingClientRect().left + x,
    clientY: figures[0].svg.getBoundingClientRect().top + y, pointerId: 1, bubbles: true }));
  const all = figures[0].curves.querySelectorAll(".curve").length;
  act("pointermove", 200, 100);
  const told = figures[0].values.textContent, csv = figures[0].csv();
  figures[0].svg.setPointerCapture = () => {};
  act("pointerdown", 150, 60); act("pointermove", 250, 120); act("pointerup", 250, 120);
  const view = figures[0].view;
  document.querySelector("#runs input").click();
  const left = figures[0].curves.querySelectorAll(".curve").length;
  document.querySelector("#runs input").click();
  const styles = [...figures[0].curves.querySelectorAll(".curve")].map((c) => c.style.cssText);
  const found = { all, told, csv, view, left, looks: new Set(styles).size };
  const box = [...document.querySelectorAll("#runs input")].at(-1);
  if (box.parentNode.textContent === "spread over seeds") {
    box.click();
    found.bands = figures[0].curves.querySelectorAll(".band").length;
    found.mean = figures[0].series[0].value;
  }
  const said = document.createElement("pre");
  said.id = "found";
  said.textContent = JSON.stringify(found);
  document.body.append(said);
}, 0));
</script>
"""


@pytest.fixture
def study(tmp_path):
    """Three seeds of one run whose loss at step t is (seed + 1) 0.5^t, so their mean 2 0.5^t."""
    for seed in range(3):
        rows = [{"step": t, "train_loss": (seed + 1) * 0.5**t} for t in range(20)]
        tables = made_up.config(seed=seed, topology="ring", learners=8)
        made_up.run(tmp_path / f"{seed}", made=rows, tables=tables)
    return tmp_path


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]


def test_it_needs_no_other_file_and_holds_table_and_picture(study):
    assert main([str(study), "--html", str(study / "page.html")]) == 0
    text = (study / "page.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert page.tags.count("svg") == 1  # the curves': `ring` has no config of ours to draw it by
    assert page.tags.count("tr") == 1 + 3
    assert "gossip.topology = &#x27;ring&#x27;" in text
    assert "details" in page.tags[: page.tags.index("svg")]
    assert re.search(r'<details id="picture" open', text)  # to be seen without JavaScript


def test_a_text_of_a_run_never_becomes_markup(tmp_path):
    tables = [made_up.config(seed=seed) | {"x": {"remark": EVIL + str(seed)}} for seed in (0, 1)]
    for k, table in enumerate(tables):
        made_up.run(tmp_path / f"{k}", made=made_up.rows(5), tables=table)
    text = build.page(load_runs([tmp_path]))
    assert EVIL not in text
    assert _Page(text).tags.count("script") == 2
    assert EVIL in data_of(text)["runs"][0]["label"]


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def test_a_short_curve_is_the_trace_to_the_last_bit(study):
    runs = load_runs([study])
    for run, entry in zip(runs, data_of(build.page(runs))["runs"], strict=True):
        kept = entry["curves"]["train_loss"]
        assert kept == {"step": list(range(20)), "value": run.column("train_loss").tolist()}


def test_thinning_keeps_the_ends_and_every_extreme():
    values = np.sin(np.arange(100_000) / 900)
    values[[31_415, 92_653]] = 7, -7
    kept = points.thinned(values, most=500)
    assert len(kept) <= 500
    assert {0, 31_415, 92_653, 99_999} <= set(kept)
    # A curve through the kept points leaves the true one by less than one stretch changes it.
    between = np.interp(np.arange(len(values)), kept, values[kept])
    smooth = np.ones(len(values), bool)
    for spike in (31_415, 92_653):
        smooth[spike - 900 : spike + 900] = False
    assert np.abs(between - values)[smooth].max() < 400 / 900


def test_what_is_not_finite_is_no_point(tmp_path):
    rows = [{"step": t, "train_loss": v} for t, v in enumerate([1.0, math.nan, math.inf, 2.0])]
    (run,) = load_runs([made_up.run(tmp_path / "r", made=rows)])
    assert points.curve(run, "train_loss") == {"step": [0, 3], "value": [1.0, 2.0]}


def test_runs_that_differ_in_the_seed_only_are_one_group(study):
    made_up.run(study / "lr", made=[], tables=made_up.config(seed=0, learners=8, lr=0.1))
    groups = apart_from_seed(load_runs([study]))
    assert groups == ["lr 1.5"] * 3 + ["lr 0.1"]


def seen(page, tmp_path):
    """The document after its scripts have run, and what `DRAWN` found; no error was said."""
    if BROWSER is None:
        pytest.skip("no chromium here: apt-get install chromium")
    (tmp_path / "seen.html").write_text(page.replace("</html>", DRAWN + "</html>"), "utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *options, profile, "--virtual-time-budget=3000", "--enable-logging=stderr"]
    command.append((tmp_path / "seen.html").as_uri())
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:]
    return done.stdout, json.loads(html.unescape(found[1]))


@pytest.mark.slow
def test_a_browser_draws_it_and_says_the_values(study, tmp_path):
    dom, found = seen(build.page(load_runs([study])), tmp_path)
    assert (found["all"], found["left"]) == (3, 2)  # a run taken out, its curve goes
    assert found["told"].startswith("step ")
    step = int(re.match(r"step (\d+)", found["told"])[1])
    assert f"{3 * 0.5**step:.5g}" in found["told"]
    assert found["view"]["x"][0] < found["view"]["x"][1]
    lines = found["csv"].splitlines()
    assert lines[0] == "run,column,step,value,least,largest"
    assert len(lines) == 1 + 3 * 20
    assert found["bands"] == 1
    np.testing.assert_allclose(found["mean"], 2 * 0.5 ** np.arange(20.0))
    assert 'id="picture" class="drawn"' in dom  # JavaScript has closed it


@pytest.mark.slow
def test_a_browser_shows_a_hostile_title_as_text(tmp_path):
    for k in range(9):
        tables = made_up.config(seed=k) | {"data": {"dataset": EVIL, "batch_size": 5}}
        made_up.run(tmp_path / "s" / f"{k}", made=made_up.rows(5), tables=tables)
    dom, found = seen(build.page(load_runs([tmp_path / "s"])), tmp_path)
    assert "&lt;/script&gt;&lt;script&gt;throw 1" in re.search(r"<title>(.*?)</title>", dom)[1]
    assert found["looks"] == found["all"] == 9  # no two curves look the same
    # Of a constant the mean over nine seeds is another number by rounding: an axis 2e-16 wide.


@pytest.mark.slow
def test_a_million_rows_make_a_page_of_moderate_size(tmp_path):
    steps = np.arange(1_000_000)
    columns = {"train_loss": np.exp(-steps / 3e5), "sigma_w2": 1.0 + np.sin(steps / 50)}
    table = pa.table({"step": steps} | columns)
    text = build.page([Run(Path("r"), {}, {}, table, "r")])
    assert len(text) < 4e6
    kept = data_of(text)["runs"][0]["curves"]["train_loss"]["step"]
    assert len(kept) <= points.MOST_POINTS
    _, found = seen(text, tmp_path)
    assert (found["all"], len(found["csv"].splitlines())) == (1, 1 + len(kept))
