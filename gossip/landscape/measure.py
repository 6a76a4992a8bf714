"""All that the command says of one run, as numbers that go into its landscape.json."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossip.errors import UserError
from gossip.landscape import planes, sharpness
from gossip.landscape.curvature import ends, trace
from gossip.landscape.replicas import Replicas
from gossip.landscape.smoothing import smoothed
from gossip.landscape.surface import Surface, training_loss
from gossip.task import Task

MOST_LINES = 8
"""Learners to which a line is drawn, the first ones."""
BEYOND = 1.5
"""How far the plane through the learners goes, in multiples of the farthest of them."""


@dataclass(frozen=True)
class Settings:
    """What is measured, and how finely."""

    samples: int = 2_000
    """Training samples that stand for the loss, evenly spread, the same for all runs."""
    draws: int = 20
    """Random vectors of the trace, and pairs of random perturbations."""
    rho: float = 0.05
    """Length of the step up the gradient."""
    sigma: float = 0.05
    """Random perturbation of a tensor's numbers, relative to their root mean square."""
    grid: int = 21
    """Points of a contour on either axis, and of a line; 0 for numbers alone."""
    contours: bool = True
    """Whether there are contours, each of which takes grid times grid losses."""
    smoothed: tuple[float, ...] = ()
    """How smooth the loss is averaged over the learners' places, and over Gaussian ones of so many
    times their variance's root, as in --smoothed 1 10; see Theorem 1 in the documentation."""
    seed: int = 0
    """Of all draws and directions; the same for all runs, so that they are compared on them."""

    def __post_init__(self) -> None:
        for name in ("samples", "draws"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: give at least 1")
        for name in ("rho", "sigma"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UserError(f"{name}={value:g}: give a length above 0")
        if self.grid != 0 and not 3 <= self.grid <= 501:
            raise UserError(f"grid={self.grid}: give 3 to 501 points, or 0 for none")
        for scale in self.smoothed:
            if not 0 < scale < math.inf:
                raise UserError(f"smoothed={scale:g}: give multiples of sigma_w above 0")
        if self.seed < 0:
            raise UserError(f"seed={self.seed}: give 0 or more")


@dataclass(frozen=True)
class Landscape:
    """One run's mean model and what is about it."""

    step: int
    learners: int
    """Models that differ: 1 where all share one."""
    numbers: dict[str, float]
    """By name, see `numbers`."""
    lines: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By what they go through, where and the loss there."""
    contours: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By kind, the axes, the loss (a row for each y) and the learners' places."""
    smoothed: dict[str, dict[str, float]] = field(default_factory=dict)
    """By what the loss is averaged over, see `smoothing.smoothed`."""

    def tables(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def measure(replicas: Replicas, settings: Settings) -> Landscape:
    """Everything about the replicas of a run.

    Raises:
        UserError: their weights are not finite.
    """
    surface = training_loss(replicas.task, settings.samples)
    x, mean = replicas.x, replicas.mean
    if not torch.isfinite(x).all():
        raise UserError("its weights are not finite: there is no landscape about them")
    found = numbers(surface, replicas.task, x, mean, settings)
    shown = Landscape(replicas.step, len(x), found)
    if settings.grid:
        shown.lines.update(_lines(surface, x, mean, settings))
    if settings.smoothed:
        scales, lr = settings.smoothed, replicas.lr
        shown.smoothed.update(smoothed(surface, x, lr, scales, settings.seed))
    if settings.grid and settings.contours:
        shown.contours.update(_contours(surface, replicas.task, x, mean, settings))
    return shown


def numbers(
    surface: Surface, task: Task, x: Tensor, mean: Tensor, settings: Settings
) -> dict[str, float]:
    """Loss, curvature and sharpness at the mean model.

    Returns:
        `loss` and `learners_loss`, the mean over the learners; `test_loss` and `test_error` of
        the mean model; `barrier`, see `planes.barrier`, between the two farthest learners;
        `consensus_distance`; `grad_norm`; `lambda_max`, `lambda_min`; `trace` and `random` with
        the standard errors of their draws; `ascent`.
    """
    test = task.evaluate(mean.to(task.dtype), task.test, np.arange(len(task.test)))

    def product(v: Tensor) -> Tensor:
        return surface.curvature(mean, v)

    both = ends(product, surface.d, settings.seed)
    summed = trace(product, surface.d, settings.draws, settings.seed)
    std = sharpness.relative_std(mean, task.layers, settings.sigma)
    rise = sharpness.at_random(surface, mean, std, settings.draws, settings.seed)
    return {
        "loss": surface.loss(mean),
        "learners_loss": float(np.mean([surface.loss(row) for row in x])),
        "barrier": planes.barrier(surface, *(x[k] for k in planes.farthest(x))),
        "test_loss": test.loss / test.labels,
        "test_error": test.errors / test.labels,
        "consensus_distance": float((x.double() - mean).square().sum(dim=1).mean().sqrt()),
        "grad_norm": float(surface.gradient(mean).norm()),
        "lambda_max": both.largest,
        "lambda_min": both.least,
        "trace": summed.value,
        "trace_error": summed.error,
        "ascent": sharpness.up_the_gradient(surface, mean, settings.rho),
        "random": rise.value,
        "random_error": rise.error,
    }


def _lines(
    surface: Surface, x: Tensor, mean: Tensor, settings: Settings
) -> dict[str, dict[str, list[float]]]:
    """From the mean through learners, and through the two that are farthest from each other."""
    if float((x.double() - mean).abs().max()) == 0:
        return {}
    at = np.linspace(-1.0, 2.0, settings.grid).tolist()
    found = {
        f"mean to learner {j}": _line(at, planes.on_line(surface, mean, x[j], at))
        for j in range(min(len(x), MOST_LINES))
    }
    i, j = planes.farthest(x)
    between = np.linspace(-0.5, 1.5, settings.grid).tolist()
    ends_at = planes.on_line(surface, x[i], x[j], between)
    return found | {f"learner {i} to learner {j}": _line(between, ends_at)}


def _line(at: list[float], loss: np.ndarray) -> dict[str, list[float]]:
    return {"at": at, "loss": loss.tolist()}


def _contours(
    surface: Surface, task: Task, x: Tensor, mean: Tensor, settings: Settings
) -> dict[str, dict[str, Any]]:
    """In random directions, and through the learners where they span a plane."""
    kinds = {planes.RANDOM: planes.at_random(mean, task.layers, settings.seed)}
    if (plane := planes.through(x)) is not None:
        kinds[planes.THROUGH] = plane
    found = {}
    for kind, plane in kinds.items():
        places = [plane.place(row) for row in x]
        reach = 1.0
        if kind == planes.THROUGH:
            reach = BEYOND * max(max(abs(a), abs(b)) for a, b in places)
        axis = np.linspace(-reach, reach, settings.grid).tolist()
        loss = planes.on_grid(surface, plane, axis, axis)
        found[kind] = {"axis": axis, "loss": loss.tolist(), "learners": places}
    return found
