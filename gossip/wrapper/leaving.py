"""The end of a process's steps: with the process, or before it, where that lives on."""

import atexit
from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary, ref

from gossip.wrapper import guard


class Steps(Protocol):
    """The steps of a wrapper."""

    def leave(self) -> None:
        """There are no more."""


_numbers = count()
_living = WeakValueDictionary[int, Steps]()
"""Those of the wrappers that live, in the order in which they were made."""


def expect(steps: Steps) -> None:
    """They are left when the process ends, or `leave` is called."""
    _living[next(_numbers)] = steps
    atexit.register(_leave_if_alive, ref(steps))


def leave() -> None:
    """Say that this process takes no more steps, where it lives on: in a worker of Ray, a notebook.

    At the end of training, on every process. The end of a script says it by itself; where a process
    that has not said it is killed, the others are told that a learner has died. A step after it,
    on every process again, takes it back.
    """
    for steps in reversed([*_living.values()]):  # as at the end of a process
        steps.leave()
    guard.leave()


def _leave_if_alive(alive: ref[Steps]) -> None:
    if (steps := alive()) is not None:
        steps.leave()
