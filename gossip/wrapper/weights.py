"""A learner's trainable parameters, and rows of numbers to send in their place."""

import gc
from collections.abc import Callable, Collection, Iterable, Mapping
from math import sqrt
from typing import NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch.optim import Optimizer

from gossip.errors import UserError
from gossip.task.layers import Layer
from gossip.task.parameters import trained
from gossip.task.ties import dense_stride, first_shared, owners
from gossip.wrapper.shards import copies, gradient_of, shard

_averaged: "WeakSet[Weights]" = WeakSet()
"""The weights of the wrappers that live."""


class Slot(NamedTuple):
    """One parameter and its place in a row."""

    name: str
    parameter: Tensor
    owner: str
    """Name of the parameter whose memory this one lies in; its own, if it is not tied."""
    row: int
    start: int
    stop: int
    stride: tuple[int, ...]

    @property
    def numbers(self) -> Tensor:
        """The parameter, or the shard of it that is here."""
        return shard(self.parameter)

    def part(self, rows: list[Tensor]) -> Tensor:
        """The view of `rows`, [1, d] each, that has this parameter's place and shape."""
        flat = rows[self.row][0, self.start : self.stop]
        return flat.as_strided(self.numbers.shape, self.stride)


class Weights:
    """The parameters of a module or of an optimizer, and their order in rows.

    They stay where they are. Those that need no gradient are left out; what lies in one piece of
    memory under several names is in a row once. A row is one message.

    Args:
        named: parameters by name.
        whose: what the messages to the user call their owner.

    Raises:
        UserError: there are none, of a kind that cannot be averaged, or averaged already.
    """

    def __init__(self, named: Mapping[str, Tensor], whose: str) -> None:
        chosen = trained(named, whose)
        self.whose = whose
        self.slots: dict[int, Slot] = {}
        """Id of a parameter -> its place in a row."""
        self.like: list[Tensor] = []
        """For each dtype and device a tensor like its row, [1, d], without the memory."""
        self._trained = chosen
        for slot in _laid_out(chosen):
            self.slots[id(slot.parameter)] = slot
        self.owners = {s.name: s for s in self.slots.values() if s.owner == s.name}
        """Slots that have all numbers, each once, by name."""
        for k in range(1 + max(slot.row for slot in self.owners.values())):
            members = [slot for slot in self.owners.values() if slot.row == k]
            one = members[0].numbers.detach().new_zeros(())
            self.like.append(one.expand(1, max(slot.stop for slot in members)))
        self.layers = [
            [_layer(slot) for slot in self.owners.values() if slot.row == k]
            for k in range(len(self.like))
        ]
        """Of each row, the columns of its parameters."""
        self._copies: dict[str, int] = {}
        """Name of an owner -> c, how many processes of the learner have its numbers, if some do."""
        self._addresses = self._where()
        self._kinds = {slot.name: _kind(slot.parameter) for slot in self.slots.values()}
        self.d = sum(slot.parameter.numel() for slot in self.owners.values())
        """Number of weights of the learner, also of those that other processes of it have."""
        self._refuse_averaged()

    def claim(self) -> None:
        """From now on a wrapper averages these, and no other may."""
        _averaged.add(self)

    @property
    def widths(self) -> list[int]:
        """Numbers of the parameters in each row."""
        return [layers[-1].stop for layers in self.layers]

    def widen(self, widths: Iterable[int]) -> None:
        """Give the rows places behind their numbers, which are 0: other shards have more."""
        self.like = [
            like[:, :1].expand(1, width) if like.numel() else like.new_zeros(()).expand(1, width)
            for like, width in zip(self.like, widths, strict=True)
        ]

    def count_once(self, processes: int) -> None:
        """Say how many processes a learner has, which may have copies of each other's weights."""
        counts = {name: copies(slot.parameter, processes) for name, slot in self.owners.items()}
        self._copies = counts if max(counts.values()) > 1 else {}

    def once(self, rows: list[Tensor]) -> list[Tensor]:
        r"""Such rows, over \sqrt{c} where c processes of the learner have a number; float64 then.

        Sums of their squares over the learner's processes are the whole learner's.
        """
        return self._scaled(rows, lambda c: 1 / sqrt(c))

    def of_once(self, rows: list[Tensor]) -> list[Tensor]:
        """The rows that `once` has made such."""
        return self._scaled(rows, sqrt)

    def _scaled(self, rows: list[Tensor], factor: Callable[[int], float]) -> list[Tensor]:
        if not self._copies:
            return rows
        rows = [row.to(torch.float64, copy=True) for row in rows]
        for name, slot in self.owners.items():
            rows[slot.row][:, slot.start : slot.stop] *= factor(self._copies[name])
        return rows

    def rows(self, new: Callable[[Tensor], Tensor] = torch.empty_like) -> list[Tensor]:
        """A copy, [1, d] for each dtype and device, in memory that is `new` for one like these."""
        rows = [new(like) for like in self.like]
        for row, width in zip(rows, self.widths, strict=True):
            row[:, width:] = 0
        torch._foreach_copy_([slot.part(rows) for slot in self.owners.values()], self._tensors())
        return rows

    def collect(self, rows: list[Tensor], optimizer: Optimizer) -> None:
        """Add the gradients of an optimizer's parameters, where there are some, to such rows.

        Of weights that are tied by their memory the sum, as the optimizer steps along each. Those
        of a fused one are divided by the scale that a GradScaler has left in them.
        """
        scale = getattr(optimizer, "grad_scale", None)
        for slot in self.of(p for group in optimizer.param_groups for p in group["params"]):
            if (gradient := slot.parameter.grad) is not None:
                gradient = gradient_of(slot.parameter, gradient.detach())
                slot.part(rows).add_(gradient if scale is None else gradient / scale)

    def put(self, rows: list[Tensor]) -> None:
        """Give the weights the numbers of such rows."""
        torch._foreach_copy_(self._tensors(), [slot.part(rows) for slot in self.owners.values()])

    def lend(self, rows: list[Tensor]) -> None:
        """As `put`, for a while: a graph that autograd has recorded stays valid.

        Copies in fewer bits that an autocast around it keeps of the weights are no longer theirs.
        """
        for slot in self.owners.values():
            slot.numbers.data.copy_(slot.part(rows))
        torch.clear_autocast_cache()

    def add(self, rows: list[Tensor], names: Collection[str]) -> None:
        """Add the numbers of such rows to some of the `owners`."""
        if slots := [self.owners[name] for name in names]:
            tensors = [slot.numbers.detach() for slot in slots]
            torch._foreach_add_(tensors, [slot.part(rows) for slot in slots])

    def _tensors(self) -> list[Tensor]:
        return [slot.numbers.detach() for slot in self.owners.values()]

    @property
    def ties(self) -> dict[str, str]:
        """The owner of each parameter that is tied, by name."""
        return {s.name: s.owner for s in self.slots.values() if s.owner != s.name}

    def of(self, parameters: Iterable[Tensor]) -> list[Slot]:
        """The slots of those of the parameters that are averaged here."""
        return [self.slots[id(p)] for p in parameters if id(p) in self.slots]

    def check(self, named: Iterable[tuple[str, Tensor]] = ()) -> None:
        """Look whether all parameters are of the kind they were, and all that are trained here.

        Args:
            named: what the module's parameters are now.

        Raises:
            UserError: some have been moved, converted, tied or added.
        """
        for slot in self.slots.values():
            if _kind(slot.parameter) != self._kinds[slot.name]:
                raise UserError(
                    f"parameter {slot.name!r} was moved or converted after wrapping (.to(), "
                    ".half()): wrap the module after that"
                )
        addresses = self._where()
        if addresses != self._addresses:  # by p.data = ..., as optimizers do that go back
            for slot, now in zip(self.slots.values(), _laid_out(self._trained), strict=True):
                if (slot.owner, slot.start) != (now.owner, now.start):
                    raise UserError(
                        f"parameter {slot.name!r} was tied to another, or untied, after wrapping: "
                        "wrap the module after that"
                    )
            self._addresses = addresses
        for name, parameter in named:
            if parameter.requires_grad and id(parameter) not in self.slots:
                raise UserError(
                    f"parameter {name!r} was added or unfrozen after wrapping, or put in place of "
                    "another (load_state_dict(assign=True)), and would not be averaged: wrap the "
                    "module when it is complete"
                )

    def _where(self) -> list[int]:
        return [slot.numbers.data_ptr() for slot in self.slots.values()]

    def _refuse_averaged(self) -> None:
        if self._averaged_elsewhere() is None:
            return
        gc.collect()  # a wrapper that nobody has any more may still be there
        if (found := self._averaged_elsewhere()) is not None:
            mine, other, whose = found
            raise UserError(
                f"parameter {mine!r} of {self.whose} is averaged already, as {other!r} of {whose} "
                "by another wrapper, and would be averaged twice: wrap one module that has both, "
                "or let go of the other wrapper first (del)"
            )

    def _averaged_elsewhere(self) -> tuple[str, str, str] | None:
        """Of the first that another wrapper has: its name here, there, and whose it is."""
        for other in list(_averaged):
            if (both := first_shared(self._owning(), other._owning())) is not None:
                return *both, other.whose
        return None

    def _owning(self) -> dict[str, Tensor]:
        return {name: slot.numbers for name, slot in self.owners.items()}


def _laid_out(trained: Mapping[str, Tensor]) -> list[Slot]:
    """A slot for each parameter, in their order: the same on all processes."""
    here = {name: shard(p) for name, p in trained.items()}
    holders = owners(here)
    kinds: dict[tuple[torch.dtype, torch.device], int] = {}
    stops: list[int] = []
    own: dict[str, Slot] = {}
    for name, p in here.items():
        if holders[name] != name:
            continue
        row = kinds.setdefault((p.dtype, p.device), len(kinds))
        if row == len(stops):
            stops.append(0)
        start, stops[row] = stops[row], stops[row] + p.numel()
        own[name] = Slot(name, trained[name], name, row, start, stops[row], dense_stride(p))
    slots = []
    for name, p in here.items():
        slot = own[holders[name]]
        if slot.name != name:
            whole = slot.numbers
            offset = (p.data_ptr() - whole.data_ptr()) // p.element_size()
            # What has gaps is tied only to what has the same.
            stride = p.stride() if whole.stride() == slot.stride else slot.stride
            slot = slot._replace(
                name=name, parameter=trained[name], start=slot.start + offset, stride=stride
            )
        slots.append(slot)
    return slots


def _layer(slot: Slot) -> Layer:
    """A parameter whose numbers are not in the order of its shape is one dimension of them."""
    whole = slot.numbers.shape
    in_order = torch.empty(whole, device="meta").stride() == slot.stride
    shape = whole if in_order else torch.Size([slot.stop - slot.start])
    return Layer(slot.name, slot.start, slot.stop, shape)


def _kind(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return tensor.shape, tensor.dtype, tensor.device
