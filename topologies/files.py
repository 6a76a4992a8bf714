"""Graphs and matrices from files. Files are untrusted: nothing in them is executed.

A file says nothing that is believed before it is compared with its own size and with n.
"""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import arrays
from topologies.rounding import Rounded, place_of_text, place_of_type
from topologies.texts import decoded, table_lines
from topologies.topology import TopologyError

LARGEST_BYTES = 2**30
"""Matrices (unpacked, in float64) larger than this are refused."""
LARGEST_TEXT_BYTES = 2**26
"""So are texts larger than this: as Python's objects they take up to 20 times the memory."""
MOST_LEARNERS = 2**20
"""A file of more is refused: a sparse matrix needs no bytes for its empty rows, W does."""
MOST_MATRICES = 2**14
"""Length of a sequence of matrices; each costs a kilobyte however small it is."""
MOST_ELEMENTS = 2**22
"""Elements and attributes of a GraphML file, lines of an edge list; half as many JSON objects."""


def read(path: Path) -> nx.Graph | Rounded:
    """The graph, matrix [n, n] or sequence of matrices [period, n, n] in a file.

    .edgelist and .txt: one edge per line, 'a b' or 'a b weight', # starts a comment; attributes
    {...} after an edge, as networkx writes them, are ignored. .graphml. .json: node-link.
    .npy; .npz: scipy sparse, or the first dense array. .csv: rows of W, # starts a comment. Texts
    are UTF-8, with or without a byte order mark (GraphML: as its XML declares).

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
    _refuse_large(path, path.stat().st_size, LARGEST_BYTES if reader in (_npy, _npz) else None)
    try:
        made = reader(path)
    except TopologyError:
        raise
    except arrays.TooLargeError as error:
        raise _too_large(path, f"more ({error})", "that") from error
    # Parsers of foreign files raise whatever they meet first; the user needs one sentence.
    except Exception as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise TopologyError(
            f"{path}: not a valid {path.suffix} file ({reason}): write it anew"
        ) from error
    _refuse_many(path, made)
    return made


def _edge_list(path: Path) -> nx.Graph:
    graph = nx.Graph()
    for number, line in enumerate(io.StringIO(decoded(path.read_bytes())), start=1):
        text = line.partition("#")[0]
        if not text.strip():
            continue
        fields = text.partition("{")[0].replace(",", " ").split()
        if len(fields) not in (2, 3):
            raise TopologyError(
                f"{path}: line {number} has {len(fields)} fields: an edge is 'a b' or 'a b weight'"
            )
        graph.add_edge(fields[0], fields[1], weight=float(fields[2]) if fields[2:] else 1.0)
        if len(graph) > MOST_LEARNERS or number > MOST_ELEMENTS:
            raise _too_large(path, "more learners or lines", f"{MOST_LEARNERS} learners")
    return graph


def _graphml(path: Path) -> nx.Graph:
    data = path.read_bytes()
    _refuse_doctype(path, data)
    return _simple(nx.read_graphml(io.BytesIO(data)))


def _refuse_doctype(path: Path, data: bytes) -> None:
    """Refuse what may unpack to more than it is: entities, declared in any encoding of XML."""
    seen = 0

    def refuse(*_: Any) -> None:
        raise TopologyError(f"{path}: a GraphML file needs no DOCTYPE, and it may not have one")

    def count(_: str, attributes: dict[str, str]) -> None:
        nonlocal seen
        seen += 1 + len(attributes)
        if seen > MOST_ELEMENTS:
            raise _too_large(path, "more elements", MOST_ELEMENTS)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = count
    parser.Parse(data, True)


def _node_link(path: Path) -> nx.Graph:
    text = decoded(path.read_bytes())
    if text.count("{") + text.count("[") > MOST_ELEMENTS // 2:
        raise _too_large(path, "more objects and lists", MOST_ELEMENTS // 2)
    data = json.loads(text)
    return _simple(nx.node_link_graph(data, edges="edges" if "edges" in data else "links"))


def _simple(graph: nx.Graph) -> nx.Graph:
    """Parallel edges as one; a directed graph stays so, to be refused by name."""
    return graph if graph.is_directed() or not graph.is_multigraph() else nx.Graph(graph)


def _npy(path: Path) -> Rounded:
    return _numbers(path, arrays.map_npy(path))


def _npz(path: Path) -> Rounded:
    found = arrays.read_npz(path, LARGEST_BYTES)
    if "format" not in found:
        return _numbers(path, next(iter(found.values())))
    kind = found["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    if kind not in ("csr", "csc", "coo"):
        raise TopologyError(f"{path}: sparse format {kind!r}: save it as csr, csc or coo")
    rows, columns = (int(size) for size in found["shape"].tolist())
    # An index pointer of a large empty matrix costs memory that the file has never had.
    if rows != columns or not 0 < rows <= MOST_LEARNERS:
        raise TopologyError(f"{path}: a mixing matrix is square, [n, n], got {rows} x {columns}")
    values, place = _numbers(path, found["data"])
    if kind == "coo":
        coo = sparse.coo_array((values, (found["row"], found["col"])), shape=(rows, columns))
        return Rounded(coo, place)
    make = {"csr": sparse.csr_array, "csc": sparse.csc_array}[kind]
    matrix = make((values, found["indices"], found["indptr"]), shape=(rows, columns))
    matrix.check_format(full_check=True)
    return Rounded(matrix, place)


def _numbers(path: Path, array: np.ndarray) -> Rounded:
    """A copy of an array of real numbers as float64."""
    if array.dtype.kind not in "fiub":
        raise TypeError(f"it holds {array.dtype.name}, not numbers")
    _refuse_large(path, 8 * array.size, LARGEST_BYTES)
    return Rounded(np.array(array, dtype=np.float64), place_of_type(array.dtype))


def _csv(path: Path) -> Rounded:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a file without numbers
        lines = table_lines(decoded(path.read_bytes()))
        values = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, dtype=np.float64)
    return Rounded(values, place_of_text(lines))


def _refuse_large(path: Path, num_bytes: int, largest: int | None) -> None:
    largest = LARGEST_TEXT_BYTES if largest is None else largest
    if num_bytes > largest:
        raise _too_large(path, f"{num_bytes / 2**20:.0f} MiB", f"{largest / 2**20:g} MiB")


def _refuse_many(path: Path, made: nx.Graph | Rounded) -> None:
    if isinstance(made, nx.Graph):
        learners = len(made)
    else:
        shape = made.values.shape
        learners = max(shape[-2:], default=1)
        if len(shape) == 3 and shape[0] > MOST_MATRICES:
            raise _too_large(path, f"{shape[0]} matrices", MOST_MATRICES)
    if learners > MOST_LEARNERS:
        raise _too_large(path, f"{learners} learners", MOST_LEARNERS)


def _too_large(path: Path, has: str, most: object) -> TopologyError:
    return TopologyError(
        f"{path}: it has {has}, at most {most} is read: give a graph or a sparse matrix"
    )


READERS: dict[str, Callable[[Path], nx.Graph | Rounded]] = {
    ".edgelist": _edge_list,
    ".txt": _edge_list,
    ".graphml": _graphml,
    ".json": _node_link,
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
}
"""Reader of each kind of file, by its suffix."""
