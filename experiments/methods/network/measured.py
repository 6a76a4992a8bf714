"""What is measured between hosts, task by task: trials, runs to the target, steps on each network.

A row is kept as soon as it is there, and the same command goes on behind the last.
"""

import math
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import torch
from torch import Tensor

from experiments.common import hosts
from experiments.common.learners import Learner, ask, learners, module
from experiments.common.scale import Scale
from experiments.methods.network import rows
from experiments.methods.network.learner import Answer, Question
from experiments.methods.network.rows import Measured, Run, Steps
from experiments.methods.network.size import Network, Size, network_study
from experiments.methods.network.training import prepared
from experiments.methods.network.ways import compared
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.loop.evaluation import evaluate, scores_of

PART = "network"
PORT = 29_600
LOOPBACK = "lo"
LIBRARIES = ("torch", "decent-dp")
UNSHAPED = (1e9, 0.0)
"""Bits per second, and delay: where whole runs are made."""


def run(scale: Scale) -> None:
    """Measure what is missing.

    Raises:
        UserError: this machine cannot have such hosts, or a learner has failed.
    """
    sizes = list(network_study(scale).values())
    if sizes[0].on_hosts and (reason := hosts.why_not()) is not None:
        raise UserError(f"no hosts can be made here: {reason}")
    with _network(sizes[0]) as (network, asked):
        for size in sizes:
            if network is not None:
                network.shape(*UNSHAPED)
            job = _Job(scale, asked, rows.read(scale.results, size))
            job.all_runs()
            for each in size.networks:
                job.steps_on(each, network)


@contextmanager
def _network(size: Size) -> Generator[tuple[hosts.Hosts | None, list[Learner]]]:
    """Hosts, unless there are none, and a learner on each."""
    n, words = size.task.learners, module("experiments.methods.network.learner")
    if not size.on_hosts:
        with learners([words] * n, "127.0.0.1", PORT, LOOPBACK) as started:
            yield None, started
        return
    with hosts.hosts(n) as network:
        network.shape(*UNSHAPED)
        commands = [network.command(j, words) for j in range(n)]
        with learners(commands, hosts.address(0), PORT, hosts.INTERFACE) as started:
            yield network, started


@dataclass
class _Job:
    """What is there so far, and whom to ask for the rest."""

    scale: Scale
    learners: list[Learner]
    made: Measured

    @property
    def size(self) -> Size:
        return self.made.size

    def all_runs(self) -> None:
        """Trials of all ways, then all seeds at those that they choose."""
        task, ways = self.size.task, compared(self.size)
        for seed, (way, method) in product(self.size.tuning_seeds, ways.items()):
            for trial in range(len(method.trials(task))):
                self._run(way, trial, seed)
        for seed in task.seeds:
            for way in ways:
                trial = self.made.chosen(way)
                assert trial is not None, f"{way} has had all of its trials"
                self._run(way, trial, seed)

    def _run(self, way: str, trial: int, seed: int) -> None:
        if (way, trial, seed) in {run.key for run in self.made.runs}:
            return
        task, start = self.size.task, time.perf_counter()
        target = math.nan if seed in self.size.tuning_seeds else self.made.target
        with TemporaryDirectory() as folder:
            self._ask(way, trial, seed, task.steps, weights=folder)
            means = _mean_models(Path(folder), task.learners)
        own = Run(
            task=self.size.name,
            way=way,
            trial=trial,
            lr=compared(self.size)[way].trials(task)[trial].lr,
            seed=seed,
            versions=", ".join(f"{name} {version(name)}" for name in LIBRARIES),
            **judged(means, self.size, target),
            seconds=time.perf_counter() - start,
        )
        self._keep(replace(self.made, runs=[*self.made.runs, own]), own)

    def steps_on(self, where: Network, network: hosts.Hosts | None) -> None:
        """Time the steps of all ways that are missing, all of them once before any a second time.

        A disturbance that lasts longer than a turn so meets one turn of several ways, and not all
        turns of one.
        """
        missing = [way for way in compared(self.size) if self.made.at(where, way) is None]
        if not missing:
            return
        if network is not None:
            network.shape(1e6 * where.mbits, 1e-3 * where.delay_ms)
        found: dict[str, list[Steps]] = {way: [] for way in missing}
        for turn in range(self.size.turns):
            for way, turns in found.items():
                if turn and _seconds(turns[0]) > self.size.slow:
                    continue
                turns.append(self._turn(where, way, turns[0].timed if turns else None))
        for turns in found.values():
            best = min(turns, key=lambda each: each.step)
            slowest = max(each.step for each in turns)
            own = replace(best, turns=len(turns), slowest=slowest)
            self._keep(replace(self.made, steps=[*self.made.steps, own]), own)

    def _turn(self, where: Network, way: str, steps: int | None) -> Steps:
        """A round with cold connections, then so many steps; None: as many as fill the time."""
        size, task = self.size, self.size.task
        trial = self.made.chosen(way)
        assert trial is not None, f"{way} has had all of its trials"
        if steps is None:
            cold = max(each.first for each in self._ask(way, trial, task.seeds[0], task.every))
            rounds = min(max(round(size.timed / cold), size.least_rounds), size.most_rounds)
            steps = rounds * task.every
        found = self._ask(way, trial, task.seeds[0], task.every + steps)
        return Steps(
            task=size.name,
            mbits=where.mbits,
            delay_ms=where.delay_ms,
            way=way,
            turns=1,
            timed=steps,
            first=max(each.first for each in found),
            step=max(each.rest for each in found) / steps,
            slowest=math.nan,
            first_bytes=float(np.mean([each.first_bytes for each in found])),
            step_bytes=float(np.mean([each.rest_bytes for each in found])) / steps,
            delayed_by="user space" if where.delay_ms else "-",
            load=os.getloadavg()[0],
        )

    def _ask(self, way: str, trial: int, seed: int, steps: int, weights: str = "") -> list[Answer]:
        question = Question(
            smoke=self.scale.is_smoke,
            task=self.size.name,
            way=way,
            trial=trial,
            seed=seed,
            warm=self.size.task.every,
            steps=steps,
            weights=weights,
        )
        answers = ask(self.learners, msgspec.to_builtins(question))
        return [msgspec.convert(each, Answer) for each in answers]

    def _keep(self, made: Measured, row: Run | Steps) -> None:
        self.made = made
        rows.write(made, self.scale.results)
        print(row, file=sys.stderr)


def _seconds(turn: Steps) -> float:
    return turn.first + turn.timed * turn.step


def _mean_models(folder: Path, learners: int) -> Tensor:
    """The mean model [k, d] at each of the k steps where weights were kept."""
    return torch.stack([torch.load(folder / f"{j}.pt") for j in range(learners)]).mean(dim=0)


def judged(means: Tensor, size: Size, target: float) -> dict[str, float]:
    """Losses of the last model, and the steps until one was first at the target."""
    study = prepared(size.task.tuning_seed, size.task, _stacked(size.task.learners))
    found = scores_of(study, means[-1], None)
    reached = math.nan
    if not math.isnan(target):
        for k, row in enumerate(means, 1):
            if evaluate(study.task, study.comm, row, study.task.test)[0] <= target:
                reached = float(k * size.task.monitor_every)
                break
    loss = found["validation_loss"]
    return {
        "validation_loss": loss if math.isfinite(loss) else math.inf,
        "test_loss": found["test_loss"],
        "test_error": found["test_error"],
        "reached": reached,
    }


@lru_cache
def _stacked(n: int) -> Stacked:
    """One and the same, so that data are read once."""
    return Stacked(n)
