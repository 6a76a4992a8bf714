"""The table, the CSV and the picture of phase diagrams."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from gossip.simulate import show
from gossip.simulate.phase_diagram import Fastest, rate, shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Diagrams = Mapping[str, Sequence[Fastest]]
"""What is asked, for example "8 learners" -> its diagram."""


def table(diagrams: Diagrams) -> Table:
    """Who wins how many of the networks, and between which ends they lie."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("", "fastest"):
        made.add_column(name)
    for name in ("networks", "bandwidth", "latency"):
        made.add_column(name, justify="right", no_wrap=True)
    for title, cells in diagrams.items():
        won = shares(cells)
        for k, (name, share) in enumerate(won.items()):
            own = [cell for cell in cells if cell.fastest == name]
            bandwidths, latencies = ([getattr(c, a) for c in own] for a in ("bandwidth", "latency"))
            made.add_row(
                "" if k else title,
                name,
                f"{share:.1%}",
                f"{rate(min(bandwidths))} to {rate(max(bandwidths))}",
                f"{min(latencies):.3g} to {max(latencies):.3g} s",
                end_section=k + 1 == len(won),
            )
    return made


def write_csv(diagrams: Diagrams, path: Path) -> None:
    """A row for each network of each diagram.

    Raises:
        UserError: it cannot be written.
    """
    names = ["diagram", *(field.name for field in fields(Fastest))]
    made = [
        {"diagram": title} | asdict(cell) for title, cells in diagrams.items() for cell in cells
    ]
    show.write_rows(names, made, path)


def draw(diagrams: Diagrams, title: str, path: Path) -> None:
    """A panel for each diagram, the same colours in all.

    Raises:
        UserError: it cannot be written, or is no picture.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    from gossip.report.figures import STYLE, save

    columns = min(len(diagrams), 3)
    lines = -(-len(diagrams) // columns)
    names = sorted({cell.fastest for cells in diagrams.values() for cell in cells})
    with style.context(STYLE):
        figure = Figure(figsize=(1.5 + 3.5 * columns, 4.4 * lines), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes in panels[len(diagrams) :]:
            axes.set_axis_off()
        for axes, (what, cells) in zip(panels, diagrams.items(), strict=False):
            points = [(cell.fastest, cell.bandwidth, cell.latency) for cell in cells]
            panel(axes, points, names, what)
        figure.suptitle(title, fontsize="medium", wrap=True)
    save(figure, path)


def panel(
    axes: "Axes", points: Sequence[tuple[str, float, float]], names: Sequence[str], title: str
) -> None:
    """One diagram.

    Args:
        axes: where it is drawn.
        points: who is fastest, bits per second, seconds.
        names: all that may be fastest, in the order of their colours.
        title: what they are fastest at.
    """
    for k, name in enumerate(names):
        own = [(bandwidth, latency) for who, bandwidth, latency in points if who == name]
        if own:
            axes.loglog(*zip(*own, strict=True), "s", ms=9, color=f"C{k}", label=name)
    axes.set_title(title)
    axes.set(xlabel="bandwidth, bit/s", ylabel="latency, s")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize="small")
