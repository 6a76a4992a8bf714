"""The runs of the study: every arm on every seed, and the rates that the matched arm follows."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from experiments.noise.arms import ARMS, MATCHED, OWN, STRONG
from experiments.noise.size import Cell, Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate
from gossip.keyvalue import parse_options

STUDY = "noise"
PARTS = ("noise", "rate", "strength")
WINDOW = 5
"""Steps on either side over which the matched arm's rate is averaged: alpha_e of one step is
negative at times, and a learning rate is not."""
RECORDED = "recorded"
"""DPSGD again, with alpha_e and sigma_w^2 at every step: what other arms follow."""


def key(cell: Cell, arm: str, seed: int) -> str:
    """The name of a run."""
    return f"{cell.name}-{arm}-seed{seed}"


def runs(part: str, cell: Cell, size: Size, folder: Path) -> dict[str, Config]:
    """The runs of one of PARTS, arm by arm: only an arm that has all its runs is judged.

    Args:
        part: the arms with noise and the two they lie between; that of the matched rate; or those
            with noise of a recorded strength.
        cell: task and rate.
        size: of the study.
        folder: where the runs are, those too that others follow.
    """
    following = {"rate": (MATCHED,), "strength": STRONG}
    arms = (
        (RECORDED, *following[part])
        if part in following
        else [arm for arm in ARMS if arm not in (MATCHED, *STRONG)]
    )
    return {
        key(cell, arm, seed): config(cell, arm, seed, size, folder)
        for arm in arms
        for seed in size.seeds
    }


def needed(wanted: Mapping[str, Config], folder: Path) -> dict[str, Config]:
    """The runs that follow a recorded one, and those that one of these follows."""
    followed = {follows(config) for config in wanted.values()}
    return {
        key: config
        for key, config in wanted.items()
        if follows(config) is not None or str((folder / key).resolve()) in followed
    }


def follows(config: Config) -> str | None:
    """The folder of the run whose rate or strength a run has, if it follows one."""
    options = parse_options(config.gossip.algorithm_options, "algorithm")
    return options.get("strength_from", config.rate.lr_trace)


def config(cell: Cell, arm: str, seed: int, size: Size, folder: Path) -> Config:
    """The config of a run."""
    of, leader = (
        ARMS[OWN if arm == RECORDED else arm],
        str((folder / key(cell, RECORDED, seed)).resolve()),
    )
    options = (f"noise={of.noise or arm}",) if of.algorithm == "ssgd-injected" else ()
    options += (f"strength_from={leader}",) if of.is_recorded else ()
    made = Config(
        algorithm=(of.algorithm,),
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
        return replace(made, rate=replace(made.rate, lr_trace=leader, lr_trace_window=WINDOW))
    return made
