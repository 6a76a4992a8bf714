"""Runs whose batches grow: the same samples, time and numbers, whoever draws them and when."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from gossip.algorithms import ALGORITHMS
from gossip.comm.stacked import Stacked
from gossip.config import (
    Averaging,
    BatchGrowth,
    Config,
    Data,
    Model,
    Monitoring,
    Rate,
    Reliability,
)
from gossip.damping import DAMPERS
from gossip.data import Sampler
from gossip.errors import UserError
from gossip.loop.growth import measured
from gossip.loop.workers import Workers
from gossip.optim import OPTIMIZERS
from gossip.rates import Norms
from gossip.runs.dispatch import check_parts
from gossip.schedule import courses
from gossip.schedule.__main__ import main, steps
from gossip.schedule.course import ONE_LAYER
from gossip.study import prepare
from gossip.study.rate_rule import budget, rule
from gossip.task import Gradients
from tests.problems import digits_task
from tests.rates import cases
from tests.resume.walks import same_bits, start_of, timeless, walk

N = 1437
OPTIONS = {
    "geodamp": ("delay=0.25", "factor=2"),
    "geodamp-lr": ("delay=0.25", "factor=2"),
    "padadamp": ("rate=1.5",),
    "cntsdamp-lr": ("rate=2",),
    "adadamp": ("dwell=3", "wait=2", "share=0.5"),
    "adadamp-nn": ("dwell=3", "wait=2"),
    "radadamp": ("dwell=3", "wait=2"),
    "noise-scale": ("dwell=3", "wait=2"),
}


def config(name="dpsgd", damping="geodamp", *, n=4, batch=10, options=None, **damped):
    """A run of 15 steps' worth of samples on the digits."""
    options = OPTIONS.get(damping, ()) if options is None else options
    return Config(
        algorithm=(name,),
        steps=15,
        gossip=Averaging(learners=n, noise_std=0.05),
        data=Data(dataset="digits", batch_size=batch),
        model=Model(widths=(8,), dtype="float64"),
        rate=Rate(lr=0.2, momentum=0.9),
        damping=BatchGrowth(damping=damping, damping_options=options, **damped),
        monitoring=Monitoring(monitor="cheap", monitor_every=4),
    )


def run(chosen, **more):
    return walk(chosen, Stacked(chosen.gossip.learners), **more)


def steps_of(rows):
    """The rows of steps, without that of the end."""
    return [row for row in rows if "train_loss" in row]


def drawn_by_all(sampler, batches):
    """Samples of each learner, in the order in which it draws them."""
    parts = []
    for t, batch in enumerate(batches):
        sampler = sampler.grown(batch, t)
        assert sampler.drawn_before(t) == sampler.n * sum(batches[:t])
        parts.append(sampler.indices(t))
    return parts


@pytest.mark.parametrize("seed", range(3))
def test_with_any_batches_an_epoch_covers_each_sample_once(seed):
    batches = [4, *np.random.default_rng(seed).integers(1, 40, 50).tolist()]
    sampler = Sampler(97, 3, range(3), batches[0], seed)
    stream = np.concatenate([part.ravel() for part in drawn_by_all(sampler, batches)])
    for epoch in range(len(stream) // 97):
        assert sorted(stream[97 * epoch : 97 * (epoch + 1)]) == list(range(97))


@pytest.mark.parametrize("damping", [*OPTIONS, "gradient-descent"])
def test_a_run_covers_each_sample_once_an_epoch_at_every_schedule(damping, monkeypatch):
    drawn, draw = [], Sampler.indices

    def noted(sampler, t):
        drawn.append(draw(sampler, t))
        return drawn[-1]

    monkeypatch.setattr(Sampler, "indices", noted)
    _, rows = run(replace(config("ssgd", damping), epochs=2.2))
    assert [part.shape[1] for part in drawn] == [row["batch_size"] for row in steps_of(rows)]
    assert len({part.shape[1] for part in drawn}) > 1 or "-" in damping
    stream = np.concatenate([part.ravel() for part in drawn])
    assert len(stream) >= 2.2 * N - 4
    for epoch in range(len(stream) // N):
        assert np.array_equal(np.sort(stream[N * epoch : N * (epoch + 1)]), np.arange(N))


def test_a_straggler_costs_time_and_changes_no_bit():
    late = Reliability(
        straggler="constant", straggler_options=("s=2", "learners=0"), straggler_seconds=0.001
    )
    for damping in ("geodamp", "radadamp"):
        chosen = config("ssgd", damping)
        outcome, rows = run(chosen)
        slow, slow_rows = run(replace(chosen, reliability=late))
        assert same_bits(slow.state.x, outcome.state.x)
        assert [row["batch_size"] for row in steps_of(slow_rows)] == [
            row["batch_size"] for row in steps_of(rows)
        ]


def test_a_learner_walks_through_its_own_shard_whatever_its_batches():
    batches = [3, 5, 5, 8, 2, 9, 9]
    sampler = Sampler(60, 4, range(4), batches[0], 1, partition="iid")
    mine = np.hstack(drawn_by_all(sampler, batches))
    for learner, shard in enumerate(sampler.shards):
        for epoch in range(2):
            part = mine[learner, 15 * epoch : 15 * (epoch + 1)]
            assert sorted(part) == sorted(shard)


def test_batches_depend_on_the_samples_before_them_and_not_on_how_they_were_drawn():
    one = Sampler(97, 1, range(1), 12, 0).grown(24, 3)  # after 36 samples
    three = Sampler(97, 3, range(3), 4, 0).grown(8, 3)
    np.testing.assert_array_equal(one.indices(5).ravel(), three.indices(5).ravel())
    hosted = Sampler(97, 3, range(1, 3), 4, 0).grown(8, 3)
    np.testing.assert_array_equal(hosted.indices(5), three.indices(5)[1:])


def test_a_batch_may_be_larger_than_the_training_set():
    stream = Sampler(7, 1, range(1), 1, 0).grown(20, 0).indices(0).ravel()
    assert sorted(stream[:7]) == sorted(stream[7:14]) == list(range(7))


METHODS = [name for name in ALGORITHMS if name not in ("ssgd", "dpsgd")]
"""Beside those that are tried with all rules."""


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, method) for name in ("ssgd", "dpsgd") for method in ("constant", *cases.RULES)),
        *((name, "constant") for name in METHODS),
        *(("dpsgd", optimizer) for optimizer in OPTIMIZERS),
    ],
)
def test_a_damper_that_never_grows_changes_no_bit(name, method):
    # A graph and an optimizer that every algorithm takes.
    optimizer = {"optimizer": method} if method in OPTIMIZERS else {}
    rate = Rate(lr=0.05, **cases.RULES.get(method, {}), **optimizer)
    gossip = Averaging(learners=4, topology="chain", weights="lazy", noise_std=0.05)
    damped = replace(config(name, options=("factor=1",)), rate=rate, gossip=gossip)
    outcome, rows = run(damped)
    plain, plain_rows = run(replace(damped, damping=BatchGrowth()))
    assert same_bits(outcome.state.x, plain.state.x)
    own = ("batch_size", "samples", "damping", "lr_over_batch")
    rows = [{k: v for k, v in row.items() if k not in own} for row in timeless(rows)]
    assert str(rows) == str(timeless(plain_rows))


def test_how_many_learners_draw_a_batch_together_changes_nothing():
    four, rows = run(config("ssgd", n=4, batch=8))
    one, rows_of_one = run(config("ssgd", n=1, batch=32))
    assert {row["batch_size"] for row in steps_of(rows)} == {8, 16}
    torch.testing.assert_close(four.state.x, one.state.x, rtol=1e-12, atol=1e-12)
    assert [row["samples"] for row in steps_of(rows)] == [
        row["samples"] for row in steps_of(rows_of_one)
    ]


@pytest.mark.parametrize("damping", ["geodamp", "geodamp-lr", "padadamp", "cntsdamp-lr"])
def test_the_trace_tells_the_schedule_and_the_noise_level(damping):
    cap = {} if damping.endswith("-lr") else {"max_batch": 16}
    chosen = config("ssgd", damping, **cap)
    study = prepare(chosen, Stacked(4))
    outcome, rows = run(chosen)
    rows = steps_of(rows)
    assert outcome.state.step == len(rows) == study.steps
    samples = 0
    for row in rows:
        assert row["samples"] == samples
        assert row["epoch"] == samples / N
        assert row["batch_size"] == min(row["damping"], cap.get("max_batch", 10))
        samples += 4 * int(row["batch_size"])
    assert samples - 4 * row["batch_size"] < 15 * 40 <= samples
    watched = [row for row in rows if "lr" in row]
    for row in watched:
        assert row["lr"] / row["batch_size"] == row["lr_over_batch"]
        assert row["lr_over_batch"] == pytest.approx(0.2 / row["damping"], rel=1e-6)
    assert len({row["damping"] for row in watched}) > 1


def test_warmup_and_decay_count_samples():
    rate = Rate(lr=0.2, warmup="fixed", warmup_steps=4, decay="polynomial")
    chosen = replace(config("ssgd"), rate=rate)
    watched = Monitoring(monitor="cheap", monitor_every=1)
    _, rows = run(replace(chosen, monitoring=watched))
    for row in steps_of(rows):
        before = row["samples"] / 40
        after = before + row["batch_size"] / 10
        expected = 0.2 * (1 - before / 15) * min(1, after / 4)
        assert row["lr"] == pytest.approx(expected, rel=1e-12)


def test_adadamp_follows_the_loss_of_the_whole_training_set_and_its_gradient():
    watched = Monitoring(monitor="standard", monitor_every=1)
    follows = (("adadamp", "loss_mean_model", 1), ("adadamp-nn", "grad_norm", 2))
    for damping, column, power in follows:
        chosen = config("dpsgd", damping, options=("dwell=2", "wait=4", "min_batch=5"))
        _, rows = run(replace(chosen, monitoring=watched))
        rows = steps_of(rows)
        expected = []
        for t, row in enumerate(rows):
            ratio = (rows[0][column] / row[column]) ** power
            new = t == 0 or (t >= 4 and t % 2 == 0)
            expected.append(max(5, math.ceil(round(10 * ratio, 9))) if new else expected[-1])
        assert [row["batch_size"] for row in rows] == expected
        assert len(set(expected)) > 1


def test_the_noise_of_a_step_is_estimated_without_bias():
    n, batch, d = 4, 8, 5
    random = np.random.default_rng(0)
    g, sigma = np.ones(d), np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    draws = [
        measured(
            Gradients(torch.from_numpy(values), torch.zeros(n, dtype=torch.float64)),
            None,
            batch,
            Stacked(n),
        )
        for values in g + random.standard_normal((4_000, n, d)) @ np.sqrt(sigma / batch)
    ]
    assert np.mean([x["variance"] for x in draws]) == pytest.approx(15, rel=0.02)
    assert np.mean([x["signal"] for x in draws]) == pytest.approx(5, rel=0.02)


def test_rules_see_the_norms_of_the_first_batch():
    signal, variance, n = torch.tensor([1.0, 3.0]), torch.tensor([8.0, 2.0]), 4
    now = Norms(signal + variance / 6, signal + variance / 6 / n)
    first = now.of_first_batch(6.0, n)
    torch.testing.assert_close(first.squares, signal + variance)
    torch.testing.assert_close(first.square_of_mean, signal + variance / n)


@pytest.mark.parametrize(
    ("name", "damping"),
    [
        *(("dpsgd", damping) for damping in DAMPERS if damping != "none"),
        *(("ssgd", damping) for damping in ("adadamp-nn", "radadamp", "noise-scale")),
        ("ssgd-star", "geodamp"),
    ],
)
def test_a_run_goes_on_bit_for_bit_inside_each_segment(name, damping, tmp_path):
    chosen = config(name, damping)
    if damping == "gradient-descent":
        chosen = replace(chosen, epochs=4.0)
    whole, rows = run(chosen)
    last = whole.state.step
    batches = [row["batch_size"] for row in steps_of(rows)]
    starts = [0, *(t for t in range(1, last) if batches[t] != batches[t - 1]), last]
    random = np.random.default_rng(len(damping))
    inside = [int(random.integers(a, b)) for a, b in pairwise(starts)]
    points = sorted({max(1, t) for t in inside if t < last})[:4]
    run(chosen, folder=tmp_path, at=points)
    for point in points:
        again, tail = run(chosen, start=start_of(tmp_path, point, range(4)))
        assert same_bits(again.state.x, whole.state.x)
        assert str(timeless(tail)) == str(timeless(rows)[len(rows) - len(tail) :])


def test_a_checkpoint_of_another_damper_is_refused(tmp_path):
    run(config(damping="geodamp"), folder=tmp_path, at=[3])
    with pytest.raises(UserError, match="is of another run"):
        run(config(damping="radadamp"), start=start_of(tmp_path, 3, range(4)))


@pytest.mark.parametrize("total", [1, 7, 40, 64])
@pytest.mark.parametrize("processes", [1, 3, 5])
def test_gradients_of_any_workers_sum_up_to_that_of_all_samples(processes, total):
    task = digits_task(widths=(6,))
    sampler = Sampler(len(task.train), 1, range(1), total, 0)
    x = task.init(0).unsqueeze(0)

    def gradient(indices):
        inputs, labels = task.train.batch(indices)
        return (lambda x: task.gradient(x, inputs, labels)), labels

    whole = gradient(sampler.indices(0))[0](x)
    for samples in (1, 9, 100):
        values, losses, counts = 0.0, 0.0, []
        for p in range(processes):
            workers = Workers(samples, p, processes)
            take, labels = gradient(workers.indices(sampler, 0))
            own = workers.weighted(take, labels, sampler)(x)
            values, losses = values + own.values / processes, losses + own.losses / processes
            counts.append(labels.shape[1])
        working = min(processes, -(-total // samples))
        assert sum(counts) == total
        assert sum(count > 0 for count in counts) == working
        assert max(counts[:working]) - min(counts[:working]) <= 1
        torch.testing.assert_close(values, whole.values, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(losses, whole.losses, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_batch": 8}, "max_batch=8 is below the first batch of 10"),
        ({"max_batch": 400}, "max_batch=400: 1437 samples among 4 learners are 359 for each"),
        ({"options": ("factor=x",)}, "factor must be a number, got 'x'"),
        ({"options": ("dealy=1",)}, "no option 'dealy' .did you mean 'delay'."),
        ({"options": ("max_batch=20",)}, "has a flag: --max-batch"),
        ({"damping": "noise-scale", "n": 1}, "--learners 2"),
        ({"batch": 360}, "fewer than 360"),
        ({"name": "dpsgd", "samples_per_worker": 4}, "use --algorithm ssgd"),
        ({"name": "ad-psgd"}, "no update at which all batches grow"),
        ({"name": "ssgd", "damping": "noise-scale", "samples_per_worker": 4}, "each learner"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(change, message):
    chosen = config(**change)
    with pytest.raises(UserError, match=message) as caught:
        check_parts(prepare(chosen, Stacked(chosen.gossip.learners)), chosen.algorithm[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"partition": "iid"}}, "--partition shared"),
        ({"model": {"model": "tests.problems:batch_norm_net"}}, "BatchNorm"),
        ({"rate": {"scaling": "lena"}}, "gradient of each learner"),
        ({"compute": {"cuda_graphs": "on", "device": "auto"}}, "cuda"),
    ],
)
def test_workers_that_would_change_the_update_are_refused(change, message):
    (table, values), *_ = change.items()
    chosen = config("ssgd", samples_per_worker=16)
    chosen = replace(chosen, **{table: replace(getattr(chosen, table), **values)})
    with pytest.raises(UserError, match=message):
        prepare(chosen, Stacked(4))


def test_with_replacement_a_first_batch_above_the_samples_of_each_is_the_cap():
    chosen = config(batch=400)
    chosen = replace(chosen, data=replace(chosen.data, replacement=True))
    study = prepare(chosen, Stacked(4))
    assert study.damper.max_batch == 400 > N // 4


@pytest.mark.parametrize("limit", [0.0, -1.0, 2.5, math.nan])
def test_a_limit_that_is_no_number_of_samples_is_refused(limit):
    with pytest.raises(UserError, match="whole number of samples"):
        BatchGrowth(damping="geodamp", max_batch=limit)


def test_batch_norm_needs_a_least_batch_where_the_loss_may_rise():
    model = Model(model="tests.problems:batch_norm_net", dtype="float64")
    chosen = replace(config(damping="adadamp"), model=model)
    with pytest.raises(UserError, match="batch_size=1: too few samples for the model's BatchNorm"):
        prepare(chosen, Stacked(4))
    options = (*OPTIONS["adadamp"], "min_batch=2")
    damping = replace(chosen.damping, damping_options=options)
    outcome, _ = run(replace(chosen, damping=damping))
    assert outcome.state.x.isfinite().all()


@pytest.mark.parametrize("damping", ["geodamp", "cntsdamp-lr"])
def test_the_printed_schedule_is_what_the_run_then_has(damping):
    rate = Rate(lr=0.2, scaling="sqrt", warmup="fixed", warmup_steps=4, decay="cosine")
    watched = Monitoring(monitor="cheap", monitor_every=1)
    chosen = replace(config("ssgd", damping), rate=rate, monitoring=watched)
    printed = rule(rate, budget(chosen, N), ONE_LAYER)
    (course,) = courses(printed, steps(chosen, printed, N)).values()
    _, rows = run(chosen)
    rows = steps_of(rows)
    assert course.iterations == len(rows)
    for row, told in zip(rows, map(course.row, range(1, len(rows) + 1)), strict=True):
        assert row["lr"] == pytest.approx(told.lr, rel=1e-6)
        assert row["batch_size"] == told.batch
        assert told.epoch == pytest.approx(row["epoch"] + 4 * row["batch_size"] / N)


def test_the_schedule_says_what_it_cannot_know_of_unequal_shards(capsys):
    given = ["--damping", "geodamp", "--samples", "400", "--steps", "20", "--partition"]
    assert main([*given, "dirichlet"]) == 0
    assert "caps the batch at the smallest" in capsys.readouterr().err
    assert main([*given, "iid"]) == 0
    assert "note" not in capsys.readouterr().err


def test_what_follows_a_loss_has_no_printed_schedule(capsys):
    assert main(["--damping", "adadamp"]) == 2
    assert "known only once it has run" in capsys.readouterr().err
    assert main(["--damping", "geodamp", "--scaling", "lena"]) == 2
    assert "leave --damping away" in capsys.readouterr().err
