"""Figures have the project's style; drawn again from the same runs they are the same bytes."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gossip.report.figures import STYLE
from gossip.storage.folder import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
GREY = "#888888"
"""Colour of what the compared methods are measured against."""
ERROR_TICKS = (8, 10, 12, 15, 20, 30, 50, 90)
"""Ticks in % of the logarithmic error axes on Fashion-MNIST, from the lowest error shown."""


@contextmanager
def new_figure(width: float, height: float) -> Generator["Figure"]:
    """A figure in the project's style, outside pyplot's state.

    Args:
        width: in inches.
        height: in inches.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", path: Path) -> None:
    """Write a figure without the versions and dates that would change its bytes."""
    from matplotlib import style

    path.parent.mkdir(parents=True, exist_ok=True)
    with style.context(STYLE), replacing(path) as partial:
        figure.savefig(partial, format=path.suffix[1:], dpi=DPI, metadata={"Software": None})
