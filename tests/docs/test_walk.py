"""The architecture page walks from the command to the first step: those are the calls."""

import re
import sys
from pathlib import Path

import pytest

from gossip import run
from gossip.algorithms import Dpsgd
from tests.docs import pages

MOST_CALLS = 6


def test_the_calls_to_the_first_step_are_those_of_the_page(tmp_path, monkeypatch):
    calls = []

    class ReachedError(Exception):
        pass

    def step(self, *arguments):
        frame = sys._getframe()
        while frame is not None:
            code = frame.f_code
            if Path(code.co_filename).is_relative_to(pages.ROOT / "gossip"):
                calls.insert(0, (pages.name(Path(code.co_filename)), code.co_name))
            frame = frame.f_back
        raise ReachedError

    monkeypatch.setattr(Dpsgd, "step", step)
    options = "--algorithm dpsgd --dataset digits --learners 4 --batch-size 20 --steps 2 --out"
    with pytest.raises(ReachedError):
        run.main([*options.split(), str(tmp_path / "run")])
    assert len(calls) + 1 <= MOST_CALLS

    rows = re.findall(r"^\| `(gossip/[\w/]+\.py)`, ([^|]+) \|", page_text(), re.M)
    walked = [
        (file, name.rpartition(".")[2])
        for file, names in rows
        for name in re.findall(r"`([\w.]+)`", names)
    ]
    assert walked[: len(calls) + 1] == [*calls, ("gossip/algorithms/dpsgd.py", "step")]


def page_text() -> str:
    return (pages.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
