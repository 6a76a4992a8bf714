"""Decays: closed forms, torch's own schedulers, and DATE's roller-coaster."""

import math

import numpy as np
import pytest
from torch.optim import lr_scheduler as torchs

from gossip.config import Rate
from gossip.errors import UserError
from gossip.rates import DECAYS
from gossip.study import rate_rule
from tests.rates.cases import B0, N0, date, made, rates, torch_rates

STEPS = 40


def assert_torchs(make, **rate) -> None:
    assert rates(made(**rate)) == pytest.approx(torch_rates(make, STEPS), rel=1e-11, abs=1e-15)


def test_constant_is_constant():
    assert rates(made(decay="constant")) == [0.8] * STEPS


def test_step_decay_is_torchs_multi_step():
    make = lambda o: torchs.MultiStepLR(o, [10, 30], gamma=0.3)  # noqa: E731
    assert_torchs(make, decay="step", decay_at=(0.25, 0.75), decay_factor=0.3)


@pytest.mark.parametrize("steps", [3, 7, 10, 30, 60, 90])
def test_milestones_that_are_whole_steps_are_not_missed(steps):
    for k in range(1, steps):
        seen = rates(made(steps=steps, decay="step", decay_at=(k / steps,), lr=1.0))
        assert seen == [1.0] * k + [0.1] * (steps - k)


@pytest.mark.parametrize("factor", [0.0, 0.1])
def test_cosine_is_torchs_annealing(factor):
    make = lambda o: torchs.CosineAnnealingLR(o, STEPS, eta_min=0.8 * factor)  # noqa: E731
    assert_torchs(make, decay="cosine", decay_factor=factor)


@pytest.mark.parametrize("power", [1.0, 2.0, 0.5])
def test_polynomial_is_torchs(power):
    make = lambda o: torchs.PolynomialLR(o, STEPS, power)  # noqa: E731
    assert_torchs(make, decay="polynomial", decay_options=(f"power={power}",))


def test_exponential_is_torchs_and_reaches_its_factor_at_the_end_of_the_budget():
    assert_torchs(lambda o: torchs.ExponentialLR(o, 0.01 ** (1 / STEPS)), decay="exponential")
    for factor in (0.01, 0.3):
        rule = made(decay="exponential", decay_factor=factor)
        assert (rule.decay(0.0), rule.decay(1.0)) == (1.0, factor)


@pytest.mark.parametrize("decay", DECAYS)
def test_every_decay_starts_at_1_and_never_rises(decay):
    rule = made(decay=decay)
    factors = np.array([rule.decay(p) for p in np.linspace(0, 1, 101)])
    assert 1 - 1 / STEPS <= factors[0] <= 1
    assert (np.diff(factors) <= 0).all()
    assert (factors >= 0).all()


def test_factors_multiply():
    both = rates(
        made(
            decay="cosine",
            warmup="fixed",
            warmup_steps=8,
            scaling="linear",
            warmup_options=("start=0",),
        )
    )
    alone = rates(made(decay="cosine"))
    warm = [min(1, (t + 1) / 8) for t in range(STEPS)]
    assert both == pytest.approx([4 * a * w for a, w in zip(alone, warm, strict=True)], rel=1e-12)


def roller(batch: int, epochs: float = 30, **options):
    given = tuple(f"{key.replace('_', '-')}={value}" for key, value in options.items())
    return date(batch, epochs=epochs, decay="roller-coaster", decay_options=given)


@pytest.mark.parametrize("batch", [1024, 2048, 8192])
def test_the_roller_coaster_has_no_jump_at_its_peak(batch):
    rule = roller(batch)
    total, warm, peak = rule.budget.steps, 2 * N0 / B0, (batch / B0) ** 0.5 * 1.25e-3
    for i in (warm - 1e-9, warm, warm + 1e-9):
        whole = rule.decay((i - 1) / total) * min(1, i / warm)
        assert whole == pytest.approx(1, abs=1e-9)
    seen = np.array(rates(rule))
    i = np.arange(1, len(seen) + 1)
    down = np.maximum(peak * (total - i) / (total - warm), 1e-6)
    np.testing.assert_allclose(seen, np.where(i < warm, peak * i / warm, down), rtol=1e-9)
    assert i[seen.argmax()] in (math.floor(warm), math.ceil(warm))


def test_mnists_worked_example():
    """220 updates, 117 of them warm-up; right after it the paper's reading halves the rate."""
    total = 219.375
    epochs = total * 8192 / N0
    scaled = rates(roller(8192, epochs))
    example = rates(roller(8192, epochs, reference="paper-example"))
    peak = 1.25e-3 * 8**0.5
    assert len(scaled) == 220
    assert peak == pytest.approx(3.53553e-3, rel=1e-5)
    assert scaled[116] == pytest.approx(peak * 117 / 117.1875, rel=1e-12)
    assert scaled[117] == pytest.approx(peak * (total - 118) / (total - 117.1875), rel=1e-9)
    assert example[:117] == scaled[:117]
    assert example[117] == pytest.approx(
        peak * (total - 118) / (total * (1 - 2 / epochs)), rel=1e-9
    )
    assert 0.49 < example[117] / peak < 0.51


@pytest.mark.parametrize("least", [1e-6, 1e-3])
def test_the_rate_never_falls_below_its_least(least):
    seen = rates(roller(8192, min_lr=least))
    assert seen[-1] == pytest.approx(least, rel=1e-12)
    assert min(seen[117:]) == pytest.approx(least, rel=1e-12)


def test_a_warm_up_as_long_as_the_run_leaves_no_decay():
    plain = date(16384, decay="constant")
    assert plain.warmup.steps > plain.budget.steps
    for reference in ("scaled", "paper-example"):
        assert rates(roller(16384, reference=reference)) == rates(plain)


def test_without_a_warm_up_it_falls_in_a_line():
    seen = rates(made(decay="roller-coaster", lr=1.0))
    expected = [max((STEPS - i) / STEPS, 1e-6) for i in range(1, STEPS + 1)]
    assert seen == pytest.approx(expected, rel=1e-12)


def test_a_rate_of_zero_stays_zero():
    assert rates(made(decay="roller-coaster", lr=0.0)) == [0.0] * STEPS


@pytest.mark.parametrize(
    ("rate", "complaint"),
    [
        ({"decay": "roller-coaster", "decay_options": ("reference=mine",)}, "reference"),
        ({"decay": "cosine", "decay_options": ("power=2",)}, "has no option 'power'"),
        ({"decay": "cosine", "decay_options": ("factor=2",)}, "--decay-factor"),
        ({"decay": "step", "decay_options": ("at=0.2",)}, "--decay-at"),
        ({"decay": "polynomial", "decay_options": ("power=x",)}, "must be a number"),
        ({"decay": "polynomial", "decay_options": ("power",)}, "key=value"),
        ({"decay": "polynomial", "decay_options": ("power=1", "power=2")}, "given twice"),
    ],
)
def test_what_a_decay_does_not_offer_is_refused(rate, complaint):
    with pytest.raises(UserError, match=complaint):
        made(**rate)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("option", [{"decay_at": (0.25,)}, {"decay_factor": 0.3}])
def test_an_option_that_no_rate_depends_on_is_said_to_have_no_effect(decay, option):
    changed = rates(made(decay=decay, **option)) != rates(made(decay=decay))
    (name,) = (key.replace("_", "-") for key in option)
    expected = [] if changed else [f"{name} has no effect with --decay {decay}"]
    assert rate_rule.idle(Rate(decay=decay, **option)) == expected
    assert not rate_rule.idle(Rate(decay=decay))


def test_a_window_without_a_trace_is_said_to_have_no_effect():
    said = ["lr-trace-window has no effect without --lr-trace"]
    assert rate_rule.idle(Rate(lr_trace_window=3)) == said
