"""experiments/methods.md is written from the committed table alone, so that it cannot drift."""

import math
from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, percent, provenance
from experiments.common.pairs import difference_text
from experiments.common.scale import Scale
from experiments.methods import plan
from experiments.methods.claims import CLAIMS, ranking, seconds
from experiments.methods.groups import Group, Measured, front, mean_of
from experiments.methods.methods import BASELINE, METHODS, OURS, compared
from experiments.methods.network import section
from experiments.methods.rows import NETWORKS, losses_of, read
from experiments.methods.size import PARTITIONS, Size, study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/methods/page.py, not this. -->
# Bytes, seconds, loss: {count} methods

One small task, so that all of [the family](../docs/methods.md) could be tuned alike: {dataset},
784-{widths}-10 ReLU, {learners} learners with batches of {batch}, {steps} steps, constant rate,
float32. Twice: **data alike**, random shards; **data different**, shards with skewed labels
(Dirichlet, concentration {concentration:g}). A difference between methods here is one at {steps}
steps of a small net; nothing says that it is one of large nets.

**Tuning.** {trials} trials for every method and cell, on seed {tuning}, which is not judged, by
validation loss ({validation} samples held out): rates {rates} times the method's own factor, or
half of them with gamma 0.1 and 0.4 where it has one. A rate at the edge of its grid is bold: the
method might do better outside. Rounds have H = {every}; all else is at the harness's defaults,
for the most part the authors', and was not tuned. The best trial goes through {seeds} seeds.

**Bytes** are counted: those of the payloads that a learner sent. **Seconds** are not measured,
since all learners shared two cores here; they are `gossip.simulate`'s, on four of its networks,
with {gradient:g} ms for a gradient (a convention), an average over all by ring or
halving-doubling, whichever is over sooner, and nothing for compressing and decoding. What Streaming
DiLoCo could hide counts as waited for. No learner is slower than another, which is what AD-PSGD is
for; its steps are of {learners} gradients, whosever they are. A model of 1000 times the size and
a gradient of 1000 times the time would have the same picture on networks of the same bandwidth, but
for latencies.
**The target** is {slack:.0%} of the test loss that SSGD's best trial ended with.

Errors and losses are those of the final mean model on the test set. A difference is the mean over
seeds of differences between runs of one seed, in points of test error, with Student's 95 %
interval. On the *front*: no other method has both less cost and less test loss, by means.

Commands: `python -m experiments.methods` makes the runs, in `runs/experiments/methods`, and goes on
where it was stopped; `python -m experiments.publish` makes this page, its table and its picture.
One row per run: [methods.csv](results/methods.csv).
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("methods.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), read(scale))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    is_drawn = any(made.whole(cell) for cell in PARTITIONS)
    parts = [
        _head(made.size),
        provenance(made.rows),
        not_run_yet(missing(made)),
        "![test loss over bytes and seconds](results/methods.png)\n" if is_drawn else "",
        "## Claims and questions\n",
        "Criteria were written down before the judged runs were made.\n",
        claims.table(
            markdown(["is it so that ...?", "criterion", "measured", "holds"], []), CLAIMS, made
        ),
        *(part for cell in PARTITIONS for part in _cell(made, cell)),
        *section.parts(scale),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line if there are missing runs."""
    found = {row.key for row in made.rows}
    wanted = plan.runs(made.size, losses_of(made.rows))
    count = plan.count(made.size)
    left = count - sum(key in found for key in wanted)
    return [f"{left} of {count} runs"] if left else []


def _head(size: Size) -> str:
    return HEAD.format(
        count=len(compared(size)),
        dataset=size.dataset,
        widths="-".join(map(str, size.widths)),
        learners=size.learners,
        batch=size.batch,
        steps=size.steps,
        concentration=size.concentration,
        trials=len(size.rates),
        tuning=size.tuning_seed,
        validation=size.validation,
        rates=", ".join(f"{lr:g}" for lr in size.rates),
        every=size.every,
        seeds=len(size.seeds),
        gradient=1e3 * size.gradient,
        slack=size.slack,
    )


def _cell(made: Measured, cell: str) -> list[str]:
    """What there is of one cell: methods, where ours lose, trials."""
    tried = _trials(made, cell)
    if not tried:
        return []
    heading = f"## Data {cell}\n"
    groups = {name: made.tuned(cell, name) for name in compared(made.size)}
    parts = [heading]
    if all(groups.values()):
        parts += [_methods(made, cell, groups), _losing(groups)]
    return [*parts, "Trials, validation loss:\n", markdown(["method", "tried", "losses"], tried)]


def _methods(made: Measured, cell: str, groups: dict[str, Group]) -> str:
    base, lines = groups[BASELINE], []
    best = {column: front(groups, column) for column in ("megabytes", *NETWORKS.values())}
    for name, group in groups.items():
        times = [
            _marked(seconds(mean_of(group, f"to_{column}")), name in best[column])
            for column in NETWORKS.values()
        ]
        kilobytes = 1e3 * mean_of(group, "megabytes") / made.size.steps
        lines.append([
            METHODS[name].label, METHODS[name].family, _rate(made, name, group),
            _marked(f"{kilobytes:.3g}", name in best["megabytes"]),
            mean([row.test_loss for row in group.values()], ".3f"),
            percent(list(group.values()), "test_error"), difference_text(group, base),
            mean([row.sigma_w2 for row in group.values()], ".2g"), *times,
        ])  # fmt: skip
    head = [
        "method", "family", "tuned", "kB a step", "test loss", "test error, %", "minus SSGD's",
        "σ_w² at the end", *(f"to the target, {name}" for name in NETWORKS),
    ]  # fmt: skip
    note = (
        "\\*: on the front of test loss at the end and bytes, or seconds of the whole run on that "
        "network.\n"
    )
    return markdown(head, lines) + "\n" + note


def _losing(groups: dict[str, Group]) -> str:
    """Who comes to the target before DPSGD, on each network."""
    lines = []
    for network in NETWORKS:
        found = ranking(groups, network)
        own = next(((value, name) for value, name in found if name in OURS), None)
        if own is None:
            lines.append(f"- {network}: DPSGD does not come to the target in all runs.\n")
            continue
        before = [
            f"{METHODS[name].label} ({own[0] / value:.2g} times)"
            for value, name in found[: found.index(own)]
        ]
        said = f"sooner are {', '.join(before)}" if before else "nothing is sooner"
        lines.append(f"- {network}: DPSGD takes {seconds(own[0])}; {said}.\n")
    return "Where DPSGD loses, by seconds to the target:\n\n" + "".join(lines)


def _trials(made: Measured, cell: str) -> list[list[str]]:
    losses, lines = losses_of(made.rows), []
    for name, method in compared(made.size).items():
        tried = method.trials(made.size)
        seed = made.size.tuning_seed
        found = [losses(plan.key(cell, name, i, seed)) for i in range(len(tried))]
        if any(loss is not None for loss in found):
            rates = " ".join(_trial(trial.lr, trial.options) for trial in tried)
            lines.append([method.label, rates, " ".join(map(_loss, found))])
    return lines


def _trial(lr: float, options: tuple[str, ...]) -> str:
    gamma = [each.partition("=")[2] for each in options if each.startswith("gamma=")]
    return "/".join([f"{lr:.3g}", *gamma])


def _loss(loss: float | None) -> str:
    if loss is None:
        return "missing"
    return "lost" if math.isinf(loss) else f"{loss:.3f}"


def _rate(made: Measured, name: str, group: Group) -> str:
    tried = METHODS[name].trials(made.size)
    trial = tried[group[min(group)].trial]
    rates = [each.lr for each in tried]
    text = _trial(*trial)
    return f"**{text}**" if trial.lr in (min(rates), max(rates)) else text


def _marked(text: str, is_best: bool) -> str:
    return f"{text} \\*" if is_best else text
