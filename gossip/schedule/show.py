"""Output of a schedule: a heading, a table, a CSV file, a picture."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from rich.table import Table

from gossip.config import Config
from gossip.errors import UserError
from gossip.rates import Product
from gossip.rates.warmup import Ramp
from gossip.report.figures import STYLE, save
from gossip.schedule.course import Schedule

_ROWS = 20
_POINTS = 2_000
_SAID = {"equal": "all gradients equal", "orthogonal": "all gradients orthogonal"}


def heading(config: Config, rule: Product, runs: Mapping[str, Schedule]) -> str:
    """Batch, k, peak rate, warm-up and length, a line each."""
    budget, rate = rule.budget, config.rate
    batch = budget.learners * budget.batch
    lines = [
        f"batch     {budget.learners} learners x {budget.batch} = {batch} of {budget.samples} "
        f"training samples, {budget.steps_per_epoch:.7g} iterations an epoch",
        f"k         {budget.scale:.7g} = {batch} / {budget.baseline_batch or budget.batch}",
    ]
    if config.damping.damping != "none":
        lines.append(f"damping   {_damping(config, next(iter(runs.values())))}")
    for name, course in runs.items():
        if name:
            gain = f"gradient variance {course.gain:g}"
            lines.append(f"if {_SAID[name]} ({gain}) at every step")
        peak = course.row(course.iterations).scale
        lines += [
            f"peak rate {rate.lr * peak:.7g} = {rate.lr:g} x {peak:.7g} (scaling {rate.scaling})",
            f"warm-up   {_warmup(rate.warmup, course)}",
            f"total     {course.iterations:.7g} iterations, "
            f"{course.epoch(course.iterations):.7g} epochs",
        ]
    return "\n".join(lines)


def notes(rule: Product, runs: Mapping[str, Schedule]) -> Iterator[str]:
    """What a schedule cannot tell."""
    if len(runs) > 1:
        yield (
            "the gradients decide this rate: in each step a layer's scale and warm-up lie between "
            "those of equal and those of orthogonal gradients"
        )
    if len(runs) > 1 and rule.counts_tau:
        fewest, most = sorted(course.iterations for course in runs.values())
        yield f"the run ends when tau comes to T_1, after {fewest} to {most} iterations"
    if rule.ratio is not None:
        limits = f"[{rule.ratio.lower:g}, {rule.ratio.upper:g}]"
        kind = "its quantiles" if rule.ratio.kind == "quantile" else "within"
        yield f"the layer ratio needs weights: its factor, {kind} {limits}, is left out"


def table(runs: Mapping[str, Schedule], every: int | None) -> Table:
    """Every so many iterations, and always the first, the first at full rate and the last."""
    shown = Table(header_style="bold")
    shown.add_column("iteration", justify="right")
    shown.add_column("epoch", justify="right")
    for name, course in runs.items():
        for column in course.columns:
            shown.add_column(f"{column}\n{name}" if name else column, justify="right")
    chosen = {1}
    for course in runs.values():
        last = course.iterations
        step = every or _nice(last * len(runs) / _ROWS)
        chosen |= {*range(step, last + 1, step), min(course.warm_from, last), last}
    for i in sorted(chosen):
        cells = [str(i), f"{_epoch(runs, i):.6g}"]
        for course in runs.values():
            cells += [f"{n:.6g}" for n in course.numbers(i)] or [""] * len(course.columns)
        shown.add_row(*cells)
    return shown


def write_csv(runs: Mapping[str, Schedule], path: Path) -> None:
    """All iterations; numbers are written so that they read back equal.

    Raises:
        UserError: the file cannot be written.
    """
    ends = {name: f"_{name}" if name else "" for name in runs}
    columns = [column + ends[name] for name, run in runs.items() for column in run.columns]
    longest = max(course.iterations for course in runs.values())
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["iteration", "epoch", *columns])
            for i in range(1, longest + 1):
                rows = (c.numbers(i) or [""] * len(c.columns) for c in runs.values())
                writer.writerow([i, _epoch(runs, i), *(number for row in rows for number in row)])
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def draw(runs: Mapping[str, Schedule], title: str, path: Path) -> None:
    """The learning rate over the iterations.

    Raises:
        UserError: the file cannot be written, or not in that format.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots()
        for name, course in runs.items():
            points = np.linspace(1, course.iterations, min(_POINTS, course.iterations))
            chosen = sorted({*points.astype(int).tolist(), min(course.warm_from, points[-1])})
            rates = [course.row(int(i)).lr for i in chosen]
            axes.plot(chosen, rates, label=_SAID.get(name))
        axes.set(xlabel="iteration", ylabel="learning rate", title=title)
        if len(runs) > 1:  # an envelope of up to a factor n
            axes.set_yscale("log")
            axes.legend()
        else:
            axes.set_ylim(bottom=0)
    save(figure, path)


def _warmup(kind: str, course: Schedule) -> str:
    warmup = course.rule.warmup
    if isinstance(warmup, Ramp):
        if not warmup.steps:
            return "none"
        ends = _length(course, warmup.steps)
    else:
        ends = _length(course, course.warm_from)
    late = ", longer than the run" if course.warm_from > course.iterations else ""
    return f"{ends} ({kind}){late}"


def _damping(config: Config, course: Schedule) -> str:
    """The damper and its first and last batch."""
    first, last = (course.row(i).batch for i in (1, course.iterations))
    batches = f"batch {first:.7g}" if first == last else f"batch {first:.7g} to {last:.7g}"
    options = " ".join((config.damping.damping, *config.damping.damping_options))
    return f"{options}, {batches} per learner"


def _length(course: Schedule, iterations: float) -> str:
    epochs = iterations / course.rule.budget.steps_per_epoch
    if course.spans:
        return f"{epochs:.7g} epochs"
    return f"{iterations:.7g} iterations, {epochs:.7g} epochs"


def _epoch(runs: Mapping[str, Schedule], iteration: int) -> float:
    return next(iter(runs.values())).epoch(iteration)


def _nice(number: float) -> int:
    """The least of 1, 2, 5, 10, 20, ... that is not below `number`."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= number:
                return digit * power
        power *= 10
