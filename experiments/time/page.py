"""experiments/time.md is written from the committed tables alone, so that it cannot drift."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.common import claims, tables
from experiments.common.markdown import markdown, not_run_yet, page
from experiments.common.scale import Scale
from experiments.time import believed
from experiments.time import rows as table
from experiments.time.claims import CLAIMS, Simgrid
from experiments.time.plan import PARTS
from experiments.time.rows import Row, of
from experiments.time.size import SIMGRID
from experiments.time.text import HEAD, MISSING, PHASES_SAID, READING

PHASES = {
    "phase-step": "a step",
    "phase-runs": "SSGD or DPSGD to a target",
    "phase-target": "one or many to a target",
}
"""Table -> what its winner is fastest at."""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("time.md")


def text(scale: Scale) -> str:
    """The page, from the tables in `scale.results`."""
    rows, other = table.read(scale), simgrid(scale)
    parts = [
        HEAD,
        not_run_yet(missing(rows, other)),
        "" if scale.is_smoke else READING,
        "## Statements\n",
        claims.table(markdown(["", "criterion", "numbers", "holds"], []), CLAIMS, rows, other),
        _adadamp(rows),
        _lena(rows),
        _date(rows),
        _stragglers(rows),
        _phases(rows),
        "## How far it is to be believed\n",
        believed.closed(rows),
        believed.by_simgrid(other),
        believed.hosts(rows),
        believed.real(rows),
        MISSING,
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def simgrid(scale: Scale) -> Simgrid:
    """The cases of the other simulator; none if there is no table."""
    return [
        (row["algorithm"], row["by"], int(row["n"]), float(row["error"]))
        for row in tables.read(scale.results / SIMGRID)
    ]


def missing(rows: Sequence[Row], other: Simgrid) -> list[str]:
    """A line for each part that has no rows."""
    there = {row.part for row in rows}
    lines = [f"{part}: no row" for part in PARTS if part not in there]
    return lines if other else [*lines, "SimGrid: no row"]


def _adadamp(rows: Sequence[Row]) -> str:
    found = of(rows, "adadamp")
    if not found:
        return ""
    networks = list(dict.fromkeys(row.how for row in found))
    lines = []
    for run in dict.fromkeys(row.name for row in found):
        cells = [run]
        for name in ("adadamp", "adadamp-unlimited"):
            for network in networks:
                (row,) = of(rows, name, name=run, how=network)
                is_four = name == "adadamp"
                cells.append(f"{row.value:.1f}" + (f" / {row.reference:.1f}" if is_four else ""))
        lines.append(cells)
    head = ["run", *(f"{n}, 4 slots / published" for n in networks)]
    head += [f"{n}, a slot each" for n in networks]
    medians = of(rows, "adadamp-median")
    workers = sorted({row.n for row in medians})
    second = []
    for network in networks:
        line = {row.n: row for row in medians if row.how == network or row.name == network}
        second.append(
            [network, *(f"{line[n].value:.0f} / {line[n].reference:.0f}" for n in workers)]
        )
    third = [
        [row.name, str(row.n), f"{row.value:.2f}", f"{row.reference:.2f}"]
        for row in of(rows, "adadamp-fig7")
    ]
    return (
        "## AdaDamp\n\nMinutes of the five runs of Table 1, N = 50,000, 200 epochs, "
        "128 samples per "
        "worker. The paper's tasks slept in 4 slots; the same model with a slot for "
        "each worker, and "
        "one worker's overhead, is the honest prediction.\n\n"
        + markdown(head, lines)
        + "\nMilliseconds of an update, ours / the published median, over workers:\n\n"
        + markdown(["network", *map(str, workers)], second)
        + "\nFig. 7, batch 512, gradients of half the length, 16 slots:\n\n"
        + markdown(["samples per worker", "workers", "seconds of an epoch", "published"], third)
    )


def _lena(rows: Sequence[Row]) -> str:
    found = of(rows, "lena")
    if not found:
        return ""
    learners = sorted({row.n for row in found})
    lines = [
        [
            model,
            name,
            *(f"{of(found, 'lena', name=name, how=model, n=n)[0].value:.3f}" for n in learners),
        ]
        for model in dict.fromkeys(row.how for row in found)
        for name in dict.fromkeys(row.name for row in found)
    ]
    return (
        "## LENA\n\nSeconds of an update by the fit to the published ones: n / 8 micro-batches in "
        "turn on each of 8 workers, then one synchronisation.\n\n"
        + markdown(["model", "method", *(f"n = {n}" for n in learners)], lines)
    )


def _date(rows: Sequence[Row]) -> str:
    found = of(rows, "scaling")
    if not found:
        return ""
    learners = sorted({row.n for row in found})
    lines = [
        [
            name,
            network,
            *(
                f"{100 * of(found, 'scaling', name=name, how=network, n=n)[0].value:.0f}"
                for n in learners
            ),
        ]
        for network in dict.fromkeys(row.how for row in found)
        for name in dict.fromkeys(row.name for row in found)
    ]
    intensity = ", ".join(f"{row.name} {row.value:.1f}" for row in of(rows, "intensity"))
    energy = ", ".join(f"{row.name} {row.value:.2f}" for row in of(rows, "energy"))
    factors = ", ".join(f"k = {row.name}: {row.value:.4f}" for row in of(rows, "energy-factor"))
    return (
        "## DATE: weak scaling, intensity, energy\n\nWeak-scaling efficiency t_1 / t_n in %, 32 "
        "samples per learner at 10 TFLOP/s, ring all-reduce or one-peer gossip:\n\n"
        + markdown(["", "network", *(f"n = {n}" for n in learners)], lines)
        + f"\nFLOP per sample and parameter: {intensity}; the paper has 24.6 and 308. "
        f"It is intensity "
        "that decides the efficiency.\n\n"
        "At 100 pJ per FLOP and 2500 pJ per word moved, a ring all-reduce costs, as "
        "a multiple of the "
        f"energy of one sample's gradient: {energy}. Communication energy of a run of k times the "
        "batch by the paper's Fig. 19, sqrt(k) / k, whose root the paper does not derive: "
        f"{factors}.\n"
    )


def _stragglers(rows: Sequence[Row]) -> str:
    found = of(rows, "stragglers")
    if not found:
        return ""
    learners = sorted({row.n for row in found})
    lines = [
        [
            model,
            name,
            *(
                f"{of(found, 'stragglers', name=name, how=model, n=n)[0].value:.2f}"
                for n in learners
            ),
        ]
        for model in dict.fromkeys(row.how for row in found)
        for name in dict.fromkeys(row.name for row in found)
    ]
    return (
        "## Stragglers, 16 to 4096 learners\n\n![stragglers](results/time_stragglers.png)\n\n"
        "Seconds per step, messages free, a gradient 1 s times its factor: 1 + "
        "Exp(mean 0.5) for all, "
        "or 3 for one learner. The second half of at most 300 steps (fewer for many "
        "learners); a step of "
        "AD-PSGD is n gradients.\n\n"
        + markdown(["slow", "", *(f"n = {n}" for n in learners)], lines)
    )


def _phases(rows: Sequence[Row]) -> str:
    lines = []
    for name, what in PHASES.items():
        for n in sorted({row.n for row in of(rows, name)}):
            found = of(rows, name, n=n)
            for low, high, said in (
                (0, 1e9, "below 1"),
                (1e9, 1e11, "1 to 100"),
                (1e11, 1e99, "above"),
            ):
                part = [row for row in found if low <= row.bandwidth < high]
                if part:
                    lines.append([what, "" if name == "phase-target" else str(n), said, _won(part)])
    if not lines:
        return ""
    return (
        "## Who is fastest, over bandwidth and latency\n\n"
        "![phase diagram](results/time_phase.png)\n\n"
        + PHASES_SAID
        + markdown(["", "n", "Gbit/s", "fastest"], lines)
        + _updates(rows)
    )


def _won(part: Sequence[Row]) -> str:
    """The share of the networks that each wins."""
    shares = Counter(row.name for row in part)
    return ", ".join(f"{k} {100 * v / len(part):.0f} %" for k, v in shares.most_common())


def _updates(rows: Sequence[Row]) -> str:
    """Steps of the recorded runs to their target."""
    found = of(rows, "to-target")
    if not found:
        return ""
    return (
        f"\nMean steps of the recorded runs of SSGD and DPSGD to {100 * found[0].reference:.1f} % "
        "test error:\n\n"
        + markdown(
            ["", "n", "rate", "steps"],
            [[row.name, str(row.n), row.how, f"{row.value:.0f}"] for row in found],
        )
    )
