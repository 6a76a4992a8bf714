"""The AdaDamp paper's seconds: all its medians, all its table, and what 4 slots hid."""

import math

import pytest

from gossip.simulate.slots import ADADAMP, Stretch

N, EPOCHS = 50_000, (60, 60, 60, 20)
BATCHES = {
    "5.1k(*2)": (256, 1280, 5120, 5120),
    "3.2k": (128, 640, 3200, 3200),
    "16k": (128, 640, 3200, 16000),
    "640": (128, 640, 640, 640),
    "128": (128, 128, 128, 128),
}
UPDATES = {"128": 78_200, "640": 34_520, "3.2k": 29_480, "16k": 29_240, "5.1k(*2)": 14_960}
MINUTES = {
    "5.1k(*2)": (69.9, 45.1, 43.5),
    "3.2k": (107.2, 67.7, 65.5),
    "16k": (107.5, 67.7, 65.7),
    "640": (116.9, 73.6, 71.8),
    "128": (200.2, 121.7, 121.5),
}
WORKERS = (1, 2, 5, 10, 25, 40, 125)
MEDIANS_MS = {
    "centralised": (153.6, 158.77, 308.19, 467.72, 1052.98, 1519.81, 4694.66),
    "moderate": (93.35, 100.05, 199.43, 306.43, 701.21, 1012.67, 3178.71),
    "high": (93.15, 98.14, 191.16, 291.29, 644.91, 938.01, 2835.42),
}


def history(run):
    segments = zip(EPOCHS, BATCHES[run], strict=True)
    return [Stretch(epochs * math.ceil(N / batch), batch) for epochs, batch in segments]


@pytest.mark.parametrize("run", BATCHES)
def test_the_schedules_have_the_published_number_of_updates(run):
    assert sum(stretch.updates for stretch in history(run)) == UPDATES[run]


@pytest.mark.parametrize("network", ADADAMP)
def test_medians_of_an_update(network):
    for workers, published in zip(WORKERS, MEDIANS_MS[network], strict=True):
        assert 1e3 * ADADAMP[network].update(workers) == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize("run", BATCHES)
def test_minutes_of_the_table(run):
    for network, published in zip(ADADAMP, MINUTES[run], strict=True):
        minutes = ADADAMP[network].replay(history(run)) / 60
        assert minutes == pytest.approx(published, rel=0.02), network


def test_as_many_slots_as_workers_would_have_been_faster():
    honest = ADADAMP["high"].unlimited()
    minutes = [honest.replay(history(run)) / 60 for run in BATCHES]
    assert minutes == pytest.approx([23.1, 45.5, 45.1, 53.2, 120.5], abs=0.1)
