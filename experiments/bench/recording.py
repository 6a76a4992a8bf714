"""The cost of recording a user's own loop: a step that is measured, against one that is not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import gossip
from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import LR, study_of
from gossip.comm.stacked import Stacked
from gossip.study import Study, prepare
from gossip.wrapper.recording import Recording

STEP = "step"
PROBE, CHUNK = 1_000, 500
"""Samples of a probe, and of each of its batches."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """Measure all levels, each in a loop of its own around the default study's model, alone."""
    batch = size.study[1]
    study = prepare(study_of(1, batch, dataset=size.dataset), Stacked(1))
    samples = len(study.task.train)
    probe, whole = _batches(study, min(PROBE, samples)), _batches(study, samples)
    levels: dict[str, dict[str, Any]] = {
        "nothing given": {},
        f"a probe of {min(PROBE, samples):,}": {"probe": probe, "loss": _loss},
        f"all {samples:,} samples": {"probe": whole, "loss": _loss, "whole": True},
        f"all {samples:,} samples, full": {
            "probe": whole,
            "loss": _loss,
            "whole": True,
            "monitor": "full",
        },
    }
    inputs, labels = study.task.train.batch(np.arange(batch))
    with TemporaryDirectory() as folder, ExitStack() as runs:
        works = {STEP: Work(partial(_step, *_learner(study), (inputs, labels)))}
        for k, (name, options) in enumerate(levels.items()):
            model, optimizer = _learner(study)
            recording = gossip.record(model, Path(folder) / str(k), every=1, **options)
            runs.enter_context(recording)
            step = partial(_step, model, optimizer)
            if "monitor" in options:
                step = partial(_walked, recording, step)
            works[name] = Work(partial(step, (inputs, labels)))
        case = Case(
            table="recording",
            case=f"a measured step of a script, B={batch} N={samples:,}",
            learners=1,
            d=study.task.d,
            batch=batch,
        )
        meeting.say(f"recording: {case.case}")
        yield rows_of(case, interleaved(works, max(2, size.rounds // 3), meeting, 1.0), STEP)


def _learner(study: Study) -> tuple[gossip.Gossip, torch.optim.Optimizer]:
    model = gossip.Gossip(study.task.build())
    return model, torch.optim.SGD(model.parameters(), lr=LR)


def _step(model: gossip.Gossip, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    _loss(model, batch).backward()
    optimizer.step()


def _walked(recording: Recording, step: Callable[[Any], None], batch: Any) -> None:
    """A step whose mini-batch the recording knows."""
    for own in recording.batches([batch]):
        step(own)


def _loss(module: torch.nn.Module, batch: Any) -> torch.Tensor:
    return cross_entropy(module(batch[0]), batch[1])


def _batches(study: Study, samples: int) -> list[Any]:
    parts = np.array_split(np.arange(samples), max(2, samples // CHUNK))
    return [study.task.train.batch(part) for part in parts]
