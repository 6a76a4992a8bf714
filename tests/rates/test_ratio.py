"""The layer ratio: within its limits, 1 where a norm is 0, on the rate and not on the gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gossip.errors import UserError
from gossip.optim import OPTIMIZERS
from gossip.rates import layer_ratio
from tests.problems import optimizer
from tests.rates.cases import LAYERS, D, drawn, made, walk


def raw(x: torch.Tensor, g: torch.Tensor) -> np.ndarray:
    parts = [slice(layer.start, layer.stop) for layer in LAYERS]
    norms = lambda rows: np.stack([rows[:, p].norm(dim=1) for p in parts], axis=1)  # noqa: E731
    return norms(x) / norms(g)


def rows(seed: int, count: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    spread = np.repeat(np.exp(2 * rng.standard_normal((count, 3))), [6, 2, 4], axis=1)
    x, g = rng.standard_normal((2, count, D))
    return torch.from_numpy(x * spread), torch.from_numpy(g)


@given(st.integers(0, 10**6), st.floats(0, 2), st.floats(0, 2))
def test_fixed_limits_clip_the_ratio_of_norms(seed, lower, width):
    x, g = rows(seed)
    ratio = layer_ratio("fixed", (lower, lower + width))(x, g, LAYERS)
    np.testing.assert_allclose(ratio, raw(x, g).clip(lower, lower + width), rtol=1e-12)


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_quantile_limits_are_those_of_each_learners_own_ratios(seed, a, b):
    lower, upper = sorted((a, b))
    x, g = rows(seed)
    expected = raw(x, g)
    limits = np.quantile(expected, [lower, upper], axis=1)[:, :, None]
    ratio = layer_ratio("quantile", (lower, upper))(x, g, LAYERS)
    np.testing.assert_allclose(ratio, expected.clip(*limits), rtol=1e-12)


def test_the_outermost_quantiles_leave_ratios_alone_and_the_median_makes_them_equal():
    x, g = rows(0)
    np.testing.assert_allclose(layer_ratio("quantile", (0, 1))(x, g, LAYERS), raw(x, g), rtol=1e-12)
    median = layer_ratio("quantile", (0.5, 0.5))(x, g, LAYERS)
    expected = np.median(raw(x, g), axis=1, keepdims=True).repeat(3, axis=1)
    np.testing.assert_allclose(median, expected, rtol=1e-12)


def test_default_limits():
    x, g = rows(1, 50)
    np.testing.assert_array_equal(
        layer_ratio("fixed")(x, g, LAYERS), layer_ratio("fixed", (0.1, 10))(x, g, LAYERS)
    )
    np.testing.assert_array_equal(
        layer_ratio("quantile")(x, g, LAYERS), layer_ratio("quantile", (0.1, 0.9))(x, g, LAYERS)
    )
    assert layer_ratio("off") is None


def test_a_norm_of_zero_has_ratio_one_before_it_is_clipped():
    x, g = rows(2)
    x[0, :6], g[0, 6:8], g[1, 8:], x[1, 8:] = 0, 0, 0, 0
    ratio = layer_ratio("fixed", (0, 1e9))(x, g, LAYERS)
    assert ratio[0, 0] == ratio[0, 1] == ratio[1, 2] == 1
    assert (layer_ratio("fixed", (2, 3))(x, g, LAYERS)[0, :2] == 2).all()
    assert (layer_ratio("fixed", (0.2, 0.3))(x, g, LAYERS)[0, :2] == 0.3).all()


def test_a_synchronous_step_takes_the_mean_gradients_ratio_and_dpsgd_each_learners_own():
    g = drawn(3, 1)[0]
    x = rows(3)[0]
    rule = made(3, layer_ratio="fixed", layer_ratio_limits=(0.0, 1e9), lr=1.0)
    shared = walk(rule, [g], x[:1])[0][0]
    np.testing.assert_allclose(shared, raw(x[:1], g.mean(dim=0, keepdim=True))[0], rtol=1e-12)
    own, values, _ = walk(rule, [g], x, synchronous=False)[0]
    np.testing.assert_allclose(own, raw(x, g), rtol=1e-12)
    first = [values[f"layer_ratio/{layer.name}"] for layer in LAYERS]
    np.testing.assert_array_equal(first, own[0])
    assert [values[f"lr/{layer.name}"] for layer in LAYERS] == first


def test_a_learner_goes_on_alone_with_what_it_kept_among_others():
    """Processes that host one learner or several can take up each other's checkpoints."""
    x, g = rows(6)
    rule = made(3, layer_ratio="fixed", lr=0.1)
    rate = lambda some: walk(rule, [g[some]], x[some], synchronous=False)[0][0]  # noqa: E731
    everybody, one = slice(0, 3), slice(1, 2)
    together, alone = (optimizer("sgd", LAYERS, momentum=0.9)() for _ in range(2))
    together.step(x, g, rate(everybody))
    alone.restore({name: kept[one] for name, kept in together.state_rows().items()})
    expected = together.step(x, g, rate(everybody))[one]
    assert torch.equal(alone.step(x[one], g[one], rate(one)), expected)
    kept = {name: tuple(own.shape[1:]) for name, own in together.state_rows().items()}
    assert {name: tuple(own.shape[1:]) for name, own in alone.state_rows().items()} == kept


@pytest.mark.parametrize("ratio", [0.25, 3.0])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS.keys() - {"larc"}))  # it limits its rate
def test_it_scales_the_step_of_every_optimizer_and_not_its_gradient(name, ratio):
    """Adam and its like would normalise a factor of the gradient away."""
    x, g = rows(4)
    single = optimizer(name, LAYERS)().step(x, g, 1e-3)
    limits = (ratio, ratio)
    rate = walk(
        made(3, layer_ratio="fixed", layer_ratio_limits=limits, lr=1e-3), [g], x, synchronous=False
    )[0][0]
    scaled = optimizer(name, LAYERS)().step(x, g, rate)
    torch.testing.assert_close(scaled - x, ratio * (single - x), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("synchronous", [True, False])
def test_limits_of_one_are_the_base_optimizer_exactly(name, synchronous):
    rule = made(3, layer_ratio="fixed", layer_ratio_limits=(1.0, 1.0), lr=0.01)
    with_ratio, base = optimizer(name, LAYERS)(), optimizer(name, LAYERS)()
    x = y = rows(5)[0][: 1 if synchronous else 3]
    for g in drawn(3, 5):
        rate = walk(rule, [g], x, synchronous=synchronous)[0][0]
        assert (rate == 0.01).all()
        direction = g.mean(dim=0, keepdim=True) if synchronous else g
        x, y = with_ratio.step(x, direction, rate), base.step(y, direction, 0.01)
        torch.testing.assert_close(x, y, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        ("fixed", (2.0, 1.0)),
        ("fixed", (-1.0, 1.0)),
        ("fixed", (float("nan"), 1.0)),
        ("quantile", (0.5, 1.5)),
        ("clamp", None),
    ],
)
def test_limits_that_are_none_are_refused(kind, limits):
    with pytest.raises(UserError, match=r"layer.ratio"):
        layer_ratio(kind, limits)
