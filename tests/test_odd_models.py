"""A user's model trains rightly, or is refused in a sentence; by what it does, not by its class."""

# ruff: noqa: NPY002 - users draw from the global generator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.errors import UserError
from gossip.loop.outcome import Outcome, TraceRows
from gossip.runs.dispatch import loop
from gossip.study import Study, prepare
from tests import odd_models
from tests.problems import digits_task

LEARNERS = 4
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:.*torch.jit")


def config(build, name: str = "dpsgd", monitor: str = "cheap") -> Config:
    return Config(
        algorithm=(name,),
        steps=6,
        gossip=Averaging(learners=LEARNERS),
        data=Data(dataset="digits", batch_size=8),
        model=Model(model=f"{build.__module__}:{build.__name__}", dtype="float64"),
        rate=Rate(lr=0.1),
        monitoring=Monitoring(monitor=monitor, monitor_every=3),
    )


def walk(chosen: Config) -> tuple[Study, Outcome, TraceRows]:
    study = prepare(chosen, Stacked(LEARNERS))
    rows: TraceRows = []
    return study, loop(study, chosen.algorithm[0])(record=rows.extend), rows


def by_hand(chosen: Config) -> tuple[torch.Tensor, nn.Module]:
    """SSGD in plain PyTorch: every learner's pass on one module, seeded; the module's weights."""
    study = prepare(chosen, Stacked(LEARNERS))
    build = getattr(odd_models, chosen.model.model.partition(":")[2])
    torch.manual_seed(chosen.seed)
    model = build((8, 8), 10).double()
    names = [layer.name for layer in study.task.layers]
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.rate.lr)
    for t in range(chosen.steps):
        optimizer.zero_grad()
        seeds = study.seeds(t) or (0,) * LEARNERS
        batches = zip(*study.task.train.batch(study.sampler.indices(t)), seeds, strict=True)
        for inputs, labels, seed in batches:
            torch.manual_seed(seed)
            (nn.functional.cross_entropy(model(inputs), labels) / LEARNERS).backward()
        for name, p in model.named_parameters():  # SGD leaves a parameter without gradient alone
            p.grad = None if p.grad is None else p.grad.to_dense()
            assert p.grad is None or p.requires_grad, name
        optimizer.step()
    own = dict(model.named_parameters())
    return torch.cat([own[name].detach().reshape(-1) for name in names]), model


WALKS = [
    *((build, "dpsgd") for build in odd_models.WORK),
    *((build, name) for build in odd_models.DRAW for name in ("ssgd", "ad-psgd")),
]


@pytest.mark.parametrize(("build", "name"), WALKS, ids=lambda part: getattr(part, "__name__", part))
def test_the_same_command_twice_ends_with_the_same_weights(build, name):
    chosen = config(build, name)
    study, one, rows = walk(chosen)
    assert study.task.draws == (build in odd_models.DRAW)
    assert torch.isfinite(one.state.x).all()
    torch.rand(7)
    np.random.rand(3)
    _, again, other = walk(chosen)
    torch.testing.assert_close(one.state.x, again.state.x, rtol=0, atol=1e-12)
    assert rows[-1]["test_error"] == other[-1]["test_error"]


PLAIN = (
    *(odd_models.FunctionalDropout, odd_models.DropoutLayer, odd_models.Reseeds),
    *(odd_models.Transformer, odd_models.Recurrent, odd_models.InBatch, odd_models.Scaled),
    *(odd_models.WithEmpty, odd_models.Transposed, odd_models.Unused),
    *(odd_models.SparseEmbedding, odd_models.Frozen, odd_models.TiedObject),
    *(odd_models.Double, odd_models.IntegerParameter),
)


@pytest.mark.parametrize("build", PLAIN, ids=lambda build: build.__name__)
def test_it_is_trained_as_by_plain_torch(build):
    chosen = config(build, "ssgd")
    _, outcome, _ = walk(chosen)
    expected, _ = by_hand(chosen)
    torch.testing.assert_close(outcome.state.x[0], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("build", odd_models.REFUSED, ids=lambda build: build.__name__)
def test_what_cannot_work_is_refused_in_a_sentence(build):
    with pytest.raises(UserError) as error:
        prepare(config(build), Stacked(LEARNERS))
    assert odd_models.REFUSED[build] in str(error.value)
    assert "\n" not in str(error.value)


def test_each_learner_and_step_draws_its_own_numbers():
    study = prepare(config(odd_models.FunctionalDropout), Stacked(LEARNERS))
    seeds = [study.seeds(t) for t in range(3)]
    assert seeds == [study.seeds(t) for t in range(3)]
    assert len({seed for of_step in seeds for seed in of_step}) == 3 * LEARNERS
    other = prepare(replace(config(odd_models.FunctionalDropout), seed=1), Stacked(LEARNERS))
    assert not set(seeds[0]) & set(other.seeds(0))


def test_the_users_random_numbers_are_left_where_they_were():
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    walk(config(odd_models.NumpyDraws))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_what_is_measured_is_the_model_without_dropout():
    dropped, plain = (digits_task(b) for b in (odd_models.FunctionalDropout, odd_models.Net))
    row, few = plain.init(3), np.arange(50)
    vectors = torch.ones(1, plain.d, dtype=torch.float64)
    for one, other in zip(
        (*dropped.gradient_sum(row, dropped.train, few), *dropped.evaluate(row, plain.test, few)),
        (*plain.gradient_sum(row, plain.train, few), *plain.evaluate(row, plain.test, few)),
        strict=True,
    ):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))
    products = [t.hessian_vector_sums(row, vectors, t.train, few) for t in (dropped, plain)]
    torch.testing.assert_close(*products)


@pytest.mark.parametrize("engine", ["vmap", "loop"])
def test_tied_weights_are_one_coordinate(engine):
    tied = odd_models.TiedObject, odd_models.TiedData
    tasks = [digits_task(build, engine=engine) for build in tied]
    d = 64 * 64 + 2 * 64 + 650
    assert [task.d for task in tasks] == [d, d]
    x = torch.stack([tasks[0].init(seed) for seed in range(3)])
    batch = tasks[0].train.batch(np.arange(15).reshape(3, 5))
    one, other = (task.gradient(x, *batch).values for task in tasks)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("build", "sign"), [(odd_models.TiedTranspose, 1), (odd_models.TiedFrozen, 0)]
)
def test_a_tie_by_data_adds_the_gradients_of_what_is_trained(build, sign):
    task = digits_task(build)
    model = build((8, 8), 10).double()
    row, (inputs, labels) = task.init(1), task.train.batch(np.arange(9))
    start = 0
    for layer in task.layers:
        own = row[layer.start : layer.stop].view(layer.shape)
        model.get_parameter(layer.name).data.copy_(own)
        start += own.numel()
    assert start == task.d == 64 * 64 + 2 * 64 + 650
    decoder = model.encoder.weight.data
    model.decoder.weight.data = decoder.T if sign else decoder
    model.decoder.weight.requires_grad_(bool(sign))
    nn.functional.cross_entropy(model(inputs), labels).backward()
    expected = model.encoder.weight.grad
    if sign:
        expected = expected + model.decoder.weight.grad.T
    layer = next(layer for layer in task.layers if layer.name == "encoder.weight")
    found = task.gradient(row[None], inputs[None], labels[None]).values[0]
    torch.testing.assert_close(found[layer.start : layer.stop].view(layer.shape), expected)


def test_frozen_parameters_are_those_of_the_seed_and_not_counted():
    tasks = [
        prepare(replace(config(odd_models.Frozen), seed=seed), Stacked(4)).task
        for seed in (3, 3, 4)
    ]
    assert [task.d for task in tasks] == [70, 70, 70]
    row = tasks[0].init(0)
    losses = [task.evaluate(row, task.test, np.arange(40)).loss for task in tasks]
    assert losses[0] == losses[1] != losses[2]
    torch.manual_seed(3)
    model = odd_models.Frozen((8, 8), 10).double()
    for p, part in zip(model.b.parameters(), row.split([60, 10]), strict=True):
        p.data = part.view(p.shape)
    inputs, labels = tasks[0].test.batch(np.arange(40))
    loss = nn.functional.cross_entropy(model(inputs), labels, reduction="sum")
    assert losses[0] == pytest.approx(loss.item(), rel=1e-12)


def test_attention_has_a_second_derivative():
    task = digits_task(partial(odd_models.Transformer, dropout=0.0))
    row, few = task.init(0), np.arange(20)
    rng = np.random.default_rng(0)
    v = torch.from_numpy(rng.standard_normal(task.d))
    product = task.hessian_vector_sums(row, v[None], task.train, few)[0]
    eps = 1e-6
    there, back = (task.gradient_sum(row + s * eps * v, task.train, few)[0] for s in (1, -1))
    difference = (there - back) / (2 * eps)
    assert float((product - difference).norm() / product.norm()) < 1e-3


def test_a_model_that_cannot_be_batched_says_why_it_is_slower():
    study = prepare(config(odd_models.SparseEmbedding), Stacked(LEARNERS))
    assert study.task.engine == "loop"
    assert any("taken in turn: model and loss cannot be batched" in text for text in study.warnings)


def test_a_monitor_that_needs_second_derivatives_says_so_where_there_are_none():
    prepare(config(odd_models.OnceDifferentiable, monitor="standard"), Stacked(LEARNERS))
    with pytest.raises(UserError, match=r"second derivatives .* once_differentiable\); use"):
        prepare(config(odd_models.OnceDifferentiable, monitor="full"), Stacked(LEARNERS))
