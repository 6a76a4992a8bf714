"""Options of a wrapper, checked and the same on all processes."""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from numbers import Real
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import issparse
from torch import Tensor, nn

import topologies
from gossip.comm.base import Communicator
from gossip.comm.startup.together import agree
from gossip.compress import Operator
from gossip.compress import wire as operator_of_wire
from gossip.errors import UserError, suggestion


def topology_for(
    topology: Any,
    n: int,
    options: Mapping[str, Any] | None,
    weights: str | None,
    seed: int,
    *,
    directed: bool = False,
) -> topologies.Topology:
    """The topology of that name for n learners, or of the graph or matrix given.

    Args:
        topology: a name, file or module:function as `topologies.build` takes it; a `Topology`; or
            a matrix [n, n], a graph, or a list of them.
        n: number of learners.
        options: of the topology's function.
        weights: the rule that makes W of a graph; None: the topology's own.
        seed: for a topology that draws random numbers; no other looks at it.
        directed: whether it may be one that keeps no mean.

    Raises:
        UserError: there is none for so many learners, or of this kind.
    """
    if not isinstance(options or {}, Mapping):
        raise UserError(f'topology_options={options!r}: give a dictionary, such as {{"k": 3}}')
    if not (isinstance(weights, str) or weights is None):
        raise UserError(f"weights={weights!r}: give the name of a rule, or None")
    if not isinstance(seed, int):
        raise UserError(f"seed={seed!r}: give a whole number")
    given = dict(options or {}) | ({"weights": weights} if weights else {})
    if isinstance(topology, os.PathLike):
        topology = os.fspath(topology)
    try:
        if isinstance(topology, str):
            builder = topologies.TOPOLOGIES.get(topology)
            if builder is not None and "seed" in inspect.signature(builder).parameters:
                given.setdefault("seed", seed)
            made = topologies.build(topology, n, **given)
        else:
            made = _made(topology, given)
    except topologies.TopologyError as error:
        raise UserError(str(error)) from error
    if made.preserves_mean == "never" and not directed:
        raise UserError(
            f"topology {made.name} keeps no mean, its columns do not sum to 1: give one that is "
            'doubly stochastic; Gossip has algorithm="sgp" for such graphs'
        )
    if made.n != n:
        raise UserError(f"topology {made.name} has {made.n} learners, but there are {n}")
    return made


def _made(topology: Any, given: dict[str, Any]) -> topologies.Topology:
    """The topology of what is no name.

    Raises:
        TopologyError: it is nothing of which there is one.
        UserError: the same.
    """
    if isinstance(topology, topologies.Topology):
        if given:
            raise UserError(f"topology {topology.name} is made already: no options or weights")
        return topology
    if isinstance(topology, Tensor):
        topology = topology.detach().cpu().numpy()
    is_graph, is_list = isinstance(topology, nx.Graph), isinstance(topology, list | tuple)
    if not (is_graph or is_list or issparse(topology) or isinstance(topology, np.ndarray)):
        raise UserError(
            f"topology={topology!r} is a {type(topology).__name__}: give a name, a file, a "
            "Topology, a mixing matrix, a networkx graph, or a list of matrices or graphs"
        )
    if is_list and topology and all(_is_row(row) for row in topology):
        topology = np.array(topology)
    return topologies.check(topologies.topology_of("given", topology, **given))


def _is_row(given: Any) -> bool:
    """Whether it is a row of a matrix, a list of numbers."""
    return isinstance(given, list | tuple) and all(isinstance(x, Real) for x in given)


def by_name(parameters: Any) -> dict[str, Tensor]:
    """Parameters by name, as optimizers take them; one that is there twice is taken once.

    Args:
        parameters: tensors, pairs of names and tensors, or groups {"params": of these}.

    Raises:
        UserError: they are something else.
    """
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in _pairs(parameters):
        found.setdefault(id(tensor), (name or f"number {len(found)}", tensor))
    named = dict(found.values())
    if len(named) < len(found):
        names = [name for name, _ in found.values()]
        twice = next(name for name in named if names.count(name) > 1)
        raise UserError(f"two parameters have the name {twice!r}: give each its own")
    return named


def _pairs(parameters: Any) -> Iterator[tuple[str, Tensor]]:
    kind = type(parameters).__name__
    if isinstance(parameters, Mapping) and "params" not in parameters:
        parameters = parameters.items()
    elif isinstance(parameters, Mapping):
        inner = parameters["params"]
        parameters = [inner] if isinstance(inner, Tensor) else inner
    if isinstance(parameters, str | Tensor | nn.Module) or not isinstance(parameters, Iterable):
        raise UserError(
            f"an Averager of a {kind}: give a list or generator of parameters, such as "
            "model.parameters() or optimizer.param_groups"
        )
    for each in parameters:
        match each:
            case Tensor():
                yield "", each
            case (str(name), Tensor() as tensor):
                yield name, tensor
            case {"params": _}:
                yield from _pairs(each)
            case _:
                raise UserError(
                    f"an Averager of a {type(each).__name__} among its parameters: give tensors, "
                    "pairs of a name and a tensor, or groups {'params': ...} of these"
                )


def check_mix_every(mix_every: int) -> None:
    """Raises UserError for anything but 1, 2, 3, ..."""
    if not isinstance(mix_every, int) or isinstance(mix_every, bool) or mix_every < 1:
        raise UserError(f"mix_every={mix_every!r}: give 1 for every step, 2 for every other, ...")


def check_alone(algorithm: str, *, order: str, mix_every: int) -> None:
    """Raises UserError for options of dpsgd beside another algorithm."""
    if order != "awc" or mix_every != 1:
        raise UserError(
            f"order={order!r}, mix_every={mix_every}: they are dpsgd's; algorithm {algorithm} "
            "has its own order, and every= if it has rounds"
        )


def packing_of(wire: Any) -> Operator | None:
    """As what weights travel; None: as they are.

    Raises:
        UserError: there is no such operator, or it leaves out too much.
    """
    if wire == "full":
        return None
    if not isinstance(wire, str):
        raise UserError(f'wire={wire!r}: give a name, such as "int8"')
    return operator_of_wire(wire)


def unknown_option(options: Iterable[str], wrapper: Callable[..., object]) -> str:
    """What to say of options that neither the wrapper nor dpsgd has."""
    name = next(iter(options))
    parameters = inspect.signature(wrapper).parameters.values()
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return (
        f"Gossip has no option {name!r}{suggestion(name, known)}; those of a method need it beside "
        'them, as algorithm="diloco"'
    )


def check_link(backend: str, timeout: float) -> None:
    """Raises UserError for no name of a backend, and a negative number of seconds."""
    if not isinstance(backend, str):
        raise UserError(f'backend={backend!r}: give a name, such as "auto"')
    if not isinstance(timeout, Real) or not timeout >= 0:
        raise UserError(f"timeout={timeout!r}: give seconds, or 0 for never")


def agree_on_call(comm: Communicator, call: str) -> None:
    """Check that all learners are in the same call. Collective.

    Args:
        comm: the communicator.
        call: such as "average() at step 8".

    Raises:
        UserError: they are not; the same text on every process.
    """
    try:
        agree(comm, {"call": call})
    except UserError as error:
        raise UserError(
            f"{error}; all make the same calls, and as many steps: where one leaves a batch out, "
            "skip_step() takes the place of optimizer.step()"
        ) from None


def agree_on_options(comm: Communicator, topology: topologies.Topology, **others: object) -> None:
    """Check that all learners mean the same averaging. Collective.

    Raises:
        UserError: they do not; the same text on every process.
    """
    w = topology.matrix(0)  # two random topologies of one name differ by their seeds
    digest = sha256(b"".join(part.tobytes() for part in (w.indptr, w.indices, w.data)))
    facts = {"topology": topology.name, "period": topology.period, "W(0)": digest.hexdigest()[:12]}
    agree(comm, {name: str(value) for name, value in (facts | others).items()})
