"""A damper at work in a run: the batch of each step, and what the damper sees of the last one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gossip.checkpoint.tree import flattened, rebuilt
from gossip.comm.base import Communicator
from gossip.damping import Damper, Damping, Noise, Seen, State
from gossip.data import Sampler
from gossip.rates import Span
from gossip.rates.base import LearningRate
from gossip.task import Gradients

COLUMNS = ("batch_size", "samples", "damping", "lr_over_batch")
"""Columns of the trace: B of each learner; samples drawn by all before the step; B without a cap;
the noise level, lr / B."""
OF_A_BATCH = frozenset({"loss", "gradient_square", "noise"})
"""What a damper can see of the gradients of a step; the rest is measured on the training set."""

Look = Callable[[frozenset[str]], Mapping[str, float]]
"""Measures fields of `Seen` on the training set, at the present weights. Collective."""


@dataclass
class Growth:
    """The batches of one run, the same on all processes.

    How many samples came before a step, and what the damper remembers, is all that it has beyond
    the run's own state; a checkpoint keeps both.
    """

    damper: Damper
    first: int
    """The first batch, in whose multiples time is counted."""
    state: State
    damping: Damping | None = None
    """Batch of the present step."""
    seen: dict[str, float] = field(default_factory=dict)
    """What the damper sees of the last step."""
    pending: list[tuple[int, int, int]] = field(default_factory=list)
    """Batch, samples before and B_k of the steps that no row of the trace has yet."""

    def next(self, t: int, sampler: Sampler, look: Look) -> tuple[Sampler, Span]:
        """The samples of step t, and where it lies in the time of the run. Collective.

        Args:
            t: to be called once for each step, in their order.
            sampler: of the step before.
            look: for what the damper wants to know of the training set.
        """
        samples = sampler.drawn_before(t)
        seen = Seen(t, samples, sampler.num_samples, sampler.n, **self._looked(t, look))
        self.damping, self.state = self.damper.update(seen, self.state)
        self.seen = {}
        batch, factor, uncapped = self.damping
        self.pending.append((batch, samples, uncapped))
        unit = sampler.n * self.first
        span = Span(samples / unit, (samples + sampler.n * batch) / unit, factor)
        return sampler.grown(batch, t), span

    def watching(self, t: int, rate: LearningRate, comm: Communicator) -> LearningRate:
        """`rate` of step t, which shows the damper the gradients that it wants to see."""
        if not self.damper.looks_at(t + 1) & OF_A_BATCH:
            return rate

        def watched(
            x: Tensor,
            gradients: Gradients,
            mean: Tensor | None = None,
            taken: Tensor | None = None,
        ) -> "float | Tensor":
            assert self.damping is not None
            self.seen = measured(gradients, mean, self.damping.batch, comm)
            return rate(x, gradients, mean, taken)

        return watched

    def rows(self, population: int) -> list[dict[str, float]]:
        """What the trace says of the steps that have no row yet."""
        rows = [
            {"epoch": n / population, "batch_size": float(b), "samples": float(n), "damping": d}
            for b, n, d in self.pending
        ]
        self.pending.clear()
        return rows

    def facts(self, sampler: Sampler) -> dict[str, Any]:
        """For a checkpoint between two steps."""
        place = {"since": sampler.since, "drawn": sampler.drawn, "ahead": sampler.ahead}
        return {
            "batch": sampler.batch_size,
            "place": place,
            "state": flattened(self.state, "damper")[0],
            "seen": self.seen,
            "pending": self.pending,
        }

    def restore(self, facts: Mapping[str, Any], sampler: Sampler) -> Sampler:
        """Go on from `facts`; the sampler of the last step.

        Raises:
            KeyError, ValueError, TypeError: they are not of this damper.
        """
        self.state = rebuilt(self.damper.init(), "damper", facts["state"], {})
        self.seen = {name: float(value) for name, value in facts["seen"].items()}
        self.pending = [(int(b), int(n), int(d)) for b, n, d in facts["pending"]]
        place = {name: int(facts["place"][name]) for name in ("since", "drawn", "ahead")}
        return sampler.since_then(int(facts["batch"]), **place)

    def _looked(self, t: int, look: Look) -> dict[str, Any]:
        fields = self.damper.looks_at(t)
        values: dict[str, Any] = dict(look(fields - OF_A_BATCH)) if fields - OF_A_BATCH else {}
        if fields & OF_A_BATCH and self.seen:
            last = dict(self.seen)
            noise = Noise(last.pop("variance"), last.pop("signal"))
            values |= {k: v for k, v in {**last, "noise": noise}.items() if k in fields}
        return values


def measured(
    gradients: Gradients, mean: Tensor | None, batch: int, comm: Communicator
) -> dict[str, float]:
    r"""Loss, squared norm and noise of one step's gradients. Collective: three numbers.

    .. math::
        v = \tfrac{n}{n-1} \Big(\tfrac1n \sum_i \|g_i\|^2 - \|g_a\|^2\Big), \qquad
        \mathrm{tr}(\Sigma) \approx B v, \qquad \|g\|^2 \approx \|g_a\|^2 - v / n

    v is the variance of one learner's gradient; a lone learner has none. Under DPSGD it includes
    that the learners' weights differ.

    Args:
        gradients: of the hosted learners.
        mean: g_a [d], if the algorithm has it; DPSGD does not, and pays for an average.
        batch: B.
        comm: collective.
    """
    values, n = gradients.values, comm.n
    mean = comm.mean(values) if mean is None else mean
    squares = values.double().square().sum(dim=1)
    if gradients.squares is not None:
        squares = gradients.squares.sum(dim=1)
    rows = len(values)
    square = mean.double().square().sum().expand(rows)
    columns = torch.stack([gradients.losses.double().expand(rows), square, squares.double()], dim=1)
    # Averaged once more, so that all processes have the same bits.
    loss, square_of_mean, mean_square = comm.mean(columns.contiguous()).tolist()
    variance = (mean_square - square_of_mean) * n / (n - 1) if n > 1 else float("nan")
    return {
        "loss": loss,
        "gradient_square": square_of_mean,
        "variance": batch * variance,
        "signal": square_of_mean - variance / n,
    }
