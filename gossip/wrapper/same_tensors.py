"""Check at the start that all learners have the same tensors, with the same values in them."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.comm.startup.together import agree
from gossip.errors import UserError
from gossip.task.parameters import MIXABLE
from gossip.task.ties import distinct
from gossip.wrapper.kinds import described
from gossip.wrapper.mesh import Meshed, longest
from gossip.wrapper.shards import copies
from gossip.wrapper.weights import Weights


def agree_on_tensors(
    comm: Communicator, named: Mapping[str, Tensor], ties: Mapping[str, str]
) -> None:
    """Check that all processes have tensors of the same names, shapes and dtypes. Collective.

    Args:
        comm: the communicator.
        named: the tensors.
        ties: of each that lies in the memory of another one, that one's name.

    Raises:
        UserError: they do not; of the first that differs, what it is on which process. The same
            text on every process.
    """
    tied = {name: f" tied to {other}" for name, other in ties.items()}
    mine = [(name, described(t) + tied.get(name, "")) for name, t in named.items()]
    told = comm.share(mine)
    for k in range(max(map(len, told))):
        if len({tuple(each[k : k + 1]) for each in told}) > 1:
            agree(comm, dict(mine[k : k + 1]))


def agree_on_copies(comm: Meshed, weights: Weights) -> None:
    """Check that all processes of a learner have the same numbers of what is not split. Collective.

    To the root of the rounding: sums on GPUs are not the same bit for bit.

    Raises:
        UserError: they have not; of the first, on all processes.
    """
    whole = [s for s in weights.owners.values() if copies(s.parameter, comm.each) == comm.each > 1]
    if not whole:
        return
    told = torch.tensor(
        comm.share([_told_of(slot.numbers) for slot in whole]), dtype=torch.float64
    ).nan_to_num()
    allowed = torch.tensor([torch.finfo(slot.parameter.dtype).eps ** 0.5 for slot in whole])
    for j in range(comm.n):
        values, norms = comm.of_learner(j, told).unbind(dim=2)
        differing = ((values - values[0]).abs() > allowed * norms[0]).any(dim=0)
        if differing.any():
            name = whole[int(differing.int().argmax())].name
            raise UserError(
                f"parameter {name!r} is not split, and the processes of learner {j} have come to "
                "different values of it: give all of them the same batches, and where each "
                "computes a part of its gradient let them add it up (SequenceParallel in "
                "parallelize_module does), or split the module by fully_shard"
            )


def _told_of(numbers: Tensor) -> tuple[float, float]:
    """Their product with a vector that singles out no direction, and their norm."""
    flat = numbers.detach().reshape(-1).cpu().double()
    return float(flat @ torch.arange(len(flat), dtype=torch.float64).cos()), float(flat.norm())


def broadcast(comm: Communicator, tensors: Iterable[Tensor]) -> None:
    """Give all learners the numbers of learner 0, exactly, whatever their dtype. Collective.

    As a mixing step with W_j0 = 1 and 0 elsewhere. What cannot be mixed goes as bytes, each of
    them a float. Shards may have different sizes: they travel as the largest.
    """
    w = csr_array(np.eye(1, comm.n).repeat(comm.n, axis=0))
    tensors = [distinct(tensor) for tensor in tensors]
    widths = longest(comm, (tensor.numel() for tensor in tensors))
    for tensor, width in zip(tensors, widths, strict=True):
        if not width:
            continue
        flat = tensor.detach().reshape(-1)
        numbers = flat if flat.dtype in MIXABLE else flat.view(torch.uint8).float()
        row = numbers.new_zeros(1, width * (1 if numbers is flat else flat.element_size()))
        # What the others have may be infinite (masks), and 0 times that is not a number.
        if comm.process == 0:
            row[0, : len(numbers)] = numbers
        first = comm.start_mix(row, w)()[0, : len(numbers)]
        if flat.dtype not in MIXABLE:
            first = first.to(torch.uint8).view(flat.dtype)
        tensor.detach().copy_(first.view(tensor.shape))


def refuse_quantised(named: Mapping[str, Tensor]) -> None:
    """Refuse what has no bytes that could be sent.

    Raises:
        UserError: a tensor is quantised or sparse.
    """
    for name, tensor in named.items():
        if tensor.is_quantized or tensor.layout != torch.strided:
            kind = tensor.dtype if tensor.is_quantized else tensor.layout
            raise UserError(
                f"{name!r} is {str(kind).removeprefix('torch.')}, which cannot be sent to the "
                "other learners: wrap the module before it is converted"
            )
