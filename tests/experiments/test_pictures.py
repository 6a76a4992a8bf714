"""Pictures of committed tables: what their axes and legends say."""

from experiments.common.scale import FULL
from experiments.flatness import rows as flatness_rows
from experiments.flatness.command import Measured, study
from experiments.flatness.pictures import flatness
from experiments.time import pictures as of_time
from experiments.time import rows as time_rows


def test_flatness_has_a_tick_for_each_loss_and_its_legend_on_no_axes() -> None:
    figure = flatness(Measured(study(FULL), tuple(flatness_rows.read(FULL))))
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.3", "0.1", "0.03"]
        assert axes.get_legend() is None
        assert "10^" not in "".join(tick.get_text() for tick in axes.get_yticklabels())


def test_a_line_of_stragglers_can_be_seen_behind_the_next() -> None:
    figure = of_time._stragglers(time_rows.read(FULL))
    for axes in figure.axes:
        widths = [line.get_linewidth() for line in axes.lines]
        assert widths == sorted(widths, reverse=True)
        assert axes.get_legend() is None
