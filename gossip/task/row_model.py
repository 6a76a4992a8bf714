"""A model as functions of a flat row: named views of it, logits, losses, running statistics."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gossip.streams import seeded
from gossip.task.layers import NORM, Layer, running_statistics
from gossip.task.loss import OfLogits
from gossip.task.numerics import Numerics
from gossip.task.parameters import Tie

Named = dict[str, Tensor]
"""Parameters and buffers by their names."""


class RowModel:
    """A model that is given its trained weights with every call.

    Args:
        module: on its device and in its dtype, in training mode; of its own weights only those
            that are frozen count.
        layers: the columns of each parameter that is trained.
        ties: parameters that are views of others.
        of_logits: mean loss of logits and labels.
        dtype: of rows and logits.
        numerics: where and how precisely it computes.
        draws: whether a training pass draws random numbers.
    """

    def __init__(
        self,
        module: nn.Module,
        layers: Sequence[Layer],
        ties: Sequence[Tie],
        of_logits: OfLogits,
        *,
        dtype: torch.dtype,
        numerics: Numerics,
        draws: bool,
    ) -> None:
        self.module, self.layers, self.ties = module, tuple(layers), ties
        self.of_logits, self.dtype, self.numerics, self.draws = of_logits, dtype, numerics, draws
        named = dict(module.named_parameters())
        self.trained = [named[layer.name] for layer in self.layers]
        """The module's own parameters, layer by layer."""
        self.buffers = tuple(running_statistics(module))
        """The columns of each running statistic."""
        own = dict(module.named_buffers())
        parts = [own[layer.name].reshape(-1) for layer in self.buffers]
        nothing = torch.empty(0, dtype=dtype, device=numerics.device)
        self.first_buffers = torch.cat(parts) if parts else nothing
        """Running statistics before the first step, [b]."""
        self._sizes = [layer.stop - layer.start for layer in self.layers]

    @contextmanager
    def judged(self) -> Iterator[None]:
        """In this block the model is in evaluation mode."""
        self.module.eval()
        try:
            yield
        finally:
            self.module.train()

    @contextmanager
    def drawing_nothing(self) -> Iterator[None]:
        """In this block all but BatchNorm is in evaluation mode, where nothing is drawn."""
        norms = [m for m in self.module.modules() if isinstance(m, NORM) and m.training]
        with self.judged():
            for norm in norms:
                norm.train()
            yield

    def drawing(self, seed: int | None) -> AbstractContextManager[None]:
        """In this block a training pass draws at `seed`, if it does."""
        if seed is None or not self.draws:
            return nullcontext()
        return seeded(seed, self.numerics.device)

    def loss(self, tensors: Named, inputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a batch, whose logits are as precise as `numerics` says."""
        return self.of_logits(self.logits(tensors, inputs), labels)

    def exact_loss(self, tensors: Named, inputs: Tensor, labels: Tensor) -> Tensor:
        """The same in `dtype` throughout, whatever the mixed precision."""
        return self.of_logits(self.outputs(tensors, inputs).to(self.dtype), labels)

    def outputs(self, tensors: Named, inputs: Tensor) -> Tensor:
        """What the model makes of a batch."""
        tied = {tie.name: tie.view(tensors[tie.of]) for tie in self.ties}
        return functional_call(self.module, tensors | tied, (inputs,))

    def logits(self, tensors: Named, inputs: Tensor) -> Tensor:
        """The logits in `dtype`, the precision that a loss needs."""
        numerics = self.numerics
        with numerics.autocast():
            tensors, inputs = numerics.laid_out(tensors), numerics.layout(inputs)
            return self.outputs(tensors, inputs).to(self.dtype)

    def named_buffers(self, row: Tensor | None) -> Named:
        """Views of a row of running statistics [b], or nothing; a forward pass writes to them."""
        if row is None:
            return {}
        return {b.name: row[b.start : b.stop].view(b.shape) for b in self.buffers}

    def parameters(self, x: Tensor) -> Named:
        """Leaves that are views of a row [d] or of rows [rows, d], by parameter name."""
        views = zip(self.layers, self.views(x.detach()), strict=True)
        return {layer.name: view.requires_grad_() for layer, view in views}

    def views(self, x: Tensor) -> Iterator[Tensor]:
        """The parameters [..., *shape] in a row [d] or in rows [rows, d]."""
        columns = x.split(self._sizes, dim=-1)
        for layer, column in zip(self.layers, columns, strict=True):
            yield column.view(x.shape[:-1] + layer.shape)
