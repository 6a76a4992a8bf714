"""The table of a report: one line per run."""

import math

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gossip.loop.clock import PHASES
from gossip.report.runs import Run, heading, test_error
from gossip.report.series import early_and_late, last_finite

_LEAST_WANTED = ("time by phase", "train loss", "final σ_w²", "MB sent", "best", "steps")
_RULER = Console(width=1_000)
_MOST_PHASES = 3
_SHORT = {"communication_wait": "wait"}
_EARLY = "α_e/α early"
_CAPTION = "α_e/α early, late: weighted means over the first and the last fifth of its points"
_STYLES = {"converged": "green", "diverged": "bold red", "interrupted": "yellow"}


def summary_table(runs: list[Run], width: int | None = None) -> Table:
    """What came out of the runs, for the terminal; the title says what they have in common.

    Args:
        runs: a line each.
        width: characters that the table should fit into: the columns in `_LEAST_WANTED` are left
            out one after the other until it does.
    """
    rows = [cells(run) for run in runs]
    shown = cells_shown(rows)
    dropped = [name for name in _LEAST_WANTED if name in shown]
    table = _table(runs, rows, shown)
    while width and dropped and Measurement.get(_RULER, _RULER.options, table).maximum > width:
        shown.remove(dropped.pop(0))
        table = _table(runs, rows, shown)
    return table


def _table(runs: list[Run], rows: list[dict[str, str]], shown: list[str]) -> Table:
    title = Text(heading(runs), style="bold")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    if _EARLY in shown:
        table.caption, table.caption_justify = _CAPTION, "left"
    for name in shown:
        is_number = name not in ("run", "verdict", "time by phase")
        table.add_column(
            head(name, runs), justify="right" if is_number else "left", no_wrap=name != "run"
        )
    for row in rows:
        style = _STYLES.get(row["verdict"], "")
        table.add_row(*(Text(row[n], style=style if n == "verdict" else "") for n in shown))
    return table


def cells(run: Run) -> dict[str, str]:
    """Column -> text of the line of one run; empty where nothing was recorded."""
    early, late = early_and_late(run)
    return {
        "run": run.label,
        "verdict": run.verdict,
        "steps": _number(run.number("steps"), ".0f"),
        "test error": _percent(run.number("test_error")),
        "best": _percent(run.number("best_test_error")),
        "train loss": _number(run.number("train_loss"), ".4g"),
        _EARLY: _number(early, ".2f"),
        "late": _number(late, ".2f"),
        "final σ_w²": _number(last_finite(run.column("sigma_w2")), ".2g"),
        "MB sent": _number(run.number("bytes_sent_per_learner") / 1e6, ".4g"),
        "seconds": _seconds(run),
        "time by phase": _phases(run),
    }


def head(name: str, runs: list[Run]) -> str:
    """What stands above a column of `cells`."""
    return test_error(runs) if name == "test error" else name


def cells_shown(rows: list[dict[str, str]]) -> list[str]:
    """The columns that at least one line fills."""
    return [name for name in rows[0] if any(row[name] for row in rows)] if rows else []


def _seconds(run: Run) -> str:
    """Those that passed, or where nobody slept for the stragglers those of simulated time."""
    simulated = last_finite(run.column("simulated_seconds"))
    if math.isfinite(simulated):
        return f"{simulated:.1f} simulated"
    return _number(run.number("wall_seconds", "total"), ".1f")


def _phases(run: Run) -> str:
    total = run.number("wall_seconds", "total")
    shares = {
        phase: run.number("wall_seconds", phase) / total
        for phase in (*PHASES, "other")
        if total > 0
    }
    shares = {phase: share for phase, share in shares.items() if share >= 0.005}
    ordered = sorted(shares, key=lambda phase: -shares[phase])[:_MOST_PHASES]
    return ", ".join(f"{_SHORT.get(phase, phase)} {shares[phase]:.0%}" for phase in ordered)


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


def _percent(value: float) -> str:
    return _number(100 * value, ".2f") + " %" if not math.isnan(value) else ""
