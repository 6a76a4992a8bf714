"""experiments/date.md is written from date.csv alone, so that it cannot drift from it."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import mean, not_run_yet, page
from experiments.common.scale import Scale
from experiments.date import plan
from experiments.date.claims import CLAIMS
from experiments.date.groups import lenet_runs, lipschitz_runs, lstm_runs, ratio_run, test_error
from experiments.date.plan import PARTS, TOGGLES
from experiments.date.rows import TABLE, Row, errors_of, parsed_ratios, read_csv
from experiments.date.size import Study, study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/date/page.py, not this file. -->
# DATE: large batches with LEGW, on MNIST

The paper is You et al., "Large-batch training for LSTM and beyond", SC 2019. Real MNIST, inputs in
[0, 1], {samples} training samples and {validation} held out of the training set, which choose every
rate; errors are those of the final model on the 10,000 test images. SSGD with one learner and the
whole batch, which is the arithmetic of SSGD for any number of learners. float32, PyTorch's default
initialisation, stacked backend, one thread a run.

Commands: `python -m experiments.date` (`--parts {parts}`)
makes the runs in `runs/experiments/date` and goes on where it was stopped;
`python -m experiments.publish` makes this page, table and pictures. `--smoke` tries the code in
seconds. One row per run: [date.csv](results/date.csv).

How to read the tables: test error in % by seed, then mean ± standard deviation. `NaN`: the loss was
not finite; such a run counts as 90 % in the criteria and not in the means. `dead`: the verdict of
the run is diverged because its final loss is within 1 % of ln 10, after few updates also that of a
model that is only slow, or was over 3 times its first value for 50 steps. A rate in **bold** is at
the edge of its grid: the best may lie beyond.
"""

DEVIATIONS = """\
## Deviations from the paper

- LeNet runs {lenet_epochs:g} epochs in place of 30, {lenet_updates:.0f} updates at B = {large}
  in place of 220. The baseline's warm-up, 2 epochs, and the milestones 10, 20 and 27 scale with it.
- The paper gives 1.25e-3 as LeNet's base rate and not its solver; here rates are tuned at B_0,
  {trials} trials for the manual schedule and as many for DATE, at a tenth of its rates because the
  layer ratio goes up to 10. "+ layer ratio" has the manual schedule's rate, as Fig. 10 changes one
  thing at a time; DATE has its own.
- The limits of the layer ratio are not printed: fixed at 0.1 and 10. The decay is the continuous
  reading of Algorithm 1 (`reference=scaled`), the warm-up linear.
- LARS has a warm-up over a tenth of {needle_epochs:g} epochs and its own polynomial decay; Table 1
  is not about LeNet.
- L(x, g) is LeNet's, not the LSTM's, with momentum 0.9 at the constant rate
  {lip_lr:g} sqrt(B / {lip_baseline}), on {probe} fixed training samples, all {all_samples} being
  trained on; the peak is that of a running median over three measurements.
- The LSTM trains {lstm_epochs:g} epochs, {lstm_updates:.0f} updates at B = {lstm_batch}. w_0 is
  such that the warm-up is a fifth of the run there. Rivals have constant rates. Adam has {adam} of
  the ten printed rates 1e-4 to 1e-3, and every rival as many trials as DATE; "adam-wide" goes
  beyond the printed grid at the largest batch. Trials have one seed.
"""


READING = """\
## In short

Our reading of the tables below; the criteria in them are stricter.

- At B = 8192 the manual schedule dies or ends far away where DATE trains. In 6 epochs (41 updates)
  nothing comes back to the small batch's error; in the paper's 30 (last table) DATE comes within
  1.2 points of it on RMSProp and 3.3 on momentum, with an eighth of the updates.
- The parts of DATE do not each help in so few updates; its own, smaller base rate is what counts.
- Tuned at B = 128 only, DATE is at least as good on the LSTM as Adam and momentum tuned at every
  batch, but Adam beyond the printed grid is far better at 8192: the grid decides that comparison.
- LARS shows no needle here: rates 0.6 % apart differ by less than seeds do. It is barely trained,
  though, and the paper's example is another task.
- The local Lipschitz constant does peak later, in epochs, and higher for larger batches; not in
  proportion to the batch.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("date.md")


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    size, rows = study(scale), read_csv(scale.results / TABLE)
    parts = [
        HEAD.format(samples=size.samples, validation=size.validation, parts=" ".join(PARTS)),
        _provenance(rows),
        not_run_yet(missing(rows, size)),
        "" if scale.is_smoke else READING,
        "## The paper's statements\n",
        "The criteria were written down before the runs were made.\n",
        claims.table(claims.REPRODUCES, CLAIMS, rows, size),
        _lenet(rows, size),
        _ratios(rows, size),
        _lipschitz(rows, size),
        _needle(rows, size),
        _lstm(rows, size),
        _long(rows, size),
        _deviations(size),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(rows: Sequence[Row], size: Study) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    found, lines, error = {row.key for row in rows}, [], errors_of(rows)
    for part in PARTS:
        total = plan.count(part, size)
        there = sum(key in found for key in plan.runs(part, size, error))
        if there < total:
            lines.append(f"{part}: {total - there} of {total} runs")
    return lines


def _provenance(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lost = sum(not math.isfinite(row.train_loss) for row in rows)
    dead = sum(row.verdict == "diverged" for row in rows) - lost
    minutes = sum(row.seconds for row in rows if math.isfinite(row.seconds)) / 60
    return (
        f"{len(rows)} runs, {lost} of them with a loss that was not finite and {dead} dead, "
        f"{minutes:.0f} core minutes, with {'; '.join(sorted({row.versions for row in rows}))}.\n"
    )


def _lenet(rows: Sequence[Row], size: Study) -> str:
    of = size.lenet
    if not _of(rows, "lenet"):
        return ""
    lines = [
        f"## LeNet, B = {of.baseline} and {of.batch}\n",
        "![LeNet](results/date_lenet.png)\n",
        "| solver | B | | base rate | updates | test error by seed, % | mean | training loss |",
        "|---|---|---|---|---|---|---|---|",
    ]
    shown = [("manual", of.baseline), ("date", of.baseline), ("manual", of.batch)]
    shown += [(toggle, of.batch) for toggle in TOGGLES] + [("date", of.batch)]
    for solver, tuned in of.solvers:
        for method, batch in shown:
            runs = lenet_runs(rows, size, solver, method, batch)
            if runs:
                grid = tuned.date if method == "date" else tuned.manual
                cells = [solver, str(batch), _name(method), _rate(runs[0].lr, grid)]
                lines.append(f"| {' | '.join([*cells, str(runs[0].updates), *_cells(runs)])} |")
    lines += ["", "Trials at the baseline's batch, seed 0, validation error in %:\n"]
    lines += ["| solver | schedule | rates | errors |", "|---|---|---|---|"]
    for solver, tuned in of.solvers:
        for method, grid in (("manual", tuned.manual), ("date", tuned.date)):

            def key(lr: float, solver: str = solver, method: str = method) -> str:
                return plan.lenet_name(of.baseline, solver, method, lr)

            lines.append(f"| {solver} | {_name(method)} | {_trials(rows, grid, key)} |")
    return "\n".join(lines) + "\n"


def _ratios(rows: Sequence[Row], size: Study) -> str:
    run = ratio_run(rows, size)
    found = parsed_ratios(run) if run else {}
    if run is None or not found:
        return ""
    lines = [
        f"## Layer ratios, DATE on RMSProp, B = {run.batch}\n",
        "![layer ratios](results/date_ratios.png)\n",
        "| layer | first | median | last |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {layer} | {first:.3g} | {middle:.3g} | {last:.3g} |"
        for layer, (first, middle, last) in found.items()
    ]
    return "\n".join(lines) + "\n"


def _lipschitz(rows: Sequence[Row], size: Study) -> str:
    found = lipschitz_runs(rows, size)
    if not found:
        return ""
    lines = [
        "## Local Lipschitz constant, LeNet\n",
        "![local Lipschitz constant](results/date_lipschitz.png)\n",
        "| B | seeds | L first | L at its peak | peak, epoch | peak, update | L last | lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for batch, runs in found.items():
        per_epoch = (size.samples + size.validation) / batch
        cells = [
            str(batch),
            str(len(runs)),
            mean([r.first_lipschitz for r in runs], ".3g"),
            mean([r.peak_lipschitz for r in runs], ".3g"),
            mean([r.peak_epoch for r in runs]),
            mean([r.peak_epoch * per_epoch for r in runs], ".0f"),
            mean([r.last_lipschitz for r in runs], ".3g"),
            str(sum(r.verdict == "diverged" for r in runs)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _needle(rows: Sequence[Row], size: Study) -> str:
    found = _of(rows, "needle")
    if not found:
        return ""
    centre = plan.needle_centre(size, errors_of(rows))
    best = "not chosen yet" if centre is None else f"best {_rate(centre, size.needle.coarse)}"
    lines = [
        f"## LARS over its rate, LeNet, B = {size.needle.batch}\n",
        "![LARS over its rate](results/date_needle.png)\n",
        f"By validation error of the coarse grid: {best}.\n",
        "| rate | updates | test error by seed, % | mean | training loss |",
        "|---|---|---|---|---|",
    ]
    for lr in sorted({row.lr for row in found}):
        runs = sorted((row for row in found if row.lr == lr), key=lambda row: row.seed)
        lines.append(f"| {lr:.5g} | {' | '.join([str(runs[0].updates), *_cells(runs)])} |")
    return "\n".join(lines) + "\n"


def _lstm(rows: Sequence[Row], size: Study) -> str:
    of = size.lstm
    if not _of(rows, "lstm"):
        return ""
    lines = [
        "## MNIST-LSTM, hidden 128\n",
        "![LSTM](results/date_lstm.png)\n",
        "At the rate with the lowest validation error of the trials; DATE's are at "
        f"B = {of.baseline}.\n",
        "| B | method | rate | updates | test error by seed, % | mean | training loss |",
        "|---|---|---|---|---|---|---|",
    ]
    for batch in sorted(of.batches):
        grids = {rival: grid for rival, _, grid in plan.lstm_rivals(size, batch)}
        for method, grid in ({"date": of.date} | grids).items():
            runs = lstm_runs(rows, size, method, batch)
            if runs:
                cells = [str(batch), _name(method), _rate(runs[0].lr, grid), str(runs[0].updates)]
                lines.append(f"| {' | '.join([*cells, *_cells(runs)])} |")
    lines += ["", "Trials, seed 0, validation error in %:\n"]
    lines += ["| B | method | rates | errors |", "|---|---|---|---|"]
    for batch in sorted(of.batches):
        grids = {rival: grid for rival, _, grid in plan.lstm_rivals(size, batch)}
        own = {"date": of.date} if batch == of.baseline else {}
        for method, grid in (own | grids).items():

            def key(lr: float, method: str = method, batch: int = batch) -> str:
                return plan.name("lstm", method, batch, lr, 0)

            lines.append(f"| {batch} | {_name(method)} | {_trials(rows, grid, key)} |")
    return "\n".join(lines) + "\n"


def _long(rows: Sequence[Row], size: Study) -> str:
    of, found = size.lenet, _of(rows, "long")
    if not found:
        return ""
    lines = [
        f"## LeNet for the paper's {of.long_epochs:g} epochs\n",
        "At the rates of the short runs, seed 0; run after the tables above, so no criteria.\n",
        "| solver | B | | base rate | updates | test error, % | mean | training loss |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(found, key=lambda row: (row.method, row.batch)):
        solver, method = row.method.split("-")
        cells = [solver, str(row.batch), _name(method), f"{row.lr:g}", str(row.updates)]
        lines.append(f"| {' | '.join([*cells, *_cells([row])])} |")
    return "\n".join(lines) + "\n"


def _deviations(size: Study) -> str:
    lenet, lstm, lip = size.lenet, size.lstm, size.lipschitz
    return DEVIATIONS.format(
        lenet_epochs=lenet.epochs,
        lenet_updates=math.ceil(lenet.epochs * size.samples / lenet.batch),
        large=lenet.batch,
        trials=len(lenet.solvers[0][1].manual),
        needle_epochs=size.needle.epochs,
        lip_lr=lip.lr,
        lip_baseline=lip.baseline,
        probe=lip.probe,
        all_samples=size.samples + size.validation,
        lstm_epochs=lstm.epochs,
        lstm_updates=math.ceil(lstm.epochs * size.samples / lstm.largest),
        lstm_batch=lstm.largest,
        adam=len(lstm.rivals[0][2]),
    )


def _cells(runs: Sequence[Row]) -> list[str]:
    """Each seed's error, mean over the runs that have a model, training loss."""
    alive = [100 * test_error(row) for row in runs if math.isfinite(row.train_loss)]
    return [
        " ".join(map(_error, runs)),
        mean(alive),
        mean([row.train_loss for row in runs], ".3f"),
    ]


def _error(row: Row) -> str:
    if not math.isfinite(row.train_loss):
        return "NaN"
    return f"{100 * row.test_error:.2f}" + (" dead" if row.verdict == "diverged" else "")


def _trials(rows: Sequence[Row], grid: Sequence[float], key: Callable[[float], str]) -> str:
    errors = errors_of(rows)
    known = [errors(key(lr)) for lr in grid]
    cells = [
        "missing" if e is None else "NaN" if math.isinf(e) else f"{100 * e:.2f}" for e in known
    ]
    return f"{' '.join(f'{lr:g}' for lr in grid)} | {' '.join(cells)}"


def _rate(lr: float, grid: Sequence[float]) -> str:
    return f"**{lr:g}**" if lr in (min(grid), max(grid)) else f"{lr:g}"


def _name(method: str) -> str:
    own = {"date": "DATE", "manual": "manual schedule", "legw": "+ LEGW", "ratio": "+ layer ratio"}
    return own.get(method, f"+ {method}" if method in ("sqrt", "roller-coaster") else method)


def _of(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row.part == part]
