"""Closed forms of the schedules, and torch's own schedulers beside them."""

import math

import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.rates import DECAYS, WARMUPS, Controller, Schedule
from gossip.rates.schedule import fixed_warmup

STEPS = 40
NO_GRADIENT = torch.zeros(1, 1)


def rates(schedule: Schedule) -> list[float]:
    controller = Controller(schedule, Stacked(1), STEPS)
    return [controller.at(t)(NO_GRADIENT) for t in range(STEPS)]


def torch_rates(make, lr: float = 0.8) -> list[float]:
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(sgd)
    seen = []
    for _ in range(STEPS):
        seen.append(scheduler.get_last_lr()[0])
        sgd.step()
        scheduler.step()
    return seen


def schedule(decay: str = "constant", warmup=None, **options) -> Schedule:
    return Schedule(0.8, warmup or WARMUPS["none"](), DECAYS[decay](**options))


def test_constant_is_constant():
    assert rates(schedule()) == [0.8] * STEPS


def test_step_decay_is_torchs_multi_step():
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [10, 30], gamma=0.1))
    assert rates(schedule("step", at=(0.25, 0.75), factor=0.1)) == pytest.approx(
        expected, rel=1e-12
    )


def test_cosine_is_torchs_annealing():
    make = lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS, eta_min=0.08)  # noqa: E731
    assert rates(schedule("cosine", floor=0.1)) == pytest.approx(torch_rates(make), rel=1e-12)


def test_exponential_reaches_its_factor_at_the_end_of_the_budget():
    gamma = 0.01 ** (1 / STEPS)
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.ExponentialLR(o, gamma))
    assert rates(schedule("exponential", factor=0.01)) == pytest.approx(expected, rel=1e-12)
    assert DECAYS["exponential"](factor=0.01)(1.0) == pytest.approx(0.01)


def test_linear_warmup_is_torchs_and_ends_at_the_base_rate():
    start, length = 0.1, 8
    seen = rates(schedule(warmup=fixed_warmup(length, start)))
    assert seen[length - 1 :] == pytest.approx([0.8] * (STEPS - length + 1))
    make = lambda o: torch.optim.lr_scheduler.LinearLR(o, start, 1.0, length)  # noqa: E731
    # ours has already moved by one increment at step 0
    assert seen[: STEPS - 1] == pytest.approx(torch_rates(make)[1:], rel=1e-12)


def test_the_first_warm_step_is_not_wasted():
    assert fixed_warmup(10, 0.0)(0) == pytest.approx(0.1)


def test_factors_multiply():
    both = rates(schedule("cosine", warmup=fixed_warmup(8, 0.0), floor=0.0))
    alone = rates(schedule("cosine", floor=0.0))
    warm = [min(1, (t + 1) / 8) for t in range(STEPS)]
    assert both == pytest.approx([a * w for a, w in zip(alone, warm, strict=True)])


def test_a_rule_keeps_its_state_and_sees_the_gradients():
    class Norms:
        """A rule with memory: one rate per layer, here per call."""

        def init(self):
            return 0.0

        def update(self, observation, state):
            state += float(observation.gradients.norm())
            return torch.tensor([state, observation.step]), state

    controller = Controller(Norms(), Stacked(1), STEPS)
    seen = [controller.at(t)(torch.full((1, 4), 1.0)) for t in range(3)]
    assert [r.tolist() for r in seen] == [[2.0, 0.0], [4.0, 1.0], [6.0, 2.0]]
    assert controller.state == 6.0
    assert math.isfinite(controller.state)
