"""Graphs and matrices from files. Files are untrusted: nothing in them is executed.

A file says nothing that is believed before it is compared with its own size and with n.
"""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse

from topologies.topology import TopologyError

LARGEST_BYTES = 2**30
"""Files (unpacked) larger than this are refused."""


def read(path: Path) -> Any:
    """The graph, matrix [n, n] or sequence of matrices [period, n, n] in a file.

    .edgelist and .txt: one edge per line, 'a b' or 'a b weight', # starts a comment; attributes
    {...} after an edge, as networkx writes them, are ignored. .graphml. .json: node-link.
    .npy; .npz: scipy sparse, or the first dense array. .csv: rows of W.

    Raises:
        TopologyError: the file is missing, too large, of an unknown kind or malformed.
    """
    if not path.is_file():
        raise TopologyError(f"{path}: there is no such file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise TopologyError(
            f"{path}: unknown kind of file {path.suffix!r}: use one of {', '.join(READERS)}"
        )
    _refuse_large(path, path.stat().st_size)
    try:
        return reader(path)
    except TopologyError:
        raise
    # Parsers of foreign files raise whatever they meet first; the user needs one sentence.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TopologyError(
            f"{path}: not a valid {path.suffix} file ({reason}): write it anew"
        ) from error


def _edge_list(path: Path) -> nx.Graph:
    graph = nx.Graph()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0]
        if not text.strip():
            continue
        fields = text.partition("{")[0].replace(",", " ").split()
        if len(fields) not in (2, 3):
            raise TopologyError(
                f"{path}: line {number} has {len(fields)} fields: an edge is 'a b' or 'a b weight'"
            )
        graph.add_edge(fields[0], fields[1], weight=float(fields[2]) if fields[2:] else 1.0)
    return graph


def _graphml(path: Path) -> nx.Graph:
    if b"<!DOCTYPE" in path.read_bytes().upper():
        raise TopologyError(f"{path}: a GraphML file needs no DOCTYPE, and it may not have one")
    return _simple(nx.read_graphml(path))


def _node_link(path: Path) -> nx.Graph:
    data = json.loads(path.read_text(encoding="utf-8"))
    return _simple(nx.node_link_graph(data, edges="edges" if "edges" in data else "links"))


def _simple(graph: nx.Graph) -> nx.Graph:
    """Parallel edges as one; a directed graph stays so, to be refused by name."""
    return graph if graph.is_directed() or not graph.is_multigraph() else nx.Graph(graph)


def _npy(path: Path) -> np.ndarray:
    # A map is made only if the file is as long as its header says.
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False), dtype=np.float64)


def _npz(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        _refuse_large(path, sum(member.file_size for member in archive.infolist()))
    with np.load(path, allow_pickle=False) as arrays:
        if "format" not in arrays:
            return np.asarray(arrays[arrays.files[0]], dtype=np.float64)
        rows, columns = (int(size) for size in arrays["shape"])
        # An index pointer of a large empty matrix costs memory that the file has never had.
        if rows != columns or 8 * rows > LARGEST_BYTES:
            raise TopologyError(
                f"{path}: a mixing matrix is square, [n, n], got {rows} x {columns}"
            )
    matrix = sparse.load_npz(path)
    if matrix.format not in ("csr", "csc", "coo"):
        raise TopologyError(f"{path}: sparse format {matrix.format!r}: save it as csr, csc or coo")
    if matrix.format != "coo":
        matrix.check_format(full_check=True)
    return matrix


def _csv(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64)


def _refuse_large(path: Path, num_bytes: int) -> None:
    if num_bytes > LARGEST_BYTES:
        raise TopologyError(
            f"{path}: {num_bytes / 2**30:.1f} GiB, at most {LARGEST_BYTES // 2**30} GiB is read: "
            "give a graph or a sparse matrix"
        )


READERS: dict[str, Callable[[Path], Any]] = {
    ".edgelist": _edge_list,
    ".txt": _edge_list,
    ".graphml": _graphml,
    ".json": _node_link,
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
}
"""Reader of each kind of file, by its suffix."""
