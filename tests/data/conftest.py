import numpy as np
import pytest

from gossip.data import Scale, sources
from gossip.data.dataset import content_hash, hash_lines


@pytest.fixture
def arrays():
    """Twelve training and six test images of 3x2 pixels in three classes."""
    pixels = np.random.default_rng(0).integers(0, 256, (18, 3, 2), dtype=np.uint8)
    labels = np.arange(18, dtype=np.int64) % 3
    return pixels[:12], labels[:12], pixels[12:], labels[12:]


@pytest.fixture(autouse=True)
def cache(request, tmp_path, monkeypatch):
    """An empty cache of the test's own, unless the test wants the machine's real data."""
    if request.node.get_closest_marker("network") is None:
        monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tiny(monkeypatch, arrays):
    """The published dataset `tiny-data`, whose package is a list of what reading it returns."""
    package = [arrays]
    source = sources.Source(
        origin="package tiny 1.0",
        read=lambda: package[0],
        sha256=content_hash(hash_lines(arrays)),
        scale=Scale(mean=0.5, std=0.25),
        num_train=12,
        num_test=6,
        input_shape=(3, 2),
    )
    monkeypatch.setitem(sources.DATASETS, "tiny-data", source)
    return package
