"""Sums over parts of a batch are those of the batch, however they are split."""

import numpy as np
import pytest
import torch
from torch import nn

from gossip.damping import ConstantBatch, Noise
from gossip.engines import (
    ArraySamples,
    Here,
    Items,
    MicroBatch,
    Problem,
    added,
    gradient_sums,
    loss_sums,
    parts,
    workers_for,
)
from gossip.errors import UserError
from gossip.estimators.course import Course

N, FEATURES, CLASSES = 60, 5, 3


def problem(module: nn.Module, loss: nn.Module | None = None) -> Problem:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(N, FEATURES))
    data = ArraySamples(inputs, random.integers(CLASSES, size=N))
    return Problem(module.double(), loss or nn.CrossEntropyLoss(), data)


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def noisy() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES)
    )


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("size", [1, 7, 25, 60])
def test_the_sum_of_the_parts_over_n_is_the_gradient_of_the_mean_loss(size):
    given = problem(plain())
    inputs, labels = given.samples.batch(np.arange(N))
    loss = nn.functional.cross_entropy(given.module(inputs), labels)
    expected = torch.autograd.grad(loss, list(given.module.parameters()))
    total = gradient_sums(
        given, weights(given.module), [MicroBatch(p) for p in parts(np.arange(N), size)]
    )
    assert total.samples == N
    assert total.parts == -(-N // size)
    assert total.loss / N == pytest.approx(loss.item(), rel=1e-13)
    for found, exact in zip(total.gradient.values(), expected, strict=True):
        assert torch.allclose(found / N, exact, rtol=0, atol=1e-14)


class Twice(nn.Module):
    """Two parameters of one gradient, which autograd may give in one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.full((CLASSES,), value)) for value in (0.25, 0.5))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :CLASSES] * (self.a + self.b)


def test_gradients_that_share_memory_are_added_up_once():
    given = problem(Twice())
    batch = [MicroBatch(part) for part in parts(np.arange(N), 10)]
    total = gradient_sums(given, weights(given.module), batch)
    whole = gradient_sums(given, weights(given.module), [MicroBatch(np.arange(N))])
    assert torch.equal(total.gradient["unused"], torch.zeros(2, dtype=torch.float64))
    for name in ("a", "b"):
        assert torch.allclose(total.gradient[name], whole.gradient[name], rtol=0, atol=1e-12)


def test_who_computes_which_part_changes_nothing_even_with_dropout_and_batchnorm():
    given = problem(noisy())
    state = weights(given.module)
    batch = [MicroBatch(part, seed) for seed, part in enumerate(parts(np.arange(N), 16))]
    whole = gradient_sums(given, state, batch)
    for cut in range(1, len(batch)):
        split = added(
            gradient_sums(given, state, batch[:cut]), gradient_sums(given, state, batch[cut:])
        )
        assert split.loss == pytest.approx(whole.loss, rel=1e-13)
        assert (split.samples, split.parts) == (whole.samples, whole.parts)
        for part in ("gradient", "buffers"):
            for name, value in getattr(whole, part).items():
                assert torch.allclose(getattr(split, part)[name], value, rtol=0, atol=1e-12), name
    assert torch.equal(whole.buffers["1.num_batches_tracked"], torch.tensor(1))
    assert all(torch.equal(state[name], value) for name, value in given.module.state_dict().items())


def test_running_statistics_are_the_mean_of_the_parts():
    given = problem(nn.Sequential(nn.BatchNorm1d(FEATURES, momentum=1.0), nn.Linear(FEATURES, 3)))
    total = gradient_sums(
        given, weights(given.module), [MicroBatch(p) for p in parts(np.arange(N), 25)]
    )
    mean = torch.as_tensor(given.samples.inputs).mean(dim=0)
    assert torch.allclose(total.buffers["0.running_mean"] / N, mean, rtol=0, atol=1e-14)


def test_a_loss_is_of_the_module_as_it_is_judged():
    given = problem(noisy())
    given.module.eval()
    inputs, labels = given.samples.batch(np.arange(N))
    expected = nn.functional.cross_entropy(given.module(inputs), labels).item()
    total = loss_sums(given, weights(given.module), [MicroBatch(p) for p in parts(np.arange(N), 7)])
    assert total.loss / N == pytest.approx(expected, rel=1e-13)


def test_parts_of_single_samples_give_the_sample_variance_of_the_gradient():
    given = problem(plain())
    state = weights(given.module)
    single = [gradient_sums(given, state, [MicroBatch(np.array([i]))]) for i in range(N)]
    flat = torch.stack([torch.cat([g.flatten() for g in s.gradient.values()]) for s in single])
    total = gradient_sums(given, state, [MicroBatch(np.array([i])) for i in range(N)])
    course = Course(seed=0, kind=ConstantBatch, state=None)
    course.note(total)
    variance = float(flat.var(dim=0).sum())
    mean_square = float(flat.mean(dim=0).square().sum())
    assert course.noise == pytest.approx(Noise(variance, mean_square - variance / N), rel=1e-10)
    assert course.gradient_square == pytest.approx(mean_square, rel=1e-12)


def test_a_data_set_of_items_is_the_same_as_its_arrays():
    given = problem(plain())
    pairs = list(zip(given.samples.inputs, given.samples.targets, strict=True))
    for mine, theirs in zip(
        Items(pairs).batch(np.array([3, 1])), given.samples.batch(np.array([3, 1])), strict=True
    ):
        assert torch.equal(mine, theirs)


class Strided(nn.Module):
    """A 1x1 convolution with a stride and few channels, of which no gradient is asked for."""

    def __init__(self, order: torch.memory_format = torch.contiguous_format) -> None:
        super().__init__()
        self.order = order
        self.convolution = nn.Conv2d(FEATURES, CLASSES, 1, stride=2).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(CLASSES))
        self.seen: list[tuple[int, ...]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen.append(images.stride())
        maps = self.convolution(images.contiguous(memory_format=self.order))
        return maps.mean(dim=(2, 3)) * self.scale


IMAGES = np.random.default_rng(1).normal(size=(8, 4, 4, FEATURES)).astype(np.float32)
"""[N, H, W, C]."""
LABELS = np.arange(8) % CLASSES


@pytest.mark.parametrize(
    "samples",
    [
        ArraySamples(IMAGES.transpose(0, 3, 1, 2), LABELS),
        ArraySamples(torch.tensor(IMAGES).permute(0, 3, 1, 2), torch.tensor(LABELS)),
        Items([(torch.tensor(x).permute(2, 0, 1), y) for x, y in zip(IMAGES, LABELS, strict=True)]),
    ],
    ids=["array", "tensor", "items"],
)
def test_transposed_images_are_computed_with_row_major(samples):
    given = Problem(Strided(), nn.CrossEntropyLoss(), samples)
    total = gradient_sums(given, weights(given.module), [MicroBatch(np.arange(8))])
    loss_sums(given, weights(given.module), [MicroBatch(np.arange(8))])
    assert given.module.seen == [(FEATURES * 16, 16, 4, 1)] * 2
    assert total.samples == 8


def test_a_module_whose_gradient_would_overrun_is_refused_before_it_is_taken():
    samples = ArraySamples(IMAGES.transpose(0, 3, 1, 2), LABELS)
    given = Problem(Strided(torch.channels_last), nn.CrossEntropyLoss(), samples)
    for _ in range(2):
        with pytest.raises(UserError, match=r"module Strided puts .* last, and .*writes past"):
            gradient_sums(given, weights(given.module), [MicroBatch(np.arange(8))])


def test_parts_are_even_and_in_order():
    cut = parts(np.arange(10, 300), 128)
    assert [len(part) for part in cut] == [97, 97, 96]
    assert np.array_equal(np.concatenate(cut), np.arange(10, 300))


@pytest.mark.parametrize(("batch", "expected"), [(1, 1), (128, 1), (129, 2), (1024, 8), (16000, 8)])
def test_workers_are_as_many_as_the_batch_needs_within_limits(batch, expected):
    assert workers_for(batch, 128, 1, 8) == expected


def test_a_loss_that_is_no_mean_is_refused():
    engine = Here()
    engine.hold(problem(plain(), nn.CrossEntropyLoss(reduction="none")))
    state = weights(engine._problem.module)
    with pytest.raises(UserError, match="reduction='mean'"):
        engine.gradient(state, [MicroBatch(np.arange(4))])
