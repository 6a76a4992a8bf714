"""A process's communicator, one for all wrappers of a script."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from torch import Tensor

from gossip.comm.base import Communicator
from gossip.comm.connect import connect
from gossip.comm.shutdown.position import Position
from gossip.comm.startup.environment import check_facts
from gossip.comm.startup.launchers import launched
from gossip.wrapper import guard


class Connection(NamedTuple):
    """The communicator, with one learner in each process, and where this process is."""

    comm: Communicator
    position: Position


@cache
def connected(backend: str, timeout: float, device: str) -> Connection:
    """The link over a backend, made at the first call. Collective.

    Args:
        backend: one of `gossip.comm.connect.BACKENDS`.
        timeout: seconds that a process may wait for others; 0: for ever.
        device: where the weights are, such as "cpu" or "cuda:1".

    Raises:
        UserError: the backend does not fit how this process was started.
    """
    check_facts()
    guard.install()  # again: the script may have started torch.distributed meanwhile
    how = launched()
    comm = connect(backend, how.size if how else 1, device)
    link = Connection(comm, Position())
    guard.join(comm, link.position, timeout)
    return link


def device_of(parameters: Iterable[Tensor]) -> str:
    """Where the first of them is that is not on the CPU; "cpu" if all are."""
    devices = (parameter.device for parameter in parameters)
    return next((str(device) for device in devices if device.type != "cpu"), "cpu")
