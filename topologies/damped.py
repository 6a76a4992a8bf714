"""Any topology with less weight on the neighbours."""

from dataclasses import replace

from scipy.sparse import csr_array

from topologies.matrices import canonical, identity
from topologies.topology import Topology


def blend(w: csr_array, weight: float) -> csr_array:
    """(1 - weight) I + weight W: an eigenvalue lambda becomes 1 - weight (1 - lambda)."""
    return canonical(csr_array((1 - weight) * identity(w.shape[0]) + weight * w))


def damped(topology: Topology, weight: float) -> Topology:
    """The topology with `blend(W(t), weight)`; itself for weight 1."""
    if weight == 1:
        return topology
    return replace(
        topology,
        mixing=lambda t: blend(topology.matrix(t), weight),
        expected_contraction=None,
    )
