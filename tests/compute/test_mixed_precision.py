"""Mixed precision is torch's: its autocast, its loss scaling; a step is left out by all or none."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossip.algorithms.loss_scale import GROWTH_INTERVAL, LossScale
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.compute import AMPS, Compute
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from gossip.models import MODELS
from gossip.runs.dispatch import check_parts
from gossip.study import algorithm, prepare
from gossip.task import Gradients
from gossip.task.row_gradients import PERCEPTRONS, VMAP
from gossip.train import train
from tests.compute.overflow import BRIGHT, Overflowing
from tests.resume.walks import same_bits, start_of, timeless, walk

EPSILON = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""Half the distance from 1 to the next number."""


def config(name: str = "dpsgd", amp: str = "fp16", n: int = 4, **more) -> Config:
    return replace(
        Config(
            algorithm=(name,),
            steps=14,
            gossip=Averaging(learners=n),
            data=Data(dataset="digits", batch_size=10),
            model=Model(widths=(8,)),
            rate=Rate(lr=0.05, momentum=0.9),
            monitoring=Monitoring(monitor="cheap", monitor_every=5),
            compute=Compute(amp=amp),
        ),
        **more,
    )


def trained(chosen: Config):
    study = prepare(chosen, Stacked(chosen.gossip.learners))
    rows: list[dict[str, float]] = []
    outcome = train(study, algorithm(chosen.algorithm[0], study), record=rows.extend)
    return outcome, rows, study


@pytest.mark.parametrize("model", ["mlp", "softmax"])
@pytest.mark.parametrize("amp", EPSILON)
def test_a_gradient_is_that_of_float32_to_the_precision_of_its_products(amp, model):
    """Relative to the whole gradient; of models without kinks, which a rounding may step over."""
    chosen = Model(model=model, activation="tanh")
    studies = [prepare(config(amp=a, model=chosen), Stacked(4)) for a in ("off", amp)]
    inputs, labels = studies[0].task.train.batch(studies[0].sampler.indices(0))
    if studies[0].task.engine == PERCEPTRONS:  # which mixed precision does not have
        studies[0].task._gradients.engine = VMAP
    x = studies[0].task.init(0).repeat(4, 1)
    scale = 2.0**10 if amp == "fp16" else None
    exact, mixed = (
        study.task.gradient(x, inputs, labels, scale=s)
        for study, s in zip(studies, (None, scale), strict=True)
    )
    assert mixed.values.dtype == mixed.losses.dtype == torch.float32
    error = (mixed.values - exact.values).norm(dim=1) / exact.values.norm(dim=1)
    assert (error < 4 * EPSILON[amp]).all()
    assert (error > 0).all()
    torch.testing.assert_close(mixed.losses, exact.losses, rtol=4 * EPSILON[amp], atol=0)
    again = studies[1].task.gradient(x, inputs, labels, exact=True)
    assert torch.equal(again.values, exact.values)


@pytest.mark.parametrize("amp", EPSILON)
def test_evaluation_is_mixed_and_what_the_monitor_measures_by_is_not(amp):
    plain, mixed = (prepare(config(amp=a), Stacked(4)).task for a in ("off", amp))
    row, everything = plain.init(0), np.arange(len(plain.test))
    one, other = (task.evaluate(row, task.test, everything) for task in (plain, mixed))
    assert one.loss != other.loss
    assert other.loss == pytest.approx(one.loss, rel=4 * EPSILON[amp])
    one, other = (task.gradient_sum(row, task.test, everything)[0] for task in (plain, mixed))
    assert torch.equal(one, other)


def torchs_loop(study, optimizer_class, amp: str, steps: int, **options) -> tuple[Tensor, list]:
    """One learner by torch alone: autocast, GradScaler, an optimizer on the model's parameters."""
    torch.manual_seed(0)
    name = study.config.model.model
    model = MODELS[name]((8, 8), 10) if name in MODELS else Overflowing((8, 8), 10)
    torch.nn.utils.vector_to_parameters(study.task.init(0), model.parameters())
    optimizer = optimizer_class(model.parameters(), **options)
    scaler = torch.amp.GradScaler("cpu", enabled=amp == "fp16")
    scales = []
    for t in range(steps):
        inputs, labels = study.task.train.batch(study.sampler.indices(t))
        optimizer.zero_grad()
        with torch.autocast("cpu", AMPS[amp]):
            loss = nn.functional.cross_entropy(model(inputs[0]), labels[0])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach(), scales


@pytest.mark.parametrize(
    ("amp", "model"),
    [(amp, model) for amp in EPSILON for model in ("mlp", "lenet")]
    + [("fp16", "tests.compute.overflow:Overflowing")],
)
@pytest.mark.parametrize(
    ("optimizer", "kind", "options"),
    [
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
        ("adam", torch.optim.Adam, {}),
    ],
)
@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_a_learner_alone_is_torchs_own_loop_bit_for_bit(name, optimizer, kind, options, amp, model):
    """With gradients that overflow too: weights, momentum, Adam's counter and the scale."""
    rate = Rate(lr=0.05, optimizer=optimizer, **options)
    watched = Monitoring(monitor="cheap", monitor_every=1)
    chosen = config(name, amp, 1, rate=rate, monitoring=watched, model=Model(model=model))
    outcome, rows, study = trained(chosen)
    weights, scales = torchs_loop(study, kind, amp, chosen.steps, lr=0.05, **options)
    assert same_bits(outcome.state.x[0], weights)
    if amp == "fp16":
        assert [row["loss_scale"] for row in rows[: chosen.steps]] == scales
        assert outcome.skips == 16 - math.log2(scales[-1])
        assert (outcome.skips > 0) == (model not in MODELS)
    else:
        assert "loss_scale" not in rows[0]


def test_the_scale_is_gradscalers_over_many_steps():
    ours = LossScale()
    theirs = torch.amp.GradScaler("cpu")
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    rng = np.random.default_rng(0)
    for t in range(3 * GROWTH_INTERVAL):
        finite = t > GROWTH_INTERVAL or bool(rng.random() > 0.01)
        theirs.scale(torch.zeros(1))
        parameter.grad = torch.tensor([0.0 if finite else math.inf])
        theirs.step(optimizer)
        theirs.update()
        assert ours.update(finite=finite) == finite
        assert ours.scale == theirs.get_scale(), t
    assert ours.scale > 0


def test_the_scale_stays_a_number():
    scale = LossScale(scale=2.0**127, finite=GROWTH_INTERVAL - 1)
    assert scale.update(finite=True)
    assert torch.isfinite(torch.tensor(scale.scale, dtype=torch.float32))


@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_gradient_of_one_learner_that_overflows_leaves_the_step_out_for_all(rows, bad):
    values = torch.ones(rows, 3)
    values[rows // 2, 1] = bad
    scale = LossScale(scale=8.0, finite=5)
    judged = scale.judged(lambda x: Gradients(values, torch.ones(rows)), Stacked(4))
    assert judged(torch.zeros(rows, 3)).values.isnan().all()
    assert scale == LossScale(scale=4.0, finite=0)


def overflows(study, steps: int) -> np.ndarray:
    """Which learners have a bright sample at which step, [steps, n]."""
    ink = study.dataset.train_inputs.reshape(len(study.task.train), -1).sum(axis=1) / 16
    return np.stack([(ink[study.sampler.indices(t)] > BRIGHT).any(axis=1) for t in range(steps)])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ["dpsgd", "ssgd", "ssgd-star"])
def test_a_step_left_out_moves_neither_weights_nor_optimizer(name, optimizer):
    """One learner of four overflows; with no step taken before it, all that happens is mixing."""
    rate = Rate(lr=0.05, optimizer=optimizer)
    model = Model(model="tests.compute.overflow:OneOverflows")
    chosen = config(name, rate=rate, model=model, steps=2)
    outcome, rows, study = trained(chosen)
    hit = overflows(study, 2)
    assert hit.any(axis=1).all()
    assert not hit.all(axis=1).any()
    torch.testing.assert_close(outcome.state.x, study.task.init(0).expand_as(outcome.state.x))
    assert outcome.state.optimizer.state_rows() == {}
    assert outcome.skips == 2
    assert outcome.first_skip == 0
    assert rows[-2]["loss_scale"] == 2.0**14
    assert not outcome.verdict.diverged


def test_learners_are_mixed_while_steps_are_left_out():
    """From weights that differ, steps without gradients are W, again and again."""
    study = prepare(config(model=Model(model="tests.compute.overflow:OneOverflows")), Stacked(4))
    dpsgd = algorithm("dpsgd", study)
    state = dpsgd.init(study.task.init(0), 4)
    x = state.x + torch.arange(4.0).unsqueeze(1)
    batch = study.task.train.batch(study.sampler.indices(0))

    def take(x: Tensor) -> Gradients:
        return study.task.gradient(x, *batch, scale=scale.scale)

    scale, w = LossScale(), study.topology.matrix(0)
    gradient = scale.judged(take, study.comm)
    state, _ = dpsgd.step(state._replace(x=x), gradient, w, lambda *of: 0.1, study.comm)
    expected = torch.from_numpy(w.toarray()).float() @ x
    torch.testing.assert_close(state.x, expected)
    assert scale.scale == 2.0**15


@pytest.mark.parametrize("point", [1, 3, 8])
@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_a_run_with_a_scale_goes_on_bit_for_bit(name, point, tmp_path):
    """Before, between and after the steps that find the scale."""
    chosen = config(name, model=Model(model="tests.compute.overflow:Overflowing"))
    whole, rows = walk(chosen, Stacked(4), tmp_path, at=[point])
    outcome, tail = walk(chosen, Stacked(4), start=start_of(tmp_path, point, range(4)))
    assert same_bits(outcome.state.x, whole.state.x)
    assert str(timeless(tail)) == str(timeless(rows)[len(rows) - len(tail) :])
    assert outcome.skips == whole.skips > 0
    scales = [row["loss_scale"] for row in tail if "loss_scale" in row]
    assert scales[-1] < 2.0**16


def test_a_checkpoint_without_a_scale_is_of_another_run(tmp_path):
    walk(config(amp="off"), Stacked(4), tmp_path, at=[3])
    with pytest.raises(UserError, match="of another run"):
        walk(config(amp="fp16"), Stacked(4), start=start_of(tmp_path, 3, range(4)))


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"model": Model(dtype="float64")}, r"amp=fp16 with dtype=float64: .*--amp off"),
        ({"reliability": Reliability(on_nonfinite="raise")}, r"on_nonfinite=raise.*--amp bf16"),
    ],
)
def test_what_does_not_go_with_half_precision_is_refused(parts, complaint):
    with pytest.raises(UserError, match=complaint):
        config(**parts)


def test_learners_that_wait_for_nobody_have_no_step_to_leave_out_together():
    with pytest.raises(UserError, match=r"ad-psgd with amp fp16.*bf16"):
        check_parts(prepare(config("ad-psgd"), Stacked(4)), "ad-psgd")
    check_parts(prepare(config("ad-psgd", "bf16"), Stacked(4)), "ad-psgd")
