"""The monitor of a level: computes each of its columns from a step."""

from dataclasses import dataclass, field
from math import nan, sqrt

import numpy as np

from gossip.comm.base import Communicator
from gossip.errors import UserError, lookup
from gossip.monitor.base import Moment, Values
from gossip.monitor.columns import LIPSCHITZ, columns
from gossip.monitor.curvature import delta2_hessian, delta2_hessian_minibatch
from gossip.monitor.decomposition import gradient_at_mean, noise_split
from gossip.monitor.effective_rate import MeanModelGradient, alpha_e, alpha_e_sgd, delta
from gossip.monitor.kept import ROUND_RATE, kept_values, names_of, round_rate
from gossip.monitor.lipschitz import lipschitz
from gossip.monitor.smoothness import GradientWindow, lr_max, ls_est
from gossip.monitor.sources import HESSIAN, ROUND, SOURCES, Probe
from gossip.monitor.spread import (
    MeanModel,
    Spread,
    consensus_distance,
    mean_model,
    sigma_w2,
    sigma_w2_coord,
    spread,
)
from gossip.task import Task


@dataclass(frozen=True, eq=False)
class Monitor:
    """Measures a `Moment`, alone or together with the other processes.

    Collective, and changes nothing but its own `window`. Every process gets the same values, and
    how the n learners are spread over processes changes them by rounding only.

    Costs per measured step on top of a training step: cheap, a few passes over the rows; standard,
    a gradient of the whole training set, split between the learners, and of a method in rounds
    another at theta; full, one more gradient of the mini-batches and two Hessian-vector products
    per learner. L(x, g), at any level, costs a gradient and a Hessian-vector product of its probe,
    split between the learners.

    Raises:
        UserError: there is no such level or source, or a sample size is too small.
    """

    task: Task
    level: str = "standard"
    """One of `LEVELS`."""
    source: str = "full"
    """Where g comes from, one of `SOURCES`; full is exact."""
    probe: int = 5_000
    """Samples for the sources that estimate g; at most the whole training set."""
    seed: int = 0
    """Probes are addressed by (seed, step)."""
    hessian_samples: int | None = 2_000
    """Training samples that stand for H in `delta2_hessian`; None for all of them."""
    lipschitz_samples: int = 0
    """Samples of the probe for L(x, g); 0: it is not measured."""
    window: GradientWindow = field(default_factory=GradientWindow)
    """Largest gradients of the last steps: the only state. A checkpoint keeps `window.seen`."""

    def __post_init__(self) -> None:
        columns(self.level)
        lookup(SOURCES, self.source, "monitor source")
        if self.probe < 2:
            raise UserError(f"probe={self.probe}: an estimate of g needs at least 2 samples")
        if self.hessian_samples is not None and self.hessian_samples < 1:
            raise UserError(
                f"hessian_samples={self.hessian_samples}: give at least 1, or none for all"
            )
        if self.lipschitz_samples < 0:
            raise UserError(
                f"lipschitz_samples={self.lipschitz_samples}: give at least 1, or 0 for none"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the values that a call gives, in order; then come those of what is kept."""
        return columns(self.level) + (LIPSCHITZ if self.lipschitz_samples else ())

    @property
    def needs_curvature(self) -> bool:
        """Whether second derivatives of the loss are taken."""
        return self.level == "full" or self.lipschitz_samples > 0

    def __call__(self, moment: Moment, comm: Communicator) -> Values:
        """The values of this level at `moment`; NaN for what is not defined there."""
        # The last bit of a dot product depends on where the vectors lie in memory, so all
        # processes take the numbers of the first.
        values, largest = comm.share(self._measured(moment, comm))[0]
        values = values | smoothness_values(self.window, moment.step, largest, values)
        own = names_of(
            moment.kept,
            with_gradient=self.level != "cheap",
            with_flat=moment.flat_spread is not None,
        )
        return {name: values[name] for name in (*self.columns, *own)}

    def _measured(self, moment: Moment, comm: Communicator) -> tuple[Values, float]:
        """All that depends on this step alone, and the largest gradient norm in it."""
        mean = mean_model(moment, comm)
        distances = spread(moment, mean, comm)
        values = spread_values(moment, distances, mean, comm.n, len(mean.weights))
        values |= kept_values(moment, comm)
        largest = distances.largest_gradient
        if self.lipschitz_samples:
            values |= lipschitz(self.task, mean.weights, self.lipschitz_samples, comm)
        if self.level == "cheap":
            return values, largest
        probe = Probe(self.probe, self.seed, moment.step)
        g = SOURCES[self.source](self.task, mean.weights, probe, comm)
        values |= rate_values(moment.lr, mean, g)
        values["g_is_probe"] = float(self.source != "full")
        if "anchor" in moment.kept:
            source = SOURCES[self.source]
            there = Probe(self.probe, self.seed, moment.step, ROUND)
            values[ROUND_RATE] = round_rate(
                moment, mean.weights, g, lambda theta: source(self.task, theta, there, comm), comm
            )
        if self.level == "full":
            values |= self._split_values(moment, mean, g, distances, comm)
        return values, larger(largest, values["grad_norm"])

    def _split_values(
        self,
        moment: Moment,
        mean: MeanModel,
        g: MeanModelGradient,
        distances: Spread,
        comm: Communicator,
    ) -> Values:
        """What mini-batches, deviations and curvature have to do with Delta."""
        samples = len(self.task.train)
        indices = np.arange(samples)
        if self.hessian_samples is not None and self.hessian_samples < samples:
            indices = Probe(self.hessian_samples, self.seed, moment.step, HESSIAN).indices(samples)
        g_s, by_h, by_batch = mean.gradient, 0.0, 0.0
        # All learners in one place took their gradients at the mean model already. The sum over
        # all of them decides, so that every process takes the same branch.
        if distances.points != 0:
            g_s = gradient_at_mean(self.task, moment, mean, comm)
            deviations = (moment.points.double() - mean.weights).expand(len(comm.hosted), -1)
            by_h = delta2_hessian(self.task, moment.lr, mean.weights, deviations, indices, comm)
            by_batch = delta2_hessian_minibatch(self.task, moment, mean.weights, deviations, comm)
        return noise_split(moment.lr, mean.gradient, g_s, g) | {
            "delta2_hessian": by_h,
            "delta2_hessian_minibatch": by_batch,
            "hessian_samples": float(len(indices)),
        }


def spread_values(moment: Moment, distances: Spread, mean: MeanModel, n: int, d: int) -> Values:
    """How far n learners of d weights are apart, and how far they went."""
    return {
        "sigma_w2": sigma_w2(distances.points, n),
        "sigma_w2_mixed": sigma_w2(distances.mixed, n),
        "sigma_w2_coord": sigma_w2_coord(distances.points, n, d, known_centre=moment.known_centre),
        "consensus_distance": consensus_distance(distances.weights, n),
        "displacement_norm": float(mean.displacement.norm()),
        "grad_a_norm": float(mean.gradient.norm()),
    }


def rate_values(lr: float, mean: MeanModel, g: MeanModelGradient) -> Values:
    """alpha_e and Delta of a step at the rate `lr`, with g at the mean model."""
    rate = alpha_e(mean.displacement, g)
    return {
        "alpha_e": rate,
        "alpha_e_ratio": rate / lr if lr else nan,
        "alpha_e_sgd": alpha_e_sgd(lr, mean.gradient, g),
        "delta": delta(mean.displacement, g),
        "delta_sgd": delta(lr * mean.gradient, g),
        "grad_norm": sqrt(g.square) if g.square >= 0 else nan,
        "grad_norm_sampled": float(g.vector.norm()),
        "g_samples": float(g.samples),
        "loss_mean_model": g.loss,
    }


def smoothness_values(window: GradientWindow, step: int, largest: float, values: Values) -> Values:
    """G of the last steps, with the `largest` gradient norm of this one, and what follows from it.

    Args:
        window: takes it in.
        step: t.
        largest: gradient norm.
        values: of the step, sigma_w2_coord among them.
    """
    bound = window.update(step, largest)
    return {
        "gradient_bound": bound,
        "ls_est": ls_est(bound, values["sigma_w2_coord"]),
        "lr_max": lr_max(bound, values["sigma_w2_coord"]),
    }


def larger(a: float, b: float) -> float:
    """The larger of a norm and an estimated one, which says nothing where it is NaN."""
    return b if b > a else a
