"""The Ray Train example: what a worker does, without Ray; where Ray is installed, a cluster."""

import json
import os
import runpy
import secrets
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from gossip.comm.startup.launchers import Launched
from tests.start import CHECKOUT

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "jobs" / "ray_train.py"


class Folder:
    """A checkpoint, which outlives the folder that it was made from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def as_directory(self):
        return nullcontext(str(self.path))


@pytest.fixture
def ray(monkeypatch, tmp_path):
    """What the example asks of Ray: `told` are the reports, `given` is what it goes on from."""
    seen = SimpleNamespace(told=[], given=None)

    def keep(folder: str) -> Folder:
        return Folder(Path(shutil.copytree(folder, tmp_path / f"kept-{len(seen.told)}")))

    train, by_torch, ray = (ModuleType(f"ray{end}") for end in (".train", ".train.torch", ""))
    train.Checkpoint = SimpleNamespace(from_directory=keep)
    train.FailureConfig = train.RunConfig = train.ScalingConfig = by_torch.TorchTrainer = None
    train.get_checkpoint = lambda: seen.given
    train.report = lambda metrics, checkpoint: seen.told.append((metrics, checkpoint))
    ray.train, train.torch = train, by_torch
    for module in (ray, train, by_torch):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return seen


def test_a_worker_reports_each_epoch_and_goes_on_from_the_last(ray):
    learn = runpy.run_path(str(EXAMPLE))["learn"]
    torch.manual_seed(0)
    learn({"dataset": "digits", "epochs": 1})
    ((first, ray.given),) = ray.told
    kept = torch.load(ray.given.path / "mean.pt")
    assert (kept["epochs"], first["learners"]) == (1, 1)
    learn({"dataset": "digits", "epochs": 1})
    assert len(ray.told) == 1  # there was nothing left to do
    learn({"dataset": "digits", "epochs": 4})
    accuracies = [metrics["accuracy"] for metrics, _ in ray.told]
    assert len(accuracies) == 4
    assert first["accuracy"] < accuracies[-1]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(find_spec("ray") is None, reason='no Ray here: pip install "ray[train]"')
def test_ray_begins_all_workers_again_where_one_is_lost(tmp_path):
    """Its own cluster of this machine; each start has the variables that were recorded."""
    more = {"PYTHONPATH": CHECKOUT, "OMP_NUM_THREADS": "1", "RAY_AUTH_TOKEN": secrets.token_hex()}
    command = [sys.executable, "-m", "tests.jobs.on_ray", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["starts"] == [
        {"place": asdict(Launched(rank, 2, 2, rank)), "again": again, "missing": []}
        for again in (False, True)
        for rank in (0, 1)
    ]
    assert found["epochs"] == 2
    assert found["metrics"]["learners"] == 2
