"""The table of a comparison, for the terminal and for comparison.md."""

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from gossip.compare.comparison import Comparison
from gossip.compare.lines import Line, Summary, lines
from gossip.compare.metrics import VALIDATION
from gossip.compare.rows import Row

NONE = "N/A"
"""No run reached the target."""
_LEFT = ("method", "tuned")


def table(rows: Sequence[Row], score: str, title: str = "") -> Table:
    """One line per total batch and method: means over seeds, with standard deviations.

    Args:
        rows: a row for each run.
        score: what 1 - error is, see `gossip.compare.metrics.score`.
        title: above it.
    """
    made = [cells(line, score) for line in lines(rows)]
    shown = _shown(made)
    result = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in shown:
        result.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True)
    for i, line in enumerate(made):
        ends = i + 1 == len(made) or made[i + 1]["n"] != line["n"]
        result.add_row(*(Text(line[name]) for name in shown), end_section=ends)
    return result


def markdown(rows: Sequence[Row], score: str, heading: str, notes: Sequence[str]) -> str:
    """The same table as a page, with what it means below it."""
    made = [cells(line, score) for line in lines(rows)]
    shown = _shown(made)
    texts = [
        f"# {heading}",
        "",
        _markdown_row(shown),
        _markdown_row([":--" if name in _LEFT else "--:" for name in shown]),
        *(_markdown_row([line[name] for name in shown]) for line in made),
        "",
        *(f"- {note}" for note in notes),
    ]
    return "\n".join(texts) + "\n"


def cells(line: Line, score: str) -> dict[str, str]:
    """Column -> text of one line; empty where there is nothing to say."""
    count = len(line.rows)
    hits = line.over_seeds("epochs_to_target")
    held_out = line.rows[0].judged_by == VALIDATION
    return {
        "n": str(line.cell.learners),
        "batch": str(line.total_batch),
        "method": line.cell.method,
        score: percent(line.over_seeds("error")),
        "best": percent(line.over_seeds("best_error")),
        "last": percent(line.over_seeds("last_error")),
        "test": percent(line.over_seeds("early_stopped_error")) if held_out else "",
        "epochs": _number(hits.mean, ".1f", NONE) + _of(hits.count, count),
        "updates": _number(line.over_seeds("updates_to_target").mean, ".0f", NONE),
        "seconds": _number(line.over_seeds("seconds_to_target").mean, ".1f", NONE),
        "data": _number(line.over_seeds("epochs").mean, ".4g", ""),
        "diverged": f"{line.diverged} of {count}" if line.diverged else "0",
        "tuned": line.tuned,
        "trials": str(line.trials or ""),
    }


def meaning(comparison: Comparison, rows: Sequence[Row], score: str) -> list[str]:
    """What the columns are, in sentences."""
    judge = "held-out training samples" if comparison.base.data.validation else "the test set"
    at = comparison.at_epoch or comparison.base.epochs or math.nan
    goal = rows[0].target_error if rows else math.nan
    source = "as given" if comparison.target is not None else "the single worker's best"
    if comparison.target is None and comparison.slack:
        source += f" less {comparison.slack:g} points"
    aim = f"{1 - goal:.2%}" if math.isfinite(goal) else "not known yet"
    said = [
        f"{score}: on {judge} at epoch {at:g}, mean ± standard deviation over the seeds; "
        "best and last: of all evaluations of a run. Diverged runs count in all three.",
        f"epochs, updates, seconds: until the first evaluation at {aim} ({source}), mean over the "
        f"runs that reached it; {NONE}: none did.",
        "seconds: of training, all learners one after the other in one thread, so not the time "
        "of n machines.",
        "data: samples seen, in passes over the training set.",
    ]
    if comparison.base.data.validation:
        said.append(f"test: {score} on the test set of the model that validation chose.")
    if comparison.tune:
        said.append(
            "tuned: of equally many trials for every method and batch, the lowest final "
            f"validation error; tried: {', '.join(comparison.tune)}."
        )
    return said


def percent(errors: Summary) -> str:
    """Mean ± standard deviation of what errors leave of 1, in percent."""
    if not errors.count:
        return ""
    spread = "" if math.isnan(errors.std) else f" ± {100 * errors.std:.2f}"
    return f"{100 * (1 - errors.mean):.2f}{spread} %"


def _of(part: int, whole: int) -> str:
    return f" ({part} of {whole})" if 0 < part < whole else ""


def _number(value: float, form: str, missing: str) -> str:
    return missing if math.isnan(value) else format(value, form)


def _shown(made: Sequence[dict[str, str]]) -> list[str]:
    return [name for name in made[0] if any(line[name] for line in made)] if made else []


def _markdown_row(texts: Sequence[str]) -> str:
    escaped = (text.replace("|", "\\|") for text in texts)
    return f"| {' | '.join(escaped)} |"
