"""What is made from a mixing matrix once rather than once per step."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from scipy.sparse import csr_array

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Remembers build(w) for the last few matrices, told apart by identity.

    A periodic topology gives the same object for the same t mod period, so its plans are made
    once; a random one gives a new matrix each step and its old plans fall out.
    """

    def __init__(self, build: Callable[[csr_array], T], size: int = 64) -> None:
        self._build = build
        self._size = size
        self._kept: OrderedDict[int, tuple[csr_array, T]] = OrderedDict()

    def __call__(self, w: csr_array) -> T:
        """build(w), or what it gave the last time."""
        kept = self._kept.get(id(w))
        if kept is not None and kept[0] is w:
            return kept[1]
        plan = self._build(w)
        self._kept[id(w)] = (w, plan)  # holding w keeps its id from being given away
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return plan
