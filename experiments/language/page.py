"""experiments/language.md is written from the committed table alone, so that it cannot drift."""

from pathlib import Path

from experiments.common import claims
from experiments.common.markdown import markdown, mean, not_run_yet, page, provenance
from experiments.common.scale import Scale
from experiments.language.claims import CLAIMS, MARGIN
from experiments.language.groups import Measured
from experiments.language.plan import ARMS, Cell
from experiments.language.rows import Row, read
from experiments.language.size import study

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/language/page.py, not this. -->
# Language: how short a warm-up, how high a peak?

Table 5 and Figure 3 of the DPSGD paper: a transformer with Adam, a linear warm-up and a cosine,
where a short warm-up costs the synchronous method more. Here a causal transformer of two blocks
({width} wide, 4 heads) on bytes: windows of 64 bytes of the press of the Brown corpus in lower
case, a megabyte (`--dataset brown-bytes --model transformer`). {learners} learners on a ring,
{batch} windows a step, {steps} steps, warm-ups of {warmups} steps from 0 to the peak, then a
cosine to 0; peaks {peaks}, each arm, warm-up and peak on {seeds} fresh seeds.
*Survived*: not diverged, and a test loss at the end below {failed} nats a byte, where the
frequencies of bytes alone give 2.97.

Survival is counted over all peaks together, the same for both: a difference of shares, with
Newcombe's 95 % interval. The best peak of an arm is that with the least test loss on the first
seed, which is not judged; losses of the others that survive are compared unpaired, by Welch's
interval. Nothing is corrected for being many. "Needs" is: at least {margin} fewer survive.

Cut for two cores: the paper has GPT-2, 16 learners, batch 256 and 200 epochs.

Commands: `python -m gossip.data fetch brown-bytes`, once; `python -m experiments.language` makes
the runs, in `runs/experiments/language`, and goes on where it was stopped;
`python -m experiments.publish` makes this page, its table and its picture. One row per run:
[language.csv](results/language.csv).
"""


def path(scale: Scale) -> Path:
    """The file that the page is written to."""
    return scale.page.with_name("language.md")


def measured(scale: Scale) -> Measured:
    """The table in `scale.results`."""
    return Measured(study(scale), tuple(read(scale)))


def text(scale: Scale) -> str:
    """The page, from the table in `scale.results`."""
    made = measured(scale)
    size = made.size
    head = HEAD.format(
        width=size.width,
        learners=size.learners,
        batch=size.total_batch,
        steps=size.steps,
        warmups=", ".join(map(str, size.warmups)),
        peaks=", ".join(f"{peak:g}" for peak in size.peaks),
        seeds=len(size.seeds),
        failed=size.failed,
        margin=f"{100 * MARGIN:g} %",
    )
    titles = markdown(["is it so that ...?", "criterion", "measured", "holds"], [])
    parts = [
        head,
        provenance(made.rows),
        not_run_yet(missing(made)),
        "![test loss over the peak rate](results/language.png)\n" if made.rows else "",
        claims.table(titles, CLAIMS, made),
        _cells(made) if made.rows else "",
    ]
    return page(parts, is_smoke=scale.is_smoke)


def write(scale: Scale) -> None:
    """Write the page."""
    path(scale).write_text(text(scale), encoding="utf-8")


def missing(made: Measured) -> list[str]:
    """A line for each warm-up and arm that has missing runs; none if all are finished."""
    size, lines = made.size, []
    planned = len(size.peaks) * len(size.seeds)
    for warmup in size.warmups:
        for arm, label in ARMS.items():
            done = sum(len(made.at(Cell(arm, warmup, peak))) for peak in size.peaks)
            if done < planned:
                lines.append(f"warm-up of {warmup}, {label}: {planned - done} of {planned} runs")
    return lines


def _cells(made: Measured) -> str:
    """A line for each warm-up and arm: at each peak, survivors and their test loss."""
    size = made.size
    lines = [
        [str(warmup), label, *(_cell(made.at(Cell(arm, warmup, peak))) for peak in size.peaks)]
        for warmup in size.warmups
        for arm, label in ARMS.items()
    ]
    head = ["warm-up", "", *(f"peak {peak:g}" for peak in size.peaks)]
    return markdown(head, lines) + "\nSurvivors of all runs, and their test loss, nats a byte.\n"


def _cell(found: list[Row]) -> str:
    kept = [row.test_loss for row in found if row.survived]
    return f"{len(kept)} of {len(found)}: {mean(kept)}" if found else "-"
