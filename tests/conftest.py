"""What holds for all tests."""

import os
import signal

# One thread: the tests' matrices are small, and the machine may be shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tests.machine import SPARE, slowness

# A shared machine may stall at any moment: time says nothing about correctness here.
settings.register_profile("gossip", deadline=None)
settings.load_profile("gossip")


def pytest_configure():
    """Let programs that tests start hear Ctrl-C, also where a script's background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_pictures(request, monkeypatch):
    """Runs in this process end with an empty picture: to draw one takes longer than to train."""
    from matplotlib.figure import Figure

    from gossip.report import figures

    if request.node.get_closest_marker("pictures") is None:
        monkeypatch.setattr(figures, "study_figure", lambda runs: Figure(figsize=(1, 1)))


def pytest_collection_modifyitems(config, items):
    """Limits that only end what hangs grow with the machine's slowness."""
    default = float(config.getini("timeout") or 0)
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0]) if marker and marker.args else default
        limit = pytest.mark.timeout(SPARE * seconds * slowness())
        item.add_marker(limit, append=False)
