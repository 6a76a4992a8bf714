import numpy as np
import pytest
import torch

from gossip.data import Scale, from_arrays, splits
from gossip.errors import UserError


@pytest.fixture
def dataset(arrays):
    return from_arrays("tiny", "", arrays)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unit_inputs_are_bytes_over_255_exactly(dataset, dtype):
    train, test, _ = splits(dataset, dtype=dtype)
    for split, raw in ((train, dataset.train_inputs), (test, dataset.test_inputs)):
        inputs, labels = split.batch(np.arange(len(split)))
        assert torch.equal(inputs, torch.tensor(raw, dtype=dtype) / 255)
        assert labels.dtype == torch.int64


def test_standardised_training_inputs_have_mean_zero_and_deviation_one(dataset):
    train, test, _ = splits(dataset, "standardised", torch.float64)
    inputs, _ = train.batch(np.arange(12))
    assert inputs.mean().item() == pytest.approx(0, abs=1e-12)
    assert inputs.std(correction=0).item() == pytest.approx(1, abs=1e-12)
    assert torch.equal(test.shift, train.shift)  # the test set by the training set's numbers


def test_raw_inputs_are_as_published(dataset):
    inputs, _ = splits(dataset, "raw")[0].batch(np.array([3, 1]))
    np.testing.assert_array_equal(inputs, dataset.train_inputs[[3, 1]])


def test_one_mean_for_each_channel_broadcasts(arrays):
    mean, std = np.array([0.1, 0.2, 0.3])[:, None], np.array([0.5, 0.6, 0.7])[:, None]
    dataset = from_arrays("tiny", "", arrays, Scale(mean=mean, std=std))
    inputs, _ = splits(dataset, "standardised", torch.float64)[0].batch(np.arange(12))
    np.testing.assert_allclose(inputs, (arrays[0] / 255 - mean) / std, atol=1e-12)


def test_batches_take_the_shape_of_their_indices(dataset):
    indices = np.array([[0, 5, 7], [11, 0, 1]])
    inputs, labels = splits(dataset)[0].batch(indices)
    assert inputs.shape == (2, 3, 3, 2)
    np.testing.assert_array_equal(labels, dataset.train_labels[indices])


def test_float_data_is_scaled_by_its_training_range_and_never_overwritten():
    x, y = np.array([[-2.0], [0.0], [2.0]], np.float32), np.array([0, 1, 0])
    train, _, _ = splits(from_arrays("mine", "", (x, y, x, y)))
    for _ in range(2):
        assert train.batch(np.arange(3))[0].flatten().tolist() == [0.0, 0.5, 1.0]


def test_constant_inputs_stay_finite():
    x, y = np.zeros((3, 2), np.uint8), np.array([0, 1, 0])
    for scaling in ("unit", "standardised"):
        inputs, _ = splits(from_arrays("mine", "", (x, y, x, y)), scaling)[0].batch(np.arange(3))
        assert torch.isfinite(inputs).all()


def test_an_unknown_scaling_lists_the_known(dataset):
    with pytest.raises(UserError, match="unit, standardised, raw"):
        splits(dataset, "unity")
