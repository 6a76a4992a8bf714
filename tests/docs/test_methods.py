"""The table of the methods page is made from the table of algorithms."""

import inspect
import json
import re
import shlex
from pathlib import Path

import pytest

from gossip import Gossip, run
from gossip.algorithms import ALGORITHMS, AlgorithmSettings
from gossip.algorithms.overview import table
from gossip.algorithms.refusals import refusals
from gossip.compress import OPERATORS
from gossip.report import figures
from tests.docs import pages
from tests.problems import optimizer
from topologies import build

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


NAMED = re.compile(r'algorithm="([\w-]+)"(?:, topology="([\w-]+)")?')


@pytest.mark.parametrize("page", ["script", "coming-from-ddp"])
def test_methods_are_named_with_a_topology_that_fits_more_than_one_process(page):
    text = (pages.ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    default = inspect.signature(Gossip).parameters["topology"].default
    named = set(NAMED.findall(text))
    assert ("gasloc", "ring") in named
    for name, topology in named:
        made = ALGORITHMS[name](optimizer(), AlgorithmSettings("awc", 0.1, "eval", 0))
        for n in (2, 4):
            assert not list(refusals(made.properties, build(topology or default, n))), name
