"""Figure of the study, drawn from its committed table."""

from typing import TYPE_CHECKING

from experiments.common.figures import GREY, new_figure
from experiments.nets.groups import Measured, measure
from experiments.nets.plan import DPSGD, ONE, SSGD, STAR
from experiments.nets.size import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {SSGD: "C1", STAR: "C2", DPSGD: "C0", ONE: GREY}
NAMES = {SSGD: "SSGD", STAR: "SSGD*", DPSGD: "DPSGD", ONE: "one learner"}


def nets(made: Measured) -> "Figure":
    """Test error or held-out loss of each judged run: an axes a net that has some."""
    tasks = begun(made)
    with new_figure(2.3 * len(tasks) + 1.0, 3.4) as figure:
        row = figure.subplots(1, len(tasks), squeeze=False)[0]
        for axes, task in zip(row, tasks, strict=True):
            _net(axes, made, task)
            axes.set_title(task.label, fontsize="medium")
            axes.set_ylabel(task.measure)
            # Of images the axis is the error, and what decides is the loss.
            axes.set_xlabel(f"hollow: test loss from {task.failed:g} on", fontsize="small")
    return figure


def begun(made: Measured) -> list[Task]:
    """The nets of which judged runs are there."""
    return [task for task in made.size.tasks if made.at((task, SSGD, 0))]


def _net(axes: "Axes", made: Measured, task: Task) -> None:
    """A column for each method and rate, from the edge down; those that did not survive hollow."""
    columns = [(arm, k) for k in range(task.cells) for arm in (SSGD, DPSGD)]
    columns = [(SSGD, 0), (STAR, 0), *columns[1:], (ONE, 0)]
    columns = [(arm, k) for arm, k in columns if made.at((task, arm, k))]
    for place, (arm, k) in enumerate(columns):
        for row in made.at((task, arm, k)):
            axes.plot(
                place, measure(row, task), "o", ms=3.5, color=COLOURS[arm],
                mfc=COLOURS[arm] if row.survived else "none",
            )  # fmt: skip
    labels = [NAMES[arm] + (f" /{2**k}" if k else "") for arm, k in columns]
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_xticks(range(len(columns)), labels, rotation=90)
