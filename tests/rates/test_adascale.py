"""AdaScale's gain: unbiased estimates, its range, averages and own time; fairscale beside it."""

from math import floor

import numpy as np
import pytest
import torch
from fairscale.optim.adascale import AdaScale as Fairscale
from hypothesis import given
from hypothesis import strategies as st

from gossip.errors import UserError
from gossip.rates import Norms
from gossip.rates.adascale import AdaScale, Moments
from tests.rates.cases import ONE, D, drawn, made, norms_of, walk


def gains(n: int, gradients, *options: str, **rate) -> list[float]:
    rule = made(n, scaling="adascale", scaling_options=options, lr=1.0, **rate)
    return [float(rate) for rate, _, _ in walk(rule, gradients)]


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_estimates_are_the_sample_variance_and_the_unbiased_square_of_the_mean(n, seed):
    g = drawn(n, 1, seed, mean=3.0)[0]
    sigma2, mu2 = AdaScale(learners=n, scale=n).estimate(norms_of(g))
    assert sigma2 == pytest.approx(np.var(g.numpy(), axis=0, ddof=1).sum(), rel=1e-9)
    # sum over pairs i != j of g_i g_j, which has no noise of its own
    pairs = float((g.sum(0).square().sum() - g.square().sum()) / (n * (n - 1)))
    assert mu2 == pytest.approx(pairs, rel=1e-9)


def test_of_another_baseline_the_estimates_are_those_of_its_batch():
    """S = 8 from 4 gradients of 2 B_0 samples each: sigma^2 is that of B_0, twice as large."""
    g = drawn(4, 1, mean=3.0)[0]
    own, finer = (AdaScale(learners=4, scale=s).estimate(norms_of(g)) for s in (4, 8))
    assert finer[0] == pytest.approx(2 * own[0], rel=1e-12)
    assert finer[1] == pytest.approx(own[1], rel=1e-12)
    rule = made(4, batch=10, baseline_batch=5, scaling="adascale")
    assert rule.scaling.scale == 8


@given(st.integers(2, 8), st.integers(0, 10**6), st.floats(-2, 2))
def test_the_gain_is_in_1_to_s(n, seed, mean):
    for gain in gains(n, drawn(n, 4, seed, mean), "first=measured"):
        assert 1 - 1e-12 <= gain <= n * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 4, 12])
def test_equal_gradients_gain_nothing_and_orthogonal_ones_all(n):
    equal = torch.ones(n, D, dtype=torch.float64)
    expected = (1e-6 + D) / (1e-6 / n + D)  # sigma^2 is clipped at 1e-6
    assert gains(n, [equal], "first=measured")[0] == pytest.approx(expected, rel=1e-9)
    orthogonal = 3 * torch.eye(n, D, dtype=torch.float64)
    assert gains(n, [orthogonal], "first=measured")[0] == pytest.approx(n, rel=1e-12)


def test_estimates_are_clipped():
    against = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    adascale = AdaScale(learners=2, scale=2)
    layers = (ONE[0]._replace(stop=1),)
    assert adascale.estimate(norms_of(against, layers)) == (2.0, 0.0)
    assert adascale.estimate(norms_of(torch.zeros(2, 1).double(), layers)) == (1e-6, 0.0)


def test_on_average_the_gain_is_that_of_the_true_moments():
    n, d, noise = 8, 40, 0.5
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(d) * 0.5
    mu2, sigma2 = float(mean @ mean), d * noise**2
    adascale = AdaScale(learners=n, scale=n)
    seen = []
    for _ in range(10_000):
        g = mean + noise * rng.standard_normal((n, d))
        squares = torch.tensor([np.square(g).sum() / n]), torch.tensor([np.square(g.mean(0)).sum()])
        seen.append(adascale.gain(Moments(*adascale.estimate(Norms(*squares)), 1)))
    assert np.mean(seen) == pytest.approx((sigma2 + mu2) / (sigma2 / n + mu2), rel=0.02)


def moments(n: int, gradients) -> np.ndarray:
    adascale = AdaScale(learners=n, scale=n)
    return np.array([adascale.estimate(norms_of(g)) for g in gradients])


def gain_of(average: np.ndarray, scale: float) -> float:
    sigma2, mu2 = average
    return (sigma2 + mu2) / (sigma2 / scale + mu2)


def test_at_first_the_average_is_the_arithmetic_mean_then_it_moves():
    n, theta = 100, 0.9  # a window of 10 steps
    gradients = drawn(n, 25)
    seen = gains(n, gradients, "first=measured")
    single, average = moments(n, gradients), None
    for t in range(25):
        average = single[: t + 1].mean(0) if t < 10 else theta * average + (1 - theta) * single[t]
        assert seen[t] == pytest.approx(gain_of(average, n), rel=1e-12)


@pytest.mark.parametrize("n", [2, 8, 300, 1000, 1500])
def test_debiased_averages_are_those_of_the_closed_form(n):
    theta, gradients = max(1 - n / 1000, 0), drawn(n, 6)
    seen = gains(n, gradients, "average=debiased", "first=measured")
    single = moments(n, gradients)
    for t in range(6):
        weights = float(theta) ** np.arange(t, -1.0, -1)
        average = weights @ single[: t + 1] / weights.sum()
        assert seen[t] == pytest.approx(gain_of(average, n), rel=1e-12)


@pytest.mark.parametrize("average", ["plain", "debiased"])
@pytest.mark.parametrize(("n", "baseline"), [(2, None), (8, None), (8, 5), (100, None), (4, 20)])
def test_fairscale_sees_the_same_gain_in_the_same_gradients(average, n, baseline):
    gradients = drawn(n, 30)
    options = ("first=measured", f"average={average}")
    seen = gains(n, gradients, *options, batch=10, baseline_batch=baseline)
    scale = n * 10 / (baseline or 10)
    parameter = torch.nn.Parameter(torch.zeros(D, dtype=torch.float64))
    fairscale = Fairscale(
        torch.optim.SGD([parameter], lr=1.0),
        world_size=1,
        scale=scale,
        smoothing=max(1 - scale / 1000, 0),
        num_gradients_to_accumulate=n,
        debias_ewma=average == "debiased",
    )
    for g, gain in zip(gradients, seen, strict=True):
        for row in g:
            (parameter @ row / n).backward()
        assert gain == pytest.approx(fairscale.gain(), rel=1e-6)  # its sums are float32
        before = parameter.detach().clone()
        fairscale.step()
        torch.testing.assert_close(
            before - parameter.detach(), gain * g.mean(0), rtol=1e-6, atol=1e-12
        )
        fairscale.zero_grad()
    fairscale.unhook()


def test_the_first_gain_is_one_and_its_gradients_are_not_lost():
    gradients = drawn(4, 5)
    one, measured = (gains(4, gradients, f"first={first}") for first in ("one", "measured"))
    assert one[0] == 1 < measured[0]
    assert one[1:] == measured[1:]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_norms_that_are_not_finite_leave_the_averages_alone(bad):
    n, good = 4, drawn(4, 3)
    broken = good[1].clone()
    broken[0, 3] = bad
    seen = gains(n, [good[0], broken, good[2]], "first=measured")
    alone = gains(n, [good[0], good[2]], "first=measured")
    assert seen == [alone[0], alone[0], alone[1]]


@pytest.mark.parametrize("progress", ["epochs", "tau"])
@pytest.mark.parametrize("baseline", [None, 5])
def test_one_learner_alone_gains_nothing_and_runs_its_budget(progress, baseline):
    seen = gains(1, drawn(1, 50), f"progress={progress}", baseline_batch=baseline)
    assert seen == [1.0] * 40


def test_by_default_the_run_is_as_long_as_any_other():
    assert len(gains(4, drawn(4, 100))) == 40


@pytest.mark.parametrize(("n", "batch", "baseline"), [(4, 10, None), (4, 10, 5), (4, 10, 20)])
@pytest.mark.parametrize("mean", [0.0, 0.5, 5.0])
def test_in_its_own_time_the_run_ends_when_tau_reaches_the_baselines_steps(
    n, batch, baseline, mean
):
    """T_SI = S T: at least T_SI / S updates, at most T_SI, however S compares with n."""
    steps, scale = 12, n * batch / (baseline or batch)
    rule = made(
        n,
        steps,
        batch=batch,
        baseline_batch=baseline,
        scaling="adascale",
        scaling_options=("progress=tau",),
        decay="exponential",
        lr=1.0,
    )
    assert rule.counts_tau
    assert rule.most_steps == scale * steps
    seen = walk(rule, drawn(n, 1000, mean=mean))
    tau = [values["tau"] for _, values, _ in seen]
    gain = np.diff([0, *tau])
    np.testing.assert_allclose(tau, np.cumsum([v["scale"] for _, v, _ in seen]), rtol=1e-12)
    assert tau[-1] >= scale * steps > tau[-2]
    assert steps <= len(seen) <= scale * steps
    for (rate, _, _), before, r in zip(seen, [0, *tau], gain, strict=False):
        assert rate == pytest.approx(r * 0.01 ** (floor(before) / (scale * steps)), rel=1e-9)


def test_updates_lie_between_the_two_ends():
    """Pure noise has gain S: T updates (one more for r_0 = 1); equal gradients have 1: S T."""
    n, steps = 4, 10
    options = {"scaling": "adascale", "scaling_options": ("progress=tau", "first=measured")}
    orthogonal = [torch.eye(n, D, dtype=torch.float64)] * 100
    equal = [1e3 * torch.ones(n, D, dtype=torch.float64)] * 100
    shortest = walk(made(n, steps, **options), orthogonal)
    assert len(shortest) in (steps, steps + 1)  # a gain of 4 - 1e-16 is not quite enough
    assert len(walk(made(n, steps, **options), equal)) == n * steps
    assert len(gains(n, orthogonal, "progress=tau", steps=steps)) == steps + 1


@pytest.mark.parametrize(
    ("n", "baseline", "options", "complaint"),
    [
        (4, 50, (), "choose a smaller --baseline-batch"),
        (4, None, ("progress=steps",), "progress"),
        (4, None, ("average=zero",), "average"),
        (4, None, ("first=two",), "first AdaScale gain"),
        (4, None, ("granularity=module",), "granularity"),
    ],
)
def test_what_adascale_does_not_offer_is_refused(n, baseline, options, complaint):
    with pytest.raises(UserError, match=complaint):
        made(n, scaling="adascale", baseline_batch=baseline, scaling_options=options)
