"""experiments/noise.md is written from the committed table alone, so that it cannot drift."""

import math
from pathlib import Path
from statistics import median

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.noise.arms import ARMS
from experiments.noise.claims import CLAIMS, MARGIN
from experiments.noise.groups import Measured
from experiments.noise.plan import WINDOW
from experiments.noise.rows import read
from experiments.noise.size import study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/noise/page.py, not this file. -->
# Which property of DPSGD's noise rescues training?

With W = 11ᵀ/n and plain SGD, DPSGD *is* SSGD whose gradients are taken at w_a + D_j, with
D_j(t+1) = -α (g_j - g_a)(t). So the DPSGD paper's cause can be tested by intervention: replace D by
noise of the strength Σ_j ‖D_j‖² of the step and change one property of it; or leave out the noise
and give SSGD the effective learning rate that DPSGD had. Each arm is an option anybody can run:
`--algorithm ssgd-injected --algorithm-options noise=flipped`, `--lr-trace runs/NAME`.

**How strong.** D is made of the arm's own gradients, and where other noise leads elsewhere these
are others: the column σ_w² says how strong the noise came to be. Isotropic noise stays far weaker
than DPSGD's, noise that is turned explodes. So the arms *DPSGD's σ_w²* have the strength that a run
of DPSGD had at the same step and of the same seed (`strength_from=runs/NAME`): between these and
DPSGD strength is alike, and one property differs.

{learners} learners, nB = {batch:,}, 784-50-50-10 ReLU, inputs in [0, 1], constant α, {steps:,}
steps, float32, at rates where other seeds had shown SSGD to fail; that of Fashion-MNIST was chosen
also because DPSGD survived it there, on seeds 0 and 1. {seeds} fresh seeds an arm; *survived*: not
diverged, and a test error at the end below {failed}.
Near the edge of stability a seed controls nothing, so arms are compared unpaired. Shares have
Wilson's interval, differences Newcombe's, 95 %, not corrected for being many. "As well" is: at most
{margin} fewer survive. The matched arm follows α_e of a run of its seed, recorded at every step on
a probe of 2,000 samples, averaged over {window} steps on either side.
Where 0 of 20 runs of an arm survive and 0 of 20 of SSGD, "survives more often" is open, as the
interval reaches to 0.16; whether a quarter more do was asked later, and the answer is no. Where
DPSGD itself survives in a quarter of its runs, "as well" cannot come out as no.

Commands: `python -m experiments.noise` makes the runs, in `runs/experiments/noise`, and goes on
where it was stopped; `python -m experiments.publish` makes this page, its table and its picture.
One row per run: [noise.csv](results/noise.csv).
"""

EARLY = "σ_w² early, median of the runs where it is finite"


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("noise.md")


def measured(scale: Scale) -> list[Measured]:
    """The table in `scale.results`, by cell."""
    size, rows = study(scale), tuple(read(scale))
    return [Measured(size, cell, rows) for cell in size.cells]


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    cells = measured(scale)
    size = cells[0].size
    head = HEAD.format(
        learners=size.learners,
        batch=size.total_batch,
        steps=size.steps,
        seeds=len(size.seeds),
        failed=" and ".join(
            dict.fromkeys(f"{100 * cell.failed:g} % on {cell.dataset}" for cell in size.cells)
        ),
        margin=f"{100 * MARGIN:g} %",
        window=WINDOW,
    )
    parts = [
        head,
        provenance(cells[0].rows),
        not_run_yet(missing(cells)),
        "![share of runs that survive](results/noise.png)\n"
        if any(made.judged for made in cells)
        else "",
    ]
    for made in cells:
        head_of_table = ["is it so that ...?", "criterion", "survived, difference", "holds"]
        parts += [
            f"## {made.cell.dataset}, α = {made.cell.alpha:g}\n",
            _arms(made) if any(made.arm(name) for name in ARMS) else "",
            claims.table(markdown(head_of_table, []), CLAIMS, made),
        ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(cells: list[Measured]) -> list[str]:
    """A line for each arm that has missing runs; none if all are finished."""
    return [
        f"{made.cell.dataset}, α = {made.cell.alpha:g}, {arm.label}: {count} of {planned} runs"
        for made in cells
        for name, arm in ARMS.items()
        for planned in (len(made.size.seeds),)
        if (count := planned - len(made.arm(name)))
    ]


def _arms(made: Measured) -> str:
    """A line for each arm: survival, and the survivors' errors."""
    lines = []
    for name, arm in ARMS.items():
        found = made.arm(name)
        kept = [100 * row.test_error for row in found if row.survived]
        survival = made.survival(name)
        lines.append(
            [
                arm.label,
                arm.changed,
                f"{sum(row.survived for row in found)} of {len(found)}" if found else "-",
                "-" if survival is None else f"[{survival.low:.2f}, {survival.high:.2f}]",
                mean(kept),
                _median([row.sigma_w2 for row in found]),
            ]
        )
    head = ["", "what is changed", "survived", "95 %", "survivors' test error, %", EARLY]
    return markdown(head, lines)


def _median(values: list[float]) -> str:
    """Of those that are finite, and how many these are if not all are."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "-"
    counted = f" ({len(finite)} of {len(values)})" if len(finite) < len(values) else ""
    return f"{median(finite):.2g}{counted}"
