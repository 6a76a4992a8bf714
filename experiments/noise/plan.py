"""The runs of the study: every arm on every seed, and the rates that the matched arm follows."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from experiments.noise.arms import ARMS, MATCHED, OWN
from experiments.noise.size import Cell, Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate

STUDY = "noise"
PARTS = ("noise", "rate")
WINDOW = 5
"""Steps on either side over which the matched arm's rate is averaged: alpha_e of one step is
negative at times, and a learning rate is not."""
RECORDED = "recorded"
"""DPSGD again, with alpha_e at every step: what the matched arm follows."""


def key(cell: Cell, arm: str, seed: int) -> str:
    """The name of a run."""
    return f"{cell.name}-{arm}-seed{seed}"


def runs(part: str, cell: Cell, size: Size, folder: Path) -> dict[str, Config]:
    """The runs of one of PARTS, arm by arm: only an arm that has all its runs is judged.

    Args:
        part: the arms with noise and the two they lie between; or those of the matched rate.
        cell: task and rate.
        size: of the study.
        folder: where the runs are: the matched arm reads those that it follows.
    """
    arms = [RECORDED, MATCHED] if part == "rate" else [arm for arm in ARMS if arm != MATCHED]
    return {
        key(cell, arm, seed): config(cell, arm, seed, size, folder)
        for arm in arms
        for seed in size.seeds
    }


def needed(wanted: Mapping[str, Config], folder: Path) -> dict[str, Config]:
    """The runs that follow a recorded one, and those that one of these follows."""
    followed = {config.rate.lr_trace for config in wanted.values()}
    return {
        key: config
        for key, config in wanted.items()
        if config.rate.lr_trace is not None or str((folder / key).resolve()) in followed
    }


def config(cell: Cell, arm: str, seed: int, size: Size, folder: Path) -> Config:
    """The config of a run."""
    algorithm = ARMS[OWN if arm == RECORDED else arm].algorithm
    options = (f"noise={arm}",) if algorithm == "ssgd-injected" else ()
    made = Config(
        algorithm=(algorithm,),
        steps=size.steps,
        seed=seed,
        gossip=Averaging(
            learners=size.learners,
            topology="complete",
            backend="stacked",
            algorithm_options=options,
        ),
        data=Data(
            dataset=cell.dataset, inputs="unit", batch_size=size.total_batch // size.learners
        ),
        rate=Rate(lr=cell.alpha),
        monitoring=Monitoring(monitor="cheap", monitor_every=size.monitor_every),
    )
    if arm == RECORDED:
        every = Monitoring(monitor="standard", monitor_every=1, monitor_source="probe", probe=2_000)
        return replace(made, monitoring=every)
    if arm == MATCHED:
        source = str((folder / key(cell, RECORDED, seed)).resolve())
        return replace(made, rate=replace(made.rate, lr_trace=source, lr_trace_window=WINDOW))
    return made
