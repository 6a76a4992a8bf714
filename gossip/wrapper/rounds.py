"""Steps of a learner whose loop is the user's: when a step begins, and when it is over."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from gossip.comm.shutdown.position import Position
from gossip.errors import UserError
from gossip.wrapper import leaving
from gossip.wrapper.alterations import Alterations
from gossip.wrapper.follow import follow_steps
from gossip.wrapper.orders import Order
from gossip.wrapper.watching import Watch
from gossip.wrapper.weights import Slot, Weights

NamedParameters = Callable[[], Iterable[tuple[str, nn.Parameter]]]


class Rounds:
    """Step t between a module's forward passes and its optimizers' steps.

    A step begins with the first training forward pass after the last one (or the optimizer's
    step, if there was none) and is over when the optimizers have changed all parameters, or a
    GradScaler has left that out. If they have changed only some, it is over when the next one
    begins, or when all learners look at their weights together. Nothing else ends it: neither a
    second forward and backward pass nor gradients that are thrown away. Each learner does
    t = 0, 1, 2, ..., since the others wait for its weights.

    Args:
        weights: what the optimizers change.
        order: what is mixed when.
        named: the parameters that the module has at the moment.
        position: where the process says which step it is at, and in which call.
        alone: whether there is no other learner.
    """

    def __init__(
        self,
        weights: Weights,
        order: Order,
        named: NamedParameters,
        position: Position,
        *,
        alone: bool,
    ) -> None:
        self.t = 0
        self.quiet = False
        """Whether steps are the learner's own business at the moment."""
        self.frozen = False
        """Whether the weights are not the learner's own at the moment."""
        self.watch: Watch | None = None
        """Who is shown what the steps do, if anybody."""
        self.from_start = True
        """Whether these are steps 0 to t, none replaced by a loaded state or abandoned."""
        self.measure: Callable[[], None] = lambda: None
        """Called before each step, where all learners come by: what was seen may be measured."""
        self._weights, self.order, self._named = weights, order, named
        self._position = position
        position.phase = "training"
        self._open = False
        self._sent = StepCounter(position)
        self._changed: set[int] = set()
        self._stepping: Optimizer | None = None
        self._told = False
        """Whether its gradients have been looked at."""
        self._alterations = None if alone else Alterations(weights)
        self._untraced_forward = _untraced_forward()
        follow_steps(self)
        leaving.expect(self)
        # Not at exit: the process has told by then that it ends.
        weakref.finalize(self, self._sent.close).atexit = False

    @property
    def due(self) -> int:
        """The step that is to come, or that has begun and no optimizer has stepped in."""
        return self.t + bool(self._changed)

    def calling(self, call: str) -> AbstractContextManager[None]:
        """In this block the process is in that call of a user's, should another wait for it."""
        return self._position.during(f"{call} of {self._weights.whose}")

    def forward(self) -> None:
        """A training forward pass is about to begin."""
        self._untraced_forward(self)

    def _forward(self) -> None:
        # One in an optimizer's own step (a closure) belongs to the step that is under way.
        if self._stepping is None and not self.frozen:
            with self.calling("a forward pass"):
                self.end_if_over()
                if not self.quiet:
                    self._begin()
                    if self._alterations is not None:
                        self._alterations.look()

    def before_step(self, optimizer: Optimizer) -> None:
        """An optimizer's step is about to begin.

        Raises:
            UserError: the weights are the mean model's at the moment, or have been moved.
        """
        slots = self._slots(optimizer)
        # An optimizer may call another one's step in its own.
        if not slots or self._stepping not in (None, optimizer):
            return
        if self.frozen:
            raise UserError(
                "optimizer.step() inside average(): the weights are the mean of all learners "
                "there; leave the block first"
            )
        with self.calling("optimizer.step()"):
            if not self._changed:
                self._weights.check(self._named())
            self._stepping, self._told = optimizer, False
            if any(id(slot.parameter) in self._changed for slot in slots):
                self._end()
            if not self.quiet:
                self._begin()
            if self._open:
                self.order.stepping(optimizer)
                if self.watch is not None:
                    self.watch.stepping(optimizer)

    def with_gradients(self, optimizer: Optimizer) -> None:
        """Its gradients are there; the first time those at the weights it has begun with."""
        if optimizer is not self._stepping or not self._open or self._told:
            return
        self._told = True
        self.order.along(optimizer)
        if self.watch is not None:
            self.watch.along(optimizer)

    def failed(self, optimizer: Optimizer) -> None:
        """Its step has been given up: whichever is next is no part of it."""
        if optimizer is self._stepping:
            self._stepping = None

    def after_step(self, optimizer: Optimizer) -> None:
        """An optimizer's step is done, or has been left out by a GradScaler."""
        if optimizer is not self._stepping:
            return
        self._stepping = None
        if not self._open:
            return
        slots = self._slots(optimizer)
        self._changed.update(id(slot.parameter) for slot in slots)
        with self.calling("optimizer.step()"):
            if len(self._changed) == len(self._weights.slots):
                self._end()
            else:
                self.order.stepped(slots)

    def end_if_over(self) -> None:
        """End a step that no optimizer will: some have stepped. Collective."""
        if self._changed:
            self._end()

    @property
    def keeps(self) -> bool:
        """Whether more than the step goes on from one to the next."""
        return bool(self.order.state())

    def skip(self) -> None:
        """Do one step without an optimizer's: the one that has begun, if one has. Collective."""
        with self.calling("skip_step()"):
            self.end_if_over()
            if not self.quiet:
                self._begin()
                self._end()

    def settle(self) -> None:
        """Before the learners look at their weights together: nothing is under way. Collective."""
        self.end_if_over()
        if self._open:
            self.order.wait()

    def state(self) -> dict[str, Any]:
        """t, whether its mixing is still due, what a method keeps. Local."""
        if not self.order.collective_end:
            with self.calling("state_dict()"):
                self.end_if_over()
        return {"step": self.t, "due": bool(self._changed), **self.order.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`, with weights that have been loaded."""
        t = int(state["step"])
        self.from_start &= t == self.t
        self._position.step += max(0, t - self.t)  # an earlier one does not undo what was sent
        self.t = t
        if state["due"]:
            self._begin()
            self._changed = set(self._weights.slots)
        self.order.restore(state)

    def drop(self) -> None:
        """Forget the step that has begun: its weights are about to be replaced."""
        if self._open:
            with self.calling("load_state_dict()"):
                self.order.wait()
        self._open, self._changed = False, set()
        self.from_start &= not self._sent.under_way
        self._sent.close()
        if self.watch is not None:
            self.watch.dropped()

    def leave(self) -> None:
        """There are no more steps; others may wait in the last, which this learner has skipped."""
        with self.calling("the end"):
            self.end_if_over()
        self._sent.close()

    def _begin(self) -> None:
        self._position.come_back()
        if not self._open:
            self._weights.check(self._named())
            self.measure()
            if self.watch is not None:
                self.watch.begin(self.t)
            self._open = True
            if self._alterations is not None:
                self._alterations.begin()
            self.order.start(self.t)
            self._sent.under_way = not self.order.collective_end

    def _end(self) -> None:
        if self.watch is not None:
            self.order.wait()
            self.watch.ending(self.order)
        mixed = self.order.end()
        if self.watch is not None:
            self.watch.ended(self.order, mixed)
        self._open, self._changed = False, set()
        if self._alterations is not None:
            self._alterations.trust()
        self.t += 1
        self._sent.over()

    def _slots(self, optimizer: Optimizer) -> list[Slot]:
        return self._weights.of(p for group in optimizer.param_groups for p in group["params"])

    @contextmanager
    def keeping_quiet(self) -> Iterator[None]:
        """In this block no step begins: what optimizers do in it is neither mixed nor counted."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """In this block the weights are not the learner's own, and no optimizer may change them."""
        before, self.frozen = self.frozen, True
        try:
            yield
        finally:
            self.frozen = before


class StepCounter:
    """The steps that a learner has done its part in, as the other processes read them.

    Args:
        position: where they are counted, those of all wrappers together.
    """

    def __init__(self, position: Position) -> None:
        self.under_way = False
        """Whether the rows of a step are sent that is not over."""
        self._position = position

    def over(self) -> None:
        """A step is over."""
        self._position.step += 1
        self.under_way = False

    def close(self) -> None:
        """Abandon the step that is under way: the others have all they need of it."""
        if self.under_way:
            self.over()


@cache
def _untraced_forward() -> Callable[[Rounds], None]:
    """What a forward pass begins with, which torch's compiler leaves alone.

    Imports the compiler, 2 s of CPU time: so with the first wrapper, as torch's first optimizer
    does, and not with this module, which a loader's workers import, too.
    """
    reason = "compile what is inside: Gossip(torch.compile(module))"
    return torch.compiler.disable(Rounds._forward, reason=reason)
