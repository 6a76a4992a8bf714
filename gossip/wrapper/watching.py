"""What a step of a wrapper did, copied at chosen steps for whoever measures it afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from gossip.wrapper.orders import Order
from gossip.wrapper.stopwatch import Stopwatch
from gossip.wrapper.weights import Weights


class StepCopy(NamedTuple):
    """Step t of this learner, rows being [1, d]: what `gossip.monitor.Moment` is made of.

    Of a learner of several processes the part that is here, as `Weights.once` gives it.
    """

    t: int
    lr: float
    """The mean of the optimizers' learning rates, weighted by their numbers of parameters."""
    x: Tensor
    """w_j(t)."""
    gradients: Tensor
    """As the optimizers got them; where one has none, 0."""
    mixed: Tensor
    """W X before the update; adapt-then-combine's, of the updated weights; a method's own."""
    increments: Tensor
    """u_j, what the optimizers added."""
    x_next: Tensor
    """w_j(t+1)."""
    kept: Mapping[str, Tensor]
    """What a method keeps beside the weights, after the step."""
    plain: bool
    """Whether the optimizers are plain SGD of one learning rate."""
    batches: Sequence[Any]
    """Its mini-batches, where they are known."""


class Watch:
    """Copies weights and gradients at every k-th step; at others it only counts.

    It sends nothing to other learners, so that each may end its step whenever it wants. Within one
    of several processes gradients may be summed up (`gradient_of`), as by an optimizer's step.

    Args:
        weights: of the learner.
        every: k; the steps t = 0, k, 2k, ... are copied.
        clock: told when phases of a step end.
    """

    def __init__(self, weights: Weights, every: int, clock: Stopwatch) -> None:
        self._weights, self._every, self._clock = weights, every, clock
        self._t: int | None = None
        self._x: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._updated: list[Tensor] = []
        self._mixed: list[Tensor] | None = None
        self._plain = True
        self._rates: list[tuple[float, int]] = []
        self.batches: dict[int, list[Any]] = {}
        """Mini-batches of steps that are not over, where they are known."""
        self.seen: StepCopy | None = None
        """The step copied last; whoever has measured it sets None."""

    def is_due(self, t: int) -> bool:
        """Whether step t is copied."""
        return t % self._every == 0

    def begin(self, t: int) -> None:
        """Step t has begun, with the weights as they are."""
        self._clock.lap("data")
        self._t = t if self.is_due(t) else None
        if self._t is not None:
            self._x = self._weights.rows()
            self._gradients = [torch.zeros_like(row) for row in self._x]
            self._rates, self._plain = [], True

    def stepping(self, optimizer: Optimizer) -> None:
        """An optimizer is about to change its parameters."""
        self._clock.lap("gradient")
        if self._t is None:
            return
        self._plain &= is_plain(optimizer)
        for group in optimizer.param_groups:
            count = sum(slot.parameter.numel() for slot in self._weights.of(group["params"]))
            lr = group.get("lr")  # None: the optimizer has a rate of its own at each step
            self._rates.append((torch.nan if lr is None else float(lr), count))

    def along(self, optimizer: Optimizer) -> None:
        """It has its gradients; if it has them from a closure, now."""
        self._clock.lap("gradient")
        if self._t is not None and not is_left_out(optimizer):
            self._weights.collect(self._gradients, optimizer)

    def ending(self, order: Order) -> None:
        """All optimizers have stepped, and what `order` has still to add is about to come."""
        if self._t is None:
            return
        self._updated = self._weights.rows()
        changes = order.changes or [torch.zeros_like(row) for row in self._x]
        after = order.collective_end
        self._mixed = None if after else [x + c for x, c in zip(self._x, changes, strict=True)]

    def ended(self, order: Order, mixed: list[Tensor] | None) -> None:
        """The step is over, in which `order` has mixed so."""
        self._clock.lap("optimizer")
        if self._t is None:
            return
        x_next = self._weights.rows()
        # Averaging while computing has been added to some of the updated weights already.
        while_computing = self._mixed is not None
        mixed = self._mixed or mixed or x_next
        before, after = (mixed, x_next) if while_computing else (self._x, self._updated)
        samples = sum(count for _, count in self._rates)
        lr = sum(rate * count for rate, count in self._rates) / samples if samples else 0.0
        once = self._weights.once
        self.seen = StepCopy(
            self._t,
            lr,
            as_one_row(once(self._x)),
            as_one_row(once(self._gradients)),
            as_one_row(once(mixed)),
            as_one_row(once(after)) - as_one_row(once(before)),
            as_one_row(once(x_next)),
            order.kept(),
            self._plain and len({rate for rate, _ in self._rates}) == 1,
            self.batches.pop(self._t, []),
        )
        self._t = None
        self._x, self._gradients, self._updated, self._mixed = [], [], [], None

    def dropped(self) -> None:
        """What has begun is abandoned: the weights are replaced by others."""
        self._t = None
        self.batches.clear()


def is_plain(optimizer: Optimizer) -> bool:
    """Whether it steps along minus its gradient (and weight decay): SGD without a momentum."""
    return isinstance(optimizer, SGD) and not any(
        group["momentum"] or group["maximize"] for group in optimizer.param_groups
    )


def is_left_out(optimizer: Optimizer) -> bool:
    """Whether a GradScaler has the optimizer itself leave its step out, as it has fused ones."""
    return bool(getattr(optimizer, "found_inf", False))


def as_one_row(rows: list[Tensor]) -> Tensor:
    """Rows of several dtypes or devices as one, [1, d] float64 on the CPU; one alone as it is."""
    return rows[0] if len(rows) == 1 else torch.cat([row.double().cpu() for row in rows], dim=1)


def as_own_rows(row: Tensor, like: list[Tensor]) -> list[Tensor]:
    """The rows that `as_one_row` has made one, from `row` [d]."""
    parts = row.split([each.shape[1] for each in like])
    return [part.to(each).unsqueeze(0) for part, each in zip(parts, like, strict=True)]
