"""The tables on the terminal, and what is to be read from them."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.table import Table

from experiments.bench import exchange, ours, peers, raw, stacked
from experiments.bench.rows import Row


def table(title: str, rows: Sequence[Row]) -> Table:
    """A section per case, a line per variant."""
    shown = Table(title=title, title_justify="left", title_style="bold")
    optional = [
        (name, text)
        for name, text in _optional(rows[0])
        if any(not math.isnan(getattr(row, name)) for row in rows)
    ]
    shown.add_column(no_wrap=True)
    for name in ("wall ms", "quartiles", "CPU ms", "ratio", *(text for _, text in optional)):
        shown.add_column(name, justify="right", no_wrap=True)
    for case, part in groupby(rows, key=lambda row: row.case):
        shown.add_section()
        shown.add_row(f"[bold]{case}[/]")
        for row in part:
            more = (_number(getattr(row, name)) for name, _ in optional)
            shown.add_row(_called(row), *_times(row), *more)
    return shown


def _optional(row: Row) -> list[tuple[str, str]]:
    """Columns that not every table has: attribute and heading."""
    found = [("bytes_per_learner", "bytes/learner"), ("hidden", "hidden"), ("peak_mib", "peak MiB")]
    if row.table in ("stacked", "hosted", "cost_curve"):
        found.append(("learner_steps_per_s", "learner steps/s"))
    return found


def _called(row: Row) -> str:
    said = row.topology == "-" or row.topology in row.case
    return row.variant if said else f"{row.variant}, {row.topology}"


def _times(row: Row) -> tuple[str, str, str, str]:
    return (
        _number(row.wall_ms),
        f"{_number(row.wall_ms_q1)} - {_number(row.wall_ms_q3)}",
        _number(row.cpu_ms),
        f"{row.ratio:.2f}x",
    )


def _number(value: float) -> str:
    """Three digits; nothing for NaN."""
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def against_peers(rows: Iterable[Row]) -> Table | None:
    """Ours over theirs, wall (CPU) time of a step: on the same topology, and our best of all."""
    shown = Table(title="Ours over theirs: wall (CPU), below 1 is faster", title_justify="left")
    for name in ("", "same topology", "our best of all", "which is"):
        shown.add_column(name, no_wrap=True)
    count = 0
    for case, part in groupby(rows, key=lambda row: row.case):
        lines = list(_lines(list(part)))
        if lines:
            shown.add_section()
            shown.add_row(f"[bold]{case}[/]")
        for line in lines:
            shown.add_row(*line)
        count += len(lines)
    return shown if count else None


def _lines(rows: list[Row]) -> Iterable[tuple[str, str, str, str]]:
    mine = [row for row in rows if row.variant in ours.OURS]
    if not mine:
        return
    best = min(mine, key=lambda row: row.wall_ms)
    for row in rows:
        if row.variant in (*peers.PEERS, raw.RAW):
            same = [one for one in mine if one.topology == row.topology]
            near = over(min(same, key=lambda one: one.wall_ms), row) if same else ""
            yield _called(row), near, over(best, row), _called(best)


def over(mine: Row, theirs: Row) -> str:
    """'0.85 (0.90)'; in red, and said, where ours takes longer."""
    wall, cpu = mine.wall_ms / theirs.wall_ms, mine.cpu_ms / theirs.cpu_ms
    text = f"{wall:.2f} ({cpu:.2f})"
    return f"[red]{text} slower[/]" if max(wall, cpu) > 1 else text


def sentences(rows: Sequence[Row]) -> list[str]:
    """What the tables say, the bad with the good."""
    return [*_exchange(rows), *_overlap(rows), *_interference(rows), *_stacked(rows)]


def _exchange(rows: Sequence[Row]) -> list[str]:
    found = []
    mixed = [row for row in rows if row.table == "exchange" and row.variant == exchange.MIX]
    for processes, part in groupby(mixed, key=lambda row: row.processes):
        ratios = sorted(row.ratio for row in part)
        middle = ratios[len(ratios) // 2]
        found.append(
            f"exchange and mixing over memcpy, {processes} processes: {ratios[0]:.2f} to "
            f"{ratios[-1]:.2f}, median {middle:.2f}; goal 1.3"
        )
    return found


def _overlap(rows: Sequence[Row]) -> list[str]:
    hidden = [row for row in rows if row.table == "overlap" and not math.isnan(row.hidden)]
    if not hidden:
        return []
    low, high = min(row.hidden for row in hidden), max(row.hidden for row in hidden)
    spare = all("0 spare cores" not in row.case for row in hidden)
    why = "" if spare else "; no core is spare: only waiting can be hidden"
    return [f"share of the exchange that is hidden: {low:.2f} to {high:.2f}{why}"]


def _interference(rows: Sequence[Row]) -> list[str]:
    beside = [row for row in rows if row.table == "interference" and row.variant != row.base]
    if not beside:
        return []
    worst = max(beside, key=lambda row: abs(row.ratio - 1))
    return [
        f"idle Gloo threads: {worst.variant} on {worst.processes} processes takes "
        f"{worst.ratio:.3f} of the time without them, the largest change seen"
    ]


def _stacked(rows: Sequence[Row]) -> list[str]:
    found = []
    for case, part in groupby((r for r in rows if r.table == "stacked"), key=lambda r: r.case):
        speed = {row.variant: row.learner_steps_per_s for row in part}
        found.append(
            f"{case}: {speed[stacked.STACKED]:,.0f} learner steps/s stacked, "
            f"{speed[stacked.STACKED] / speed[stacked.LOOP]:.2g} times a {stacked.LOOP}"
        )
    return found
