"""Graphs, mixing matrices, schedules and spectra for decentralised averaging; usable alone."""

from topologies.certificate import Certificate, certificate
from topologies.check import check
from topologies.custom import from_graph, from_matrices, topology_of
from topologies.table import TOPOLOGIES, build
from topologies.topology import Topology, TopologyError, TopologyWarning
from topologies.weights import WEIGHTS

__all__ = [
    "TOPOLOGIES",
    "WEIGHTS",
    "Certificate",
    "Topology",
    "TopologyError",
    "TopologyWarning",
    "build",
    "certificate",
    "check",
    "from_graph",
    "from_matrices",
    "topology_of",
]
