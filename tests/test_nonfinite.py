"""Gradients that are not finite: recorded, left out, or an error.

See docs/mathematics.md#gradients-that-are-not-finite.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossip import run, trace
from gossip.comm.shutdown.stop import Decision
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.reliability import Reliability
from gossip.loop.verdict import PATIENCE_STEPS, Verdict
from gossip.optim import OPTIMIZERS, FlatOptimizer
from gossip.storage.folder import read_summary
from gossip.study import algorithm, prepare
from gossip.task.layers import Layer
from gossip.train import train
from tests.problems import Agreed

BRIGHT = 25.0
"""A few of the digits have more ink than this; they are the ones whose gradient overflows."""
LAYERS = (Layer("a", 0, 6, (2, 3)), Layer("b", 6, 8, (2,)))


class Poisoned(nn.Module):
    """A linear model with a finite loss whose gradient is infinite where a sample is bright."""

    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.linear = nn.Linear(math.prod(input_shape), num_classes)
        self.last = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        most = torch.finfo(self.last.dtype).max
        nothing = (self.last - self.last.detach()) * most * most  # 0, its derivative infinite
        bad = (flat.sum(dim=1, keepdim=True) > BRIGHT).to(flat.dtype)
        return self.linear(flat) + nn.functional.pad(bad * nothing, (0, 9))


def config(name: str, policy: str, **more) -> Config:
    return Config(
        algorithm=(name,),
        steps=30,
        gossip=Averaging(learners=4),
        data=Data(dataset="digits", batch_size=8),
        model=Model(model="tests.test_nonfinite:Poisoned"),
        rate=Rate(lr=0.1, momentum=0.9),
        monitoring=Monitoring(monitor="cheap", monitor_every=10),
        reliability=Reliability(on_nonfinite=policy),
        **more,
    )


def trained(chosen: Config):
    study = prepare(chosen, Stacked(4))
    rows: list[dict[str, float]] = []
    outcome = train(study, algorithm(chosen.algorithm[0], study), record=rows.extend)
    return outcome, rows, study


def poisoned_steps(study) -> np.ndarray:
    """Which learners have a bright sample at which step, [steps, n]."""
    ink = study.dataset.train_inputs.reshape(len(study.task.train), -1).sum(axis=1) / 16
    return np.stack([(ink[study.sampler.indices(t)] > BRIGHT).any(axis=1) for t in range(30)])


def test_some_steps_are_poisoned_and_some_are_not():
    _, _, study = trained(config("dpsgd", "skip"))
    assert 1 < poisoned_steps(study).any(axis=1).sum() < 25


def test_dpsgd_leaves_out_the_steps_of_the_learners_that_are_hit():
    outcome, rows, study = trained(config("dpsgd", "skip"))
    bad = poisoned_steps(study)
    assert outcome.skips == bad.mean(axis=1).sum()
    assert outcome.first_skip == int(bad.any(axis=1).argmax())
    assert torch.isfinite(outcome.state.x).all()
    assert not outcome.verdict.diverged
    assert sum(row.get("skipped", 0) for row in rows) == pytest.approx(outcome.skips)


def test_ssgd_leaves_a_step_out_for_all():
    outcome, _, study = trained(config("ssgd", "skip"))
    bad = poisoned_steps(study).any(axis=1)
    assert outcome.skips == bad.sum()
    assert torch.isfinite(outcome.state.x).all()


def test_ssgd_without_the_poisoned_steps_is_ssgd_on_the_others():
    """What is left out leaves no trace in weights or momentum."""
    outcome, _, study = trained(config("ssgd", "skip"))
    good = np.flatnonzero(~poisoned_steps(study).any(axis=1))
    x = study.task.init(0).unsqueeze(0)
    velocity = torch.zeros_like(x)
    for t in good:
        inputs, labels = study.task.train.batch(study.sampler.indices(int(t)))
        velocity = 0.9 * velocity + study.task.gradient(x, inputs, labels).values
        x = x - 0.1 * velocity
    torch.testing.assert_close(outcome.state.x, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_record_goes_on_and_names_the_step(name):
    outcome, rows, study = trained(config(name, "record"))
    first = int(poisoned_steps(study).any(axis=1).argmax())
    verdict = outcome.verdict.as_dict()
    assert verdict["verdict"] == "diverged"
    # The step itself has a finite loss; its increment has not.
    assert verdict["diverged_at_step"] == first + 1
    before = [row["train_loss"] for row in rows if row["step"] <= first]
    assert np.isfinite(before).all()


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_raise_ends_the_run_with_a_sentence(name):
    outcome, rows, study = trained(config(name, "raise"))
    bad = poisoned_steps(study)
    first = int(bad.any(axis=1).argmax())
    assert outcome.state.step == first + 1
    step, sentence = outcome.failure
    assert step == first
    assert f"step {first}: " in sentence
    assert "not finite in last" in sentence
    if name == "dpsgd":
        assert f"learner {int(bad[first].argmax())} " in sentence
    assert outcome.verdict.as_dict()["diverged_at_step"] == first
    assert [row["step"] for row in rows[:-1]] == list(range(first + 1))
    assert torch.isfinite(outcome.state.x).all()


@pytest.mark.parametrize("every", [7, 1000])
def test_a_failure_is_heard_when_the_processes_talk_the_next_time(every):
    """At the last step at the latest, with the step at which it happened."""

    def decide(step, request):
        return Decision(False, [request] if step % every == every - 1 else [])

    study = prepare(config("dpsgd", "raise"), Stacked(4))
    outcome = train(study, algorithm("dpsgd", study), agreement=Agreed(decide))
    first = int(poisoned_steps(study).any(axis=1).argmax())
    assert outcome.failure[0] == outcome.verdict.step == first
    assert outcome.state.step == min(30, first + every - first % every)


def test_the_command_keeps_the_folder_in_order(tmp_path, capsys):
    arguments = (
        "--model tests.test_nonfinite:Poisoned --dataset digits --batch-size 8 --learners 4 "
        "--algorithm dpsgd --lr 0.1 --steps 30 --monitor cheap --on-nonfinite raise"
    )
    assert run.main([*arguments.split(), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("gossip.run: step ")
    assert "Traceback" not in said
    summary = read_summary(tmp_path / "run")
    assert summary["verdict"] == "diverged"
    assert summary["verdict_reason"] in said
    steps = trace.column(trace.load(tmp_path / "run"), "step")
    assert summary["diverged_at_step"] == steps[-2]


@pytest.mark.parametrize("lr", [0.1, [0.1, 0.2], [[0.1, 0.2]] * 3], ids=["one", "layer", "row"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_row_that_is_left_out_keeps_its_state(name, lr):
    """Rows 0 and 2 step as if row 1, hit at step 2, were not there; row 1 as if step 2 were not."""
    kind = OPTIMIZERS[name]
    defaults = dict(kind.defaults)
    if name == "sgd":
        defaults["momentum"] = 0.9
    rate = lr if isinstance(lr, float) else torch.tensor(lr, dtype=torch.float64)

    def make(skips):
        return FlatOptimizer(
            lambda groups: kind.make(groups, lr=1.0, **defaults),
            LAYERS,
            elementwise=kind.elementwise,
            skips=skips,
        )

    random = torch.Generator().manual_seed(0)
    gradients = torch.randn(5, 3, 8, generator=random, dtype=torch.float64)
    start = torch.randn(3, 8, generator=random, dtype=torch.float64)
    hit = gradients.clone()
    hit[2, 1, 7] = math.inf
    optimizer, plain = make(skips=True), make(skips=False)
    x, y = start, start
    for t in range(5):
        before = {k: v.clone() for k, v in optimizer.state_rows().items()}
        stepped = optimizer.step(x, hit[t], rate)
        if t == 2:
            assert optimizer.skipped.tolist() == [False, True, False]
            assert torch.equal(stepped[1], x[1])
            for key, state in optimizer.state_rows().items():
                if state.ndim > 1:
                    assert torch.equal(state[1], before[key][1]), key
        x, y = stepped, plain.step(y, gradients[t], rate)
    assert torch.equal(x[0], y[0])
    assert torch.equal(x[2], y[2])
    assert torch.isfinite(x).all()


def test_a_first_step_that_is_left_out_leaves_zero_state():
    optimizer = FlatOptimizer(
        lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9, weight_decay=0.1),
        LAYERS,
        skips=True,
    )
    x = torch.ones(2, 8)
    gradients = torch.ones(2, 8)
    gradients[0, 0] = math.nan
    stepped = optimizer.step(x, gradients, 0.1)
    assert torch.equal(stepped[0], x[0])
    assert not optimizer.state_rows()["momentum_buffer"][0].any()


@pytest.mark.parametrize("rate", [0.1, torch.tensor([0.1, 0.2]), torch.full((2, 2), 0.1)])
def test_a_first_step_that_is_left_out_leaves_the_sums_that_the_optimizer_begins_with(rate):
    optimizer = FlatOptimizer(
        lambda groups: torch.optim.Adagrad(groups, lr=1.0, initial_accumulator_value=4.0),
        LAYERS,
        skips=True,
    )
    x, gradients = torch.ones(2, 8), torch.ones(2, 8)
    gradients[0, 0] = math.nan
    stepped = optimizer.step(x, gradients, rate)
    assert torch.equal(stepped[0], x[0])
    assert torch.equal(x, torch.ones(2, 8))
    sums = [rows for name, rows in optimizer.state_rows().items() if name.endswith("sum")]
    assert all((rows[0] == 4).all() and (rows[1] == 5).all() for rows in sums)
    assert sums


def test_patience_ends_after_fifty_lost_steps_in_a_row():
    verdict = Verdict(10, patient=True)
    verdict.follow(range(2), [2.0, math.nan])
    assert not verdict.hopeless
    verdict.follow([2], [2.0])
    lost = range(3, 3 + PATIENCE_STEPS)
    verdict.follow(lost, [math.nan] * PATIENCE_STEPS)
    assert verdict.hopeless
    assert verdict.step == lost[-1]


def test_the_rest_of_a_run_does_not_depend_on_the_policy():
    """Where all is finite, skip costs a look and changes nothing."""
    plain = replace(config("dpsgd", "record"), model=Model(widths=(8,)))
    careful = replace(plain, reliability=Reliability(on_nonfinite="skip"))
    first, second = trained(plain)[0], trained(careful)[0]
    assert torch.equal(first.state.x, second.state.x)
