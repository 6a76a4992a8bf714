"""The monitor in a user's script measures what the harness's does, and changes nothing."""

import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from itertools import combinations
from math import sqrt
from textwrap import dedent

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import gossip
from gossip import trace
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.launch import mpirun as launch
from gossip.report import command as report
from gossip.report import runs
from gossip.storage import folder
from gossip.wrapper.mean_loss import is_sum
from gossip.wrapper.own_gradients import own_rate
from gossip.wrapper.probing import ProbeBatches, Replay
from gossip.wrapper.weights import Weights
from tests import odd_models, recorded
from tests.start import PYTHONPATH

F64 = torch.float64


@pytest.mark.parametrize("case", recorded.CASES)
def test_alone_it_measures_what_the_harness_does(case, tmp_path):
    chosen = recorded.study(Stacked(1), recorded.CASES[case])
    recorded.walk(chosen, tmp_path / "run")
    recorded.assert_same(chosen, tmp_path / "run")


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def batch(seed, size=6, shape=(8, 8)):
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(size, *shape, generator=draw), torch.randint(0, 3, (size,), generator=draw)


def walked(module, make, out=None, steps=5, **options):
    """The weights after some steps, of a global random state that a recording must not touch."""
    torch.manual_seed(1)
    model = gossip.Gossip(module)
    optimizers = make(model)

    def steps_of(batches):
        for each in batches:
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss(model, each).backward()
            for optimizer in optimizers:
                optimizer.step()

    batches = [batch(t) for t in range(steps)]
    if out is None:
        steps_of(batches)
    else:
        with gossip.record(model, out, every=2, **options) as recording:
            steps_of(recording.batches(batches))
    return model.state_dict()


def sgd(model):
    return [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)]


def two(model):
    first, *rest = [p for p in model.parameters() if p.requires_grad]
    return [torch.optim.SGD([first], lr=0.1), torch.optim.Adam(rest, lr=0.3)]


@pytest.mark.parametrize("make", [sgd, two])
@pytest.mark.parametrize(
    "kind",
    [
        *(odd_models.Frozen, odd_models.TiedObject, odd_models.TiedTranspose, odd_models.Unused),
        *(odd_models.DropoutAndBatchNorm, odd_models.Transposed, odd_models.SparseEmbedding),
    ],
)
def test_a_recording_changes_nothing_bit_for_bit(kind, make, tmp_path):
    if kind is odd_models.SparseEmbedding and make is two:
        pytest.skip("torch's Adam takes no sparse gradients")
    ends = []
    for out in (None, tmp_path / "run"):
        torch.manual_seed(7)
        options = {"probe": [batch(50), batch(51, 3)], "loss": loss} if out else {}
        if out and kind is not odd_models.SparseEmbedding:
            options["monitor"] = "full"
        ends.append(walked(kind((8, 8), 3), make, out, **options))
    for name, value in ends[0].items():
        assert torch.equal(ends[1][name], value), name
    table = trace.load(tmp_path / "run")
    assert trace.column(table, "step")[:3].tolist() == [0, 2, 4]
    assert np.isfinite(trace.column(table, "displacement_norm")[:3]).all()


class Centred(nn.Module):
    """Puts another running mean in the place of the last, in every pass."""

    def __init__(self):
        super().__init__()
        self.inner = odd_models.Net((8, 8), 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        y = self.inner(x)
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        return y - self.mean


def test_a_buffer_that_a_pass_replaces_is_put_back(tmp_path):
    ends = []
    for out in (None, tmp_path / "run"):
        torch.manual_seed(7)
        options = {"probe": [batch(50), batch(51, 3)], "loss": loss} if out else {}
        ends.append(walked(Centred(), sgd, out, **options))
    assert torch.equal(ends[0]["module.mean"], ends[1]["module.mean"])


def test_a_batchnorm_that_is_frozen_is_frozen_at_the_mean_model(tmp_path):
    """Alone, on all samples, SGD's effective rate is its rate."""
    torch.manual_seed(7)
    norm = nn.BatchNorm1d(5)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), norm, nn.Tanh(), nn.Linear(5, 3))
    module.double()
    norm.running_mean.fill_(0.5)
    norm.eval()
    model = gossip.Gossip(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = [(x.double(), y) for x, y in (batch(0), batch(1))]
    everything = tuple(torch.cat(each) for each in zip(*probe, strict=True))
    given = {"probe": probe, "loss": loss, "whole": True}
    with gossip.record(model, tmp_path, every=1, **given):
        for _ in range(3):
            plainly(model, optimizer, partial(loss, model, everything))
    np.testing.assert_allclose(trace.column(trace.load(tmp_path), "alpha_e")[:3], 0.1, rtol=1e-12)
    assert not norm.training


def test_a_parameter_that_is_added_later_ends_the_run_and_leaves_it_readable(tmp_path):
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def go():
        with gossip.record(model, tmp_path, every=1):
            for t in range(4):
                loss(model, batch(t)).backward()
                optimizer.step()
                if t == 2:
                    model.module.late = nn.Parameter(torch.ones(2))

    with pytest.raises(UserError, match="added or unfrozen"):
        go()
    (run,) = runs.load_runs([tmp_path])
    assert run.verdict == "interrupted"
    assert run.column("step").tolist() == [0, 1]


def test_the_folder_reads_like_any_other(tmp_path):
    torch.manual_seed(7)
    options = {"probe": [batch(50), batch(51)], "loss": loss, "whole": True}
    walked(odd_models.Net((8, 8), 3), sgd, tmp_path / "run", **options)
    (run,) = runs.load_runs([tmp_path / "run"])
    assert (run.verdict, run.number("steps"), run.setting("learners")) == ("converged", 5, 1)
    assert np.isfinite(run.column("alpha_e")[:3]).all()
    total = run.number("wall_seconds", "total")
    phases = [run.number("wall_seconds", name) for name in ("data", "gradient", "optimizer")]
    assert 0 < sum(phases) <= total
    assert report.main([str(tmp_path / "run"), "--figure", str(tmp_path / "f.svg")]) == 0


def test_the_folder_says_which_method_it_was(tmp_path):
    model = gossip.Gossip(nn.Linear(4, 2), algorithm="diloco", every=3)
    with gossip.record(model, tmp_path / "run"):
        pass
    config = folder.read_config(tmp_path / "run")
    assert config["algorithm"] == folder.read_summary(tmp_path / "run")["algorithm"] == "diloco"
    assert config["gossip"]["algorithm_options"] == ["every=3"]
    assert "order" not in config["gossip"]


def test_a_run_goes_on_behind_the_step_that_was_loaded(tmp_path):
    def model_of():
        torch.manual_seed(3)
        model = gossip.Gossip(odd_models.Net((8, 8), 3))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    def go(model, optimizer, steps):
        with gossip.record(model, tmp_path, every=1):
            for t in steps:
                optimizer.zero_grad()
                loss(model, batch(t)).backward()
                optimizer.step()
                if t == 1:
                    kept.update({k: v.clone() for k, v in model.state_dict().items()})

    kept: dict = {}
    go(*model_of(), range(4))
    whole = trace.column(trace.load(tmp_path), "sigma_w2")
    norms = trace.column(trace.load(tmp_path), "displacement_norm")
    model, optimizer = model_of()
    model.load_state_dict(kept)
    model.set_extra_state({"step": 2, "due": False})
    go(model, optimizer, range(2, 4))
    table = trace.load(tmp_path)
    assert trace.column(table, "step").tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(trace.column(table, "displacement_norm"), norms)
    np.testing.assert_array_equal(trace.column(table, "sigma_w2"), whole)


def test_a_step_that_is_abandoned_is_no_part_of_the_record(tmp_path):
    def walk(out, *, abandons):
        torch.manual_seed(3)
        model = gossip.Gossip(odd_models.Net((8, 8), 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        given = {"probe": [batch(50), batch(51)], "loss": loss, "whole": True}
        with gossip.record(model, out, every=1, **given) as recording:

            def backward(seed):
                optimizer.zero_grad()
                for each in recording.batches([batch(seed)]):
                    loss(model, each).backward()

            backward(0)
            optimizer.step()
            if abandons:
                state = deepcopy(model.state_dict())
                backward(7)
                model.load_state_dict(state)
            backward(1)
            optimizer.step()
        return trace.load(out)

    found, expected = (walk(tmp_path / str(a), abandons=a) for a in (True, False))
    for name in ("alpha_e", "delta_s", "delta2"):
        values = trace.column(expected, name)[:2]
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(trace.column(found, name)[:2], values)
    assert trace.column(expected, "bytes_sent")[:2].tolist() == [0, 0]
    np.testing.assert_array_equal(trace.column(found, "bytes_sent")[:2], [0, np.nan])


def in_a_closure(model, optimizer, value):
    def closure():
        optimizer.zero_grad()
        found = value()
        found.backward()
        return found

    optimizer.step(closure)


def by_a_scaler(model, optimizer, value):
    optimizer.zero_grad()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(value()).backward()
    scaler.step(optimizer)


def plainly(model, optimizer, value):
    optimizer.zero_grad()
    value().backward()
    optimizer.step()


@pytest.mark.parametrize("step_of", [in_a_closure, by_a_scaler])
def test_gradients_are_those_of_the_step_however_it_is_taken(step_of, tmp_path):
    """By a fused optimizer, which divides by the scaler's factor itself."""
    rows = []
    for of in (plainly, step_of):
        torch.manual_seed(7)
        model = gossip.Gossip(odd_models.Net((8, 8), 3).double())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
        with gossip.record(model, tmp_path / str(len(rows)), every=1):
            for t in range(3):
                x, y = batch(t)
                of(model, optimizer, partial(loss, model, (x.double(), y)))
        table = trace.load(tmp_path / str(len(rows))).drop_columns(["seconds"])
        rows.append({name: trace.column(table, name)[:3] for name in table.column_names})
    assert (rows[0]["grad_a_norm"] > 0).all()
    for name, values in rows[0].items():
        np.testing.assert_allclose(rows[1][name], values, rtol=1e-12, err_msg=name)


class OwnRate(torch.optim.Optimizer):
    """Finds its rate itself, as Hugging Face's Adafactor."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": None})

    def step(self):
        for p in self.param_groups[0]["params"]:
            p.data -= 0.1 * p.grad


def test_an_optimizer_without_a_rate_has_none_in_the_record(tmp_path):
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    optimizer = OwnRate(model.parameters())
    with gossip.record(model, tmp_path, every=1):
        plainly(model, optimizer, partial(loss, model, batch(0)))
    table = trace.load(tmp_path)
    assert np.isnan(trace.column(table, "lr")[0])
    assert trace.column(table, "displacement_norm")[0] > 0


@pytest.mark.parametrize("level", [None, "standard"])
def test_the_folder_says_the_level_that_was_given(level, tmp_path):
    given = {"probe": [batch(50), batch(51)], "loss": loss, "monitor": level}
    walked(odd_models.Net((8, 8), 3), sgd, tmp_path / "run", **given)
    assert folder.read_config(tmp_path / "run")["monitoring"].get("monitor") == level


class TwoKinds(nn.Module):
    """Weights of two dtypes, which are two rows."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(4, 3), nn.Linear(3, 3).double()

    def forward(self, x):
        return self.wide(self.narrow(x).double())


@pytest.mark.parametrize("method", ["diloco", "sgp"])
def test_what_a_method_keeps_of_several_rows_is_one(method, tmp_path):
    torch.manual_seed(2)
    module = TwoKinds()
    model = gossip.Gossip(module, algorithm=method)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    theta, lengths = [p.detach().clone() for p in module.parameters()], []
    with gossip.record(model, tmp_path, every=1):
        for t in range(2):
            optimizer.zero_grad()
            loss(model, batch(t, shape=(4,))).backward()
            optimizer.step()
            squares = [
                (p.detach() - q).double().square().sum()
                for p, q in zip(module.parameters(), theta, strict=True)
            ]
            lengths.append(float(sum(squares)) ** 0.5)
    table = trace.load(tmp_path)
    if method == "sgp":
        assert (trace.column(table, "mass_error")[:2] == 0).all()
    else:
        np.testing.assert_allclose(trace.column(table, "pseudo_norm")[:2], lengths, rtol=1e-6)
        np.testing.assert_allclose(trace.column(table, "pseudo_cosine")[:2], 1, rtol=1e-12)


class Once(torch.autograd.Function):
    """The square, of which autograd knows one derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx, slope):
        return 2 * ctx.saved_tensors[0] * slope


def once(module, batch):
    return Once.apply(module(batch[0])).square().mean()


def test_a_loss_without_second_derivatives_has_the_rest(tmp_path):
    torch.manual_seed(7)
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gossip.record(model, tmp_path, every=1, probe=[batch(0), batch(1)], loss=once):
        once(model, batch(2)).backward()
        optimizer.step()
    assert np.isfinite(trace.column(trace.load(tmp_path), "alpha_e")[0])


def test_batches_that_are_not_known_are_said_once_and_stop_nothing(tmp_path):
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"probe": [batch(0), batch(1)], "loss": loss, "monitor": "full"}

    def walk():
        with gossip.record(model, tmp_path, every=1, **given):
            for t in range(3):
                loss(model, batch(t)).backward()
                optimizer.step()

    with pytest.warns(UserWarning, match=r"step 0 has no parts of Delta.*\.batches") as said:
        walk()
    assert len(said) == 1
    table = trace.load(tmp_path)
    assert np.isnan(trace.column(table, "delta_s")).all()
    assert (trace.column(table, "delta2_hessian")[:3] == 0).all()
    assert np.isfinite(trace.column(table, "lipschitz")[:3]).all()


def bf16_loss(module, batch):
    """One that asks for its own precision."""
    with torch.autocast("cpu", torch.bfloat16):
        return loss(module, batch)


@pytest.mark.parametrize("of", [loss, bf16_loss])
def test_an_autocast_around_the_script_is_none_of_the_probe(of, tmp_path):
    """A step is measured in the next one's first pass; that pass is the same again, too."""
    rows, passes = [], []
    for around in (nullcontext, partial(torch.autocast, "cpu", torch.bfloat16)):
        torch.manual_seed(7)
        model = gossip.Gossip(odd_models.Net((8, 8), 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        given = {"probe": [batch(50), batch(51)], "loss": of, "monitor": "full"}
        out = tmp_path / str(len(rows))
        with gossip.record(model, out, every=1, **given) as recording:
            for each in recording.batches([batch(t) for t in range(3)]):
                with around():
                    model(each[0])
                    passes.append(bf16_loss(model, each).item())
                optimizer.zero_grad()
                loss(model.module, each).backward()
                optimizer.step()
        table = trace.load(out).drop_columns(["seconds"])
        rows.append({name: trace.column(table, name)[:3] for name in table.column_names})
    np.testing.assert_equal(*rows)
    assert passes[:3] == passes[3:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every=0"),
        ({"probe": [1]}, "without loss="),
        ({"loss": loss}, "without probe="),
        ({"whole": True}, "give probe= and loss="),
        ({"probe": iter([1]), "loss": loss}, "walked through once"),
        ({"probe": [1], "loss": 3}, "no function"),
        ({"monitor": "ful"}, "did you mean full"),
        ({"monitor": "full"}, "give probe= and loss=, too"),
        ({"monitor": "cheap", "probe": [1], "loss": loss}, "leave probe= and loss= away"),
        ({"monitor": "full", "probe": [batch(0)], "loss": once}, "second derivatives .*once"),
    ],
)
def test_what_does_not_fit_is_refused(options, message, tmp_path):
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    with pytest.raises(UserError, match=message):
        gossip.record(model, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda module, batch: loss(module, batch).detach(), "depends on no weight"),
        (lambda module, batch: (loss(module, batch), 0), "gave tuple"),
        (lambda module, batch: loss(module, batch).expand(2), r"gave \[2\]"),
    ],
)
def test_a_loss_that_is_none_is_refused_when_it_is_measured(function, message, tmp_path):
    options = {"probe": [batch(0), batch(1)], "loss": function}
    with pytest.raises(UserError, match=message):
        walked(odd_models.Net((8, 8), 3), sgd, tmp_path / "run", **options)


def as_mapping(given):
    return {"x": given[0], "y": given[1], "classes": torch.ones(3)}


def of_mapping(module, given, reduction):
    return nn.functional.cross_entropy(module(given["x"]), given["y"], reduction=reduction)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("size", [1, 6, 7])
def test_a_loss_that_is_a_sum_is_said(reduction, size, tmp_path, recwarn):
    torch.manual_seed(7)
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    probe = [as_mapping(batch(seed, size)) for seed in (0, 1)]
    gossip.record(
        model, tmp_path / "run", probe=probe, loss=partial(of_mapping, reduction=reduction)
    )
    said = [str(each.message) for each in recwarn if "give the mean loss" in str(each.message)]
    assert len(said) == (reduction == "sum" and size > 1)


@pytest.mark.parametrize(
    ("whole", "halves", "expected"),
    [
        (3.0, [1.0, 2.0], True),
        (1.5, [1.0, 2.0], False),
        (3.0, [3.0, 0.0], False),  # the second half has no labels
        (0.0, [0.0, 0.0], False),
        (-3.0, [-1.0, -2.0], True),
    ],
)
def test_a_sum_is_told_from_a_mean_by_two_halves(whole, halves, expected):
    assert is_sum(whole, halves) == expected


@pytest.mark.parametrize("value", [None, "a", torch.ones(2), [1.0]])
def test_what_is_noted_is_one_number(value, tmp_path):
    recording = gossip.record(gossip.Gossip(odd_models.Net((8, 8), 3)), tmp_path / "run")
    recording.note(train_loss=torch.ones(1, requires_grad=True), test_error=np.float32(0.5))
    with pytest.raises(UserError, match=r"note\(test_error=...\) of .*: give one number"):
        recording.note(test_error=value)


def test_a_folder_in_use_and_a_plain_module_are_refused(tmp_path):
    folder.write_text(tmp_path / "other.txt", "")
    model = gossip.Gossip(odd_models.Net((8, 8), 3))
    with pytest.raises(UserError, match="exists already"), gossip.record(model, tmp_path):
        pass
    with pytest.raises(UserError, match="give the model"):
        gossip.record(model.module, tmp_path / "run")


def test_a_lock_that_a_killed_run_left_is_no_run(tmp_path):
    (tmp_path / folder.LOCK).write_text("")
    with gossip.record(gossip.Gossip(odd_models.Net((8, 8), 3)), tmp_path, monitor="cheap"):
        pass
    assert (tmp_path / folder.CONFIG).exists()


def test_noise_of_a_sampled_probe_is_taken_out_of_the_square_without_bias():
    """L(w) = mean of (w - c_i)^2 / 2, c_i ~ N(0, I): ||g||^2 = ||w||^2, in groups of two sizes."""
    d, module = 8, nn.Linear(8, 1, bias=False).double()
    replay = Replay(
        module,
        Weights(dict(module.named_parameters()), "m"),
        lambda m, c: (m.weight - c).square().sum(1).mean() / 2,
    )
    row, draws = torch.full((d,), 0.5, dtype=F64), np.random.default_rng(0)
    squares, plain = [], []
    for _ in range(400):
        batches = [torch.from_numpy(draws.standard_normal((b, d))) for b in (3, 5, 3, 5)]
        g = replay.gradient(row, ProbeBatches(batches, whole=False), Stacked(1))
        squares.append(g.square)
        plain.append(float(g.vector @ g.vector))
    error = np.std(squares) / sqrt(len(squares))
    assert abs(np.mean(squares) - d / 4) < 3 * error
    assert np.mean(plain) - d / 4 > 5 * error  # d / 16 too much


@pytest.mark.parametrize("factors", ["sgd", "preconditioned"])
def test_own_gradients_tell_the_rate_within_their_error_where_learners_are_together(factors):
    """alpha_e = -U.g / ||g||^2 of a known g, of noises that are the learners' own."""
    n, d, alpha = 12, 40, 0.1
    draws = np.random.default_rng(1)
    g = torch.from_numpy(draws.standard_normal(d))
    scale = torch.ones(d, dtype=F64) if factors == "sgd" else torch.linspace(0.2, 3, d, dtype=F64)
    misses, errors = [], []
    for _ in range(200):
        gradients = g + torch.from_numpy(2 * draws.standard_normal((n, d)))
        increments = -alpha * scale * gradients
        exact = -float(increments.mean(0) @ g / (g @ g))
        found = own_rate(increments, gradients, Stacked(n))
        misses.append((found["alpha_e_own"] - exact) / found["alpha_e_own_se"])
        errors.append(found["noise_scale_batches"] / (4 * d / float(g @ g)) - 1)
    misses = np.array(misses)
    assert abs(misses.mean()) < 0.3
    assert 0.85 < (np.abs(misses) < 2).mean() <= 1
    assert abs(np.median(errors)) < 0.1


def test_own_gradients_are_the_mean_of_all_split_halves():
    n, draws = 6, np.random.default_rng(2)
    u, g = (torch.from_numpy(draws.standard_normal((n, 5)) + 1) for _ in range(2))
    along, square = [], []
    for half in combinations(range(n), n // 2):
        a, b = list(half), [j for j in range(n) if j not in half]
        along.append(float(u[a].mean(0) @ g[b].mean(0)))
        square.append(float(g[a].mean(0) @ g[b].mean(0)))
    found = own_rate(u, g, Stacked(n))
    assert found["alpha_e_own"] == pytest.approx(-np.mean(along) / np.mean(square), rel=1e-12)


def test_what_own_gradients_cannot_see_is_as_said():
    """L = w^4 / 4, learners at w_a +- s: too low by exactly 1 / (1 + 3 s^2 / w_a^2)."""
    w_a, s, alpha = 1.0, 0.5, 0.01
    x = torch.tensor([[w_a - s], [w_a + s]], dtype=F64)
    g = x**3
    exact = float(alpha * g.mean() / w_a**3)
    found = own_rate(-alpha * g, g, Stacked(2))["alpha_e_own"]
    assert found == pytest.approx(alpha, rel=1e-12)
    assert found / exact == pytest.approx(1 / (1 + 3 * s**2 / w_a**2), rel=1e-12)


SCRIPT = """
    import sys, torch
    import gossip
    torch.manual_seed(0)
    model = gossip.Gossip(torch.nn.Linear(3, 1), topology="complete")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gossip.record(model, sys.argv[1], every=2):
        for t in range(20):
            model(torch.randn(4, 3)).square().mean().backward()
            if t == 7 and model.comm.process == 1:
                raise RuntimeError("on one process")
            optimizer.step()
"""


@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
@pytest.mark.usefixtures("forking")
def test_an_exception_on_one_process_leaves_a_run_that_can_be_read(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(dedent(SCRIPT))
    mpirun = launch.find_mpirun()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    environment = {**clean, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"}
    environment = launch.environment_for(launch.kind_of(mpirun), environment)
    command = [mpirun, "-n", "2", sys.executable, str(script), str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "on one process" in done.stderr
    (run,) = runs.load_runs([tmp_path / "run"])
    assert run.verdict == "interrupted"
    assert run.column("step")[:3].tolist() == [0, 2, 4]
