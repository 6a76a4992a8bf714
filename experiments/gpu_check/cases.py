"""The cases of the equality battery, the most telling first, as time may run out."""

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import topologies

CONSTANT = ("ring", "complete", "exponential")
"""Topologies that are tried although W is the same at every step."""
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
MIXES, MEANS, STEPS, SPLIT = "mixes", "means", "steps", "split"
STREAMING, IN_ROUNDS = "streaming-diloco", ("every=4", "fragments=2", "delay=1")
"""A method whose averages travel behind a gradient, and its options."""
FULLY, TENSORS = "fully", "tensors"
"""How a learner is split: `fully_shard`, each process with a part of the batch; or
`parallelize_module`, each with all of it."""
SPLITS = (1, FULLY), (2, FULLY), (2, TENSORS)
"""Processes of a learner, and how it is split among them."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A computation whose result is to be equal in several processes and in one."""

    what: str
    """MIXES of random rows, MEANS of them that travel meanwhile, STEPS of training, or those of the
    wrapper where learners are SPLIT among processes."""
    dtype: str
    topology: str
    algorithm: str = "-"
    order: str = "-"
    overlap: bool = True
    """Whether a mix is under way while something else is computed."""
    graphs: bool = False
    """Whether the processes' gradients are CUDA graphs; the one process's never are."""
    each: int = 0
    """Processes of a learner that is split; 0: processes have learners."""
    split: str = "-"
    """How it is: FULLY or by TENSORS."""


def cases(n: int, names: tuple[str, ...], *, graphs: bool, processes: int = 1) -> list[Case]:
    """All cases for n learners.

    Args:
        n: learners.
        names: of the topologies; none: those of `tried`.
        graphs: whether there can be CUDA graphs.
        processes: that learners may be split among.
    """
    names = names or tried(n)
    return [
        case
        for overlap in (True, False)
        for dtype in TOLERANCES
        for case in _of_kind(names, dtype, overlap, graphs and overlap, processes)
    ]


def tried(n: int) -> tuple[str, ...]:
    """Every topology for n learners that is not the same at every step, and CONSTANT."""
    found = []
    for name in topologies.TOPOLOGIES:
        with contextlib.suppress(topologies.TopologyError), warnings.catch_warnings():
            warnings.simplefilter("ignore", topologies.TopologyWarning)
            if name in CONSTANT or topologies.build(name, n).period != 1:
                found.append(name)
    return tuple(found)


def _of_kind(
    names: tuple[str, ...], dtype: str, overlap: bool, graphs: bool, processes: int
) -> Iterator[Case]:
    steps = {"what": STEPS, "dtype": dtype, "overlap": overlap}
    yield Case(**steps, topology=names[0], algorithm="ssgd")
    yield Case(what=MEANS, dtype=dtype, topology=names[0], overlap=overlap)
    yield Case(**steps, topology=names[0], algorithm=STREAMING)
    for each, split in SPLITS if overlap and processes % 2 == 0 else ():
        for order in ("awc", "atc"):
            topology = "one-peer-exponential"
            how = {"algorithm": "dpsgd", "order": order, "each": each, "split": split}
            yield Case(what=SPLIT, dtype=dtype, topology=topology, **how)
    if graphs:
        yield Case(**steps, topology=names[0], algorithm="dpsgd", order="awc", graphs=True)
    for name in names:
        yield Case(what=MIXES, dtype=dtype, topology=name, overlap=overlap)
        for order in ("awc", "atc"):
            yield Case(**steps, topology=name, algorithm="dpsgd", order=order)
