"""Every rule on real data: finite, repeatable, and the same as written out by hand."""

import numpy as np
import pytest
import torch

from gossip.algorithms import DpsgdAtc
from gossip.comm.stacked import Stacked
from gossip.models import mlp, softmax
from gossip.rates import DECAYS, LAYER_RATIOS, SCALINGS, WARMUPS, Controller, Product, Rated
from gossip.rates.base import Observation
from gossip.task import Gradients
from tests.covering import covering
from tests.problems import complete, digits_task, optimizer, ring
from tests.rates.cases import made
from tests.synchronous import ALGORITHMS, NOISELESS

N, BATCH, STEPS = 3, 4, 6
TASK = digits_task(softmax)
NET = digits_task(mlp, widths=(6,), activation="tanh")


def rule(task, n: int = N, **rate) -> Product:
    if rate.get("warmup") == "legw":
        rate |= {"warmup_epochs": 0.02, "baseline_batch": BATCH}
    elif rate.get("warmup", "none") != "none":
        rate |= {"warmup_steps": 3}
    return made(
        n,
        rate.pop("steps", STEPS),
        batch=BATCH,
        samples=len(task.train),
        layers=task.layers,
        **{"lr": 0.1, **rate},
    )


def batches(task, n: int, t: int):
    return task.train.batch(t * n * BATCH + np.arange(n * BATCH).reshape(n, BATCH))


def trained(task, rates: Product, name: str, n: int = N, *, momentum: float = 0.9):
    """The weights after every step until the rule's end, and its trace values."""
    comm, controller = Stacked(n), Controller(rates, Stacked(n))
    algorithm = ALGORITHMS[name](
        optimizer("sgd", task.layers, momentum=momentum, weight_decay=0.01)
    )
    state = algorithm.init(task.init(0), n)
    seen, values = [], []
    while controller.progress < 1:
        inputs, labels = batches(task, n, state.step)

        def gradient(x, inputs=inputs, labels=labels):
            return task.gradient(x, inputs, labels, squares=rates.needs_norms)

        state, _ = algorithm.step(state, gradient, ring(n), controller.at(state.step), comm)
        seen.append(state.x)
        values.append(controller.values())
    return seen, values


@pytest.mark.parametrize(
    ("scaling", "warmup", "decay", "ratio", "name"),
    covering(SCALINGS, WARMUPS, DECAYS, LAYER_RATIOS, ["ssgd", "dpsgd"]),
)
def test_every_rule_trains_and_does_so_again(scaling, warmup, decay, ratio, name):
    rates = rule(TASK, scaling=scaling, warmup=warmup, decay=decay, layer_ratio=ratio)
    first, values = trained(TASK, rates, name)
    assert len(first) == STEPS
    assert all(torch.isfinite(x).all() for x in first)
    assert not torch.equal(first[0], first[-1])
    again, _ = trained(TASK, rates, name)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(row.keys() <= set(rates.columns) for row in values)
    assert len(set(rates.columns)) == len(rates.columns)


@pytest.mark.parametrize("name", NOISELESS)
@pytest.mark.parametrize("ratio", [None, (1.0, 1.0)])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_one_learner_is_torchs_sgd(scaling, ratio, name):
    """To rounding: a BLAS may add up in another order where a matrix begins at another address."""
    rates = rule(
        NET,
        1,
        scaling=scaling,
        layer_ratio="fixed" if ratio else "off",
        layer_ratio_limits=ratio,
    )
    seen, _ = trained(NET, rates, name, 1)
    torch.manual_seed(0)
    model = mlp((8, 8), 10, widths=(6,), activation="tanh").double()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for t, x in enumerate(seen):
        inputs, labels = batches(NET, 1, t)
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs[0]), labels[0]).backward()
        sgd.step()
        expected = torch.nn.utils.parameters_to_vector(model.parameters())
        torch.testing.assert_close(x[0], expected, rtol=1e-12, atol=1e-14)


def single_gradients(task, rows, t: int) -> np.ndarray:
    """Learner by learner, the gradient of the mean loss over its own batch, [n, d]."""
    inputs, labels = batches(task, len(rows), t)
    return np.stack(
        [
            task.gradient(torch.from_numpy(row)[None], inputs[j : j + 1], labels[j : j + 1])
            .values[0]
            .numpy()
            for j, row in enumerate(rows)
        ]
    )


class ByHand:
    """LENA's and AdaScale's rates as the papers write them, in numpy, a layer at a time."""

    def __init__(self, task, n: int, scaling: str, warmup: str):
        self.layers, self.n, self.scaling, self.warmup = task.layers, n, scaling, warmup
        self.numerator = self.denominator = self.weight = 0.0
        self.sigma2, self.mu2 = [], []
        self.state = np.zeros(len(task.layers))

    def lena(self, g: np.ndarray) -> tuple[np.ndarray, float]:
        n, theta = self.n, max(1 - self.n / 1000, 0)
        parts = [g[:, layer.start : layer.stop] for layer in self.layers]
        num = np.array([sum(np.dot(row, row) for row in part) / n for part in parts])
        den = np.array([np.dot(part.mean(0), part.mean(0)) for part in parts])
        self.numerator = theta * self.numerator + (1 - theta) * num
        self.denominator = theta * self.denominator + (1 - theta) * den
        self.weight = theta * self.weight + 1 - theta
        top, bottom = self.numerator / self.weight, self.denominator / self.weight
        whole = (top.sum() + 1e-6) / (bottom.sum() + 1e-6)
        return np.clip((top + 1e-6) / (bottom + 1e-6), 1, n), np.clip(whole, 1, n)

    def adascale(self, g: np.ndarray) -> float:
        n, mean = self.n, g.mean(0)
        squares, square = sum(np.dot(row, row) for row in g), np.dot(mean, mean)
        sigma2 = squares / (n - 1) - n / (n - 1) * square
        mu2 = square - sigma2 / n
        self.sigma2.append(max(sigma2, 1e-6))
        self.mu2.append(max(mu2, 0.0))
        if len(self.mu2) == 1:
            return 1.0
        sigma2, mu2 = np.mean(self.sigma2), np.mean(self.mu2)  # t < 1 / (1 - theta) here
        return (sigma2 + mu2) / (sigma2 / n + mu2)

    def rate(self, g: np.ndarray) -> np.ndarray:
        own, whole = self.lena(g)
        gain = {"lena": own, "adascale": None, "linear": whole}[self.scaling]
        scale = {"lena": own, "linear": float(self.n)}.get(self.scaling)
        if self.scaling == "adascale":
            gain = scale = self.adascale(g)
        self.state = self.state + gain
        warm = 1.0
        if self.warmup == "state-aware":
            warm = np.minimum(1, self.state / (3 * self.n))
        return 0.1 * scale * warm * np.ones(len(self.layers))


@pytest.mark.parametrize("task", [TASK, NET], ids=["softmax", "mlp"])
@pytest.mark.parametrize("warmup", ["none", "state-aware"])
@pytest.mark.parametrize("scaling", ["linear", "adascale", "lena"])
@pytest.mark.parametrize("name", ["ssgd", "dpsgd"])
def test_the_whole_walk_is_that_written_out_by_hand(task, scaling, warmup, name):
    n = 5
    seen, _ = trained(task, rule(task, n, steps=8, scaling=scaling, warmup=warmup), name, n)
    by_hand, w = ByHand(task, n, scaling, warmup), ring(n).toarray()
    rows = task.init(0).repeat(n, 1).numpy()
    velocity = np.zeros_like(rows)
    for t, x in enumerate(seen):
        g = single_gradients(task, rows, t)
        rate = by_hand.rate(g)
        columns = np.concatenate(
            [np.full(k.stop - k.start, r) for k, r in zip(task.layers, rate, strict=True)]
        )
        if name == "ssgd":
            g = g.mean(axis=0, keepdims=True).repeat(n, axis=0)
        velocity = 0.9 * velocity + g + 0.01 * rows
        mixed = rows if name == "ssgd" else w @ rows
        rows = mixed - columns * velocity
        np.testing.assert_allclose(x.expand(n, -1), rows, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_without_noise_or_mixing_error_all_algorithms_have_the_same_rates(scaling):
    """ATC with complete averaging is SSGD, norms measured with one collective more."""
    n, rates = 4, rule(NET, 4, scaling=scaling, warmup="state-aware")
    ssgd, values = trained(NET, rates, "ssgd", n, momentum=0.0)
    comm, controller = Stacked(n), Controller(rates, Stacked(n))
    algorithm = DpsgdAtc(optimizer("sgd", NET.layers, weight_decay=0.01))
    state = algorithm.init(NET.init(0), n)
    for x, expected in zip(ssgd, values, strict=True):
        batch = batches(NET, n, state.step)
        gradient = lambda rows, batch=batch: NET.gradient(rows, *batch)  # noqa: E731
        state, _ = algorithm.step(state, gradient, complete(n), controller.at(state.step), comm)
        torch.testing.assert_close(state.x, x.expand(n, -1), rtol=1e-10, atol=1e-12)
        assert controller.values() == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_the_trace_tells_the_factors_of_the_rate():
    rates = rule(
        NET, scaling="lena", warmup="state-aware", decay="exponential", layer_ratio="fixed"
    )
    for t, row in enumerate(trained(NET, rates, "dpsgd")[1]):
        clipped = [min(max(row[f"grad_var/{k.name}"], 1), N) for k in NET.layers]
        states = [row[f"warmup_state/{k.name}"] for k in NET.layers]
        warm = [min(1, s / rates.warmup.threshold) for s in states]
        assert row["scale"] == pytest.approx(np.mean(clipped), rel=1e-12)
        assert row["warm"] == pytest.approx(np.mean(warm), rel=1e-12)
        for layer, scale, w in zip(NET.layers, clipped, warm, strict=True):
            expected = 0.1 * 0.01 ** (t / STEPS) * scale * w * row[f"layer_ratio/{layer.name}"]
            assert row[f"lr/{layer.name}"] == pytest.approx(expected, rel=1e-12)


def test_norms_cost_dpsgd_one_average_of_its_gradients_and_one_of_its_norms():
    comm = Stacked(N)
    g = torch.ones(N, NET.d, dtype=torch.float64)
    for scaling, rows in (("none", 0), ("lena", NET.d + len(NET.layers))):
        rates, before = rule(NET, scaling=scaling), comm.traffic.bytes_sent_per_learner
        seen = Observation(0, g, Gradients(g, g[:, 0]), None, comm)
        rates.update(seen, rates.init())
        sent = comm.traffic.bytes_sent_per_learner - before
        assert sent == pytest.approx(2 * (N - 1) / N * 8 * rows)


def test_a_rule_keeps_its_state_and_sees_the_gradients():
    class Norms:
        """A rule with memory."""

        def init(self):
            return 0.0

        def update(self, observation, state):
            state += float(observation.direction.norm())
            return Rated(torch.tensor([state, observation.step]), state, observation.step / 2)

    controller = Controller(Norms(), Stacked(1))
    ones = Gradients(torch.full((1, 4), 1.0), torch.zeros(1))
    seen = [controller.at(t)(torch.zeros(1, 4), ones) for t in range(3)]
    assert [r.tolist() for r in seen] == [[2.0, 0.0], [4.0, 1.0], [6.0, 2.0]]
    assert (controller.state, controller.progress) == (6.0, 1.0)
    assert controller.at(3)(torch.zeros(1, 4), ones, torch.zeros(4))[0] == 6.0  # g_a = 0
