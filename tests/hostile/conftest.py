"""No file may make us ask for memory that it does not have itself."""

import resource
from pathlib import Path

import pytest

HEADROOM = 3 * 2**30


@pytest.fixture(autouse=True)
def bounded_memory():
    """Address space for a few arrays of the readers' largest size, not for what a header says."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + HEADROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
