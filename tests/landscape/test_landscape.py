"""Flatness and planes: quadratics with known spectra, real models, and the command."""

import io
import json
import math
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from rich.console import Console

from gossip import run
from gossip.checkpoint import newest, read
from gossip.errors import UserError
from gossip.landscape import command, curvature, planes, sharpness
from gossip.landscape.measure import Landscape, Settings, measure
from gossip.landscape.pictures import picture
from gossip.landscape.replicas import Replicas, at_losses, of_run
from gossip.landscape.surface import TrainingLoss, training_loss
from gossip.task.layers import Layer
from tests.problems import digits_task

F64 = torch.float64
QUIET = Console(file=io.StringIO(), width=200)
FAST = Settings(samples=300, draws=2, grid=3)


class Quadratic:
    """w'Hw / 2 with the eigenvalues that are given."""

    def __init__(self, eigenvalues, *, diagonal=False, seed=0):
        self.d = len(eigenvalues)
        basis = torch.eye(self.d, dtype=F64)
        if not diagonal:
            drawn = np.random.default_rng(seed).standard_normal((self.d, self.d))
            basis = torch.linalg.qr(torch.from_numpy(drawn))[0]
        self.hessian = basis @ torch.diag(torch.as_tensor(eigenvalues, dtype=F64)) @ basis.T

    def loss(self, row):
        return float(row @ self.hessian @ row) / 2

    def gradient(self, row):
        return self.hessian @ row

    def curvature(self, row, v):
        return self.hessian @ v

    def at(self, row):
        return partial(self.curvature, row)


def point(d, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(d))


SPECTRA = {
    "small": [3.0, -1.0, 0.5],
    "bulk and outliers": [40.0, 15.0, *np.linspace(-2, 1, 60)],
    "all negative": -np.linspace(1, 5, 20),
    "one repeated": np.full(12, 2.0),
}


@pytest.mark.parametrize("d", [3, 60])
@pytest.mark.parametrize("factor", [0.0, math.nan, math.inf])
def test_a_hessian_that_is_zero_or_not_finite_has_ends_all_the_same(d, factor):
    found = curvature.ends(lambda v: factor * v, d, seed=0)
    expected = 0.0 if factor == 0 else math.nan
    assert found == pytest.approx((expected, expected), abs=0, nan_ok=True)


@pytest.mark.parametrize("name", SPECTRA)
def test_ends_of_a_known_spectrum(name):
    surface = Quadratic(SPECTRA[name])
    found = curvature.ends(surface.at(point(surface.d)), surface.d, seed=0)
    assert found.largest == pytest.approx(max(SPECTRA[name]), rel=2e-3)
    assert found.least == pytest.approx(min(SPECTRA[name]), rel=2e-3)


def test_a_trace_is_exact_where_the_hessian_is_diagonal():
    surface = Quadratic([5.0, -1.0, 0.25] * 5, diagonal=True)
    found = curvature.trace(surface.at(point(15)), 15, draws=3, seed=0)
    assert found.value == pytest.approx(5 * 4.25, rel=1e-12)
    assert found.error == pytest.approx(0, abs=1e-12)


def test_a_trace_has_the_error_of_hutchinsons_estimate():
    eigenvalues = np.linspace(-1, 6, 40)
    surface, draws = Quadratic(eigenvalues), 400
    found = curvature.trace(surface.at(point(40)), 40, draws, seed=0)
    off_diagonal = surface.hessian - torch.diag(torch.diag(surface.hessian))
    variance = 2 * float(off_diagonal.square().sum())
    assert found.error == pytest.approx(math.sqrt(variance / draws), rel=0.15)
    assert abs(found.value - eigenvalues.sum()) < 4 * found.error


def test_an_estimate_has_the_standard_error_of_its_mean():
    assert curvature.mean_of([1.0, 3.0]) == pytest.approx((2, 1))
    assert math.isnan(curvature.mean_of([1.0]).error)


def test_a_random_perturbation_raises_a_quadratic_by_half_the_weighted_trace():
    surface = Quadratic(np.linspace(-1, 6, 40))
    row, std = 10 * point(40), torch.linspace(0.01, 0.1, 40, dtype=F64)
    found = sharpness.at_random(surface, row, std, draws=400, seed=0)
    expected = float(std.square() @ torch.diag(surface.hessian)) / 2
    assert abs(found.value - expected) < 4 * found.error
    assert found.error < 0.1 * expected


def test_ascent_on_a_quadratic():
    surface, row, rho = Quadratic(np.linspace(0.1, 6, 20)), point(20), 0.3
    g = surface.gradient(row)
    along = float(g @ surface.hessian @ g / (g @ g))
    expected = rho * float(g.norm()) + rho**2 * along / 2
    assert sharpness.up_the_gradient(surface, row, rho) == pytest.approx(expected, rel=1e-9)
    assert math.isnan(sharpness.up_the_gradient(surface, torch.zeros(20, dtype=F64), rho))


LAYERS = (
    Layer("w", 0, 12, torch.Size([3, 4])),
    Layer("b", 12, 15, torch.Size([3])),
    Layer("k", 15, 27, torch.Size([2, 3, 2])),
)


def test_perturbations_are_relative_to_each_tensor():
    row = point(27)
    std = sharpness.relative_std(row, LAYERS, 0.1)
    for layer in LAYERS:
        part = row[layer.start : layer.stop]
        expected = 0.1 * float(part.square().mean().sqrt())
        assert std[layer.start : layer.stop].tolist() == pytest.approx([expected] * len(part))


def test_filters_of_a_direction_are_as_long_as_the_weights():
    row, direction = point(27), point(27, seed=5)
    found = planes.filter_normalised(direction, row, LAYERS)
    assert not found[12:15].any()
    for start, stop, filters in ((0, 12, 3), (15, 27, 2)):
        own, like, drawn = (v[start:stop].reshape(filters, -1) for v in (found, row, direction))
        assert torch.allclose(own.norm(dim=1), like.norm(dim=1), rtol=1e-6)
        cosines = (own * drawn).sum(1) / own.norm(dim=1) / drawn.norm(dim=1)
        assert torch.allclose(cosines, torch.ones(filters, dtype=F64))


def test_three_learners_lie_in_their_plane():
    x = torch.stack([point(27, seed) for seed in range(3)])
    plane = planes.through(x)
    first, second = plane.directions
    assert [float(first @ first), float(second @ second)] == pytest.approx([1, 1])
    assert float(first @ second) == pytest.approx(0, abs=1e-12)
    for row in x:
        assert torch.allclose(plane.at(*plane.place(row)), row)
    assert torch.allclose(plane.at(0, 0), x.mean(dim=0))


def test_learners_on_a_line_span_no_plane():
    a, b = point(9), point(9, 2)
    assert planes.through(torch.stack([a, b])) is None
    assert planes.through(torch.stack([a, b, 0.3 * a + 0.7 * b])) is None
    assert planes.through(a.expand(4, -1)) is None


def test_the_loss_on_a_grid_and_on_a_line_of_a_quadratic_is_exact():
    surface = Quadratic(np.linspace(-1, 6, 27))
    plane = planes.at_random(point(27), LAYERS, seed=3)
    xs, ys = [-1.0, 0.0, 0.5], [0.0, 2.0]
    grid = planes.on_grid(surface, plane, xs, ys)
    assert grid.shape == (2, 3)
    assert grid[0, 1] == surface.loss(point(27))
    (u, v), h, w = plane.directions, surface.hessian, plane.origin
    assert abs(float(u @ v)) < 0.7 * float(u.norm() * v.norm()), "they span a plane"
    for i, b in enumerate(ys):
        for k, a in enumerate(xs):
            step = a * u + b * v
            expected = surface.loss(w) + float(step @ h @ w) + float(step @ h @ step) / 2
            assert grid[i, k] == pytest.approx(expected)
    a, b = point(27, 7), point(27, 8)
    line = planes.on_line(surface, a, b, [0.0, 0.5, 1.0])
    expected = [surface.loss(a), surface.loss((a + b) / 2), surface.loss(b)]
    assert line.tolist() == pytest.approx(expected)


def test_the_two_learners_that_are_farthest_apart():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 1.0], [-1.0, 2.0]])
    assert planes.farthest(x) == (2, 3)


def test_a_barrier_is_what_rises_above_the_straight_line_between_the_ends():
    convex, concave = (Quadratic(sign * np.linspace(1, 6, 9)) for sign in (1, -1))
    a, b = point(9, 7), point(9, 8)
    assert planes.barrier(convex, a, b) == 0
    # Of -w'Hw / 2 the rise at s is s (1 - s) (a - b)'H(a - b) / 2, highest at s = 1/2.
    expected = float((a - b) @ convex.hessian @ (a - b)) / 8
    assert planes.barrier(concave, a, b) == pytest.approx(expected)
    assert planes.barrier(concave, a, a.clone()) == 0


def test_gradient_and_curvature_are_the_derivatives_of_the_loss():
    task = digits_task(activation="tanh", widths=(6,))
    surface = training_loss(task, 200)
    assert len(surface.indices) == 200
    row, v, step = task.init(0), point(task.d, 3) / 10, 1e-4
    there, back = (row + s * step * v for s in (1, -1))
    slope = (surface.loss(there) - surface.loss(back)) / (2 * step)
    assert float(surface.gradient(row) @ v) == pytest.approx(slope, rel=1e-6)
    turn = (surface.gradient(there) - surface.gradient(back)) / (2 * step)
    assert torch.allclose(surface.curvature(row, v), turn, rtol=1e-5, atol=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, without_pictures):
    """Two runs, DPSGD and SSGD, of four learners."""
    out = tmp_path_factory.mktemp("landscape") / "A"
    options = "--dataset digits --learners 4 --batch-size 20 --steps 6 --lr 0.5 --monitor cheap"
    arguments = f"--algorithm dpsgd ssgd {options} --topology ring --out"
    with without_pictures():
        assert run.main([*arguments.split(), str(out)]) == 0
    return out


def test_the_replicas_are_those_of_the_checkpoint(folder):
    replicas = of_run(folder / "dpsgd")
    (path, *_) = newest(folder / "dpsgd" / "checkpoint")
    rows = read(path, range(4)).rows["x"]
    assert replicas.step == 6
    assert torch.equal(replicas.x, rows)
    assert len(of_run(folder / "ssgd").x) == 1


def test_a_run_is_measured_drawn_and_written(folder):
    (dpsgd, ssgd) = command.landscape([folder], FAST, console=QUIET)
    replicas = of_run(folder / "dpsgd")
    scores = replicas.task.evaluate(
        replicas.mean.float(), replicas.task.train, training_loss(replicas.task, 300).indices
    )
    assert dpsgd.numbers["loss"] == pytest.approx(scores.loss / scores.labels, rel=1e-6)
    task, found, x = replicas.task, dpsgd.numbers, replicas.x.double()
    test = task.evaluate(replicas.mean.float(), task.test, np.arange(len(task.test)))
    assert found["test_error"] == test.errors / test.labels
    square = float(x.var(dim=0, correction=0).sum())
    assert found["consensus_distance"] == pytest.approx(math.sqrt(square))
    ends = (replicas.x[k] for k in planes.farthest(replicas.x))
    assert found["barrier"] == planes.barrier(training_loss(task, 300), *ends)
    contour = dpsgd.contours["through the learners"]
    assert contour["axis"][-1] == pytest.approx(1.5 * np.abs(contour["learners"]).max())
    assert contour["loss"][1][1] == pytest.approx(dpsgd.numbers["loss"], rel=1e-6)
    line = dpsgd.lines["mean to learner 0"]
    assert line["at"][0] == -1
    behind = training_loss(task, 300).loss(2 * replicas.mean - x[0])
    assert line["loss"][0] == pytest.approx(behind, rel=1e-6)
    assert len(dpsgd.lines) == 5
    assert dpsgd.numbers["lambda_max"] > dpsgd.numbers["lambda_min"]
    assert ssgd.lines == {}
    assert list(ssgd.contours) == ["filter-normalised"]
    assert ssgd.numbers["consensus_distance"] == 0
    for name in ("dpsgd", "ssgd"):
        tables = json.loads((folder / name / f"{command.NAME}.json").read_text(encoding="utf-8"))
        assert tables["settings"]["samples"] == 300
        assert (folder / name / f"{command.NAME}.png").stat().st_size > 1000
    assert "λ max" in QUIET.file.getvalue()


def test_the_axis_of_the_lines_is_that_of_their_losses():
    lines = {"mean to learner 0": {"at": [-1.0, 0.0, 1.0], "loss": [0.09, 0.07, 0.08]}}
    numbers = {"axis": [-1.0, 1.0], "loss": [[1.0, 2.0], [3.0, 4.0]], "learners": [[0.0, 0.0]]}
    shown = Landscape(1, 4, {}, lines, {"filter-normalised": numbers}, {})
    figure = picture(shown, "A")
    low, high = figure.axes[0].get_ylim()
    assert 0.05 < low < 0.07
    assert 0.09 < high < 0.12
    assert [axes.get_legend() for axes in figure.axes] == [None, None]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["mean (0) to a learner (1)", "learners", "mean"]


def test_numbers_alone_without_a_picture(folder, capsys):
    picture = folder / "dpsgd" / f"{command.NAME}.png"
    picture.unlink(missing_ok=True)
    arguments = [str(folder / "dpsgd"), "--grid", "0", "--samples", "50", "--draws", "1"]
    assert command.main(arguments) == 0
    assert not picture.exists()
    assert capsys.readouterr().out.endswith(f"wrote {picture.with_suffix('.json')}\n")


def test_levels_are_met_where_the_loss_first_falls_below_them(tmp_path, capsys, without_pictures):
    options = "--dataset digits --learners 4 --batch-size 20 --steps 12 --lr 0.5 --monitor cheap"
    kept = "--checkpoint-every 2 --checkpoint-keep 99"
    with without_pictures():
        assert run.main([*f"{options} {kept} --out".split(), str(tmp_path / "B")]) == 0
    folder = tmp_path / "B" / "dpsgd"
    first, last = (f"step-{step:09d}" for step in (2, 12))
    assert {first, last} <= {path.name for path in (folder / "checkpoint").iterdir()}
    losses = {}
    for path in reversed(newest(folder / "checkpoint")):
        replicas = Replicas(of_run(folder).task, read(path, range(4)).rows["x"], 0)
        losses[int(path.name[5:])] = training_loss(replicas.task, 300).loss(replicas.mean)
    level = (losses[6] + max(losses[2], losses[4])) / 2
    reached = next(step for step, loss in losses.items() if loss <= level)
    found = at_losses(folder, [level, 1e-9], 300)
    assert list(found) == [level]
    assert found[level].step == reached
    shown = command.landscape(
        [folder], Settings(samples=300, draws=1, grid=3, contours=False),
        at_loss=[level, 1e-9], console=QUIET,
    )  # fmt: skip
    assert [(each.step, each.contours) for each in shown] == [(reached, {})]
    assert shown[0].numbers["loss"] <= level
    assert "no checkpoint with a training loss of 1e-09" in capsys.readouterr().err
    assert (folder / f"{command.at_level(level)}.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["{out}/nothing"], "no run in"),
        (["{out}/dpsgd", "--at-loss", "0"], "at_loss=0"),
        (["{out}/dpsgd", "--grid", "2"], "grid=2"),
        (["{out}/dpsgd", "--samples", "0"], "samples=0"),
        (["{out}/dpsgd", "--rho", "-1"], "rho=-1"),
        (["{out}/dpsgd", "--sigma", "nan"], "sigma=nan"),
    ],
)
def test_a_mistake_is_one_sentence(folder, capsys, arguments, word):
    assert command.main([text.format(out=folder) for text in arguments]) == 2
    assert word in capsys.readouterr().err


def test_a_run_without_checkpoints_is_refused(folder, tmp_path, capsys):
    for name in ("config.toml", "trace.arrows"):
        (tmp_path / name).write_bytes((folder / "dpsgd" / name).read_bytes())
    assert command.main([str(tmp_path)]) == 2
    assert "no checkpoint" in capsys.readouterr().err


def test_code_that_a_run_names_is_trusted_by_the_option_that_there_is(folder, tmp_path, capsys):
    out = tmp_path / "net"
    shutil.copytree(folder / "dpsgd", out)
    config = (out / "config.toml").read_text().replace('model = "mlp"', 'model = "mynet:net"')
    (out / "config.toml").write_text(config)
    assert command.main([str(out)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("model = 'mynet:net': if you trust it, say so by --trust model\n")


def test_a_step_that_was_not_kept_is_refused_with_those_that_are(folder, capsys):
    assert command.main([str(folder / "dpsgd"), "--at-step", "3"]) == 2
    assert capsys.readouterr().err.endswith(
        "dpsgd: no checkpoint after 3 steps; kept are those after 6\n"
        "error: nothing was measured: no run has a checkpoint of that --at-step or --at-loss\n"
    )


def test_weights_that_are_not_finite_have_no_landscape():
    task = digits_task(widths=(4,))
    x = task.init(0).repeat(2, 1)
    x[1, 3] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        measure(Replicas(task, x, 1), FAST)


def test_all_samples_stand_for_the_loss_if_there_are_fewer():
    task = digits_task(widths=(4,))
    surface = training_loss(task, 10**9)
    assert isinstance(surface, TrainingLoss)
    assert len(surface.indices) == len(task.train)
