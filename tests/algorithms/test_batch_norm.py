"""BatchNorm: a learner's own statistics in training, pooled or measured anew to judge a mean."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector
from torch.optim.swa_utils import update_bn

from gossip.algorithms import Dpsgd, Ssgd
from gossip.comm.stacked import Stacked
from gossip.task import Task
from gossip.task.samples import RECALIBRATION_CHUNK
from tests.problems import ArraySamples, complete, digits_task, optimizer, ring

LOCAL, BATCH = 4, 10


def net(input_shape, classes, momentum=0.1):
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3, momentum=momentum),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(108, 6),
        nn.BatchNorm1d(6, momentum=momentum, affine=False),
        nn.Tanh(),
        nn.Linear(6, classes),
    )


TASK = digits_task(net)


def module(row: torch.Tensor, buffers: torch.Tensor | None = None) -> nn.Module:
    """The net itself, with these weights and running statistics."""
    model = net((8, 8), 10).double()
    nn.utils.vector_to_parameters(row, model.parameters())
    if buffers is not None:
        for name, values in TASK._model.named_buffers(buffers).items():
            model.get_buffer(name).copy_(values)
    return model


def statistics(model: nn.Module) -> torch.Tensor:
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return torch.cat([part for m in norms for part in (m.running_mean, m.running_var)])


def batch(t: int = 0, local: int = LOCAL):
    return TASK.train.batch(t * local * BATCH + np.arange(local * BATCH).reshape(local, BATCH))


def rows() -> torch.Tensor:
    noise = torch.randn(LOCAL, TASK.d, generator=torch.Generator().manual_seed(0)).double()
    return TASK.init(0) + 0.05 * noise


def plain(row, inputs, labels, buffers=None):
    """Gradient, loss and running statistics of the module in training mode."""
    model = module(row, buffers)
    loss = cross_entropy(model(inputs), labels)
    loss.backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    return gradient, loss.detach(), statistics(model)


def test_running_statistics_are_no_parameters():
    assert TASK.has_buffers
    assert not digits_task().has_buffers
    model = net((8, 8), 10)
    assert TASK.d == sum(p.numel() for p in model.parameters())
    start = TASK.init_buffers(3)
    assert torch.equal(start, statistics(model.double()).repeat(3, 1))
    start += 1
    assert torch.equal(TASK.init_buffers(1)[0], statistics(model))


def test_each_learner_normalises_by_its_own_mini_batch():
    x, (inputs, labels), buffers = rows(), batch(), TASK.init_buffers(LOCAL)
    gradients, losses, squares = TASK.gradient(x, inputs, labels, buffers=buffers)
    assert squares is None
    for j in range(LOCAL):
        gradient, loss, own = plain(x[j], inputs[j], labels[j])
        torch.testing.assert_close(gradients[j], gradient, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(losses[j], loss, rtol=1e-13, atol=0)
        torch.testing.assert_close(buffers[j], own, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("squares", [False, True])
def test_a_shared_row_has_the_mean_of_single_gradients_not_that_of_the_joint_batch(squares):
    x, (inputs, labels), buffers = rows()[:1], batch(), TASK.init_buffers(LOCAL)
    shared = TASK.gradient(x, inputs, labels, squares=squares, buffers=buffers)
    single = [plain(x[0], inputs[j], labels[j]) for j in range(LOCAL)]
    mean = torch.stack([g for g, _, _ in single]).mean(0)
    torch.testing.assert_close(shared.values[0], mean, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        shared.losses[0], torch.stack([loss for _, loss, _ in single]).mean(), rtol=1e-13, atol=0
    )
    moved = torch.stack([own for _, _, own in single])
    torch.testing.assert_close(buffers, moved, rtol=1e-13, atol=1e-15)
    joint = plain(x[0], inputs.flatten(0, 1), labels.flatten())[0]
    assert (shared.values[0] - joint).abs().max() > 1e-4
    unwatched = TASK.gradient(x, inputs, labels, squares=squares)
    assert torch.equal(unwatched.values, shared.values)


def test_without_running_statistics_too_each_learner_has_its_own():
    def untracked(input_shape, classes):
        norm = nn.BatchNorm2d(2, track_running_stats=False)
        head = nn.Linear(72, classes)
        return nn.Sequential(
            nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 2, 3), norm, nn.Tanh(), nn.Flatten(), head
        )

    task = digits_task(untracked)
    assert not task.has_buffers
    inputs, labels = batch()
    x = task.init(0)[None]
    each = [task.gradient(x, inputs[j : j + 1], labels[j : j + 1]).values for j in range(LOCAL)]
    shared = task.gradient(x, inputs, labels).values
    torch.testing.assert_close(shared, torch.stack(each).mean(0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [Ssgd, Dpsgd])
def test_one_learner_is_plain_torch_training_of_the_module(make):
    """Weights and running statistics, bit for bit."""
    algorithm = make(optimizer("sgd", TASK.layers, momentum=0.9, weight_decay=0.01))
    state, buffers = algorithm.init(TASK.init(3), 1), TASK.init_buffers(1)
    model = module(TASK.init(3))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for t in range(8):
        inputs, labels = batch(t, 1)
        gradient = partial(TASK.gradient, inputs=inputs, labels=labels, buffers=buffers)
        state, _ = algorithm.step(state, gradient, complete(1), lambda *_: 0.1, Stacked(1))
        sgd.zero_grad()
        cross_entropy(model(inputs[0]), labels[0]).backward()
        sgd.step()
        assert torch.equal(state.x[0], parameters_to_vector(model.parameters()))
        assert torch.equal(buffers[0], statistics(model))


@pytest.mark.parametrize(
    "count", [2, RECALIBRATION_CHUNK, 4 * RECALIBRATION_CHUNK, 2 * RECALIBRATION_CHUNK + 1, 1400]
)
def test_recalibration_is_torchs_update_bn_on_the_same_chunks(count):
    row, indices = rows()[0], np.arange(count)
    chunks = np.array_split(indices, -(-count // RECALIBRATION_CHUNK))
    assert max(map(len, chunks)) <= RECALIBRATION_CHUNK
    model = module(row, TASK.init_buffers(1)[0] + 7)
    update_bn([TASK.train.batch(chunk)[0] for chunk in chunks], model)
    found = TASK.recalibrated(row, TASK.train, indices)
    torch.testing.assert_close(found, statistics(model), rtol=1e-11, atol=1e-13)
    assert torch.equal(found, TASK.recalibrated(row, TASK.train, indices))


def trained_buffers() -> torch.Tensor:
    x, buffers = rows(), TASK.init_buffers(LOCAL)
    for t in range(5):
        inputs, labels = batch(t)
        TASK.gradient(x, inputs, labels, buffers=buffers)
    return buffers


def test_averaged_statistics_are_those_of_the_pooled_population():
    buffers = trained_buffers()
    pooled = TASK.average_buffers(buffers, Stacked(LOCAL))
    for name in ("2", "6"):
        own = [TASK._model.named_buffers(row) for row in (*buffers, pooled)]
        means = torch.stack([b[f"{name}.running_mean"] for b in own])
        variances = torch.stack([b[f"{name}.running_var"] for b in own])
        mean = means[:-1].mean(0)
        second = (variances[:-1] + means[:-1].square()).mean(0)
        torch.testing.assert_close(means[-1], mean, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(variances[-1], second - mean.square(), rtol=1e-10, atol=0)
        between = means[:-1].var(0, correction=0)
        torch.testing.assert_close(
            variances[-1], variances[:-1].mean(0) + between, rtol=1e-10, atol=0
        )
    alike = buffers[:1].repeat(LOCAL, 1)
    torch.testing.assert_close(TASK.average_buffers(alike, Stacked(LOCAL)), buffers[0])


def test_a_model_is_judged_with_the_statistics_it_is_given_and_changes_none():
    buffers, row, indices = trained_buffers(), rows()[0], np.arange(300)
    kept = buffers.clone()
    scores = TASK.evaluate(row, TASK.test, indices, buffers[2])
    assert torch.equal(buffers, kept)
    model = module(row, buffers[2]).eval()
    inputs, labels = TASK.test.batch(indices)
    with torch.no_grad():
        logits = model(inputs)
    assert scores.loss == pytest.approx(float(cross_entropy(logits, labels, reduction="sum")))
    assert scores.errors == int((logits.argmax(1) != labels).sum())
    assert scores == TASK.evaluate(row, TASK.test, indices, buffers[2])
    assert scores.loss != TASK.evaluate(row, TASK.test, indices, buffers[1]).loss


def test_what_is_computed_in_between_does_not_touch_a_learners_statistics():
    """The monitor's gradients, Hessian products and evaluations are not training."""
    x, (inputs, labels) = rows(), batch()

    def walk(interrupt) -> torch.Tensor:
        buffers = TASK.init_buffers(LOCAL)
        TASK.gradient(x, inputs, labels, buffers=buffers)
        interrupt(buffers)
        TASK.gradient(x, inputs, labels, buffers=buffers)
        return torch.cat([buffers.reshape(-1), TASK.init_buffers(1)[0]])

    def everything(buffers):
        few = np.arange(50)
        TASK.gradient(x, inputs, labels)
        TASK.gradient_sum(x[0], TASK.train, few)
        TASK.hessian_vector_sums(x[0], torch.ones(1, TASK.d), TASK.train, few)
        TASK.evaluate(x[0], TASK.test, few, buffers[0])
        TASK.recalibrated(x[0], TASK.train, few)
        TASK.average_buffers(buffers, Stacked(LOCAL))

    assert torch.equal(walk(everything), walk(lambda buffers: None))


def test_mixing_moves_weights_and_leaves_statistics_with_their_learner():
    algorithm = Dpsgd(optimizer())
    state, buffers = algorithm.init(TASK.init(0), LOCAL), TASK.init_buffers(LOCAL)
    expected = TASK.init_buffers(LOCAL)
    for t in range(3):
        inputs, labels = batch(t)
        for j in range(LOCAL):
            expected[j] = plain(state.x[j], inputs[j], labels[j], expected[j])[2]
        gradient = partial(TASK.gradient, inputs=inputs, labels=labels, buffers=buffers)
        state, _ = algorithm.step(state, gradient, ring(LOCAL), lambda *_: 0.1, Stacked(LOCAL))
        torch.testing.assert_close(buffers, expected, rtol=1e-12, atol=1e-14)


class Words(nn.Module):
    """Logits for each of several positions, [batch, positions, classes]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).cumsum(dim=1))


def words() -> Task:
    tokens = torch.from_numpy(np.random.default_rng(0).integers(11, size=(40, 8)))
    samples = ArraySamples(tokens[:, :-1], tokens[:, 1:])
    return Task(Words, samples, samples, dtype=torch.float64, num_classes=11)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_loss_of_sequences_is_the_mean_over_all_their_tokens(rows):
    task = words()
    inputs, labels = task.train.batch(np.arange(15).reshape(3, 5))
    x = task.init(0).repeat(rows, 1)
    gradients = task.gradient(x, inputs, labels)
    model = Words().double()
    nn.utils.vector_to_parameters(x[0], model.parameters())
    parts = [slice(None)] if rows == 1 else [slice(j, j + 1) for j in range(3)]
    for j, part in enumerate(parts):
        own = deepcopy(model)
        log_p = own(inputs[part].flatten(0, 1)).log_softmax(-1)
        loss = -log_p.gather(-1, labels[part].flatten(0, 1)[..., None]).mean()
        loss.backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in own.parameters()])
        torch.testing.assert_close(gradients.losses[j], loss.detach(), rtol=1e-12, atol=0)
        torch.testing.assert_close(gradients.values[j], gradient, rtol=1e-12, atol=1e-14)


def test_errors_of_sequences_are_counted_by_token():
    task, many = words(), np.arange(40)
    scores = task.evaluate(task.init(0), task.test, many)
    assert scores.labels == 40 * 7
    inputs, labels = task.test.batch(many[:, None])
    x, pairs = task.init(0)[None], zip(inputs[:, None], labels[:, None], strict=True)
    each = [float(task.gradient(x, *pair).losses) for pair in pairs]
    assert scores.loss == pytest.approx(7 * sum(each), rel=1e-12)
    assert 0 < scores.errors < 280
