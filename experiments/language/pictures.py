"""Figure of the study, drawn from its committed table."""

from typing import TYPE_CHECKING

from experiments.common.figures import GREY, new_figure
from experiments.language.groups import Measured
from experiments.language.plan import ARMS, Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def language(made: Measured) -> "Figure":
    """Test loss of each run over the peak rate: an axes a warm-up, the bound grey."""
    size = made.size
    with new_figure(3.4 * len(size.warmups) + 1.0, 3.2) as figure:
        row = figure.subplots(1, len(size.warmups), sharey=True, squeeze=False)[0]
        for axes, warmup in zip(row, size.warmups, strict=True):
            for place, (arm, label) in enumerate(ARMS.items()):
                found = [(peak, made.at(Cell(arm, warmup, peak))) for peak in size.peaks]
                aside = (0.95, 1.05)[place]
                points = [(peak * aside, r.test_loss) for peak, runs in found for r in runs]
                axes.plot(
                    [x for x, _ in points], [y for _, y in points], "o", ms=3, mfc="none",
                    color=f"C{place}", label=label,
                )  # fmt: skip
            axes.axhline(size.failed, color=GREY, lw=0.8)
            axes.set_xscale("log")
            axes.set_xlim(size.peaks[0] / 1.5, size.peaks[-1] * 1.5)
            axes.set_xlabel("peak learning rate")
            axes.set_title(f"{warmup} steps of warm-up")
        row[0].set_ylabel("test loss, nats a byte")
        row[0].legend(fontsize="small")
    return figure
