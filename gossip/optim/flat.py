"""torch.optim on flat rows: the increment of any optimizer, its state local to each learner."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.optim.uncompiled import plain_step, uncompiled
from gossip.task.layers import Layer

Increment = Callable[[Tensor, Tensor], Tensor]
"""(base, out) -> base + u, all [rows, d], written to `out`."""
MakeTorchOptimizer = Callable[[list[dict[str, list[nn.Parameter]]]], torch.optim.Optimizer]
"""Makes a torch optimizer over parameter groups, for example partial(torch.optim.SGD, lr=1)."""


def between(x: Tensor, stepped: Tensor) -> Increment:
    """The increment from x to x + u: (base - x) + (x + u), bit for bit x + u where base is x."""
    return lambda base, out: torch.sub(base, x, out=out).add_(stepped)


TRIED, LR_TRIED = 3, 0.125
"""Steps, and their rate, by which an optimizer shows whether it looks at weights."""


class FlatOptimizer:
    r"""An optimizer step of every row at once, as a new matrix.

    .. math:: x_j + u_j, \quad u_j = \mathrm{OPT}_j.step(x_j, g_j) - x_j

    Weight decay, momentum and all other state see the learner's own weights x_j
    (docs/mathematics.md#local-optimizers).

    Element-wise optimizers (SGD, Adam, ...) act on the whole [rows, d] matrix as one parameter:
    the same arithmetic as one optimizer per learner, in one call; with a learning rate per layer,
    on the columns of each layer. Optimizers that look at a tensor as a whole (Adafactor, LARS)
    get one parameter per learner and layer, a view of the row in its own shape; so do all with a
    learning rate per learner and layer.

    Args:
        make: makes the torch optimizer.
        layers: the columns of each parameter tensor.
        elementwise: whether `make`'s optimizer treats every element alike.
        skips: whether a row whose gradient is not finite stays as it is, with its state; counters
            that rows share, such as Adam's of its steps, run on.
        jointly: whether rows are only skipped all together, on all processes: then the torch
            optimizer is not called at all, and no counter runs on.
    """

    def __init__(
        self,
        make: MakeTorchOptimizer,
        layers: Sequence[Layer],
        *,
        elementwise: bool = True,
        skips: bool = False,
        jointly: bool = False,
    ) -> None:
        self._make = make
        self._layers = layers
        self._elementwise = elementwise
        self._skips, self._jointly = skips, jointly
        self._parameters: list[list[nn.Parameter]] = []
        self._optimizer: torch.optim.Optimizer | None = None
        self._restored: Mapping[str, Tensor] = {}
        self.skipped: Tensor | None = None
        """Which rows the last step left as they were, [rows] bool; None: `skips` is off."""

    def step(self, x: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        """The stepped weights x + u, [rows, d], with x and gradients [rows, d] left as they are.

        Args:
            x: weights, [rows, d].
            gradients: at x, [rows, d].
            lr: one number, one per layer, [layers], or one per learner and layer,
                [rows, layers]; of the same kind at every step, the state being split by it.
        """
        if not self._skipping(gradients):
            return self._stepped(x, gradients, lr)
        if self._jointly:
            return x.clone()
        if self._optimizer is None and not self._is_sgd(lr):
            # What it has before its first step may be other than 0, as the sums of Adagrad.
            per = lr.ndim if isinstance(lr, Tensor) else 0
            self._start(self._split(x, per), per)
        before = {name: rows.clone() for name, rows in self.state_rows().items()}
        skipped = self.skipped
        assert skipped is not None
        keep = skipped.unsqueeze(1)
        stepped = self._stepped(x, gradients.masked_fill(keep, 0), lr)
        for name, state in self.state_rows().items():
            if state.ndim > 1:
                row = skipped.view(-1, *[1] * (state.ndim - 1))
                old = before.get(name, torch.zeros_like(state))
                self._put(name, torch.where(row, old, state))
        return torch.where(keep, x, stepped)

    def increment(self, x: Tensor, gradients: Tensor, lr: "float | Tensor") -> "Increment":
        r"""The increment u of `step`, to be added elsewhere, once: (base, out) -> base + u.

        What has to be computed at x is computed at once, before there need be a base; the sum is
        (base - x) + (x + u). Where u is the same whatever x is, the step is made from the base, in
        half as many passes over the rows. Where base is x both are bit for bit `step`.

        Args:
            x: weights, [rows, d].
            gradients: at x, [rows, d].
            lr: as of `step`.

        Returns:
            A function of base [rows, d] and where base + u is written, [rows, d], which it returns.
        """
        if self._looks_at_weights or self._skipping(gradients):
            return between(x, self.step(x, gradients, lr))
        return lambda base, out: self._from(base, out, gradients, lr)

    @property
    def layers(self) -> Sequence[Layer]:
        """The columns of each parameter tensor."""
        return self._layers

    def rated(self, rows: Tensor, lr: "float | Tensor") -> Tensor:
        """What rows [rows, d] are times a learning rate, one number or one per layer."""
        if not isinstance(lr, Tensor) or lr.ndim == 0:
            return float(lr) * rows
        sizes = torch.tensor([layer.stop - layer.start for layer in self._layers])
        return rows * lr.to(rows).repeat_interleave(sizes.to(rows.device))

    def state_rows(self) -> dict[str, Tensor]:
        """The state between two steps: name -> [rows, ...]; empty before the first.

        A name is "layer/quantity", or the quantity alone where all layers are one parameter. What
        the rows have in common is there once per row; a Python number ends in ":number".
        """
        if self._optimizer is None:
            return dict(self._restored)
        found: dict[str, Tensor] = {}
        for prefix, parameters in self._slots():
            states = [self._optimizer.state[parameter] for parameter in parameters]
            for name, value in states[0].items():
                if value is None:
                    continue
                number = "" if isinstance(value, Tensor) else ":number"
                rows = [torch.as_tensor(state[name]) for state in states]
                if self._is_stacked:
                    stacked = rows[0] if rows[0].ndim > 1 else rows[0].expand(len(parameters[0]))
                else:
                    stacked = torch.stack(rows)
                found[f"{prefix}{name}{number}"] = stacked
        return found

    def moments(self) -> dict[str, Tensor]:
        """What of the state has numbers for the weights themselves: name -> [rows, ...]."""
        state = self.state_rows().items()
        return {name: rows for name, rows in state if rows.ndim > 1 and rows.is_floating_point()}

    def replace_moments(self, moments: Mapping[str, Tensor]) -> None:
        """Go on with others in their place; after a step."""
        for name, rows in moments.items():
            self._put(name, rows)

    @property
    def kept_per_weight(self) -> float:
        """How many numbers `moments` has of a weight: 0 with plain SGD, 2 with Adam."""
        alike = self._elementwise or not self._layers
        d = 1 if alike else self._layers[-1].stop
        fresh = FlatOptimizer(self._make, self._layers, elementwise=alike)
        fresh.step(torch.zeros(1, d), torch.zeros(1, d), 0.0)
        return sum(rows.numel() for rows in fresh.moments().values()) / d

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_rows()` of another optimizer like this one; before the first step.

        Raises:
            UserError: it has a state, and this one has none.
        """
        assert self._optimizer is None, "this optimizer has stepped already"
        if state and self._is_plain:
            raise UserError(f"the checkpoint is of another run: plain SGD has no {min(state)!r}")
        self._restored = {name: rows.clone() for name, rows in state.items()}

    def _skipping(self, gradients: Tensor) -> bool:
        """Whether rows are skipped in this step; which, if they may be, is in `skipped`."""
        if not self._skips:
            return False
        self.skipped = ~gradients.isfinite().all(dim=1)
        return bool(self.skipped.any())

    @cached_property
    def _looks_at_weights(self) -> bool:
        """Whether an increment depends on the weights, as by weight decay; tried on two numbers.

        Without a gradient, where whatever looks at weights shows most (Adam divides by its size),
        and with one, for what multiplies it.
        """
        if not self._elementwise:
            return True
        apart = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        for gradient, tolerance in ((0.0, 0.0), (1.0, 1e-12)):
            x, tried = apart, FlatOptimizer(self._make, ())
            for _ in range(TRIED):
                x = tried._advanced(x.clone(), torch.full_like(x, gradient), LR_TRIED)
            increments = x - apart
            if not torch.allclose(increments, increments[0], rtol=0, atol=tolerance):
                return True
        return False

    def _is_sgd(self, lr: "float | Tensor") -> bool:
        """Whether a step is x - lr g with one rate for all, which is one pass over the rows."""
        return not (isinstance(lr, Tensor) and lr.ndim) and self._is_plain

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the optimizer is torch's SGD itself, without momentum and weight decay."""
        if not self._elementwise:
            return False
        with uncompiled():
            made = self._make([{"params": [nn.Parameter(torch.zeros(1))]}])
        (group,) = made.param_groups
        more = ("momentum", "weight_decay", "nesterov", "maximize")
        return type(made) is torch.optim.SGD and not any(group[name] for name in more)

    def _stepped(self, x: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        return self._from(x, torch.empty_like(x), gradients, lr)

    def _from(self, base: Tensor, out: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        """The weights `base` [rows, d], stepped, in `out`."""
        if self._is_sgd(lr):
            assert (base.shape, base.dtype) == (gradients.shape, gradients.dtype)
            return torch.add(base, gradients, alpha=-float(lr), out=out)
        return self._advanced(out.copy_(base), gradients, lr)

    def _advanced(self, stepped: Tensor, gradients: Tensor, lr: "float | Tensor") -> Tensor:
        """The weights [rows, d], stepped where they are."""
        per = lr.ndim if isinstance(lr, Tensor) else 0
        groups, gradient_groups = self._split(stepped, per), self._split(gradients, per)
        if self._optimizer is None:
            self._start(groups, per)
        assert self._optimizer is not None
        for parameters, parts, grads in zip(self._parameters, groups, gradient_groups, strict=True):
            for parameter, part, gradient in zip(parameters, parts, grads, strict=True):
                parameter.data, parameter.grad = part, gradient
        # All rates in one transfer: the device is waited for once, not once per group.
        rates = torch.as_tensor(lr).flatten().tolist() if per else [float(lr)] * len(groups)
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._step()
        return stepped

    def _start(self, groups: list[list[Tensor]], per: int) -> None:
        self._parameters = [[nn.Parameter(part) for part in group] for group in groups]
        with uncompiled():
            self._optimizer = self._make([{"params": group} for group in self._parameters])
        self._step = plain_step(self._optimizer)
        self._is_stacked = self._elementwise and per < 2
        self._by_row = per == 2
        try:
            for name, rows in self._restored.items():
                self._put(name, rows)
        except ValueError as error:
            raise UserError(f"the checkpoint is of another run: {error}") from error
        self._restored = {}

    def _slots(self) -> Iterator[tuple[str, list[nn.Parameter]]]:
        """Prefix of the names and parameters, one for all rows or one for each, of each layer."""
        groups = self._parameters
        if self._by_row:  # one group for each row and layer
            one = [group[0] for group in groups]
            groups = [one[k :: len(self._layers)] for k in range(len(self._layers))]
        for k, group in enumerate(groups):
            yield (f"{k}/" if len(groups) > 1 else ""), group

    def _put(self, name: str, rows: Tensor) -> None:
        """Set one quantity of the state, [rows, ...], of all rows.

        Raises:
            ValueError: it does not fit the parameters.
        """
        assert self._optimizer is not None
        prefix, slash, quantity = name.rpartition("/")
        quantity, _, number = quantity.partition(":")
        parameters = dict(self._slots()).get(prefix + slash)
        if parameters is None or len(rows) != (
            len(parameters[0]) if self._is_stacked else len(parameters)
        ):
            raise ValueError(f"the optimizer has no state {name!r} of {len(rows)} rows")
        values = [rows if rows.ndim > 1 else rows[0]] if self._is_stacked else list(rows)
        for parameter, value in zip(parameters, values, strict=True):
            # As in torch's load_state_dict, counters stay on the CPU.
            device = parameter.device if value.ndim else value.device
            own = value.item() if number else value.to(device, copy=True)
            self._optimizer.state[parameter][quantity] = own

    def _split(self, x: Tensor, per: int) -> list[list[Tensor]]:
        """Views of x that are parameters, in the groups that have a learning rate each.

        Args:
            x: [rows, d].
            per: dimensions of the learning rate, 0, 1 ([layers]) or 2 ([rows, layers]).
        """
        if self._elementwise and per == 0:
            return [[x]]
        if self._elementwise and per == 1:
            return [[x[:, layer.start : layer.stop]] for layer in self._layers]
        if per == 2:
            return [[self._part(row, layer)] for row in x for layer in self._layers]
        return [[self._part(row, layer) for row in x] for layer in self._layers]

    @staticmethod
    def _part(row: Tensor, layer: Layer) -> Tensor:
        """The view of a row [d] that is this layer, in its own shape."""
        return row[layer.start : layer.stop].view(layer.shape)
