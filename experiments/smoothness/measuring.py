"""A finished run is measured after some of its steps, and its checkpoints are removed."""

import json
import shutil
import time
from pathlib import Path

import torch

from experiments.smoothness.size import SCALES, Size
from gossip.landscape.replicas import Replicas, at_steps
from gossip.landscape.smoothing import smoothed
from gossip.landscape.surface import training_loss
from gossip.storage.folder import write_text
from gossip.storage.names import CHECKPOINTS

NAME = "smoothness.json"
SEED = 0
"""Of the Gaussian places, the same for all runs."""


def measure(folder: Path, size: Size) -> None:
    """Leave NAME in a run's folder, and no checkpoints."""
    if not (folder / NAME).exists():
        torch.set_num_threads(1)
        start = time.perf_counter()
        found = at_steps(folder, size.at)
        steps = {str(step): of_replicas(each, size) for step, each in found.items()}
        tables = {"steps": steps, "seconds": time.perf_counter() - start}
        write_text(folder / NAME, json.dumps(tables, indent=1) + "\n")
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def of_replicas(replicas: Replicas, size: Size) -> dict[str, float]:
    """The columns of a row by their names; none of weights that are not finite."""
    if not torch.isfinite(replicas.x).all():
        return {}
    surface = training_loss(replicas.task, size.samples)
    found = smoothed(surface, replicas.x, replicas.lr, SCALES, SEED)
    return {
        f"{kind.replace(' ', '')}_{name}": value
        for kind, numbers in found.items()
        for name, value in numbers.items()
        if (kind, name) not in (("none", "sigma"), ("none", "bound"))
    }
