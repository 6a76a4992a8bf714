"""A small graph in every format that a user may bring."""

import json

import networkx as nx
import numpy as np
from scipy import sparse

import topologies

KITE = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])
W = topologies.from_graph(KITE).matrix(0)


def save_edges(path):
    lines = ["# a kite", *(f"{i} {j}" for i, j in list(KITE.edges)[::-1]), ""]
    path.write_text("\n".join(lines))


FORMATS = {
    "kite.edgelist": save_edges,
    "kite.txt": lambda path: path.write_text("0,1,0.5\n1,2\n2 0 3\n2 3 # tail\n3 4\n"),
    "networkx.edgelist": lambda path: nx.write_edgelist(KITE, path),
    "commas.txt": lambda path: nx.write_edgelist(KITE, path, delimiter=","),
    "weighted.edgelist": lambda path: nx.write_edgelist(
        nx.Graph((i, j, {"weight": 2.0, "colour": "#f00"}) for i, j in KITE.edges), path
    ),
    "kite.graphml": lambda path: nx.write_graphml(KITE, path),
    "kite.json": lambda path: path.write_text(json.dumps(nx.node_link_data(KITE, edges="edges"))),
    "links.json": lambda path: path.write_text(json.dumps(nx.node_link_data(KITE, edges="links"))),
    "kite.npy": lambda path: np.save(path, W.toarray()),
    "kite.npz": lambda path: sparse.save_npz(path, W),
    "coo.npz": lambda path: sparse.save_npz(path, W.tocoo()),
    "dense.npz": lambda path: np.savez(path, W.toarray()),
    "kite.csv": lambda path: np.savetxt(path, W.toarray(), delimiter=",", fmt="%.17g"),
}
