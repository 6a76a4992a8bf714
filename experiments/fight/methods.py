"""What is compared: SSGD, and DPSGD on four graphs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """An algorithm on a graph; all have the same data, start and mini-batches."""

    label: str
    algorithm: str
    topology: str


SSGD, COMPLETE = "ssgd", "complete"
METHODS = {
    SSGD: Method("SSGD", "ssgd", "complete"),
    COMPLETE: Method("DPSGD with W = 11ᵀ/n", "dpsgd", "complete"),
    "ring": Method("DPSGD on a ring", "dpsgd", "ring"),
    "one-peer": Method("DPSGD with one peer", "dpsgd", "one-peer-exponential"),
    "matching": Method("DPSGD with a random neighbour", "dpsgd", "matching"),
}
GRAPHS = tuple(name for name in METHODS if name != SSGD)
