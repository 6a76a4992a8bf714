"""A picture of the schedule that was followed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (("batch_size", "batch size"), ("lr", "learning rate"), ("n_workers", "workers"))


def schedule(history: Sequence[dict[str, Any]]) -> "Figure":
    """Batch size, learning rate and workers of each update, over epochs, one below the other."""
    from matplotlib.figure import Figure

    updates = [row for epoch in history for row in epoch["batches"] if "batch_size" in row]
    epochs = [row["epochs"] for row in updates]
    figure = Figure(figsize=(5, 5), layout="constrained")
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (column, name) in zip(panels, PANELS, strict=True):
        axes.step(epochs, [row[column] for row in updates], where="post")
        axes.set_ylabel(name)
    panels[-1].set_xlabel("epochs")
    return figure
