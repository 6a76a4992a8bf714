"""SSGD and DPSGD are measured where they have the same training loss: curvature, sharpness, error.

Each run keeps its checkpoints, gossip.landscape measures those where the loss of the mean model is
for the first time at most a level, and they are removed.
"""

import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from rich.console import Console

from experiments.common.command import Options, guarded
from experiments.common.figures import save
from experiments.common.scale import Scale
from experiments.flatness import contours, pictures, rows
from experiments.flatness.groups import Measured
from experiments.flatness.plan import STUDY, runs
from experiments.flatness.size import study
from gossip.landscape.command import landscape
from gossip.landscape.measure import Settings
from gossip.runs import sweep
from gossip.storage.names import CHECKPOINTS
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make the runs of the study of flatness, or go on; experiments.publish shows them."""


def run(scale: Scale, *, jobs: int) -> None:
    """Make and measure the missing runs, a seed after the other, so that few checkpoints are kept.

    Raises:
        UserError: a run failed.
    """
    size, folder = study(scale), scale.runs / STUDY
    wanted = rows.missing(runs(size), size, rows.read(scale))
    for seed in size.seeds:
        some = {name: config for name, config in wanted.items() if config.seed == seed}
        sweep.run_all(some, folder, jobs=jobs)
        for name in some:
            measure(folder / name, size.settings, size.levels)
    some = contours.missing(size, contours.read(scale))
    sweep.run_all(some, folder, jobs=jobs)
    for name in some:
        measure(folder / name, size.shown_settings, (size.shown_level,))


def measure(folder: Path, settings: Settings, levels: tuple[float, ...]) -> None:
    """Measure a run at levels of the loss, and remove its checkpoints.

    They are put aside in one step: a run of which some are gone would be measured later than it
    came to a level.
    """
    measured = folder / f"{CHECKPOINTS}-measured"
    if (folder / CHECKPOINTS).exists():
        torch.set_num_threads(1)
        quiet = Console(file=io.StringIO())
        landscape([folder], settings, at_loss=levels, console=quiet)
        (folder / CHECKPOINTS).rename(measured)
    if measured.exists():
        shutil.rmtree(measured)


def publish(scale: Scale) -> None:
    """Write tables and pictures of the finished runs, if there are any."""
    if found := rows.load(scale):
        rows.write(found, scale.results)
        made = Measured(study(scale), tuple(found))
        save(pictures.flatness(made), scale.results / "flatness.png")
    if places := contours.load(scale):
        contours.write(places, scale.results)
        picture = pictures.contours(places, study(scale))
        save(picture, scale.results / "flatness_contours.png")


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.flatness")
    return guarded(lambda: run(options.scale(), jobs=options.jobs))
