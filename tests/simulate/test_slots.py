"""The AdaDamp paper's seconds: all its medians, all its table, and what 4 slots hid."""

import math

import pytest

from experiments.time.papers import BATCHES, EPOCHS, MEDIANS_MS, MINUTES, SAMPLES, WORKERS
from gossip.simulate.slots import ADADAMP, PER_TASK, Stretch

MOST_WORKERS = {"128": 1, "640": 5, "3.2k": 25, "16k": 125, "5.1k(*2)": 40}
UPDATES = {"128": 78_200, "640": 34_520, "3.2k": 29_480, "16k": 29_240, "5.1k(*2)": 14_960}


def history(run):
    segments = zip(EPOCHS, BATCHES[run], strict=True)
    return [Stretch(epochs * math.ceil(SAMPLES / batch), batch) for epochs, batch in segments]


@pytest.mark.parametrize("run", BATCHES)
def test_the_schedules_have_the_published_updates_and_workers(run):
    assert sum(stretch.updates for stretch in history(run)) == UPDATES[run]
    assert max(stretch.batch for stretch in history(run)) == MOST_WORKERS[run] * PER_TASK


@pytest.mark.parametrize("network", ADADAMP)
def test_medians_of_an_update(network):
    for workers, published in zip(WORKERS, MEDIANS_MS[network], strict=True):
        assert 1e3 * ADADAMP[network].update(workers) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("run", BATCHES)
def test_minutes_of_the_table(run):
    for network, published in zip(ADADAMP, MINUTES[run], strict=True):
        minutes = ADADAMP[network].replay(history(run)) / 60
        assert minutes == pytest.approx(published, rel=0.02), network


def test_as_many_slots_as_workers_would_have_been_faster():
    honest = ADADAMP["high"].unlimited()
    minutes = [honest.replay(history(run)) / 60 for run in BATCHES]
    assert minutes == pytest.approx([23.1, 45.5, 45.1, 53.2, 120.5], abs=0.1)
