"""experiments/account.md is written from the committed table alone, so that it cannot drift."""

from pathlib import Path

from experiments.account.claims import NOISES, RATES, spreads
from experiments.account.groups import Measured
from experiments.account.rows import read, spread_rows
from experiments.account.size import study
from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/account/page.py, not it. -->
# The account of α_e, Δ and σ_w²

What lowers DPSGD's effective rate early in training, what raises it late, where Δ comes from, and
how far apart W lets the learners be.

{learners} learners, W = 11ᵀ/n, nB = {batch:,}, 784-50-50-10 ReLU, inputs in [0, 1], α = {alpha:g},
{steps:,} steps, float32; `--monitor full` every {every} steps, which has no factor in common with
an epoch's 30, and g exact: the gradient of all training samples. {seeds} fresh seeds. *Early* and
*late*: steps {early} and {late}. α_e/α of a phase is weighted by ‖g‖²: progress along g over the
progress that α would have made. g_S: the same mini-batches' gradients at the mean model. Other
numbers of a phase are medians of its steps. ρ: Spearman's, over all measured steps of a run;
"given" takes the ranks of the given courses out of both by least squares.

Means over the runs with Student's 95 % interval, not corrected for being many. Criteria were
committed before the runs.

Commands: `python -m experiments.account` makes the runs, in `runs/experiments/account`, and goes on
where it was stopped; `python -m experiments.publish` makes this page, its tables and its picture.
One row per run: [account.csv](results/account.csv); the measured steps:
[account_courses.csv](results/account_courses.csv).
"""

SPREAD = """\
## σ_w² from W alone

Were the learners' gradients noise about a common mean and the loss flat, σ_w² on a topology would
be that on W = 11ᵀ/n times Σ_{{i≥2}} 1/(1 - λ_i²)/(n - 1), for a W that stays, and for W(t) what
`experiments/account/spectrum.py` sums up. {learners} learners, the mean over steps {first} to
{end} of {steps}, {seeds} seeds, each against W = 11ᵀ/n on the same seed; measured over predicted as
the geometric mean of the seeds.

What is left out is curvature. Of a step of DPSGD, W x - α g, a mode of W and of the Hessian keeps
λ_i - α h, of W (x - α g) it keeps λ_i (1 - α h). So curvature damps where λ_i > 0 (ring: least
λ_i = -1/3) and excites where λ_i < 0 (hypercube: -0.6, and with α h = 0.3 its square is 0.8). With
`--order atc` the hypercube is the closer of the two, as W alone would have it: σ_w² is 0.00048
for the ring's 0.0019 at α = 0.3, in place of 0.017 for 0.0069 (two seeds, by hand, after the runs).
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("account.md")


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    size = study(scale)
    made = Measured(size, tuple(read(scale)))
    head = HEAD.format(
        learners=size.learners,
        batch=size.total_batch,
        alpha=size.alpha,
        steps=size.steps,
        every=size.monitor_every,
        seeds=len(size.seeds),
        early=f"{size.early[0]} to {size.early[1] - 1}",
        late=f"{size.late[0]} to {size.late[1] - 1}",
    )
    titles = ["is it so that ...?", "criterion", "measured", "holds"]
    parts = [
        head,
        provenance(made.rows),
        not_run_yet(missing(made)),
        "![the account over time](results/account.png)\n" if made.account else "",
        "## α_e\n",
        claims.table(markdown(titles, []), RATES, made),
        "## Δ\n",
        claims.table(markdown(titles, []), NOISES, made),
        _runs(made),
        SPREAD.format(
            learners=size.spread_learners,
            first=size.spread_steps // 2,
            end=size.spread_steps - 1,
            steps=size.spread_steps,
            seeds=len(size.spread_seeds),
        ),
    ]
    for alpha in size.spread_alphas:
        heading = [f"α = {alpha:g}", "criterion", "measured over predicted", "holds"]
        parts += [
            claims.table(markdown(heading, []), spreads(alpha, size.topologies), made),
            _spreads(made, alpha),
        ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    size = made.size
    lines = []
    if count := len(size.seeds) - len(made.account):
        lines.append(f"measured in full: {count} of {len(size.seeds)} runs")
    cells = [(alpha, name) for alpha in size.spread_alphas for name in size.topologies]
    planned = len(cells) * len(size.spread_seeds)
    if count := planned - sum(row.part == "spread" for row in made.rows):
        lines.append(f"spread on topologies: {count} of {planned} runs")
    return lines


def _runs(made: Measured) -> str:
    """A line for each run that was measured in full."""
    if not made.account:
        return ""
    head = ["seed", "verdict", "test error, %", "α_e/α early", "of g_S", "late", "of g_S",
            "Δ⁽²⁾/Δ_S early", "late", "cross/Δ early", "late", "ρ", "given t", "and g"]  # fmt: skip
    lines = [
        [
            str(row.seed),
            row.verdict,
            f"{100 * row.test_error:.2f}",
            *(
                f"{x:.2f}"
                for x in (row.early_rate, row.early_rate_s, row.late_rate, row.late_rate_s)
            ),
            *(f"{10**x:.2g}" for x in (row.early_delta2_over_s, row.late_delta2_over_s)),
            *(
                f"{x:.2f}"
                for x in (row.early_cross, row.late_cross, row.rho, row.rho_t, row.rho_t_g)
            ),
        ]
        for row in made.account
    ]
    return markdown(head, lines)


def _spreads(made: Measured, alpha: float) -> str:
    """A line for each topology: sigma_w^2, its ratio, and the predicted one."""
    lines = []
    for name in made.size.topologies:
        found = spread_rows(made.rows, alpha, name, made.size)
        ratios = made.spread(alpha, name)
        if found is None or ratios is None:
            continue
        predicted = [made.predicted(name, seed) for seed in made.size.spread_seeds]
        spread = mean([row.sigma_w2 for row in found], ".2g")
        lines.append([name, spread, mean(ratios), mean(predicted)])
    head = [f"α = {alpha:g}", "σ_w²", "over that of complete", "predicted"]
    return markdown(head, lines) if lines else ""
