"""Each smoke study is made once, in the process of its test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inline import inline_runs

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of a file's `folder`: `--dist loadgroup` gives them all to one worker."""
    for item in items:
        if item.path.parent == HERE and "folder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(autouse=True, scope="package")
def _inline_runs() -> Iterator[None]:
    with inline_runs():
        yield
