"""Notification of every optimizer step of a user's loop, also of one that a GradScaler skips."""

import weakref
from functools import wraps
from typing import Any, Protocol

import torch
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


class Follower(Protocol):
    """Who is told."""

    def before_step(self, optimizer: Optimizer) -> None:
        """An optimizer's step is about to begin."""
        ...

    def with_gradients(self, optimizer: Optimizer) -> None:
        """The step is taken, and its gradients are there; may be told again."""
        ...

    def failed(self, optimizer: Optimizer) -> None:
        """The closure of its step has raised an exception: it does not come to its end."""
        ...

    def after_step(self, optimizer: Optimizer) -> None:
        """An optimizer's step is done, or a GradScaler has left it out."""
        ...


_followers: "weakref.WeakSet[Any]" = weakref.WeakSet()
_listening = False


def follow_steps(follower: Follower) -> None:
    """Tell `follower` of every optimizer's steps, as long as it lives."""
    alive = weakref.ref(follower)

    @torch.compiler.disable
    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if (living := alive()) is None:
            return None
        living.before_step(optimizer)
        return _around_the_closure(args, kwargs, living, optimizer)

    @torch.compiler.disable
    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if (living := alive()) is not None:
            living.with_gradients(optimizer)  # its closure may not have been called
            living.after_step(optimizer)

    for handle in (
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(after),
    ):
        weakref.finalize(follower, handle.remove)
    _followers.add(follower)
    _listen_to_scalers()


def _around_the_closure(
    args: Any, kwargs: Any, follower: Follower, optimizer: Optimizer
) -> tuple[Any, Any] | None:
    """Tell when an optimizer's step has its gradients: at once, or behind its closure.

    Args:
        args: of the step, the optimizer first.
        kwargs: of the step.
        follower: who is told.
        optimizer: whose step it is.

    Returns:
        Other arguments of the step; None: the same.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        follower.with_gradients(optimizer)
        return None

    @wraps(closure)
    def telling() -> Any:
        try:
            loss = closure()
        except BaseException:
            follower.failed(optimizer)
            raise
        follower.with_gradients(optimizer)
        return loss

    if "closure" in kwargs:
        return args, {**kwargs, "closure": telling}
    return (args[0], telling, *args[2:]), kwargs


def _listen_to_scalers() -> None:
    """Have a GradScaler tell of a step that it leaves out, which nothing else can know exactly.

    That the gradients are not finite, or gone, may mean other things: a probing backward pass,
    the first of two in sharpness-aware training, a discriminator's in its generator's step.
    """
    global _listening
    if _listening:
        return
    _listening, step = True, GradScaler.step

    @wraps(step)
    def telling(scaler: GradScaler, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(optimizer, Optimizer):
            return step(scaler, optimizer, *args, **kwargs)
        done: list[bool] = []
        handle = optimizer.register_step_post_hook(lambda *_: done.append(True))
        try:
            result = step(scaler, optimizer, *args, **kwargs)
        finally:
            handle.remove()
        if not done:
            for follower in list(_followers):
                follower.before_step(optimizer)
                follower.after_step(optimizer)
        return result

    GradScaler.step = telling
