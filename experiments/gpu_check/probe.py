"""One mean and one mix show whether a number of processes can use this machine's GPUs."""

import sys

import torch

import topologies
from experiments.gpu_check.job import Job, main_across
from gossip.comm.base import Communicator
from gossip.errors import UserError
from gossip.task.device import place


def meet(job: Job, comm: Communicator) -> None:
    """Average the learners' numbers, and mix equal rows.

    Raises:
        UserError: what arrives is not what was sent.
    """
    device = place(job.device)
    number = torch.arange(comm.hosted.start, comm.hosted.stop, device=device).double()
    mean = comm.mean(number.unsqueeze(1)).item()
    ones = torch.ones(len(comm.hosted), 8, dtype=torch.float64, device=device)
    mixed = comm.start_mix(ones, topologies.build("ring", comm.n).matrix(0))()
    right = mean == (comm.n - 1) / 2 and torch.allclose(mixed, ones)
    if not all(comm.share(right)):
        raise UserError(
            f"backend {job.backend!r} gives wrong sums here: the mean of 0 to n - 1 "
            f"is {mean}, with n={comm.n}"
        )


if __name__ == "__main__":
    sys.exit(main_across(meet))
