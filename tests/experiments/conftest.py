"""Each smoke study is made once."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of a file's `folder`: `--dist loadgroup` gives them all to one worker."""
    for item in items:
        if item.path.parent == HERE and "folder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
