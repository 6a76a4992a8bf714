"""Rules made as the command makes them, and gradients to show them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossip.comm.stacked import Stacked
from gossip.config import Rate
from gossip.rates import Budget, Controller, Norms, Product
from gossip.study import rate_rule
from gossip.task import Gradients
from gossip.task.layers import Layer, layer_squares

LAYERS = (
    Layer("a.weight", 0, 6, torch.Size([2, 3])),
    Layer("a.bias", 6, 8, torch.Size([2])),
    Layer("b.weight", 8, 12, torch.Size([4])),
)
D = 12
ONE = (Layer("w", 0, D, torch.Size([D])),)


RULES = {
    "lena": {"scaling": "lena", "warmup": "state-aware", "warmup_share": 0.5},
    "adascale": {"scaling": "adascale", "scaling_options": ("progress=tau",), "warmup": "fixed"},
    "lsw": {"scaling": "linear", "warmup": "fixed", "decay": "exponential"},
    "date": {
        "scaling": "sqrt",
        "baseline_batch": 10,
        "warmup": "legw",
        "warmup_epochs": 0.03,
        "decay": "roller-coaster",
        "layer_ratio": "fixed",
    },
}
"""Options of the papers' methods, in a run of a few steps on the digits."""


def made(
    n: int = 4,
    steps: float = 40,
    *,
    batch: int = 10,
    samples: int = 400,
    layers: tuple[Layer, ...] = LAYERS,
    lr: float = 0.8,
    **rate: Any,
) -> Product:
    budget = Budget(
        learners=n,
        batch=batch,
        samples=samples,
        steps=steps,
        baseline_batch=rate.get("baseline_batch"),
    )
    return rate_rule.rule(Rate(lr=lr, **rate), budget, layers)


def drawn(n: int, steps: int, seed: int = 0, mean: float = 0.5, d: int = D) -> list[Tensor]:
    """Gradients with a common part, [n, d] for each step."""
    rng = np.random.default_rng(seed)
    common = mean * rng.standard_normal(d)
    return [torch.from_numpy(common + rng.standard_normal((n, d))) for _ in range(steps)]


def norms_of(g: Tensor, layers: tuple[Layer, ...] = ONE) -> Norms:
    mean = g.mean(dim=0, keepdim=True)
    return Norms(layer_squares(g, layers).mean(dim=0), layer_squares(mean, layers)[0])


def walk(
    rule: Product, gradients: Iterable[Tensor], x: Tensor | None = None, *, synchronous: bool = True
) -> list[tuple[Any, dict[str, float], float]]:
    """Rate, trace values and progress of each step, stopping where the run would."""
    seen = []
    for t, g in enumerate(gradients):
        if t == 0:
            controller = Controller(rule, Stacked(len(g)))
        weights = torch.ones_like(g) if x is None else x
        mean = g.mean(dim=0) if synchronous else None
        rate = controller.at(t)(weights, Gradients(g, torch.zeros(len(g))), mean)
        seen.append((rate, dict(controller.values()), controller.progress))
        if controller.progress >= 1:
            break
    return seen


def rates(rule: Product, steps: int | None = None) -> list[float]:
    """Rates that do not depend on gradients, to the end of the run."""
    nothing = torch.zeros(rule.budget.learners, D, dtype=torch.float64)
    return [float(r) for r, _, _ in walk(rule, [nothing] * (steps or 10**5))]


def torch_rates(make, steps: int, lr: float = 0.8) -> list[float]:
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(sgd)
    seen = []
    for _ in range(steps):
        seen.append(scheduler.get_last_lr()[0])
        sgd.step()
        scheduler.step()
    return seen


N0, B0 = 60_000, 1024
"""The MNIST study of DATE: 30 epochs, of which 2 to warm up, at a batch of 1,024."""


def date(batch: int, w0: float = 2.0, n: int = 8, epochs: float = 30, **rate):
    steps = epochs * N0 / batch
    return made(
        n,
        steps,
        batch=batch // n,
        samples=N0,
        baseline_batch=B0,
        lr=1.25e-3,
        scaling="sqrt",
        warmup="legw",
        warmup_epochs=w0,
        **rate,
    )
