r"""Perceptrons of many learners in one pass, whose gradients are written where their rows lie.

A multi-layer perceptron is linear maps with functions of single numbers between them. Learner j has
weights W_j [out, in], biases b_j [out] and a batch X_j [batch, in]:

.. math::
    Y_j = X_j W_j^T + 1 b_j^T, \qquad
    \bar W_j = \bar Y_j^T X_j, \quad \bar b_j = \bar Y_j^T 1, \quad \bar X_j = \bar Y_j W_j,

barred what is propagated back. All learners' products are one batched product, and those of the
weights' gradients go straight into the learners' rows. `torch.func.vmap`, which takes any model,
leaves gradients in tensors of their own, which are copied into the rows (docs/performance.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from gossip.task.loss import OfLogits, by_label, cross_entropy

OF_SINGLE_NUMBERS = frozenset({
    functional.relu, functional.relu6, functional.leaky_relu, functional.elu, functional.selu,
    functional.celu, functional.gelu, functional.silu, functional.mish, functional.softplus,
    functional.softsign, functional.hardtanh, functional.hardsigmoid, functional.hardswish,
    functional.logsigmoid, functional.tanhshrink, torch.tanh, torch.sigmoid, torch.relu,
    Tensor.tanh, Tensor.sigmoid, Tensor.relu,
})  # fmt: skip
"""Functions that are the same whatever the dimensions of their argument mean."""


class NoPerceptronError(Exception):
    """A model does what is neither a linear map nor a function of single numbers."""


class ParameterRows(NamedTuple):
    """A parameter of all learners, [n, *shape], and the place of its gradient; views of rows."""

    values: Tensor
    gradient: Tensor

    @property
    def shared(self) -> Tensor | None:
        """The parameter [*shape] where all learners have the same memory, or there is one."""
        is_one = len(self.values) == 1 or self.values.stride(0) == 0
        return self.values[0] if is_one else None


def gradient(
    model: nn.Module,
    of_logits: OfLogits,
    parameters: Mapping[nn.Parameter, ParameterRows],
    inputs: Tensor,
    labels: Tensor,
    scale: float | Tensor | None = None,
) -> Tensor:
    """Write the gradient of each learner's mean loss into the rows of `parameters`.

    Args:
        model: whose parameters stand for the learners' own.
        of_logits: the mean loss over the labels.
        parameters: all that are trained.
        inputs: [n, batch, *input_shape].
        labels: [n, batch, *label_shape].
        scale: the loss is multiplied by it, and so is the gradient.

    Returns:
        The losses, [n].

    Raises:
        NoPerceptronError: the model is none, or uses a parameter twice, or one that the loss does
            not depend on.
    """
    anchor = inputs.new_zeros((), requires_grad=True)
    learners = _Learners(parameters, anchor)
    with learners:
        logits = model(inputs)
    losses = _losses(of_logits, logits, labels)
    loss = losses.sum()
    torch.autograd.grad(loss if scale is None else loss * scale, anchor, allow_unused=True)
    if len(learners.written) != len(parameters):
        raise NoPerceptronError("a parameter is not used")
    return losses.detach()


def _losses(of_logits: OfLogits, logits: Tensor, labels: Tensor) -> Tensor:
    """Each learner's mean loss, [n]."""
    if of_logits is cross_entropy:
        return by_label(logits, labels).view(len(labels), -1).mean(dim=1)
    return vmap(of_logits)(logits, labels)


class _Learners(TorchFunctionMode):
    """In this block a model takes a batch for each learner, [n, batch, ...]."""

    def __init__(self, parameters: Mapping[nn.Parameter, ParameterRows], anchor: Tensor) -> None:
        super().__init__()
        self._parameters, self._anchor = dict(parameters), anchor
        self.written: list[ParameterRows] = []
        """Those whose gradients have been written; the others' places are what memory held."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What `func` does to each learner's part.

        Raises:
            NoPerceptronError: it may mix them.
        """
        kwargs = kwargs or {}
        if func is functional.linear:
            return self._linear(*args, **kwargs)
        if func in (Tensor.flatten, torch.flatten):
            return _flatten(*args, **kwargs)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        if (
            func not in OF_SINGLE_NUMBERS
            or len(tensors) > 1
            or isinstance(tensors[0], nn.Parameter)
        ):
            raise NoPerceptronError(f"{func} is not one of single numbers")
        return func(*args, **kwargs)

    def _linear(
        self, input: Tensor, weight: nn.Parameter, bias: nn.Parameter | None = None
    ) -> Tensor:
        """The arguments are named as torch names them."""
        try:
            own = [None if each is None else self._parameters.pop(each) for each in (weight, bias)]
        except KeyError as error:
            raise NoPerceptronError("a parameter is used twice, or is not trained") from error
        return _Linear.apply(input, self._anchor, *own, self.written)


def _flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`Tensor.flatten` of each learner's batch, behind the learners' dimension."""
    if start_dim < 1:
        raise NoPerceptronError("samples are flattened into one")
    return input.flatten(start_dim + 1, end_dim + 1 if end_dim >= 0 else end_dim)


class _Linear(torch.autograd.Function):
    """Y_j = X_j W_jᵀ + 1 b_jᵀ; `anchor` is in autograd's graph in place of the rows."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        anchor: Tensor,
        weight: ParameterRows,
        bias: ParameterRows | None,
        written: list[ParameterRows],
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.written = weight, bias, written
        # Not a view of what is computed: what follows may work in place.
        y = x.new_empty(*x.shape[:-1], weight.values.shape[1])
        if (w := weight.shared) is not None:
            flat, out = x.reshape(-1, x.shape[-1]), y.view(-1, y.shape[-1])
            if bias is None:
                torch.mm(flat, w.T, out=out)
            else:
                torch.addmm(bias.values[0], flat, w.T, out=out)
        elif bias is None:
            torch.bmm(_of_learners(x), weight.values.mT, out=_of_learners(y))
        else:
            b = bias.values.unsqueeze(1)
            torch.baddbmm(b, _of_learners(x), weight.values.mT, out=_of_learners(y))
        return y

    @staticmethod
    def backward(ctx: Any, *barred: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        (x,), weight, bias = ctx.saved_tensors, ctx.weight, ctx.bias
        y = _of_learners(barred[0])
        torch.bmm(y.mT, _of_learners(x), out=weight.gradient)
        if bias is not None:
            torch.sum(y, dim=1, out=bias.gradient)
        ctx.written += [weight] if bias is None else [weight, bias]
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        w = weight.shared
        back = torch.bmm(y, weight.values) if w is None else y @ w
        return back.view(x.shape), None, None, None, None


def _of_learners(x: Tensor) -> Tensor:
    """[n, samples, numbers], whatever a sample's shape."""
    return x.reshape(len(x), -1, x.shape[-1])
