"""Start order of the messages of a mixing matrix: an edge colouring, so no two wait crosswise."""

from typing import NamedTuple

from scipy.sparse import csr_array


class Edge(NamedTuple):
    """Messages from one process to another."""

    source: int
    target: int


def edges(w: csr_array, local: int) -> list[Edge]:
    """The pairs of processes between which a row travels, in their order.

    Args:
        w: mixing matrix, [n, n]; W_jk != 0 needs the row of learner k at learner j.
        local: learners per process.
    """
    entries = w.tocoo()
    there = entries.data != 0
    sources, targets = entries.col[there] // local, entries.row[there] // local
    pairs = set(zip(sources.tolist(), targets.tolist(), strict=True))
    return [Edge(source, target) for source, target in sorted(pairs) if source != target]


def rounds(edges: list[Edge]) -> dict[Edge, int]:
    """The round of each edge: a proper edge colouring, so no process has two edges in a round.

    Every process derives it from W alone, and starts its messages by it. Then calls come to an end
    even where each of them blocks until the other side has made its own: of the edges that are not
    done, look at those of the lowest round; both ends of them have done all their earlier ones.

    Each edge gets the first round that is free at both of its ends: at most 2 D - 1 rounds, if no
    process has more than D edges; the least number of rounds is D or D + 1 (Vizing 1964), but
    nothing is waited for between rounds. A colouring of networkx's line graph is the same, with
    D^2 / 2 pairs of edges for each process.
    """
    busy: dict[int, set[int]] = {}
    found = {}
    for edge in edges:
        taken = busy.setdefault(edge.source, set()) | busy.setdefault(edge.target, set())
        found[edge] = next(i for i in range(len(taken) + 1) if i not in taken)
        for process in edge:
            busy[process].add(found[edge])
    return found
