"""The tables are printed on the terminal, with the sentences to be read from them."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.table import Table

from experiments.bench import engines, exchange, ours, peers, raw, stacked
from experiments.bench.rows import Row
from experiments.bench.size import spare_cores


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
    if row.table in ("stacked", "hosted", "cost_curve", "simulate"):
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
        compared = list(lines(list(part)))
        if compared:
            shown.add_section()
            shown.add_row(f"[bold]{case}[/]")
        for line in compared:
            shown.add_row(*line)
        count += len(compared)
    return shown if count else None


def lines(rows: list[Row]) -> Iterable[tuple[str, str, str, str]]:
    """(peer, same topology, our best, which that is) for each side that is not ours."""
    mine = [row for row in rows if row.variant in ours.OURS]
    if not mine:
        return
    best = min(mine, key=lambda row: row.ratio)
    for row in rows:
        if row.variant in (*peers.PEERS, raw.RAW):
            same = [one for one in mine if one.topology == row.topology]
            near = over(min(same, key=lambda one: one.ratio), row) if same else ""
            yield _called(row), near, over(best, row), _called(best)


def over(mine: Row, theirs: Row) -> str:
    """'0.85 (0.90)'; in red, and said, where ours takes longer.

    Wall times by way of the base that both have taken turns with.
    """
    wall, cpu = mine.ratio / theirs.ratio, mine.cpu_ms / theirs.cpu_ms
    text = f"{wall:.2f} ({cpu:.2f})"
    return f"[red]{text} slower[/]" if max(wall, cpu) > 1 else text


def sentences(rows: Sequence[Row]) -> list[str]:
    """Sentences that sum up the tables, the bad with the good."""
    return [
        *_exchange(rows),
        *_overlap(rows),
        *_interference(rows),
        *_stacked(rows),
        *_engines(rows),
    ]


def _exchange(rows: Sequence[Row]) -> list[str]:
    mixed = [row for row in rows if row.table == "exchange" and row.variant == exchange.MIX]
    found = []
    for (processes, d), part in groupby(mixed, key=lambda row: (row.processes, row.d)):
        ratios = ", ".join(f"{row.topology} {row.ratio:.3g}" for row in part)
        size = exchange.BYTES_PER_NUMBER * d
        found.append(
            f"exchange and mixing over memcpy, {processes} processes, rows of {size:,} bytes: "
            f"{ratios} (goal 1.3)"
        )
    return found


def _overlap(rows: Sequence[Row]) -> list[str]:
    hidden = [row for row in rows if row.table == "overlap" and not math.isnan(row.hidden)]
    if not hidden:
        return []
    low, high = min(row.hidden for row in hidden), max(row.hidden for row in hidden)
    spare = all(spare_cores(row.processes) for row in hidden)
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


def _engines(rows: Sequence[Row]) -> list[str]:
    """What each side costs more than one process that computes alone: an update, and a MB of it.

    From the smallest and the largest model; times by way of the base in the same rounds.
    """
    found = []
    others = [row for row in rows if row.table == "engines" and row.variant != row.base]
    base = {(row.processes, row.d): row for row in rows if row.variant == engines.BASE}
    more = {
        (row.variant, row.processes, row.d): (row.ratio - 1) * base[row.processes, row.d].wall_ms
        for row in others
    }
    for variant, processes in dict.fromkeys((row.variant, row.processes) for row in others):
        sizes = sorted(d for name, p, d in more if (name, p) == (variant, processes))
        small, large = sizes[0], sizes[-1]
        least, most = more[variant, processes, small], more[variant, processes, large]
        text = f"{variant}, P = {processes}: {least:+.3g} ms an update over {engines.BASE}"
        if large > small:
            per_mb = (most - least) / (engines.megabytes(large) - engines.megabytes(small))
            text += f" where the model is small, and {per_mb:+.3g} ms for each MB"
        found.append(text)
    return found
