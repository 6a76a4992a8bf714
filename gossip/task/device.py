"""The device of this process: CPU, or one of the GPUs of its host."""

import torch

from gossip.comm.startup.launchers import launched
from gossip.errors import UserError
from gossip.task.numerics import CPU


def place(name: str) -> torch.device:
    """The device of this process: one of the host's GPUs, dealt by the rank on the host.

    There may be more processes than GPUs; whether they can then reach each other is a matter of
    the transport.

    Args:
        name: one of `DEVICES`.

    Raises:
        UserError: cuda is asked for, and torch sees no GPU.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError(f"device=cuda: {gpus_seen()}; use --device cpu, or auto")
    if name == "cpu" or not available:
        return CPU
    how = launched()
    rank = 0 if how is None else how.rank if how.local_rank is None else how.local_rank
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def gpus_seen() -> str:
    """What torch says of GPUs, where it can use none."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return (
        f"torch {torch.__version__} (CUDA {torch.version.cuda}) sees "
        f"{torch.cuda.device_count()} GPUs that it can use"
    )
