"""The table of the methods page is made from the table of algorithms."""

import json
import shlex
from pathlib import Path

from gossip import run
from gossip.algorithms.overview import table
from gossip.compress import OPERATORS
from gossip.report import figures
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_as_it_is_now():
    """`python -m gossip.algorithms.overview` prints it."""
    assert table() in PAGE


def test_every_compressor_is_on_the_page():
    assert [name for name in OPERATORS if f"| `{name}` |" not in PAGE] == []


def test_the_examples_of_the_top_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "save", lambda figure, path: path)
    for words in map(shlex.split, pages.commands(pages.blocks(pages.ROOT / "docs/methods.md")[0])):
        assert run.main(words[3:]) == 0
        summary = json.loads(Path(words[-1], "summary.json").read_text(encoding="utf-8"))
        assert summary["verdict"] == "converged"
        assert summary["test_error"] < 0.5
