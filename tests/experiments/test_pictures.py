"""Pictures of committed tables: what their axes and legends say."""

from experiments.common.scale import FULL
from experiments.flatness import rows as flatness_rows
from experiments.flatness.contours import read
from experiments.flatness.groups import Measured
from experiments.flatness.pictures import contours, flatness
from experiments.flatness.size import study
from experiments.time import pictures as of_time
from experiments.time import rows as time_rows


def test_flatness_has_a_tick_for_each_loss_and_its_legend_on_no_axes() -> None:
    figure = flatness(Measured(study(FULL), tuple(flatness_rows.read(FULL))))
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.3", "0.1", "0.03"]
        assert axes.get_legend() is None
        assert "10^" not in "".join(tick.get_text() for tick in axes.get_yticklabels())


def test_contours_of_both_rates_are_there_with_the_learners_in_their_own_plane() -> None:
    figure = contours(read(FULL), study(FULL))
    assert not [
        text for axes in figure.axes for text in axes.texts if text.get_text() == "not there"
    ]
    learners = [len(line.get_xdata()) for axes in figure.axes for line in axes.lines]
    assert learners.count(study(FULL).learners) == len(study(FULL).cells)


def test_a_line_of_stragglers_can_be_seen_behind_the_next() -> None:
    figure = of_time._stragglers(time_rows.read(FULL))
    for axes in figure.axes:
        widths = [line.get_linewidth() for line in axes.lines]
        assert widths == sorted(widths, reverse=True)
        assert axes.get_legend() is None
