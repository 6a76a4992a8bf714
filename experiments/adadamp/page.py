"""experiments/adadamp.md is written from the committed tables alone, so that it cannot drift."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from experiments.adadamp import facts, plan, rows, workers
from experiments.adadamp.claims import CLAIMS, OF_SCHEDULES, seconds, time_to_target, totals
from experiments.adadamp.groups import Measured
from experiments.adadamp.methods import (
    BASELINE,
    CAP,
    FACTOR,
    METHODS,
    PUBLISHED,
    SCHEDULES,
    SHARE,
    compared,
    falling,
    largest,
    linear,
    method,
)
from experiments.adadamp.rows import MODELS, SECONDS, Row, errors_of
from experiments.adadamp.size import Size, studies
from experiments.adadamp.text import DONE, HEAD, IMAGES, TIMES, TO_DO
from experiments.common import claims
from experiments.common.markdown import (
    markdown,
    mean,
    not_run_yet,
    page,
    percent,
    provenance,
    table_row,
)
from experiments.common.pairs import difference_text
from experiments.common.scale import Scale
from gossip.damping import GeoDamp, planned

HEADINGS = ("is it so that ...?", "criterion", "measured", "holds")


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("adadamp.md")


def measured(scale: Scale, size: Size) -> Measured:
    """A study's tables in `scale.results`."""
    return Measured(
        size,
        *facts.read(scale.results),
        *rows.read(scale.results, size),
        workers.read(scale.results),
    )


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    made, images = (measured(scale, size) for size in studies(scale).values())
    parts = [
        _head(made, images),
        provenance([*made.rows, *images.rows]),
        not_run_yet([*missing(made), *(f"CIFAR-10, {line}" for line in missing(images))]),
        "## Claims and questions\n",
        "Criteria were written down before the runs were made.\n",
        claims.table(markdown(HEADINGS, []), CLAIMS, made),
        _plans(made),
        _diversity(made),
        _schedules(made),
        _times(made),
        _workers(made),
        _images(images),
        _dampers(made),
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each part that has missing runs; none if all are finished."""
    found, lines = {row.key for row in made.rows}, []
    for part in made.size.parts:
        left = plan.left(part, made.size, errors_of(made.rows), found)
        if left:
            lines.append(f"{part}: {left} runs, more if a grid grows")
    if "workers" in made.size.parts and not made.waits:
        lines.append("workers: not measured")
    return lines


def _head(made: Measured, images: Measured) -> str:
    size = made.size
    return HEAD.format(
        **_said(size),
        images=DONE if images.rows else TO_DO,
        widths=", ".join(map(str, size.widths)),
        seeds=len(size.seeds),
        quarter=size.batch // size.learners,
        learners=size.learners,
        cap=CAP,
        linear=linear(size)[0].partition("=")[2],
        falling=falling(size)[0].partition("=")[2],
        share=SHARE,
    )


def _said(size: Size) -> dict[str, float | str]:
    """What is said of each data set."""
    return {
        "samples": size.samples,
        "validation": size.validation,
        "epochs": size.epochs,
        "batch": size.batch,
        "delay": size.delay,
        "fraction": size.epochs * size.samples / size.batch / (200 * 50_000 / 128),
        "rates": ", ".join(f"{lr:g}" for lr in size.rates),
        "tuning": size.tuning_seed,
        "further": size.further,
    }


def _images(made: Measured) -> str:
    size = made.size
    damper = GeoDamp(
        initial=size.batch, delay=size.delay, factor=FACTOR, max_batch=largest(size, 1, CAP)
    )
    batches = [p.damping.batch for p in planned(damper, size.epochs, size.samples)]
    parts = [
        IMAGES.format(
            **_said(size),
            longer=200 / size.epochs,
            every=size.growing_every,
            last=sum(batch == max(batches) for batch in batches),
            coarse=size.growing_every * 25 * size.batch / size.samples,
        ),
        claims.table(markdown(HEADINGS, []), OF_SCHEDULES, made),
        _schedules(made, "###"),
        _tried(made, [BASELINE]),
    ]
    return "\n".join(part for part in parts if part)


def _plans(made: Measured) -> str:
    if not made.schedules:
        return ""
    head = ["largest batch", "B from epochs 0, 60, 120, 180", "rate", "updates", "in one stream"]
    lines = [
        [s.name, s.batches.replace(" ", ", "), s.rates.replace(" ", ", "), f"{s.updates:,}",
         f"{s.stream:,}"]
        for s in made.schedules
    ]  # fmt: skip
    note = (
        "\nEach epoch rounded up to whole batches, as the paper counts; our loop rounds up once.\n"
    )
    return "## The paper's schedules\n\n" + markdown(head, lines) + note


def _diversity(made: Measured) -> str:
    if not made.diversity:
        return ""
    size, problems = made.size, list(dict.fromkeys(row.problem for row in made.diversity))
    values = {(row.problem, row.place): row.value for row in made.diversity}
    lines = [
        [f"{place:g}", *(f"{values[problem, place]:.4g}" for problem in problems)]
        for place in facts.PLACES
    ]
    text = (
        "Mean squared gradient of a sample over the squared mean gradient: roughly the batch from "
        "which on a\nlarger one gains little. On the line from the optimum to the first weights; "
        f"`quadratic` has four points\nin the plane, the others {size.probe:,} training samples, "
        f"weight decay {facts.DECAY:g} and at most\n{size.iterations} iterations of L-BFGS, in "
        "float64.\n\n![gradient diversity](results/adadamp_diversity.png)\n\n"
    )
    return "## Gradient diversity\n\n" + text + markdown(["distance", *problems], lines)


def _schedules(made: Measured, level: str = "##") -> str:
    base = made.scheduled(BASELINE)
    if not base:
        return ""
    lines = []
    for name in SCHEDULES:
        group = made.scheduled(name)
        if group:
            counts = fmean(row.updates for row in group.values())
            lines.append([
                PUBLISHED[name], SCHEDULES[name].label, f"{counts:,.0f}",
                f"{counts / fmean(row.updates for row in base.values()):.1%}",
                percent(list(group.values()), "test_error"), difference_text(group, base),
                mean([row.train_loss for row in group.values()], ".3f"),
            ])  # fmt: skip
    head = ["paper", "", "updates", "of 128's", "test error, %", "minus 128's", "training loss"]
    return (
        f"{level} Five schedules, rate {_rate(made, BASELINE, base[min(base)])}\n\n"
        f"![test error of the schedules](results/{made.size.name}_schedules.png)\n\n"
        "3.2k and 16k differ in the last stretch alone, so one lies over the other.\n\n"
        + markdown(head, lines)
    )


def _times(made: Measured) -> str:
    found = totals(made)
    if found is None:
        return ""
    head = ["network", *(PUBLISHED[name] for name in SCHEDULES)]
    whole = [[n, *(seconds(found[s][SECONDS[n]]) for s in SCHEDULES)] for n in MODELS]
    until = [
        [n, *(seconds(time_to_target(made, s, SECONDS[n])) for s in SCHEDULES)] for n in MODELS
    ]
    return TIMES + "\n" + markdown(head, whole) + "\n" + markdown(head, until)


def _workers(made: Measured) -> str:
    if not made.waits:
        return ""
    lines = [
        [
            f"{row.samples}",
            f"{row.workers}",
            f"{row.update_ms:.0f} [{row.update_ms_q1:.0f}, {row.update_ms_q3:.0f}]",
            f"{row.overhead_ms:.0f}",
            f"{row.epoch_s:.1f}",
            f"{workers.PUBLISHED[row.samples]:.1f}",
        ]
        for row in sorted(made.waits, key=lambda row: row.samples)
    ]
    head = ["samples a worker", "workers", "ms an update [quartiles]", "beside the gradients, ms"]
    head += ["seconds an epoch", "the paper's"]
    text = (
        f"Fig. 7 with a cluster of real processes on this machine (load average "
        f"{made.waits[0].load:.1f} on two cores). An\nupdate is of {workers.BATCH} samples, and "
        "gradients sleep as they do in the paper, 39 ms for 128 samples, but in\nprocesses of "
        "their own; the model is one number, so this is what Dask takes for its tasks alone. What "
        "a\nmegabyte of model costs is in the [benchmark](bench/README.md), table `engines`.\n\n"
        "![seconds of an epoch](results/adadamp_workers.png)\n\n"
    )
    return "## Samples per worker\n\n" + text + markdown(head, lines)


def _dampers(made: Measured) -> str:
    names = [name for name in compared(made.size) if made.tuned(name)]
    tried = _tried(made, compared(made.size))
    if not tried:
        return ""
    base, lines = made.tuned("decay"), []
    for name in names:
        group = made.tuned(name)
        some = group[min(group)]
        lines.append([
            METHODS[name].label, _rate(made, name, some),
            f"{fmean(row.updates for row in group.values()):,.0f}",
            f"{fmean(row.last_batch for row in group.values()):,.0f}",
            percent(list(group.values()), "test_error"), difference_text(group, base),
        ])  # fmt: skip
    head = ["method", "rate", "updates", "last batch", "test error, %", "minus the falling rate's"]
    parts = ["## All dampers beside their rivals\n"]
    parts += ["![differences](results/adadamp_dampers.png)\n"] if base else []
    parts += [markdown(head, lines)] if lines else []
    return "\n".join([*parts, tried])


def _tried(made: Measured, names: Iterable[str]) -> str:
    errors, lines = errors_of(made.rows), []
    for name in names:
        rates = plan.tried(name, made.size, errors)
        found = [plan.error_at(name, made.size, errors)(lr) for lr in rates]
        if any(error is not None for error in found):
            said = " ".join(f"{lr:g}" for lr in rates)
            lines.append([method(name).label, said, " ".join(map(_error, found))])
    head = "Trials, validation error in %:\n\n" + markdown(["method", "rates", "errors"], [])
    return head + "".join(map(table_row, lines)) if lines else ""


def _error(error: float | None) -> str:
    if error is None:
        return "missing"
    return "lost" if error == float("inf") else f"{100 * error:.2f}"


def _rate(made: Measured, name: str, row: Row) -> str:
    of = plan.error_at(name, made.size, errors_of(made.rows))
    is_end = plan.grid(name, made.size).is_at_end(of)
    return f"**{row.lr:g}**" if is_end else f"{row.lr:g}"
