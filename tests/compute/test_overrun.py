"""What oneDNN overruns with the channels last is found, and left out; gradients are row-major's."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d

from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Rate
from gossip.config.compute import Compute
from gossip.data.batches import splits
from gossip.data.dataset import from_arrays
from gossip.errors import UserError
from gossip.models.residual import resnet18
from gossip.study import prepare
from gossip.task import Task
from gossip.task.numerics import Numerics
from gossip.task.overrun import VECTOR, OverrunDetector
from tests.problems import ArraySamples
from tests.start import PYTHONPATH

FEW = 4
"""Channels, fewer than in a vector."""
FORMATS = [torch.contiguous_format, torch.channels_last]


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(8, FEW, 1, 1))

    def forward(self, x):
        return conv2d(x, weight=self.w, stride=(1, 2))


Strided = partial(nn.Conv2d, FEW, 8, 1, 2)
CRAMPED = {
    "no bias": Strided(bias=False),
    "valid": Strided(padding="valid"),
    "one channel more than half a vector": nn.Sequential(
        nn.Conv2d(FEW, 9, 1), nn.Conv2d(9, 8, 1, 2)
    ),
    "normed weight": nn.utils.parametrizations.weight_norm(Strided()),
    "a function": Functional(),
    "transposed": nn.ConvTranspose2d(FEW, 8, 1, 2, output_padding=1),
}
ROOMY = {
    "a vector of channels": nn.Sequential(nn.Conv2d(FEW, VECTOR, 1), nn.Conv2d(VECTOR, FEW, 1, 2)),
    "no stride": nn.Conv2d(FEW, 8, 1),
    "3x3": nn.Conv2d(FEW, 8, 3, 2),
    "groups": nn.Conv2d(FEW, 8, 1, 2, groups=2),
    "transposed to many": nn.ConvTranspose2d(FEW, VECTOR, 1, 2, output_padding=1),
    "float64": Strided().double(),
}


def watched(model: nn.Module, layout: torch.memory_format) -> OverrunDetector:
    x = torch.ones(1, FEW, 6, 6, dtype=next(model.parameters()).dtype)
    with torch.no_grad(), OverrunDetector() as watch:
        model(x.to(memory_format=layout))
    return watch


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("name", CRAMPED)
def test_what_would_overrun_is_found_and_does_with_the_channels_last(name, layout):
    watch = watched(CRAMPED[name], layout)
    assert watch.found
    assert watch.overruns == (layout == torch.channels_last)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("name", ROOMY)
def test_what_has_room_is_left_alone(name, layout):
    watch = watched(ROOMY[name], layout)
    assert not watch.found
    assert not watch.overruns


def test_the_weights_alone_put_the_channels_last():
    model = Strided().to(memory_format=torch.channels_last)
    assert watched(model, torch.contiguous_format).overruns


def images(width: int, **options) -> Config:
    return Config(
        algorithm=("dpsgd",),
        steps=2,
        gossip=Averaging(learners=2),
        data=Data(dataset="digits", batch_size=2),
        model=Model(model="resnet18", model_options=(f"width={width}",)),
        rate=Rate(lr=0.05),
        compute=Compute(device="cpu", **options),
    )


def test_it_is_off_with_a_note_only_where_it_would_overrun(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda loss: loss)
    both = {"channels_last": True, "compile": True}
    study = prepare(images(VECTOR // 2, **both), Stacked(2))
    assert [warning.split(":")[0] for warning in study.warnings] == [
        "channels-last is off",
        "compile is off",
    ]
    assert study.task.numerics == Numerics()
    roomy = prepare(images(VECTOR, **both), Stacked(2))
    assert roomy.warnings == ()
    assert roomy.task.numerics == Numerics(**both)
    assert prepare(images(VECTOR // 2), Stacked(2)).warnings == ()
    exact = images(VECTOR // 2, **both)
    exact = prepare(replace(exact, model=replace(exact.model, dtype="float64")), Stacked(2))
    assert exact.warnings == ()
    assert exact.task.numerics == Numerics(**both)


class Itself(nn.Module):
    """A model that puts the channels last, and has too few of them."""

    def __init__(self):
        super().__init__()
        self.body = resnet18((3, 8, 8), 10, width=FEW)

    def forward(self, x):
        return self.body(x.to(memory_format=torch.channels_last))


def test_a_model_that_does_it_itself_is_refused():
    x, labels = torch.rand(20, 3, 8, 8), torch.arange(20) % 10
    samples = ArraySamples(x, labels)
    with pytest.raises(UserError, match=r"Itself puts the channels of its images last.*float64"):
        Task(Itself, samples, samples)
    doubled = ArraySamples(x.double(), labels)
    assert Task(Itself, doubled, doubled, dtype=torch.float64).notes == ()


def test_batches_of_transposed_images_are_row_major():
    """As a data function gives them that has read [N, H, W, C]."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8).transpose(0, 3, 1, 2)
    labels = np.arange(20) % 4
    datasets = [
        from_arrays("images", "here", (each, labels, each, labels))
        for each in (pixels, np.ascontiguousarray(pixels))
    ]
    for indices in (np.arange(6), np.arange(6).reshape(2, 3)):
        ours, expected = (splits(each).train.batch(indices)[0] for each in datasets)
        assert ours.is_contiguous()
        assert torch.equal(ours, expected)


OVERRUN = re.compile(
    r"convolution,jit_1x1\S*,backward_weights,src:\w+:a?p?:blocked:acdb[^\n]*kh1sh2"
)
"""What oneDNN says when it computes such a gradient."""


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    """A small ResNet in a process of its own, which a fault would end or stop."""
    command = (
        "gossip.run --dataset digits --model resnet18 --model-options width=4 --learners 1 "
        "--batch-size 4 --steps 2 --device cpu --algorithm dpsgd --monitor cheap"
    )
    return subprocess.run(
        [sys.executable, "-m", *command.split(), *options],
        env=os.environ | {"ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_run_that_asks_for_it_corrupts_nothing(tmp_path):
    asked = run("--channels-last", "--compile", "--out", str(tmp_path / "asked"))
    assert asked.returncode == 0, asked.stderr
    assert "channels-last is off" in asked.stdout + asked.stderr
    assert "compile is off" in asked.stdout + asked.stderr
    assert re.search(r"convolution,\S+,backward_weights", asked.stdout)
    assert not OVERRUN.search(asked.stdout)
