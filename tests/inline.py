"""Runs of a sweep that are made in the process of their test.

To fork one, and to fault all pages that it writes to, takes longer than the few steps of a test's
runs. That each is a process of its own, and what comes of one that fails or is killed, is what
tests/test_sweep.py is about.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from gossip.config import Config
from gossip.runs import sweep


@contextmanager
def inline_runs() -> Iterator[None]:
    """A block in which sweeps start no processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "started", InlineRun)
        yield


class InlineRun:
    """A run that is over when it is made, in place of its process."""

    exitcode = 0

    def __init__(self, config: Config, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with sweep.log_of(folder).open("w", encoding="utf-8") as log, redirect_stdout(log):
            sweep.train_one(config, folder)
        self.sentinel, end = os.pipe()
        os.close(end)  # so that whoever waits for it is told at once

    def join(self) -> None:
        """Wait for nothing."""
        os.close(self.sentinel)
