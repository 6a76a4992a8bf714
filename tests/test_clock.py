"""Phases add up: what is inside another phase is taken out of it."""

import pytest

from gossip.loop import clock as clock_module
from gossip.loop.clock import PHASES, Clock


@pytest.fixture
def now(monkeypatch):
    """A clock hand that moves only when it is told to."""
    hand = [0.0]
    monkeypatch.setattr(clock_module.time, "perf_counter", lambda: hand[0])
    return hand


def test_nested_phases_are_exclusive_and_everything_adds_up(now):
    clock = Clock()
    with clock("optimizer"):
        now[0] += 1
        with clock("gradient"):
            now[0] += 10
            with clock("data"):
                now[0] += 100
        now[0] += 2
    now[0] += 5
    report = clock.report()
    assert report["optimizer"] == 3
    assert report["gradient"] == 10
    assert report["data"] == 100
    assert report["other"] == 5
    assert report["total"] == 118 == sum(report[phase] for phase in (*PHASES, "other"))


def test_time_can_be_moved_and_a_failing_phase_is_counted(now):
    clock = Clock()

    def fail() -> None:
        now[0] += 4
        raise RuntimeError

    with pytest.raises(RuntimeError):
        clock.timed("optimizer", fail)()
    clock.move(3, "optimizer", "communication_wait")
    assert clock.report()["optimizer"] == 1
    assert clock.report()["communication_wait"] == 3
