"""Compute times: stragglers, machines of different speed, failures."""

import numpy as np
import pytest

from gossip import stragglers
from gossip.errors import UserError
from gossip.simulate.compute import ComputeTimes, Failures


def test_a_gradient_takes_c_times_the_machine_times_the_factor_of_training():
    straggler = stragglers.make("lognormal", [], n=3, seed=5)
    compute = ComputeTimes(3, 0.2, straggler, np.array([1.0, 2.0, 0.5]))
    factors = [straggler.factor(j, 7) for j in range(3)]
    np.testing.assert_allclose(compute.at(7), 0.2 * np.array([1, 2, 0.5]) * factors)


def test_failures_come_as_often_as_said_and_cost_repair_and_the_time_so_far():
    n, c, every, repair = 2000, 1.0, 10.0, 30.0
    compute = ComputeTimes(n, c, failures=Failures(every, repair, seed=0))
    more = np.concatenate([compute.at(t) - c for t in range(20)])
    share = 1 - np.exp(-c / every)
    assert np.mean(more > 0) == pytest.approx(share, rel=0.05)
    assert (more[more > 0] >= repair).all()
    assert (more <= repair + c).all()
    lost = every - c * np.exp(-c / every) / share  # E[X | X < c] of an exponential X
    assert more[more > 0].mean() == pytest.approx(repair + lost, rel=0.001)
    np.testing.assert_array_equal(compute.at(3), compute.at(3))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ComputeTimes(2, -1.0), "compute=-1.0: give seconds from 0 up"),
        (lambda: ComputeTimes(2, 1.0, slowness=np.ones(3)), "slowness of 3 learners for 2"),
        (lambda: ComputeTimes(2, 1.0, slowness=np.array([1.0, 0.0])), "a number above 0"),
        (lambda: ComputeTimes(2, 1.0, slowness=np.array([1.0, np.inf])), "a number above 0"),
        (lambda: Failures(0, 1, 0), "fail_every=0: give the mean seconds"),
        (lambda: Failures(1, -1, 0), "repair=-1: give seconds"),
    ],
)
def test_mistakes(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()
