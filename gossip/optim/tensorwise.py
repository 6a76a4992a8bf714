"""Base of the optimizers that look at one parameter tensor at a time."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor


class TensorWise(torch.optim.Optimizer):
    """An optimizer whose step is the same function of each parameter tensor, here called layer.

    No number of a step leaves the device: norms, ratios and the choice between their cases stay
    tensors.
    """

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step of every parameter that has a gradient; the gradients stay as they are.

        Args:
            closure: evaluates the model again, as for every torch optimizer.

        Returns:
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    @abstractmethod
    def update(self, w: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Step the layer w in place.

        Args:
            w: weights, of any shape.
            g: their gradient.
            state: what this layer keeps between steps, at first empty.
            group: its parameter group, with the options and the rate of this step.
        """


def norm(x: Tensor) -> Tensor:
    """Euclidean norm of all elements, a float64 scalar tensor."""
    return torch.linalg.vector_norm(x, dtype=torch.float64)


def momentum_buffer(w: Tensor, state: dict[str, Any]) -> Tensor:
    """The v of this layer, zero before the first step."""
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = torch.zeros_like(w)
    return state["momentum_buffer"]


def adam_moments(
    w: Tensor, g: Tensor, state: dict[str, Any], betas: tuple[float, float]
) -> tuple[Tensor, Tensor, int]:
    """Adam's m and v of this layer, brought up to date in place, and the steps that are in them."""
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(w), exp_avg_sq=torch.zeros_like(w))
    state["step"] += 1
    beta1, beta2 = betas
    m = state["exp_avg"].mul_(beta1).add_(g, alpha=1 - beta1)
    v = state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
    return m, v, state["step"]


def check_not_negative(**options: float) -> None:
    """Refuse what no optimizer can use.

    Raises:
        ValueError: an option is negative or NaN.
    """
    for name, value in options.items():
        if not value >= 0:
            raise ValueError(f"{name} is {value}: it must not be negative")
