"""The edges of a graph in colours, so that those of one colour touch no learner twice."""

import networkx as nx

Edge = tuple[int, int]


def matchings(graph: nx.Graph) -> list[list[Edge]]:
    """Edges (i < j) by colour; every edge once, each colour a matching.

    A tree, walked from a root, gets as many colours as its largest degree; another graph by the
    first colour that is free, at most twice as many less one.
    """
    colours: list[list[Edge]] = []
    taken: dict[int, set[int]] = {node: set() for node in graph}
    for i, j in in_order(graph):
        free = next(c for c in range(len(colours) + 1) if c not in taken[i] | taken[j])
        if free == len(colours):
            colours.append([])
        colours[free].append((min(i, j), max(i, j)))
        taken[i].add(free)
        taken[j].add(free)
    return [sorted(colour) for colour in colours]


def in_order(graph: nx.Graph) -> list[Edge]:
    """All edges but self-loops: those of a walk in breadth first, which suits a tree."""
    edges = [(i, j) for i, j in graph.edges() if i != j]
    if not nx.is_forest(graph):
        return edges
    return [edge for root in _roots(graph) for edge in nx.bfs_edges(graph, root)]


def _roots(graph: nx.Graph) -> list[int]:
    return [min(part) for part in nx.connected_components(graph)]
