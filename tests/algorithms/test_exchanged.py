"""Methods that exchange less than gradients: where they are SSGD, torch's own, and what is kept."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from gossip.algorithms import Ssgd
from gossip.algorithms.demo import DeMo
from gossip.algorithms.exchanged import Ef21
from gossip.algorithms.power_sgd import PowerSgd
from gossip.comm.stacked import Stacked
from gossip.compress import compressed, operator
from gossip.errors import UserError
from gossip.task.layers import Layer
from tests.problems import optimizer
from tests.quadratics import Problem, problem, static

STEPS, LR = 25, 0.02
ALL = static("complete")
SGD = optimizer()
P = problem(8, 12)
LAYERS = (
    Layer("weight", 0, 8, torch.Size([4, 2])),
    Layer("bias", 8, 12, torch.Size([4])),
)


def walk(algorithm, p: Problem = P, count=STEPS, lr=LR):
    """The states after each step."""
    comm, state = Stacked(p.n), algorithm.init(p.start()[0], p.n)
    for t in range(count):
        state, _ = algorithm.step(state, p.gradient, ALL(t), lambda *_: lr, comm)
        yield state


def weights(*args, **kwargs):
    return torch.cat([state.x for state in walk(*args, **kwargs)])


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


SQUARE = problem(8, 4)
ARROWS = {
    "ef21(all)": (Ef21(SGD, "identity"), SGD, P),
    "ef21(all), momentum": (Ef21(optimizer(momentum=0.9), "top-k:12"), optimizer(momentum=0.9), P),
    "powersgd(square)": (PowerSgd(SGD, 2, 0), SGD, SQUARE),
    "powersgd(first steps)": (PowerSgd(optimizer("adam"), 1, 99), optimizer("adam"), P),
    "powersgd(nothing saves)": (PowerSgd(optimizer(layers=LAYERS), 1, 0), SGD, P),
}


@pytest.mark.parametrize("arrow", ARROWS)
def test_where_nothing_is_left_out_it_is_ssgd(arrow):
    one, base, p = ARROWS[arrow]
    same(weights(one, p), weights(Ssgd(base), p))


def test_ef21_follows_the_published_recursion():
    top, keys = operator("top-k:3"), torch.zeros(8, dtype=torch.int64)
    x, h = P.start()[:1], torch.zeros(8, 12, dtype=torch.float64)
    for state in walk(Ef21(SGD, "top-k:3")):
        h = h + compressed(top, P.at(x.expand(8, -1)) - h, keys)
        x = x - LR * h.mean(0)
        same(state.x, x)
        same(state.rows["gradient_estimate"], h)
        same(state.rows["mean"], h.mean(0).expand(8, -1))


@pytest.mark.parametrize("spec", ["top-k:3", "sign", "low-rank:1", "qsgd:4", "int4:4"])
def test_ef21_ends_at_the_minimum_whatever_is_left_out(spec):
    """The error falls tenfold in 20 steps, so 150 end a hundred times below the bound."""
    few = problem(4, 6)
    assert (weights(Ef21(SGD, spec), few, count=150, lr=0.1)[-1] - few.best).abs().max() < 1e-6


def test_without_a_memory_compressed_gradients_end_elsewhere():
    few, top, keys = problem(4, 6), operator("top-k:3"), torch.zeros(4, dtype=torch.int64)
    x = few.start()[:1]
    for _ in range(150):
        x = x - 0.1 * compressed(top, few.at(x.expand(4, -1)), keys).mean(0)
    assert (x - few.best).abs().max() > 0.05


TALL = (
    Layer("weight", 0, 96, torch.Size([12, 8])),
    Layer("bias", 96, 100, torch.Size([4])),
    Layer("kernel", 100, 180, torch.Size([8, 5, 2])),
)


class Bucket:
    """What torch's hook sees of a process's gradients."""

    def __init__(self, row):
        self.row = row.clone()

    def buffer(self):
        return self.row

    def gradients(self):
        return [self.row[k.start : k.stop].view(k.shape) for k in TALL]

    def index(self):
        return 0

    def is_last(self):
        return True


@pytest.mark.parametrize("rank", [1, 2])
def test_powersgd_is_the_hook_of_torch_on_the_same_gradients(rank, monkeypatch):
    """Alone, which by linearity is all of it: the next test has several learners.

    Its sums are made here: a group of Gloo's may be let go last by a thread of its own, which then
    waits for itself, and the process aborts.
    """
    from torch import distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as torchs

    def all_reduce(tensor, group, async_op):
        future = torch.futures.Future()
        future.set_result([tensor])
        return SimpleNamespace(get_future=lambda: future)

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    alone = SimpleNamespace(size=lambda: 1)
    hook = torchs.PowerSGDState(alone, rank, start_powerSGD_iter=2, min_compression_rate=2)
    algorithm, comm = PowerSgd(optimizer(layers=TALL), rank, 2), Stacked(1)
    state = algorithm.init(torch.zeros(180, dtype=torch.float64), 1)
    draws, x = torch.Generator().manual_seed(5), torch.zeros(180, dtype=torch.float64)
    for t in range(12):
        g = torch.randn(1, 180, generator=draws, dtype=torch.float64) + state.x
        found = torchs.powerSGD_hook(hook, Bucket(g[0])).wait()
        x = x - LR * (found[0] if isinstance(found, list) else found)
        if t < 3:  # its first Q is drawn otherwise: go on from its second
            error = hook.error_dict.get(0, torch.zeros(180, dtype=torch.float64))
            drawn = state.rows["directions"]
            rows = {"error": error[None], "directions": _directions(hook, rank, drawn)}
            state = state._replace(step=t + 1, x=x[None], rows=rows)
            continue
        direction, rows = algorithm.agree(g, state, comm)
        state = state._replace(step=t + 1, x=state.x - LR * direction, rows=rows)
        torch.testing.assert_close(state.x[0], x, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(rows["error"][0], hook.error_dict[0], rtol=1e-9, atol=1e-10)


def _directions(hook, rank, drawn):
    """Torch's Q of both matrices, made orthonormal as it does at its next step."""
    if 0 not in hook.q_memory_dict:
        return drawn
    sizes = [8 * rank, 10 * rank]
    parts = [q.view(-1, rank) for q in hook.q_memory_dict[0].split(sizes)]
    return torch.cat([torch.linalg.qr(q).Q.flatten() for q in parts])[None]


def powersgd_by_matrices(p, rank):
    """The recursion for the mean matrix alone: it is linear."""
    algorithm = PowerSgd(optimizer(layers=TALL), rank, 0)
    rows = algorithm.start(torch.zeros(1, 180, dtype=torch.float64))
    q = [m.numpy() for m in rows["directions"][0, : 8 * rank].view(1, 8, rank)]
    q += [m.numpy() for m in rows["directions"][0, 8 * rank :].view(1, 10, rank)]
    x, error = p.start()[0].numpy(), np.zeros(180)
    for _ in range(STEPS):
        total = p.at(torch.from_numpy(x).expand(p.n, -1)).mean(0).numpy() + error
        direction = total.copy()
        for k, (start, stop, a, b) in enumerate([(0, 96, 12, 8), (100, 180, 8, 10)]):
            m = total[start:stop].reshape(a, b)
            left = np.linalg.qr(m @ q[k])[0]
            right = m.T @ left
            direction[start:stop] = (left @ right.T).ravel()
            q[k] = np.linalg.qr(right)[0]
        error = total - direction
        x = x - 0.01 * direction
        yield torch.from_numpy(x), error


@pytest.mark.parametrize("rank", [1, 2])
def test_powersgd_of_n_learners_is_that_of_one_with_the_mean_matrix(rank):
    p = problem(4, 180)
    own = walk(PowerSgd(optimizer(layers=TALL), rank, 0), p, lr=0.01)
    for state, (x, error) in zip(own, powersgd_by_matrices(p, rank), strict=True):
        torch.testing.assert_close(state.x[0], x, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(state.rows["error"].mean(0), error, rtol=1e-9, atol=1e-10)


def demo_by_equations(p, layers, k, beta, merge):
    """With SciPy's DCT, dictionaries of coefficients and loops."""
    x, delta = p.start()[0].numpy(), np.zeros((p.n, p.d))
    for _ in range(STEPS):
        g = p.at(torch.from_numpy(x).expand(p.n, -1)).numpy()
        delta = beta * delta + LR * g
        row = np.zeros(p.d)
        for start, _stop, a, b, height, width in layers:
            for i in range(0, a, height):
                for j in range(0, b, width):
                    place = [
                        start + (i + v) * b + j + w for v in range(height) for w in range(width)
                    ]
                    sent: dict[int, list[float]] = {}
                    for learner in range(p.n):
                        spectrum = dctn(
                            delta[learner, place].reshape(height, width), norm="ortho"
                        ).ravel()
                        kept = np.argsort(-np.abs(spectrum), kind="stable")[:k]
                        q = np.zeros_like(spectrum)
                        q[kept] = spectrum[kept]
                        delta[learner, place] -= dctn(
                            q.reshape(height, width), type=3, norm="ortho"
                        ).ravel()
                        for c in kept:
                            sent.setdefault(c, []).append(spectrum[c])
                    merged = np.zeros(height * width)
                    for c, values in sent.items():
                        merged[c] = np.sum(values) / (
                            len(values) if merge == "contributors" else p.n
                        )
                    row[place] = dctn(merged.reshape(height, width), type=3, norm="ortho").ravel()
        x = x - LR * np.sign(row)
        yield torch.from_numpy(x), torch.from_numpy(delta)


SHAPES = ([0, 8, 4, 2, 2, 2], [8, 12, 1, 4, 1, 2])
"""LAYERS in chunks of at most 3 a side."""


@pytest.mark.parametrize("merge", ["contributors", "all"])
def test_demo_follows_its_equations(merge):
    algorithm = DeMo(optimizer(layers=LAYERS), 0.9, 1, 3, merge)
    for state, (x, delta) in zip(
        walk(algorithm), demo_by_equations(P, SHAPES, 1, 0.9, merge), strict=True
    ):
        torch.testing.assert_close(state.x[0], x, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(state.rows["momentum"], delta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("beta", [0.0, 0.999])
def test_demo_with_all_coefficients_is_sign_sgd_on_the_mean_gradient(beta):
    x = P.start()[:1]
    for state in walk(DeMo(optimizer(layers=LAYERS), beta), count=10):
        x = x - LR * P.at(x.expand(8, -1)).mean(0).sign()
        same(state.x, x)
        assert state.rows["momentum"].abs().max() < 1e-12


def test_weight_decay_shrinks_the_weights_before_the_sign():
    algorithm = DeMo(optimizer(weight_decay=0.1, layers=LAYERS))
    x = P.start()[:1]
    (state,) = walk(algorithm, count=1)
    same(state.x, (1 - LR * 0.1) * x - LR * P.at(x.expand(8, -1)).mean(0).sign())


REFUSED = [
    (lambda: Ef21(SGD, "topk:3"), "did you mean top-k"),
    (lambda: Ef21(SGD, "top-k:13").check(12), "a model that has 12"),
    (lambda: PowerSgd(SGD, 0), "rank=0: give at least 1"),
    (lambda: PowerSgd(SGD, after=-1), "0 or more"),
    (lambda: DeMo(SGD, 1.0), "it is a decay, in"),
    (lambda: DeMo(SGD, k=0), "at least 1 coefficient"),
    (lambda: DeMo(SGD, chunk=129), "from 1 to 128"),
    (lambda: DeMo(SGD, merge="al"), "did you mean all"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_bad_options_are_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
