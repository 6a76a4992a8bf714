"""experiments/date.md is written from date.csv alone, so that it cannot drift from it."""

import math
from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.date.claims import CLAIMS, LOST, LSTM_LOST, UNPEAKED, WORDS_LOST
from experiments.date.cost import hours
from experiments.date.groups import Measured, elasticity, points, shown
from experiments.date.methods import BY_LOSS, METHODS
from experiments.date.plan import PARTS, Cell
from experiments.date.rows import Row, read
from experiments.date.size import Study, study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/date/page.py, not this file. -->
# DATE: large batches with LEGW, on MNIST at the paper's lengths, and on words

The paper is You et al., "Large-batch training for LSTM and beyond", SC 2019. Real MNIST, inputs in
[0, 1], {samples:,} training samples and {validation:,} held out of the training set, which choose
every rate; errors are those of the final model on the 10,000 test images. SSGD with one learner and
the whole batch, which is the arithmetic of SSGD for any number of learners. float32, PyTorch's
default initialisation, stacked backend, one thread a run.

- **LeNet**, {lenet.epochs:g} epochs: {lenet_small:,} updates at B_0 = {lenet.baseline:,},
  {lenet_large:,} at B = {lenet.largest:,}.
- **MNIST-LSTM** (rows of an image, hidden 128), {lstm.epochs:g} epochs: {lstm_small:,} updates at
  B_0 = {lstm.baseline:,}, {lstm_large:,} at B = {lstm.largest:,}.
- **Words backwards**, a sequence-to-sequence toy in place of GNMT: one LSTM reads the letters of a
  word of the Brown corpus, another writes them backwards (`--dataset brown-backwards`), hidden 128,
  {backwards.samples:,} words, {validation:,} held out and 3,850 of the test, of which errors are
  those of letters, the empty places of short words among them. {backwards.epochs:g} epochs:
  {backwards_small:,} updates at B_0 = {backwards.baseline:,}, {backwards_large:,} at
  B = {backwards.largest:,}. One run of Adam at B_0 was looked at before the criteria were written
  (rate 0.002, seed 0: 0.40 %).
- **Words**, a language model in place of PTB's: 20-word windows of the Brown corpus with a
  vocabulary of 2,000, to which a fifth of its words are unknown (`--dataset brown-2k`), `word-lstm`
  with two layers of 64, {words.samples:,} windows, {validation:,} held out and 5,763 of the test.
  {words.epochs:g} epochs: {words_small:,} updates at B_0 = {words.baseline:,}, {words_large:,} at
  B = {words.largest:,}. Tuned and judged by the loss, the logarithm of the perplexity.

DATE is LEGW's warm-up, square-root scaling, the roller-coaster's decay and the layer ratio; **its
base rate is tuned at B_0 alone**, everything else where it runs. The manual schedule is linear
scaling, 2 epochs of warm-up and a tenth of the rate after 10, 20 and 27 of 30.

Every method is tried on seed {tuning}, which is not judged, with three rates a factor of two apart;
the grid grows at an end as long as the best validation error at the end of the run is there, at
most {further} times. That rate goes through {seeds} other seeds. Differences are in points of test
error, on words in hundredths of ln(perplexity), unpaired, with Welch's 95 % interval, not corrected
for being many; that one seed chose the rates is not in them. A run whose loss is not finite has the
error, or perplexity, of guessing evenly, and none counts for worse. *Without loss* is: less than
{lost:g} points on LeNet, {lstm_lost:g} on the LSTM and the toy, {words_lost:g} on words.

**L(x, g)**: LeNet with momentum 0.9 at the constant rate {lip_lr:g} sqrt(B / {lip_baseline:,}),
half of that at which a pilot at B = 8192 died after its peak (in epoch 3.3; seed {tuning}), on
{probe} fixed training samples. The peak is that of a running median over three measurements, about
{measured} of them a run. {lip_seeds} seeds a batch; if more than {unpeaked} runs have no peak
before their last tenth, it is open. Runs are as long as the pilot and older runs say that the peak
needs: {lengths}.

**The needle**: LARS with a warm-up over a tenth of the run and its own polynomial decay, tuned at
B = {lenet.largest:,}; then its best rate and those 0.6 % below and above it, {needle_seeds} seeds
each.
"""

PLAN = """\
In the order in which `python -m experiments.date` makes them, most decisive first; `--parts`
chooses some. Rows of the table count as runs, so it goes on from here on any machine, with its run
folders in `runs/experiments/date`; `--smoke` tries the code in seconds.
`python -m experiments.publish` makes this page and its pictures. One row per run:
[date.csv](results/date.csv).
"""

CUT = """\
An epoch of LeNet is 6 to 9 core seconds, of the LSTM 15 to 20, so a run of LeNet is 3 to 5 minutes
and one of the LSTM 7 to 8, of words backwards 2, of words 3. The word LSTM of the paper has 10,000
words, two layers of 200 and 13 epochs, here an hour for each of some thirty runs: cut to 2,000
words, two layers of 64 and 4 epochs. Left out altogether: translation; batches between B_0 and B;
DATE's own seeds at B_0 on LeNet. A study of 6 and 3 epochs before this one is in the history of
this page: most of its rates were at an end of their grids and most of its cells had one seed, so
nothing of it is kept.
"""

DEVIATIONS = """\
## Deviations from the paper

- The paper gives 1.25e-3 as LeNet's base rate and not its solver; here rates are tuned.
- The parts of DATE, one by one, have the rate of the manual schedule on RMSProp at B_0, as Fig. 10
  changes one thing at a time; DATE has its own, lower because the layer ratio goes up to 10.
- The limits of the layer ratio are not printed: fixed at 0.1 and 10. The decay is the continuous
  reading of Algorithm 1 (`reference=scaled`), the warm-up linear.
- Table 1 is not about LeNet. L(x, g) is LeNet's, not the LSTM's.
- The LSTM's w_0 is {lstm_warmup:g} epochs, the toy's {backwards_warmup:g}, that of words
  {words_warmup:g}: the warm-up is a fifth of the run at the largest batch. Their rivals have
  constant rates, and words no decay by epochs as the paper's; "rmsprop-corrected" has DATE's layer
  ratio at a constant rate.
"""

TITLES = {
    "lenet": "LeNet, RMSProp",
    "needle": "LARS over its rate, LeNet",
    "momentum": "LeNet, momentum",
    "lstm": "MNIST-LSTM, DATE and Adam",
    "backwards": "Words backwards, DATE and Adam",
    "words": "Word LSTM, DATE and Adam",
    "toggles": "DATE's parts one after another, LeNet on RMSProp",
    "solvers": "MNIST-LSTM, other solvers",
}


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("date.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), read(scale))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    parts = [
        _head(made.size),
        provenance(made.rows) if made.rows else "",
        not_run_yet(missing(made)),
        "## The paper's statements\n",
        "The criteria were written down before the runs were made.\n",
        claims.table(claims.REPRODUCES, CLAIMS, made),
        "![test errors of the runs judged by them](results/date.png)\n" if made.by_error() else "",
        _lipschitz(made),
        *(_part(made, part, title) for part, title in TITLES.items()),
        "## Plan and cost\n",
        PLAN,
        _plan(made),
        CUT,
        DEVIATIONS.format(**{f"{name}_warmup": made.size.task(name).warmup for name in METHODS}),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    counts = {part: made.left(part) for part in PARTS}
    return [f"{part}: {count} runs" for part, count in counts.items() if count]


def _head(size: Study) -> str:
    tasks = {name: size.task(name) for name in METHODS}
    lip = size.lipschitz
    updates = {
        f"{name}_{at}": math.ceil(task.epochs * task.samples / batch)
        for name, task in tasks.items()
        for at, batch in (("small", task.baseline), ("large", task.largest))
    }
    return HEAD.format(
        samples=size.lenet.samples,
        validation=size.validation,
        **tasks,
        tuning=size.tuning_seed,
        further=size.further,
        seeds=len(size.seeds),
        lost=LOST,
        lstm_lost=LSTM_LOST,
        words_lost=WORDS_LOST,
        lip_lr=lip.lr,
        lip_baseline=lip.baseline,
        probe=lip.probe,
        measured=round(
            sum(e * lip.samples / b / every for b, e, every in lip.cells) / len(lip.cells)
        ),
        lengths=", ".join(f"{e:g} epochs at {b:,}" for b, e, _ in lip.cells),
        lip_seeds=len(lip.seeds),
        unpeaked=UNPEAKED,
        needle_seeds=len(size.needle_seeds),
        **updates,
    )


def _plan(made: Measured) -> str:
    lines = []
    for part in PARTS:
        count, time = hours(part, made.size)
        lines.append([part, str(count), f"{time:.1f}", str(made.left(part))])
    return markdown(["part", "runs", "core hours", "to come"], lines)


def _lipschitz(made: Measured) -> str:
    found = {batch: rows for batch, rows in made.lipschitz().items() if rows}
    if not found:
        return ""
    lines = []
    for batch, rows in found.items():
        inside = [row for row in rows if row.peak_is_inside]
        per_epoch = made.size.lipschitz.samples / batch
        lines.append([
            f"{batch:,}", f"{len(inside)} of {len(rows)}",
            mean([row.peak_lipschitz for row in inside], ".3g"),
            mean([row.peak_epoch for row in inside]),
            mean([row.peak_epoch * per_epoch for row in inside], ".0f"),
            str(sum(row.verdict == "diverged" for row in rows)),
        ])  # fmt: skip
    head = ["B", "runs with a peak", "L at its peak", "peak, epoch", "peak, update", "diverged"]
    inside = {b: [row for row in rows if row.peak_is_inside] for b, rows in found.items()}
    enough = sum(map(bool, inside.values())) > 1 and sum(map(len, inside.values())) > 2
    exponent = f"\nEpoch of the peak: B to the power {elasticity(inside):+.2f}.\n"
    return (
        "## Local Lipschitz constant, LeNet\n\n"
        "![epoch of the peak over the batch](results/date_lipschitz.png)\n\n"
        + markdown(head, lines)
        + (exponent if enough else "")
    )


def _part(made: Measured, part: str, title: str) -> str:
    """Judged runs and trials of a part's cells, if it has any."""
    cells = PARTS[part]
    trials = list(dict.fromkeys(cell.tuned_at for cell in cells))
    if not any(made.error(cell)(lr) is not None for cell in trials for lr in made.tried(cell)):
        return ""
    judged = "perplexity" if cells[0].task in BY_LOSS else "error"
    unit = "" if cells[0].task in BY_LOSS else ", %"
    head = ["B", "", "base rate", f"test {judged} by seed{unit}"]
    head += ["converged", "mean of these", "their training loss"]
    lines = [_cell(made, cell) for cell in cells]
    tried = [[_label(cell, made), _trials(made, cell)] for cell in trials]
    return "\n".join([
        f"## {title}\n",
        markdown(head, lines),
        markdown(["tried at", f"base rate: validation {judged} of one seed{unit}"], tried),
    ])  # fmt: skip


def _cell(made: Measured, cell: Cell) -> list[str]:
    lr, runs = made.chosen(cell), made.judged(cell)
    rate = "-" if lr is None else f"{lr:.5g}"
    if lr is not None and made.is_at_end(cell):
        rate += " (end of the grid)"
    alive = [row for row in runs if row.verdict != "diverged"]
    return [
        f"{cell.batch(made.size):,}",
        cell.method,
        rate,
        " ".join(map(_error, runs)) or "-",
        f"{len(alive)} of {len(runs)}" if runs else "-",
        mean([shown(row.task, points(row)) for row in alive]),
        mean([row.train_loss for row in alive], ".3f"),
    ]


def _error(row: Row) -> str:
    value = shown(row.task, points(row))
    return f"{value:.2f}" if math.isfinite(row.train_loss) else "NaN"


def _label(cell: Cell, made: Measured) -> str:
    return f"{cell.method}, B = {cell.batch(made.size):,}"


def _trials(made: Measured, cell: Cell) -> str:
    error, best = made.error(cell), made.chosen(cell)
    return ", ".join(
        f"{lr:g}: " + (f"**{found}**" if lr == best else found)
        for lr in made.tried(cell)
        for found in [_trial(cell.task, error(lr))]
    )


def _trial(task: str, error: float | None) -> str:
    if error is None:
        return "-"
    return "NaN" if math.isinf(error) else f"{shown(task, 100 * error):.2f}"
