"""Several rows of a learner in one message."""

from collections.abc import Callable, Sequence

import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator


def start_mix_together(
    comm: Communicator, parts: Sequence[Tensor], w: csr_array
) -> Callable[[], tuple[Tensor, ...]]:
    """Start W X for each of the parts [local, d_i]; the returned call waits and gives them all.

    One message along each edge instead of one for each part.
    """
    pending = comm.start_mix(torch.cat(tuple(parts), dim=1), w)
    sizes = [part.shape[1] for part in parts]

    def wait() -> tuple[Tensor, ...]:
        return tuple(part.contiguous() for part in pending().split(sizes, dim=1))

    return wait
