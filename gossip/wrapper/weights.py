"""A learner's trainable parameters as views of one flat row per dtype and device."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.task.parameters import short, trained

ALIGNMENT_BYTES = 64
"""Where torch's own allocations begin: kernels choose their path by it, and so the last bit."""


class Slot(NamedTuple):
    """One parameter and its place in a row."""

    name: str
    parameter: nn.Parameter
    row: int
    start: int
    stop: int
    stride: tuple[int, ...]

    def part(self, rows: list[Tensor]) -> Tensor:
        """The view of `rows`, [1, d] each, that has this parameter's place and shape."""
        flat = rows[self.row][0, self.start : self.stop]
        return flat.as_strided(self.parameter.shape, self.stride)


class Weights:
    """Rows of weights, in which the parameters of a module or of an optimizer live.

    Parameters that need no gradient are left out; a parameter under two names is there once.
    Each row is one message without a copy. Its gaps, which keep parameters aligned, are 0.

    Args:
        named: parameters by name; their data moves into the rows, themselves they stay.
        whose: what the messages to the user call their owner.

    Raises:
        UserError: there are none, or of a kind that cannot be averaged.
    """

    def __init__(self, named: Mapping[str, nn.Parameter], whose: str) -> None:
        self.rows: list[Tensor] = []
        """[1, d] for each dtype and device."""
        self.slots: dict[int, Slot] = {}
        """Id of a parameter -> its place in a row."""
        kinds: dict[tuple[torch.dtype, torch.device], dict[str, nn.Parameter]] = {}
        for name, parameter in trained(named, whose).items():
            kinds.setdefault((parameter.dtype, parameter.device), {})[name] = parameter
        for members in kinds.values():
            self._move_in(members)
        self.d = sum(slot.parameter.numel() for slot in self.slots.values())
        """Number of weights, without the gaps."""

    def _move_in(self, members: Mapping[str, nn.Parameter]) -> None:
        slots, stop = [], 0
        for name, parameter in members.items():
            step = ALIGNMENT_BYTES // parameter.element_size()
            start = -(-stop // step) * step
            stop = start + parameter.numel()
            # In the parameter's own memory format, such as channels_last, where it is dense.
            stride = torch.empty_like(parameter, device="meta").stride()
            slots.append(Slot(name, parameter, len(self.rows), start, stop, stride))
        one = slots[0].parameter
        self.rows.append(torch.zeros(1, stop, dtype=one.dtype, device=one.device))
        for slot in slots:
            view = slot.part(self.rows)
            view.copy_(slot.parameter.detach())
            slot.parameter.data = view
            self.slots[id(slot.parameter)] = slot

    def of(self, parameters: Iterable[Tensor]) -> list[Slot]:
        """The slots of those of the parameters that live here."""
        return [self.slots[id(p)] for p in parameters if id(p) in self.slots]

    def check(self, named: Iterable[tuple[str, nn.Parameter]] = ()) -> None:
        """Look whether all parameters still live here, and all that are trained.

        Args:
            named: what the module's parameters are now.

        Raises:
            UserError: some have been moved, converted or added.
        """
        for slot in self.slots.values():
            row = self.rows[slot.row]
            here = row.data_ptr() + slot.start * row.element_size()
            if slot.parameter.numel() and slot.parameter.data_ptr() != here:
                raise UserError(
                    f"parameter {slot.name!r} was moved or converted after wrapping (.to(), "
                    ".half(), load_state_dict(assign=True)): wrap the module after that"
                )
        for name, parameter in named:
            if parameter.requires_grad and id(parameter) not in self.slots:
                raise UserError(
                    f"parameter {name!r} was added or unfrozen after wrapping and would not be "
                    "averaged: wrap the module when it is complete"
                )


def described(tensor: Tensor) -> str:
    """What has to be the same on all processes, 'float32 [10, 5]', 'float32 [3] frozen'."""
    frozen = "" if tensor.requires_grad or not isinstance(tensor, nn.Parameter) else " frozen"
    stride = torch.empty_like(tensor, device="meta").stride()
    contiguous = torch.empty(tensor.shape, device="meta").stride()
    order = "" if stride == contiguous else f" strides {list(stride)}"
    return f"{short(tensor.dtype)} {list(tensor.shape)}{order}{frozen}"
