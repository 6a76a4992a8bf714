"""Theorem 1's averaged loss: functions whose Gaussian averages are known, learners, the command."""

import io
import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console

from gossip import run
from gossip.landscape import command
from gossip.landscape.curvature import largest
from gossip.landscape.measure import Settings
from gossip.landscape.replicas import at_steps
from gossip.landscape.smoothing import (
    Smoothed,
    gaussian,
    gradient_difference,
    smoothed,
    std_per_coordinate,
)
from gossip.landscape.surface import training_loss

F64 = torch.float64


class Wave:
    """sum_i cos(k w_i): averaged over N(0, s^2 I) it is exp(-k^2 s^2 / 2) times as high."""

    def __init__(self, k, d):
        self.k, self.d = k, d

    def loss(self, row):
        return float(torch.cos(self.k * row).sum())

    def gradient(self, row):
        return -self.k * torch.sin(self.k * row)

    def curvature(self, row, v):
        return -(self.k**2) * torch.cos(self.k * row) * v


class Kink:
    """|w|, which has the Lipschitz constant 1 and is not smooth."""

    d = 1

    def loss(self, row):
        return float(row.abs().sum())

    def gradient(self, row):
        return row.sign()


def test_gaussian_places_damp_a_wave_as_its_transform_says():
    k, std, pairs = 3.0, 0.4, 4_000
    wave, row = Wave(k, 2), torch.tensor([1.0, 0.8], dtype=F64)
    over = Smoothed(wave, gaussian(2, std, pairs, seed=0))
    damping = math.exp(-(k**2) * std**2 / 2)
    error = 4 / math.sqrt(pairs)
    assert over.loss(row) == pytest.approx(damping * wave.loss(row), abs=2 * error)
    assert torch.allclose(over.gradient(row), damping * wave.gradient(row), atol=k * error)
    found = largest(lambda v: over.curvature(row, v), 2, seed=0)
    assert found == pytest.approx(-damping * k**2 * math.cos(k * 1.0), abs=k**2 * error)


def test_a_kink_has_the_smoothness_of_the_normal_density_and_keeps_the_bound():
    std, step = 0.5, torch.tensor([0.05], dtype=F64)
    over = Smoothed(Kink(), gaussian(1, std, 20_000, seed=0))
    found = gradient_difference(over, step / 2, step)  # across the kink
    expected = math.sqrt(2 / math.pi) / std
    assert found == pytest.approx(expected, rel=0.05)
    assert found < 2 * 1.0 / std


def test_a_place_stands_beside_its_opposite():
    places = gaussian(5, 2.0, 3, seed=1)
    assert places.shape == (6, 5)
    assert torch.equal(places[:3], -places[3:])
    assert torch.equal(places, 2 * gaussian(5, 1.0, 3, seed=1))


def test_the_deviation_of_learners_is_the_unbiased_one_of_a_coordinate():
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 40)))
    assert std_per_coordinate(x) == pytest.approx(float(x.var(dim=0).mean().sqrt()), rel=1e-12)
    assert std_per_coordinate(x[:1]) == 0


def test_no_step_has_no_gradient_difference():
    assert math.isnan(gradient_difference(Wave(1, 3), torch.ones(3), torch.zeros(3)))


def test_learners_that_are_alike_smooth_nothing():
    wave, row = Wave(2.0, 4), torch.linspace(1, 2, 4, dtype=F64)
    found = smoothed(wave, row.repeat(3, 1), lr=0.1, scales=(1.0,), seed=0)
    assert list(found) == ["none"]
    assert found["none"]["lambda_max"] == pytest.approx(float(max(-4 * torch.cos(2 * row))))
    assert found["none"]["bound"] == math.inf


def test_the_command_measures_steps_and_averages(tmp_path, capsys, without_pictures):
    options = "--dataset digits --learners 3 --batch-size 20 --steps 6 --lr 0.5 --monitor cheap"
    kept = "--checkpoint-every 2 --checkpoint-keep 9"
    with without_pictures():
        assert run.main([*f"{options} {kept} --out".split(), str(tmp_path / "A")]) == 0
    folder, console = tmp_path / "A" / "dpsgd", Console(file=io.StringIO(), width=200)
    settings = Settings(samples=100, draws=1, grid=0, smoothed=(1.0, 5.0))
    (shown,) = command.landscape([folder], settings, at_step=(4, 5), console=console)
    assert shown.step == 4
    assert "no checkpoint after 5 steps" in capsys.readouterr().err
    assert list(shown.smoothed) == ["none", "learners", "gaussian 1", "gaussian 5"]

    replicas = at_steps(folder, (4,))[4]
    surface, w = training_loss(replicas.task, 100), replicas.mean
    std = std_per_coordinate(replicas.x)
    learners = shown.smoothed["learners"]
    assert learners["loss"] == pytest.approx(shown.numbers["learners_loss"], rel=1e-6)
    assert shown.smoothed["none"]["lambda_max"] == pytest.approx(shown.numbers["lambda_max"])
    step = 0.5 * surface.gradient(w)
    moved = [surface.gradient(row - step) - surface.gradient(row) for row in replicas.x.double()]
    expected = float(sum(moved).norm()) / 3 / float(step.norm())
    assert learners["difference"] == pytest.approx(expected, rel=1e-5)
    steepest = max(float(surface.gradient(row).norm()) for row in replicas.x)
    for kind, sigma in {"learners": std, "gaussian 1": std, "gaussian 5": 5 * std}.items():
        assert shown.smoothed[kind]["sigma"] == pytest.approx(sigma)
        assert shown.smoothed[kind]["bound"] == pytest.approx(2 * steepest / sigma)
    tables = json.loads((folder / "landscape-step4.json").read_text(encoding="utf-8"))
    assert tables["smoothed"]["none"]["bound"] is None
    assert "gaussian 5" in console.file.getvalue()


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--at-step", "0"], "at_step=0"), (["--smoothed", "0"], "smoothed=0")]
)
def test_a_mistake_is_one_sentence(tmp_path, capsys, arguments, word):
    assert command.main([str(tmp_path), *arguments]) == 2
    assert word in capsys.readouterr().err
