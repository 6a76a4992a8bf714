"""A step whose learning rate is 0 is an averaging: momenta in units of the gradient outlive it."""

import pytest
import torch

from gossip.algorithms.momentum import DecentLam, QuasiGlobal
from gossip.algorithms.outer import SlowMo
from tests.problems import optimizer
from tests.quadratics import problem, static, steps, weights

P, RING = problem(), static("ring")
MIDDLE, LR = 11, 0.02
DIVIDE = [QuasiGlobal(optimizer()), DecentLam(optimizer()), SlowMo(optimizer(), every=4)]
names = pytest.mark.parametrize("algorithm", DIVIDE, ids=lambda k: type(k).__name__)


@names
def test_one_in_the_middle_of_a_run_averages_and_leaves_the_momentum_as_it_is(algorithm):
    """Of SlowMo it is the last of a round, whose rate is the one that is divided by."""
    rate = lambda t: 0.0 if t == MIDDLE else LR  # noqa: E731
    *_, before, after = steps(algorithm, P.gradient, RING, P.start(), MIDDLE + 1, rate)
    assert before.rows["momentum"].abs().max() > 0.1
    assert torch.equal(after.rows["momentum"], before.rows["momentum"])
    averaged = torch.from_numpy(RING(MIDDLE) @ before.x.numpy())
    if isinstance(algorithm, SlowMo):
        averaged = before.x.mean(0).expand_as(averaged)
    torch.testing.assert_close(after.x, averaged, rtol=1e-12, atol=1e-12)


@names
def test_rates_of_zero_average_and_nothing_else(algorithm):
    averaged, found = P.start(), weights(algorithm, P.gradient, RING, P.start(), 8, 0.0)
    for t, x in enumerate(found, start=1):
        if not isinstance(algorithm, SlowMo):
            averaged = torch.from_numpy(RING(0) @ averaged.numpy())
        elif t % algorithm.every == 0:
            averaged = averaged.mean(0).expand_as(averaged)
        torch.testing.assert_close(x, averaged, rtol=1e-12, atol=1e-12)
