"""Pictures of topologies: the graph, the matrices, and how fast the deviation goes away."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

from topologies.certificate import certificate
from topologies.spectrum import (
    circulant_eigenvalues,
    deviation_norm,
    eigenvalues,
    is_symmetric,
)
from topologies.topology import Topology, TopologyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LEARNERS = 512
"""Learners up to which a picture of all of them can be read."""
STEPS_DRAWN = 4
"""Steps of a time-varying topology that are drawn, if its period has so many."""
INK, ACCENT = "#1f4e79", "#d1495b"
ENDINGS = (".png", ".pdf", ".svg")
"""Of the files that are drawn."""
STEP_COLOURS = ("#1f4e79", "#d1495b", "#2a9d8f", "#e9a23b")


def plot(
    topologies: Sequence[Topology], path: Path, say: Callable[[str], object] | None = None
) -> None:
    """Write `figure_of` the topologies to `path`.

    Raises:
        TopologyError: more than 512 learners, no such kind of file, or one that cannot be written.
    """
    if path.suffix not in ENDINGS:
        raise TopologyError(f"cannot draw {path}: a picture ends in one of {', '.join(ENDINGS)}")
    figure = figure_of(topologies, say)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:  # ValueError: it is larger than a picture can be
        reason = str(error).splitlines()[0]
        raise TopologyError(f"cannot write the picture {path}: {reason}") from error


def figure_of(
    topologies: Sequence[Topology], say: Callable[[str], object] | None = None
) -> "Figure":
    """One row per topology: graph, W(t), spectrum or decay.

    Args:
        topologies: what is drawn.
        say: told how far it is, before each row of several and before they are laid out.

    Raises:
        TopologyError: more than 512 learners.
    """
    for topology in topologies:
        if topology.n > MOST_LEARNERS:
            raise TopologyError(
                f"{topology.name}: a picture of n={topology.n} learners cannot be read, "
                f"at most {MOST_LEARNERS}: choose a smaller n"
            )
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.9 * len(topologies)), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subfigures(len(topologies), 1, squeeze=False)[:, 0]
    say = say if say and len(topologies) > 1 else str
    for k, (row, topology) in enumerate(zip(rows, topologies, strict=True), start=1):
        say(f"{k}/{len(topologies)}  {topology.name}")
        _draw_row(row, topology)
    say("laying out")  # which takes as long again
    return figure


def _draw_row(row: "Figure", topology: Topology) -> None:
    left, middle, right = row.subfigures(1, 3, squeeze=False, width_ratios=(1, 1, 1.15))[0]
    measured = certificate(topology)
    row.suptitle(f"{topology.name}, n = {topology.n}", fontsize=13, fontweight="bold")
    _draw_graph(left.subplots(), topology)
    _draw_matrices(middle, topology)
    if measured.gap is not None:
        _draw_spectrum(right.subplots(), topology, measured.gap)
    else:
        _draw_decay(right.subplots(), topology)


def drawn_steps(topology: Topology) -> range:
    """The first steps of a topology, at most four."""
    return range(min(topology.period or STEPS_DRAWN, STEPS_DRAWN))


def _draw_graph(axes: "Axes", topology: Topology) -> None:
    """Learners, and their messages in the colour of their step."""
    n, place = topology.n, _places(topology)
    size = float(np.clip(5000 / n, 12, 260))
    learners = nx.empty_graph(n)
    nx.draw_networkx_nodes(learners, place, ax=axes, node_size=size, node_color="w", edgecolors=INK)
    if n <= 40:
        nx.draw_networkx_labels(learners, place, ax=axes, font_size=7, font_color=INK)
    for t in drawn_steps(topology):
        _draw_messages(axes, topology.matrix(t), place, size, STEP_COLOURS[t])
        if topology.period != 1:
            axes.plot([], [], color=STEP_COLOURS[t], label=f"t = {t}")
    if topology.period != 1:
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False, handlelength=1
        )
    axes.set_aspect("equal")
    axes.margins(0.1)
    axes.axis("off")


def _draw_messages(
    axes: "Axes", w: csr_array, place: dict[int, np.ndarray], size: float, colour: str
) -> None:
    """A line for each pair that exchanges weights; an arrow per message if W is not symmetric."""
    directed = not is_symmetric(w)
    graph = nx.DiGraph() if directed else nx.Graph()
    coo = w.tocoo()
    graph.add_nodes_from(place)
    graph.add_edges_from((j, i) for i, j in zip(coo.row, coo.col, strict=True) if i != j)
    style: dict[str, Any] = {"edge_color": colour, "alpha": 0.75, "node_size": size}
    if directed:
        style |= {"arrowsize": 8, "connectionstyle": "arc3,rad=0.12"}
    width = 1.3 if len(place) <= 64 else 0.5
    nx.draw_networkx_edges(graph, place, ax=axes, width=width, arrows=directed, **style)


def _places(topology: Topology) -> dict[int, np.ndarray]:
    """Where the learners are drawn: a graph unfolds, everything else sits on a circle."""
    graph = topology.graph
    circular = graph is None or circulant_eigenvalues(topology.matrix(0)) is not None
    if circular or graph is None:
        angles = np.pi / 2 - 2 * np.pi * np.arange(topology.n) / topology.n
        return {i: np.array([np.cos(a), np.sin(a)]) for i, a in enumerate(angles)}
    if topology.n <= 128:
        return nx.kamada_kawai_layout(graph)
    return nx.spring_layout(graph, seed=0)


def _draw_matrices(figure: "Figure", topology: Topology) -> None:
    """W(t) of the first steps, one colour scale."""
    matrices = [topology.matrix(t).toarray() for t in drawn_steps(topology)]
    least, largest = min(m.min() for m in matrices), max(m.max() for m in matrices)
    side = 1 if len(matrices) == 1 else 2
    grid = figure.subplots(-(-len(matrices) // side), side, squeeze=False).ravel()
    colours = "Blues" if least >= 0 else "RdBu"
    bottom = 0.0 if least >= 0 else -max(largest, -least)
    image = None
    for t, (axes, w) in enumerate(zip(grid, matrices, strict=False)):
        image = axes.matshow(w, cmap=colours, vmin=bottom, vmax=largest if least >= 0 else -bottom)
        axes.set_title(f"W({t})" if topology.period != 1 else "W", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    for axes in grid[len(matrices) :]:
        axes.axis("off")
    assert image is not None
    bar = figure.colorbar(image, ax=list(grid), shrink=0.75, pad=0.02)
    bar.ax.tick_params(labelsize=8)


def _draw_spectrum(axes: "Axes", topology: Topology, gap: float) -> None:
    """Eigenvalues of a static W: sorted if they are real, in the complex plane otherwise."""
    from matplotlib.ticker import MaxNLocator

    w = topology.matrix(0)
    values = eigenvalues(w)
    if is_symmetric(w):
        ordered = np.sort(values.real)[::-1]
        axes.axhspan(1 - gap, 1, color=ACCENT, alpha=0.12, linewidth=0)
        axes.plot(np.arange(1, topology.n + 1), ordered, "o", color=INK, markersize=4)
        axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        axes.set(xlabel="k", ylabel=r"$\lambda_k(W)$", ylim=(min(-0.05, ordered[-1] - 0.1), 1.08))
    else:
        angle = np.linspace(0, 2 * np.pi, 200)
        axes.plot(np.cos(angle), np.sin(angle), color="0.7", linewidth=1)
        axes.plot((1 - gap) * np.cos(angle), (1 - gap) * np.sin(angle), "--", color=ACCENT)
        axes.plot(values.real, values.imag, "o", color=INK, markersize=4)
        axes.set(xlabel=r"Re $\lambda$", ylabel=r"Im $\lambda$", aspect="equal")
    if is_symmetric(w):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"eigenvalues, spectral gap = {gap:.4g}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_decay(axes: "Axes", topology: Topology) -> None:
    """Norm of the product of the first t matrices, worst case over the deviations."""
    from matplotlib.ticker import MaxNLocator

    num_steps = min(2 * (topology.period or 12), 24)
    matrices = [topology.matrix(t) for t in range(num_steps)]
    norms = [1.0] + [deviation_norm(matrices[:t]) for t in range(1, num_steps + 1)]
    floor = 1e-16
    axes.semilogy(np.maximum(norms, floor), "o-", color=INK, markersize=4, linewidth=1.2)
    if topology.period is not None and topology.period <= num_steps:
        axes.axvline(topology.period, color=ACCENT, linestyle="--", linewidth=1)
        axes.annotate(
            f" period {topology.period}",
            (topology.period, 1),
            color=ACCENT,
            va="bottom",
            fontsize=9,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="steps t", ylabel=r"$\|(I - J)\, W(t-1) \cdots W(0)\|_2$")
    axes.set_title("deviation left, worst case", fontsize=10)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
