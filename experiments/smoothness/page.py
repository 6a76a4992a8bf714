"""experiments/smoothness.md is written from the committed table alone, so that it cannot drift."""

import math
from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.common.statistics import Estimate
from experiments.smoothness.claims import INSTEAD, SURVIVAL, THEOREM
from experiments.smoothness.groups import DEAD, Measured
from experiments.smoothness.plan import ARMS, DPSGD
from experiments.smoothness.rows import ERROR, read
from experiments.smoothness.size import study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/smoothness/page.py, not this. -->
# Theorem 1: does averaging over the learners make the loss smoother?

The DPSGD paper explains why DPSGD bears larger rates by its Theorem 1: averaged over the learners'
deviations, taken as Gaussian, the loss has a gradient with Lipschitz constant at most 2G/σ_w, so
rates up to σ_w/(2G) train. A bound says that a loss *may* be smoother; here it is measured, on the
replicas of real runs: of the loss at the mean model w_a, of the loss averaged over the learners'
own places, and over Gaussian ones of c times their σ_w per coordinate, the largest eigenvalue of
the Hessian (Lanczos' method on exact products) and ‖∇L̃(w_a - s) - ∇L̃(w_a)‖/‖s‖ over one step
s = α ∇L(w_a). c = 1 is the theorem; 10 to 30 is the strength at which SSGD\\* trains
([DPSGD's page](dpsgd.md)). Three pairs ±s of Gaussian places, the same for all runs; G is the
largest ‖∇L(w_j)‖ of the learners, a lower estimate, so the bound is printed too small. Anybody can
do this: `python -m gossip.landscape runs/NAME --at-step 100 --smoothed 1 10 30`.

{learners} learners, W = 11ᵀ/n for DPSGD, nB = {batch:,}, 784-50-50-10 ReLU on MNIST, inputs in
[0, 1], float32, a constant α, no momentum, {steps:,} steps; the loss on {samples:,} training
samples, after {early} steps (*early*: their geometric mean) and {late} (*late*). {seeds} fresh
seeds. Ratios are of one run's numbers, with Student's interval; between the algorithms they are
unpaired, with Welch's: near the edge of stability a seed controls nothing. *Survived*: not
diverged, and a test error below {error:.0%}. *AUC*: of a run that died and one that survived at
α = {largest:g}, how often the former had the larger number after {tells} steps; weights that are
not finite by then count as the largest number (interval: Newcombe 2006). (It was to be over all
rates, of α times the number; before a run at α = {largest:g} was made, a review saw that there the
rate alone tells many runs apart.) A verdict is *yes* if the whole interval meets the criterion,
*no* if none of it does. Verdicts but those on survival are about α = {alpha:g}. They are not
corrected for being many. Criteria were committed before the runs, after one run of each algorithm
on seed 3 at α = 1 had been looked at, which is not among them.

Commands: `python -m experiments.smoothness` makes the runs, in `runs/experiments/smoothness`,
measures them, and goes on where it was stopped; `python -m experiments.publish` makes this page,
its table and its picture. A row for each measured step of each run:
[smoothness.csv](results/smoothness.csv).
"""

REVERSED = """\
Seen after the runs: a net whose units are off lies where the loss is flat, so of the runs that are
dead after {tells} steps many have the *smallest* numbers, and the order is reversed. The last line
leaves these out.
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("smoothness.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), tuple(read(scale)))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    size = made.size
    head = HEAD.format(
        learners=size.learners,
        batch=size.total_batch,
        steps=size.steps,
        samples=size.samples,
        early=", ".join(map(str, size.early)),
        late=" and ".join(f"{step:,}" for step in size.late),
        seeds=len(size.seeds),
        error=ERROR,
        tells=size.tells,
        largest=size.alphas[-1],
        alpha=size.alpha,
    )
    timed = [row for row in made.rows if math.isfinite(row.seconds)]
    titles = markdown(["is it so that ...?", "criterion", "measured", "holds"], [])
    parts = [
        head,
        provenance(timed),
        not_run_yet(missing(made)),
        "![smoothness over steps](results/smoothness.png)\n" if made.rows else "",
        f"## Does averaging smooth the loss? α = {size.alpha:g}\n",
        claims.table(titles, THEOREM, made),
        _ratios(made),
        f"## What the curvature at the mean model says, α = {size.alpha:g}\n",
        claims.table(titles, INSTEAD, made),
        _edges(made),
        f"## What tells which runs survive, α = {size.alphas[-1]:g}\n",
        claims.table(titles, SURVIVAL, made),
        REVERSED.format(tells=size.tells) if made.complete(size.alphas[-1], DPSGD) else "",
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each rate and arm that has missing runs; none if all are finished."""
    planned, first = len(made.size.seeds), made.size.at[0]
    return [
        f"α = {alpha:g}, {label}: {count} of {planned} runs"
        for alpha in made.size.alphas
        for arm, label in ARMS.items()
        if (count := planned - len(made.at(alpha, arm, first)))
    ]


def _ratios(made: Measured) -> str:
    """DPSGD's runs: each average over the loss at the mean model, by rate and phase."""
    lines = [
        [f"{alpha:g}", phase, *map(_shown, _of_phase(made, alpha, steps))]
        for alpha in made.size.alphas
        for phase, steps in (("early", made.size.early), ("late", made.size.late))
        if made.complete(alpha, DPSGD)
    ]
    kinds = ["learners'", "σ_w", "10 σ_w", "30 σ_w"]
    head = ["α", "", *(f"λ_max, {kind}" for kind in kinds), *(f"step, {kind}" for kind in kinds)]
    return markdown(head, lines) if lines else ""


def _of_phase(made: Measured, alpha: float, steps: tuple[int, ...]) -> list[Estimate | None]:
    return [
        made.ratio(alpha, f"{kind}_{name}", f"none_{name}", steps)
        for name in ("lambda_max", "difference")
        for kind in ("learners", "gaussian1", "gaussian10", "gaussian30")
    ]


def _edges(made: Measured) -> str:
    """Each arm and rate: who survived, and alpha lambda_max / 2 over the steps."""
    lines = []
    for alpha in made.size.alphas:
        for arm, label in ARMS.items():
            runs = made.at(alpha, arm, made.size.at[-1])
            if not made.complete(alpha, arm):
                continue
            survived = f"{sum(row.survived for row in runs)} of {len(runs)}"
            edges = [_edge(made, alpha, arm, step) for step in made.size.at]
            lines.append([f"{alpha:g}", label, survived, *edges])
    head = ["α", "", "survived", *(f"α λ_max/2, step {step}" for step in made.size.at)]
    left_out = f"\nRuns with a loss of {DEAD:g} or more at the step are left out.\n"
    return markdown(head, lines) + left_out if lines else ""


def _edge(made: Measured, alpha: float, arm: str, step: int) -> str:
    """The number, and of how many runs it is if some are dead by then."""
    alive, planned = len(made.alive(alpha, arm, step)), len(made.size.seeds)
    counted = f" ({alive} of {planned})" if alive < planned else ""
    return _shown(made.edge(alpha, arm, step)) + counted


def _shown(found: Estimate | None) -> str:
    return "-" if found is None else str(found)
