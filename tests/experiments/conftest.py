"""Each smoke study is made once, in the process of its test."""

from collections.abc import Iterator

import pytest

from tests.inline import inline_runs


@pytest.fixture(autouse=True, scope="package")
def _inline_runs() -> Iterator[None]:
    with inline_runs():
        yield
