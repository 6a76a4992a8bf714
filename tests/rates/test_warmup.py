"""Warm-ups: fixed in time, LEGW's constant number of iterations, and LENA's sums."""

import numpy as np
import pytest
import torch

from gossip.errors import UserError
from gossip.rates import Span
from gossip.study.rate_rule import warnings
from tests.rates import cases
from tests.rates.cases import B0, LAYERS, N0, D, date, drawn, made, rates, torch_rates, walk

STEPS = 40


def test_linear_warmup_is_torchs_and_ends_at_the_base_rate():
    start, length = 0.1, 8
    seen = rates(made(warmup="fixed", warmup_steps=length, warmup_options=(f"start={start}",)))
    assert seen[length - 1 :] == [0.8] * (STEPS - length + 1)
    make = lambda o: torch.optim.lr_scheduler.LinearLR(o, start, 1.0, length)  # noqa: E731
    # ours has already moved by one increment at step 0
    assert seen[: STEPS - 1] == pytest.approx(torch_rates(make, STEPS)[1:], rel=1e-12)


def test_the_first_warm_step_is_not_wasted():
    assert rates(made(warmup="fixed", warmup_steps=10))[0] == pytest.approx(0.08)


def test_no_warmup_is_full_from_the_start():
    assert rates(made()) == [0.8] * STEPS


@pytest.mark.parametrize(("scaling", "k"), [("linear", 4), ("sqrt", 2), ("none", None)])
def test_it_starts_at_the_base_rate_and_from_zero_where_nothing_is_scaled(scaling, k):
    length = 10
    seen = rates(made(4, scaling=scaling, warmup="fixed", warmup_steps=length))
    u = np.minimum(1, np.arange(1, STEPS + 1) / length)
    peak, start = (0.8 * k, 0.8) if k else (0.8, 0.0)
    assert seen == pytest.approx(list(start + (peak - start) * u), rel=1e-12)
    from_zero = made(
        4, scaling=scaling, warmup="fixed", warmup_steps=length, warmup_options=("start=0",)
    )
    assert rates(from_zero) == pytest.approx(list(peak * u), rel=1e-12)


def test_a_length_is_the_same_in_steps_epochs_and_shares():
    """40 steps of 4 x 10 samples out of 400: 4 epochs."""
    ways = ({"warmup_steps": 20}, {"warmup_epochs": 2.0}, {"warmup_share": 0.5})
    for warmup in ("fixed", "state-aware"):
        walks = [walk(made(warmup=warmup, **way), drawn(4, STEPS)) for way in ways]
        for other in walks[1:]:
            for (a, _, _), (b, _, _) in zip(walks[0], other, strict=True):
                assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))


def test_by_default_it_takes_the_papers_share():
    assert made(steps=1000, warmup="fixed").warmup.steps == pytest.approx(55)
    assert made(4, steps=1000, warmup="state-aware").warmup.threshold == pytest.approx(0.05 * 4000)


def factors(rule, gradients) -> np.ndarray:
    """warm_k(t), [steps, layers]."""
    seen = walk(rule, gradients)
    scale = [v[f"grad_var/{layer.name}"] for _, v, _ in seen for layer in LAYERS]
    scale = np.clip(np.reshape(scale, (len(seen), -1)), 1, rule.budget.learners)
    if rule.scaling.nominal == 1 or "grad_var/a.bias" not in seen[0][1]:
        scale = np.ones_like(scale)
    return np.stack([np.asarray(rate) for rate, _, _ in seen]) / scale / rule.base


def states(rule, gradients) -> np.ndarray:
    names = [f"warmup_state/{layer.name}" for layer in LAYERS]
    return np.array([[v[name] for name in names] for _, v, _ in walk(rule, gradients)])


def ends(rule, gradients) -> np.ndarray:
    names = [f"warmup_end/{layer.name}" for layer in LAYERS]
    return np.array([walk(rule, gradients)[-1][1][name] for name in names])


def test_state_aware_adds_up_each_layers_own_clipped_scale():
    rule = made(4, scaling="lena", warmup="state-aware", warmup_steps=10)
    gradients = drawn(4, STEPS)
    seen = walk(rule, gradients)
    own = np.array([[v[f"grad_var/{k.name}"] for k in LAYERS] for _, v, _ in seen]).clip(1, 4)
    total = own.cumsum(axis=0)
    np.testing.assert_allclose(states(rule, gradients), total, rtol=1e-12)
    expected = 0.8 * own * np.minimum(1, total / rule.warmup.threshold)
    np.testing.assert_allclose(np.stack([r for r, _, _ in seen]), expected, rtol=1e-12)
    assert rule.warmup.threshold == 40
    assert len(set(total[3])) == len(LAYERS)


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("mean", [0.0, 1.0, 10.0])
def test_sums_lie_in_t_to_nt_and_end_between_theta_over_n_and_theta(n, mean):
    rule = made(n, 60, scaling="lena", warmup="state-aware", warmup_share=0.1)
    theta = rule.warmup.threshold
    assert theta == pytest.approx(0.1 * n * 60)
    gradients = drawn(n, 60, mean=mean)
    t = np.arange(1, 61)[:, None]
    seen = states(rule, gradients)
    assert (seen >= t - 1e-9).all()
    assert (seen <= n * t + 1e-9).all()
    updates = ends(rule, gradients) + 1
    assert ((theta / n <= updates) & (updates <= np.ceil(theta))).all()


def test_equal_gradients_warm_up_as_slowly_as_can_be_and_orthogonal_ones_as_fast():
    n, steps = 4, 100
    rule = made(n, steps, scaling="lena", warmup="state-aware", warmup_share=0.2)
    equal = [100 * torch.ones(n, D, dtype=torch.float64)] * steps
    assert (ends(rule, equal) + 1 == 80).all()
    apart = torch.zeros(n, D, dtype=torch.float64)
    for layer in LAYERS[::2]:
        apart[:, layer.start : layer.start + 4] = torch.eye(4)
    slow = made(
        n,
        steps,
        scaling="lena",
        warmup="state-aware",
        warmup_share=0.2,
        scaling_options=("epsilon=0",),
        layers=LAYERS[::2],
    )
    last = walk(slow, [apart] * steps)[-1][1]
    assert last["warmup_end/a.weight"] + 1 in (20, 21)  # 4 - 1e-16 added up 20 times


def test_a_warm_up_that_does_not_end_has_no_end():
    rule = made(4, 10, scaling="lena", warmup="state-aware", warmup_share=1.0)
    assert np.isnan(ends(rule, drawn(4, 10, mean=10.0))).all()


def test_before_and_after_differ_by_one_increment():
    gradients = drawn(4, STEPS)
    made_in = lambda order: made(  # noqa: E731
        4,
        scaling="lena",
        warmup="state-aware",
        warmup_steps=20,
        warmup_options=(f"accumulate={order}",),
    )
    before, after = (factors(made_in(order), gradients) for order in ("before", "after"))
    assert (after[0] == 0).all()
    np.testing.assert_allclose(after[1:], before[:-1], rtol=1e-12)
    own = np.diff(states(made_in("after"), gradients), axis=0, prepend=0)
    warm = before < 1
    np.testing.assert_allclose((before - after)[warm], (own / 80)[warm], rtol=1e-9)
    end_before, end_after = (ends(made_in(order), gradients) for order in ("before", "after"))
    assert (end_after == end_before + 1).all()


@pytest.mark.parametrize("scaling", ["none", "linear", "sqrt"])
def test_constant_scalings_add_up_the_whole_models_variance(scaling):
    rule = made(4, scaling=scaling, warmup="state-aware", warmup_steps=20)
    gradients = drawn(4, STEPS)
    whole = [v["grad_var"] for _, v, _ in walk(rule, gradients)]
    expected = np.clip(whole, 1, 4).cumsum()[:, None].repeat(len(LAYERS), axis=1)
    np.testing.assert_allclose(states(rule, gradients), expected, rtol=1e-12)


def test_adascale_adds_up_its_gain():
    rule = made(4, scaling="adascale", warmup="state-aware", warmup_steps=20)
    gradients = drawn(4, STEPS)
    gain = [v["scale"] for _, v, _ in walk(rule, gradients)]
    expected = np.cumsum(gain)[:, None].repeat(len(LAYERS), axis=1)
    np.testing.assert_allclose(states(rule, gradients), expected, rtol=1e-12)


@pytest.mark.parametrize("scaling", ["none", "linear", "sqrt", "adascale", "lena"])
def test_one_learner_warms_up_linearly(scaling):
    rule = made(1, scaling=scaling, warmup="state-aware", warmup_steps=8)
    fixed = rates(made(1, warmup="fixed", warmup_steps=8))
    seen = walk(rule, drawn(1, STEPS))
    for (rate, _, _), expected in zip(seen, fixed, strict=True):
        np.testing.assert_allclose(np.asarray(rate), expected, rtol=1e-14)


@pytest.mark.parametrize("batch", [256, 512, 1024, 2048, 8192, 16384])
def test_legw_takes_the_same_number_of_updates_for_every_batch(batch):
    rule = date(batch)
    assert rule.warmup.steps == pytest.approx(2 * N0 / B0, rel=1e-15)
    peak = (batch / B0) ** 0.5 * 1.25e-3
    seen = rates(rule, min(130, int(rule.budget.steps)))
    i = np.arange(1, len(seen) + 1)
    assert seen == pytest.approx(list(peak * np.minimum(1, i / (2 * N0 / B0))), rel=1e-12)
    epochs = i * batch / N0
    w = batch / B0 * 2.0
    assert seen == pytest.approx(list(peak * np.minimum(1, epochs / w)), rel=1e-12)


def test_at_the_baselines_batch_legw_is_the_baseline():
    at_once = rates(date(B0), 200)
    plain = made(
        8, 30 * N0 / B0, batch=B0 // 8, samples=N0, lr=1.25e-3, warmup="fixed", warmup_epochs=2.0
    )
    assert at_once == pytest.approx(rates(plain, 200), rel=1e-12)


def test_legw_may_rise_as_the_square():
    linear, quadratic = (
        np.array(rates(date(8192, warmup_options=(f"shape={s}",)), 150))
        for s in ("linear", "quadratic")
    )
    peak = 8**0.5 * 1.25e-3
    np.testing.assert_allclose(quadratic / peak, (linear / peak) ** 2, rtol=1e-12)


def test_no_epochs_of_warm_up_are_none():
    assert rates(date(8192, w0=0.0), 3) == [8**0.5 * 1.25e-3] * 3


@pytest.mark.parametrize("q", range(5))
def test_the_published_schedules_double(q):
    """DATE's Table 3 (GNMT): B = 256 ... 4096; Table 4 (ImageNet): 1024 ... 32768."""
    gnmt = made(
        1,
        10**6,
        batch=256 * 2**q,
        samples=3_500_000,
        baseline_batch=256,
        lr=2**-0.5 / 1e3,
        scaling="sqrt",
        warmup="legw",
        warmup_epochs=0.0145,
    )
    assert gnmt.base * gnmt.scaling.nominal == pytest.approx(2 ** (q / 2 - 0.5) / 1e3, rel=1e-12)
    warm_epochs = gnmt.warmup.steps / gnmt.budget.steps_per_epoch
    assert warm_epochs == pytest.approx(0.0145 * 2**q, rel=1e-12)
    assert gnmt.warmup.steps == pytest.approx(198.24, abs=0.01)
    imagenet = made(
        16,
        10**5,
        batch=64 * 2 ** (q + 1),
        samples=1_281_167,
        baseline_batch=1024,
        lr=2**2.5,
        scaling="sqrt",
        warmup="legw",
        warmup_epochs=10 / 2**5,
    )
    assert imagenet.base * imagenet.scaling.nominal == pytest.approx(2 ** (3 + q / 2), rel=1e-12)
    warm_epochs = imagenet.warmup.steps / imagenet.budget.steps_per_epoch
    assert warm_epochs == pytest.approx(10 / 2**5 * 2 ** (q + 1), rel=1e-12)


def test_a_warm_up_that_may_never_end_is_warned_of():
    assert warnings(made(4, 100, warmup="fixed", warmup_steps=100)) == []
    assert (
        "takes 101 steps and the run has 100"
        in warnings(made(4, 100, warmup="fixed", warmup_steps=101))[0]
    )
    assert warnings(made(4, 100, scaling="lena", warmup="state-aware", warmup_share=0.25)) == []
    assert (
        "needs 104 of 100 steps"
        in warnings(made(4, 100, scaling="lena", warmup="state-aware", warmup_share=0.26))[0]
    )
    assert "never reached" in warnings(date(16384, epochs=30))[0]
    assert warnings(made()) == []


@pytest.mark.parametrize(
    ("rate", "complaint"),
    [
        ({"warmup": "legw"}, "--baseline-batch"),
        ({"warmup": "legw", "baseline_batch": 10}, "--warmup-epochs"),
        ({"warmup": "legw", "warmup_epochs": 1.0}, "--baseline-batch"),
        ({"warmup": "state-aware", "warmup_steps": 41}, r"over 41 of 40 updates: alpha"),
        ({"warmup": "state-aware", "warmup_epochs": 0.0}, r"\(0, 1\]"),
        ({"warmup": "state-aware", "warmup_options": ("accumulate=during",)}, "order of the"),
        ({"warmup": "none", "warmup_options": ("start=1",)}, "has no option 'start'"),
        ({"warmup": "fixed", "warmup_options": ("start=low",)}, "must be a number"),
        (
            {
                "warmup": "legw",
                "baseline_batch": 10,
                "warmup_epochs": 1.0,
                "warmup_options": ("shape=cubic",),
            },
            "shape of the warm-up",
        ),
    ],
)
def test_what_cannot_be_warmed_up_is_refused(rate, complaint):
    with pytest.raises(UserError, match=complaint):
        made(**rate)


def test_a_step_of_a_larger_batch_counts_as_often_as_it_is_longer():
    """In the warm-up's sums and in tau: of orthogonal gradients, whose gain is n."""
    options = {"scaling_options": ("progress=tau", "first=measured"), "warmup": "state-aware"}
    rule = made(4, scaling="adascale", layers=cases.ONE, warmup_share=0.5, **options)
    orthogonal = cases.norms_of(3 * torch.eye(4, D, dtype=torch.float64))
    paced, _ = rule.pace(Span(0.0, 3.0), orthogonal, rule.init())
    assert paced.memory.tau == pytest.approx(3 * 4)
    assert float(paced.memory.warmup.total) == pytest.approx(3 * 4)
    assert float(paced.warm) == pytest.approx(3 * 4 / (0.5 * 4 * STEPS))
