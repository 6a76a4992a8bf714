"""The paper's schedules and its picture of gradient diversity: what is computed without runs.

Gradient diversity at w is

    delta(w) = mean_i ||grad f_i(w)||^2 / ||grad F(w)||^2,

F the mean of the f_i: the batch up to which a mini-batch gradient is mostly noise. Reference: Yin
et al., "Gradient diversity: a key ingredient for scalable distributed learning", AISTATS 2018,
where it is divided by the number of samples.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from experiments.adadamp.size import Size
from experiments.common import tables
from gossip.damping import GeoDamp, planned
from gossip.data import load
from gossip.models import mlp, softmax

SCHEDULES, DIVERSITY = "adadamp_schedules.csv", "adadamp_diversity.csv"
N, EPOCHS, DELAY, FACTOR, RATE, FIRST = 50_000, 200, 60, 5, 0.05, 128
"""Of the paper's schedules."""
PAPER = {
    "128": (1, 128, 78_200, "128 128 128 128", "0.05 0.01 0.002 0.0004"),
    "640": (1, 640, 34_520, "128 640 640 640", "0.05 0.05 0.01 0.002"),
    "3.2k": (1, 3200, 29_480, "128 640 3200 3200", "0.05 0.05 0.05 0.01"),
    "16k": (1, math.inf, 29_240, "128 640 3200 16000", "0.05 0.05 0.05 0.05"),
    "5.1k (*2)": (2, 5120, 14_960, "256 1280 5120 5120", "0.1 0.1 0.08 0.016"),
}
"""Its Fig. 2 and Table 1: times the first batch and rate, largest batch, updates, batches and rates
from epochs 0, 60, 120 and 180."""
PLACES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Distances to the optimum, from that of the first weights."""
DECAY = 1e-3
"""Weight decay of the problems on data, so that softmax regression has one optimum."""
CORNERS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
"""Of the quadratic problem, f_i(w) = ||w - x_i||^2 / 2."""
START = (10.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One of the paper's schedules, by our dampers."""

    name: str
    updates: int
    stream: int
    """Updates where only the end of the run is rounded up, as our loop draws samples."""
    published: int
    batches: str
    published_batches: str
    rates: str
    published_rates: str


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """Gradient diversity at one place of a problem."""

    problem: str
    place: float
    """Distance to the optimum over that of the first weights."""
    loss: float
    value: float
    """delta."""
    reference: float = math.nan
    """The closed form."""


def schedules() -> Iterator[Schedule]:
    """The paper's schedules."""
    for name, (times, largest, updates, batches, rates) in PAPER.items():
        cap = math.nan if math.isinf(largest) else largest
        damper = GeoDamp(initial=times * FIRST, delay=DELAY, factor=FACTOR, max_batch=cap)
        made = [p.damping for p in planned(damper, EPOCHS, N, whole_epochs=True)]
        # The rate tells stretches apart where the batch is at its cap.
        stretches = [(d.batch, times * RATE * d.lr_factor) for d, _ in groupby(made)]
        yield Schedule(
            name=name,
            updates=len(made),
            stream=sum(1 for _ in planned(damper, EPOCHS, N)),
            published=updates,
            batches=" ".join(str(batch) for batch, _ in stretches),
            published_batches=batches,
            rates=" ".join(f"{rate:.6g}" for _, rate in stretches),
            published_rates=rates,
        )


def diversity(size: Size) -> Iterator[Diversity]:
    """Far from the optimum and near it: a quadratic problem, softmax regression, and an MLP."""
    yield from _quadratic()
    data = load(size.dataset, None)
    order = np.random.default_rng(0).permutation(len(data.train_labels))[: size.probe]
    images = torch.from_numpy(data.train_inputs[order]).double()
    labels = torch.from_numpy(data.train_labels[order]).long()
    images = (images - images.mean()) / images.std()
    shape, classes = tuple(images.shape[1:]), data.num_classes
    torch.manual_seed(0)
    models = {
        "softmax regression": softmax(shape, classes),
        "MLP": mlp(shape, classes, widths=size.widths),
    }
    for problem, model in models.items():
        yield from _along(problem, model.double(), images, labels, size.iterations)


def _quadratic() -> Iterator[Diversity]:
    corners, start = torch.tensor(CORNERS).double(), torch.tensor(START).double()
    best = corners.mean(dim=0)
    spread = (corners - best).square().sum(dim=1).mean().item()
    for place in PLACES:
        w = best + place * (start - best)
        distance = (w - best).square().sum().item()
        yield Diversity(
            problem="quadratic",
            place=place,
            loss=(w - corners).square().sum(dim=1).mean().item() / 2,
            value=delta(w - corners),
            reference=1 + spread / distance,
        )


def _along(
    problem: str, model: nn.Module, images: Tensor, labels: Tensor, iterations: int
) -> Iterator[Diversity]:
    """On the line from where L-BFGS ends to where it began."""
    start = {name: p.detach().clone() for name, p in model.named_parameters()}

    def one(weights: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        scores = functional_call(model, weights, (image.unsqueeze(0),))
        penalty = sum(w.square().sum() for w in weights.values())
        return nn.functional.cross_entropy(scores, label.unsqueeze(0)) + DECAY / 2 * penalty

    def loss(weights: dict[str, Tensor]) -> Tensor:
        penalty = sum(w.square().sum() for w in weights.values())
        scores = functional_call(model, weights, (images,))
        return nn.functional.cross_entropy(scores, labels) + DECAY / 2 * penalty

    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=iterations, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(dict(model.named_parameters()))
        value.backward()
        return value

    optimizer.step(closure)
    best = {name: p.detach() for name, p in model.named_parameters()}
    gradients = vmap(grad(one), in_dims=(None, 0, 0))
    for place in PLACES:
        weights = {name: best[name] + place * (start[name] - best[name]) for name in best}
        found = gradients(weights, images, labels)
        rows = torch.cat([g.flatten(1) for g in found.values()], dim=1)
        with torch.no_grad():
            now = loss(weights).item()
        yield Diversity(problem=problem, place=place, loss=now, value=delta(rows))


def delta(gradients: Tensor) -> float:
    """Gradient diversity of [samples, d] gradients."""
    of_mean = gradients.mean(dim=0).square().sum()
    return (gradients.square().sum(dim=1).mean() / of_mean).item()


def write(size: Size, folder: Path) -> None:
    """Compute both tables anew."""
    tables.write([asdict(row) for row in schedules()], folder / SCHEDULES)
    tables.write(
        [
            asdict(row) | {"value": f"{row.value:.13g}", "reference": _exact(row.reference)}
            for row in diversity(size)
        ],
        folder / DIVERSITY,
    )


def read(folder: Path) -> tuple[list[Schedule], list[Diversity]]:
    """What `write` wrote; no rows where there is no file."""
    return (
        tables.typed(folder / SCHEDULES, Schedule),
        tables.typed(folder / DIVERSITY, Diversity),
    )


def _exact(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.13g}"
