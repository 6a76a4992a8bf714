"""What holds for all tests."""

import gc
import getpass
import os
import signal
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

# One thread: the tests' matrices are small, and the machine may be shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Few things are compiled: for them torch would start processes that import it once more each.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import pytest
from hypothesis import settings

from tests import nursery
from tests.machine import SPARE, slowness
from tests.stand_in import FORKED
from tests.start import with_start

# Programs that tests start with no PYTHONPATH of their own. Workers of xdist inherit it.
os.environ |= with_start(os.environ)
# The graphs that torch's compiler keeps are written for the vectors of one kind of CPU.
if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
    kept = f"torchinductor-{getpass.getuser()}-{capability}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir(), kept)))

# What is imported and collected stays: to look through it for garbage takes a tenth of its time.
gc.disable()

# A shared machine may stall at any moment: time says nothing about correctness here.
settings.register_profile("gossip", deadline=None)
settings.load_profile("gossip")


def pytest_configure(config):
    """Let programs that tests start hear Ctrl-C, also where a script's background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("numprocesses", None):  # no workers: tests choose what is forked
        os.environ.pop(FORKED, None)


def pytest_collection_finish():
    """What was imported stays: to look through it takes each collection a CPU second."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def forking():
    """Programs that a test starts are forked, see `tests.nursery`."""
    with nursery.forking():
        yield


@pytest.fixture(autouse=True, scope="session")
def _each_model_is_tried_once():
    """A model of ours is, by all tests of a process; see `tests.tried`."""
    from gossip.task import task
    from tests.tried import conduct_once

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "conduct", conduct_once)
        yield


@pytest.fixture(scope="session")
def without_pictures():
    """A block in which runs in this process end with an empty picture."""

    @contextmanager
    def block():
        from matplotlib.figure import Figure

        from gossip.report import figures
        from gossip.report.page import build

        with pytest.MonkeyPatch.context() as patch:
            for drawing in (figures, build):
                patch.setattr(drawing, "study_figure", lambda runs: Figure(figsize=(1, 1)))
            yield

    return block


@pytest.fixture
def no_pictures(request, without_pictures):
    """All runs of a test are in such a block: to draw one takes longer than to train."""
    drawn = request.node.get_closest_marker("pictures") is not None
    with nullcontext() if drawn else without_pictures():
        yield


def pytest_collection_modifyitems(config, items):
    """Limits that only end what hangs grow with the machine's slowness."""
    default = float(config.getini("timeout") or 0)
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = float(marker.args[0]) if marker and marker.args else default
        limit = pytest.mark.timeout(SPARE * seconds * slowness())
        item.add_marker(limit, append=False)
