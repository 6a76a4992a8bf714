"""Token ids as inputs, and a label for each of them."""

import numpy as np
import pytest
import torch

from gossip.data import PARTITIONS, Scale, from_arrays, splits
from gossip.data import cache as data_cache
from gossip.data.partition import Population
from gossip.errors import UserError

TOKENS = np.array([[3, 0, 1, 2], [0, 2, 2, 4], [1, 1, 0, 3]])
NEXT = np.array([[0, 1, 2, 0], [2, 2, 4, 1], [1, 0, 3, 2]])


@pytest.fixture
def dataset():
    return from_arrays("mine", "", (TOKENS, NEXT, TOKENS[:2], NEXT[:2]))


def test_integers_become_token_ids_of_one_type_and_one_hash(dataset):
    assert dataset.train_inputs.dtype == np.int32
    assert (dataset.num_classes, dataset.input_shape) == (5, (4,))
    assert dataset.scale == Scale(high=1.0)
    wide = TOKENS.astype(np.uint64)
    assert from_arrays("wide", "", (wide, NEXT, wide[:2], NEXT[:2])).sha256 == dataset.sha256


@pytest.mark.parametrize("scaling", ["unit", "standardised", "raw"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_are_never_scaled_and_always_int64(dataset, scaling, dtype):
    inputs, labels = splits(dataset, scaling, dtype)[0].batch(np.array([[2, 0]]))
    assert inputs.dtype == labels.dtype == torch.int64
    np.testing.assert_array_equal(inputs, TOKENS[[[2, 0]]])
    np.testing.assert_array_equal(labels, NEXT[[[2, 0]]])


def test_tokens_may_be_held_out_too(dataset):
    train, _, validation = splits(dataset, validation=1)
    assert validation is not None
    np.testing.assert_array_equal(validation.batch(np.array([0]))[0], TOKENS[:1])
    np.testing.assert_array_equal(train.batch(np.array([0, 1]))[0], TOKENS[1:])
    np.testing.assert_array_equal(train.labels, NEXT[1:])


def test_tokens_survive_the_cache(dataset):
    expected = data_cache.Expected("tokens", dataset.sha256, dataset.scale)
    data_cache.write(expected, "made up", dataset.arrays)
    for found, array in zip(data_cache.read(expected).arrays, dataset.arrays, strict=True):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (TOKENS - 1, NEXT, "from -1 to 3: give .*token ids as integers"),
        (TOKENS + 2**31, NEXT, "token ids as integers"),
        (TOKENS[:, None], NEXT[:, 0], "give pixels as uint8"),
        (TOKENS, NEXT[:, :3], r"for sequences, inputs \[N, T, \.\.\.\] and labels \[N, T\]"),
        (TOKENS, NEXT[:2], "the same N"),
        (TOKENS, NEXT[..., None], "for sequences"),
        (TOKENS, NEXT - 1, "labels are int64 from -1 to 3: give integers that count from 0"),
        (TOKENS, np.where(NEXT > 1, np.nan, 0), "labels are float64, and not all finite"),
    ],
)
def test_what_is_no_sequence_of_tokens_is_one_sentence(inputs, labels, message):
    with pytest.raises(UserError, match=message) as caught:
        from_arrays("mine", "", (inputs, labels, inputs, labels))
    assert "\n" not in str(caught.value)


def test_training_and_test_labels_must_be_of_one_shape():
    with pytest.raises(UserError, match="training labels are int64 3x4, test labels int64 2:"):
        from_arrays("mine", "", (TOKENS, NEXT, TOKENS[:2], NEXT[:2, 0]))


def test_label_skew_needs_one_label_a_sample():
    with pytest.raises(UserError, match="these have 4: use partition shared or iid"):
        PARTITIONS["dirichlet"](Population(num_samples=3, n=2, seed=0, labels=NEXT))
