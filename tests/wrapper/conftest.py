"""A communicator without a process behind the others."""

from collections.abc import Iterator

import pytest

from gossip.comm import connect
from gossip.wrapper import link
from tests.wrapper.scripted import Scripted


@pytest.fixture
def scripted(monkeypatch) -> Iterator[Scripted]:
    """Behind backend="scripted"; 4 learners."""
    comm = Scripted(4)
    monkeypatch.setitem(connect.BACKENDS, "scripted", lambda wanted: lambda: comm)
    link.connected.cache_clear()
    yield comm
    link.connected.cache_clear()
