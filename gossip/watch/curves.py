"""What the report draws of a run, as curves for a terminal."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gossip.report.axes import positive
from gossip.report.page.points import thinned
from gossip.report.runs import Run, heading
from gossip.report.series import (
    alpha_ratio,
    last_step,
    smooth_log,
    smooth_loss,
    smooth_rate,
)
from gossip.report.table import head
from gossip.watch.grid import braille, dots, marks

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
MARKS = "*o+x#@"
_TWO_BESIDE = 100
"""Characters from which on two panels stand beside each other."""
_LABEL = 9
"""Characters left of a panel."""
_MOST_POINTS = 1000

Curve = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class PanelStyle:
    """How panels are drawn."""

    width: int
    """Characters of a line."""
    height: int = 8
    """Lines of a panel's curves."""
    marks: bool = False
    """A mark per run and cell, and no letters but ASCII's, in place of Braille."""


def picture(runs: list[Run], look: PanelStyle) -> Group:
    """Training loss, test error, alpha_e/alpha and sigma_w^2 of runs over their steps."""
    beside = 2 if look.width >= _TWO_BESIDE else 1
    width = max(10, look.width // beside - _LABEL - 1)
    table = Table.grid(padding=(0, 1, 0, 0))
    panels = [_panel(name, runs, width, look) for name in _CURVES]
    for first in range(0, len(panels), beside):
        table.add_row(*panels[first : first + beside])
    return Group(Text(heading(runs)), *_legend(runs, look), table)


def _progress(run: Run) -> Curve:
    return run.column("step"), positive(smooth_loss(run.column("train_loss")))


def _error(run: Run) -> Curve:
    error = positive(run.column("test_error"))
    return run.column("step")[np.isfinite(error)], error[np.isfinite(error)]


def _rate(run: Run) -> Curve:
    steps, ratio, weight = alpha_ratio(run)
    return steps, smooth_rate(ratio, weight)


def _spread(run: Run) -> Curve:
    values = positive(run.column("sigma_w2"))
    there = np.isfinite(values)
    return run.column("step")[there], smooth_log(values[there])


_CURVES: dict[str, Callable[[Run], Curve]] = {
    "train loss": _progress,
    "test error": _error,
    "alpha_e/alpha": _rate,
    "sigma_w2": _spread,
}
"""Of each panel, steps and values of a run, as the report's figure smooths them."""


def _panel(name: str, runs: list[Run], width: int, look: PanelStyle) -> Text:
    is_log = name != "alpha_e/alpha"
    curves = [_thinned(*_CURVES[name](run)) for run in runs]
    shown = np.concatenate([values[np.isfinite(values)] for _, values in curves])
    title = Text(" " * _LABEL + head(name, runs) + (", log axis" if is_log else ""), style="bold")
    if not len(shown):
        title.append(": not recorded, or zero", style="dim")
        return title
    low, high = float(shown.min()), float(shown.max())
    if not is_log:
        low, high = max(min(low, 0.0), -3.0), min(max(high, 1.2), 5.0)
    last = last_step(runs)
    lines = _drawn(curves, (low, high), last, width, is_log, look)
    labels = [f"{high:.3g}", *[""] * (look.height - 2), f"{low:.3g}"]
    for label, line in zip(labels, lines, strict=True):
        title.append(f"\n{label:>{_LABEL - 2}} |").append_text(line)
    title.append(f"\n{'step':>{_LABEL - 2}}  0{f'{last:.0f}':>{width - 1}}")
    return title


def _drawn(
    curves: list[Curve],
    limits: tuple[float, float],
    last: float,
    width: int,
    is_log: bool,
    look: PanelStyle,
) -> list[Text]:
    """The lines of all curves; where two meet in a character, the later one is seen."""
    lines = [Text(" " * width, style="not bold") for _ in range(look.height)]
    scale = np.log if is_log else np.asarray
    low, high = scale(limits[0]), scale(limits[1])
    for i, (steps, values) in enumerate(curves):
        heights = (scale(values) - low) / (high - low) if high > low else values * 0 + 0.5
        if look.marks:
            mine = marks(dots(steps / last, heights, look.height, width), MARKS[i % len(MARKS)])
        else:
            mine = braille(dots(steps / last, heights, 4 * look.height, 2 * width))
        lines = [_over(a, b, COLOURS[i % len(COLOURS)]) for a, b in zip(lines, mine, strict=True)]
    return lines


def _over(below: Text, above: str, colour: str) -> Text:
    """`above` where it is no space, else `below`."""
    pieces = below.divide(range(1, len(below)))
    letters = [
        Text(letter, style=f"not bold {colour}") if letter != " " else piece
        for letter, piece in zip(above, pieces, strict=True)
    ]
    return Text().join(letters)


def _thinned(steps: np.ndarray, values: np.ndarray) -> Curve:
    """Of a long curve what still draws the same, its gaps among it."""
    kept = thinned(np.nan_to_num(values), _MOST_POINTS)
    return steps[kept], values[kept]


def _legend(runs: list[Run], look: PanelStyle) -> list[Text]:
    lines = []
    for i, run in enumerate(runs):
        mark = MARKS[i % len(MARKS)] if look.marks else "—"
        steps = run.column("step")
        at = f"step {steps[-1]:.0f}" if len(steps) else "no step yet"
        line = Text(f"{mark} ", style=COLOURS[i % len(COLOURS)])
        lines.append(line.append(f"{run.label}: {at}", style="default"))
    return lines
