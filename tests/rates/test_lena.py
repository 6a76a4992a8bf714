"""Gradient variance: its two ends, its invariances, its averages, and AdaScale beside it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gossip.errors import UserError
from gossip.rates import Norms, RateContext, gradient_variance
from gossip.rates.adascale import AdaScale
from tests.rates.cases import LAYERS, ONE, D, drawn, made, norms_of, walk


def lena(n: int, *options: str, **rate):
    return made(n, scaling="lena", scaling_options=options, lr=1.0, **rate)


def variances(rule, gradients) -> np.ndarray:
    names = [f"grad_var/{layer.name}" for layer in rule.layers]
    return np.array([[v[name] for name in names] for _, v, _ in walk(rule, gradients)])


def scales(rule, gradients) -> np.ndarray:
    return np.stack([rate.numpy() for rate, _, _ in walk(rule, gradients)])


@given(st.integers(1, 9), st.integers(0, 10**6))
def test_equal_gradients_have_scale_1(n, seed):
    g = torch.from_numpy(np.random.default_rng(seed).standard_normal((1, D))).repeat(n, 1)
    np.testing.assert_allclose(scales(lena(n), [g] * 3), 1, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 4, 12])
def test_orthogonal_gradients_of_equal_norm_have_scale_n(n):
    g = 3 * torch.eye(n, D, dtype=torch.float64)
    seen = variances(lena(n, "epsilon=0", layers=ONE), [g] * 3)
    np.testing.assert_allclose(seen, n, rtol=1e-13)


@given(st.integers(2, 6), st.integers(0, 10**6), st.floats(-1.2, 3))
def test_clipped_to_1_and_n_and_above_1_by_convexity(n, seed, mean):
    gradients = drawn(n, 4, seed, mean)
    raw = variances(lena(n, "clip=none"), gradients)
    assert (raw >= 1 - 1e-12).all()
    np.testing.assert_allclose(scales(lena(n), gradients), raw.clip(1, n), rtol=1e-12)
    upper = scales(lena(n, "clip=upper"), gradients)
    np.testing.assert_allclose(upper, raw.clip(None, n), rtol=1e-12)
    np.testing.assert_allclose(scales(lena(n, "clip=none"), gradients), raw, rtol=1e-12)


def test_gradients_against_each_other_leave_the_papers_range():
    g = torch.zeros(2, D, dtype=torch.float64)
    g[:, 0] = torch.tensor([1.0, -0.9], dtype=torch.float64)
    for clip, scale in (("none", 362), ("both", 2), ("upper", 2)):
        rule = lena(2, f"clip={clip}", "epsilon=0", layers=ONE)
        np.testing.assert_allclose(scales(rule, [g]), scale, rtol=1e-12)


def test_clip_upper_leaves_alone_what_is_below_1():
    """Only rounding or unequal averages get there; shown with norms made up."""
    made_up = Norms(torch.tensor([1.0, 9.0]).double(), torch.tensor([2.0, 1.0]).double())
    for clip, expected in (("upper", [0.5, 4]), ("both", [1, 4]), ("none", [0.5, 9])):
        rule = lena(4, f"clip={clip}", "epsilon=0", layers=LAYERS[:2])
        variance, _ = rule.variance.update(made_up, rule.variance.init())
        assert rule.scaling.update(0, variance, None)[0].factor.tolist() == expected


def test_one_layers_variance_is_its_adascale_gain_with_one_and_the_same_average():
    n = 1000  # theta = 0 for both
    for seed in range(5):
        g = drawn(n, 1, seed)[0]
        adascale = AdaScale(learners=n, scale=n, first="measured")
        sigma2, mu2 = adascale.estimate(norms_of(g))
        assert sigma2 > 1e-6
        assert mu2 > 0
        rule = lena(n, "clip=none", "epsilon=0", layers=ONE)
        gain = made(n, scaling="adascale", scaling_options=("first=measured",), layers=ONE, lr=1.0)
        assert variances(rule, [g])[0, 0] == pytest.approx(walk(gain, [g])[0][0], rel=1e-12)


@pytest.mark.parametrize("c", [1e3, 1e6])
def test_larger_gradients_have_the_same_variance(c):
    gradients = drawn(4, 5)
    raw = variances(lena(4, "clip=none"), [1e3 * g for g in gradients])
    scaled = variances(lena(4, "clip=none"), [1e3 * c * g for g in gradients])
    np.testing.assert_allclose(scaled, raw, rtol=1e-9)
    exact = variances(lena(4, "clip=none", "epsilon=0"), gradients)
    tiny = variances(lena(4, "clip=none", "epsilon=0"), [1e-9 * g for g in gradients])
    np.testing.assert_allclose(tiny, exact, rtol=1e-12)


def test_the_order_of_the_learners_changes_nothing():
    gradients = drawn(5, 6)
    order = torch.tensor([3, 0, 4, 1, 2])
    permuted = scales(lena(5), [g[order] for g in gradients])
    np.testing.assert_allclose(permuted, scales(lena(5), gradients), rtol=1e-13)


def test_zero_gradients_have_scale_1():
    g = drawn(4, 1)[0]
    g[:, 6:8] = 0
    seen = variances(lena(4), [g, torch.zeros_like(g)])
    assert (seen[:, 1] == 1).all()
    assert (variances(lena(4), [torch.zeros_like(g)] * 2) == 1).all()


@pytest.mark.parametrize("n", [2, 8, 300, 1000, 1700])
@pytest.mark.parametrize("average", ["debiased", "zero"])
def test_averages_are_those_of_the_closed_form(n, average):
    theta, epsilon = max(1 - n / 1000, 0), 0.01
    gradients = drawn(n, 7)
    seen = variances(lena(n, f"average={average}", f"epsilon={epsilon}", "clip=none"), gradients)
    norms = [norms_of(g, LAYERS) for g in gradients]
    for t in range(7):
        weights = (1 - theta) * float(theta) ** np.arange(t, -1.0, -1)
        if average == "debiased":
            weights = weights / (1 - theta ** (t + 1))
        top = sum(w * s.squares.numpy() for w, s in zip(weights, norms, strict=False))
        bottom = sum(w * s.square_of_mean.numpy() for w, s in zip(weights, norms, strict=False))
        np.testing.assert_allclose(seen[t], (top + epsilon) / (bottom + epsilon), rtol=1e-12)


def test_without_the_correction_epsilon_rules_the_first_steps():
    """n = 8: the first averages are 0.8 % of the norms, so small gradients look equal."""
    g = 1e-3 * torch.eye(8, D, dtype=torch.float64)
    zero, debiased = (
        variances(lena(8, f"average={a}", layers=ONE), [g])[0, 0] for a in ("zero", "debiased")
    )
    assert zero == pytest.approx((0.008e-6 + 1e-6) / (0.001e-6 + 1e-6), rel=1e-12)
    assert debiased == pytest.approx((1e-6 + 1e-6) / (1e-6 / 8 + 1e-6), rel=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_norms_that_are_not_finite_leave_the_averages_alone(bad):
    variance = gradient_variance(RateContext(budget=made(4).budget, layers=LAYERS, lr=1.0))
    good = [norms_of(g, LAYERS) for g in drawn(4, 3)]
    for where in range(2):
        broken = [part.clone() for part in good[1]]
        broken[where][1] = bad
        state, alone = variance.init(), variance.init()
        before, state = variance.update(good[0], state)
        during, state = variance.update(Norms(*broken), state)
        after, state = variance.update(good[2], state)
        _, alone = variance.update(good[0], alone)
        expected, _ = variance.update(good[2], alone)
        assert torch.equal(during.layers, before.layers)
        assert torch.equal(after.layers, expected.layers)
        assert after.whole == expected.whole


def test_a_module_is_one_layer_with_the_norms_of_its_tensors_added():
    gradients = drawn(4, 3)
    by_module = variances(lena(4, "granularity=module", "clip=none"), gradients)
    merged = (LAYERS[0]._replace(stop=8), LAYERS[2])
    expected = variances(lena(4, "clip=none", layers=merged), gradients)
    np.testing.assert_allclose(by_module, expected[:, [0, 0, 1]], rtol=1e-13)
    inside = tuple(layer._replace(name=f"net.{layer.name}") for layer in LAYERS)
    rule = lena(4, "granularity=module", "clip=none", layers=inside)
    np.testing.assert_array_equal(variances(rule, gradients), by_module)


def test_the_whole_model_is_one_layer():
    gradients = drawn(4, 3)
    whole = [v["grad_var"] for _, v, _ in walk(lena(4), gradients)]
    one = variances(lena(4, layers=ONE), gradients)[:, 0]
    np.testing.assert_allclose(whole, one, rtol=1e-13)


def test_layers_that_are_not_chosen_take_the_whole_models_variance():
    gradients = drawn(4, 3, mean=1.0)
    whole = np.array([v["grad_var"] for _, v, _ in walk(lena(4), gradients)]).clip(1, 4)
    own = scales(lena(4), gradients)
    assert np.array_equal(scales(lena(4, "share=1"), gradients), own)
    np.testing.assert_array_equal(
        scales(lena(4, "share=0"), gradients), whole[:, None].repeat(3, axis=1)
    )
    rule = lena(4, "share=0.34", "share_seed=2")
    chosen = rule.scaling.chosen.numpy()
    assert chosen.sum() == 1
    np.testing.assert_array_equal(scales(rule, gradients), np.where(chosen, own, whole[:, None]))
    rules = [lena(4, "share=0.34", f"share_seed={s}") for s in range(20)]
    picks = {rule.scaling.chosen.tolist().index(True) for rule in rules}
    assert picks == {0, 1, 2}


def test_the_authors_warm_up_adds_the_whole_models_variance_for_clipped_layers():
    """Layers with variances 9, 1 and 2, and the whole model with 19/8; n = 4."""
    made_up = Norms(torch.tensor([9.0, 4, 6]).double(), torch.tensor([1.0, 4, 3]).double())
    for state, gain in (("own", [4, 1, 2]), ("whole", [19 / 8, 1, 2])):
        rule = lena(4, f"clipped_state={state}", "epsilon=0")
        variance, _ = rule.variance.update(made_up, rule.variance.init())
        scale, _ = rule.scaling.update(0, variance, None)
        assert scale.factor.tolist() == [4, 1, 2]
        np.testing.assert_allclose(scale.gain, gain, rtol=1e-15)


@pytest.mark.parametrize("n", [2, 999, 1000, 5000])
def test_theta_never_is_negative(n):
    assert lena(n).variance.theta == pytest.approx(max(1 - n / 1000, 0), abs=1e-15)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("clip=lower",), "clip"),
        (("share=1.5",), "share"),
        (("epsilon=-1",), "epsilon"),
        (("granularity=block",), "granularity"),
        (("average=plain",), "average"),
        (("clipped_state=x",), "clipped state"),
        (("theta=0.9",), "theta"),
        (("setting=1",), "setting"),
    ],
)
def test_what_lena_does_not_offer_is_refused(options, complaint):
    with pytest.raises(UserError, match=complaint):
        lena(4, *options)
