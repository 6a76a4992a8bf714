"""The part of the training set that is held out for validation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossip.data import Sampler, from_arrays, splits
from gossip.data.batches import held_out
from gossip.errors import UserError


@st.composite
def labels_and_count(draw):
    labels = draw(st.lists(st.integers(0, 5), min_size=2, max_size=80))
    return np.array(labels), draw(st.integers(1, len(labels) - 1))


@settings(deadline=None)
@given(labels_and_count())
def test_the_asked_number_is_held_out_with_each_classs_share_rounded(case):
    labels, count = case
    held = held_out(labels, count)
    assert len(held) == count
    assert (np.diff(held) > 0).all()
    shares = np.bincount(labels) * count / len(labels)
    assert (np.abs(np.bincount(labels[held], minlength=len(shares)) - shares) < 1).all()


def test_windows_are_held_out_evenly_over_the_file():
    labels = np.random.default_rng(0).integers(0, 9, (100, 20))
    np.testing.assert_array_equal(held_out(labels, 10), np.arange(0, 100, 10))


@pytest.fixture
def dataset(arrays):
    return from_arrays("tiny", "", arrays)


def numbers_of(dataset, split):
    """Which training samples a split gives, found by their pixels."""
    known = {image.tobytes(): k for k, image in enumerate(dataset.train_inputs)}
    inputs, labels = split.batch(np.arange(len(split)))
    raw = inputs.mul(255).round().numpy().astype(np.uint8)
    found = [known[image.tobytes()] for image in raw]
    np.testing.assert_array_equal(labels, dataset.train_labels[found])
    np.testing.assert_array_equal(split.labels, labels)
    return found


def test_training_and_validation_set_are_disjoint_and_together_everything(dataset):
    train, test, validation = splits(dataset, validation=3)
    assert (len(train), len(test), len(validation)) == (9, 6, 3)
    assert np.bincount(validation.labels).tolist() == [1, 1, 1]
    kept, held = numbers_of(dataset, train), numbers_of(dataset, validation)
    assert sorted([*kept, *held]) == list(range(12))
    assert kept == sorted(kept)
    assert held == sorted(held)


def test_the_test_set_and_the_scale_stay_and_no_image_is_copied(dataset):
    whole, split = splits(dataset), splits(dataset, validation=3)
    assert whole.validation is None
    assert whole.train.where is None
    for part in (split.train, split.validation):
        assert np.shares_memory(part.inputs, dataset.train_inputs)
        assert part.shift is split.test.shift
    np.testing.assert_array_equal(split.test.labels, dataset.test_labels)


@pytest.mark.parametrize("partition", ["shared", "iid", "dirichlet"])
def test_learners_never_draw_a_held_out_sample(dataset, partition):
    train, _, validation = splits(dataset, validation=3)
    options = {"partition": partition, "labels": train.labels, "concentration": 50.0}
    sampler = Sampler(len(train), 2, range(2), 2, 0, **options)
    held = {image.tobytes() for image in validation.batch(np.arange(3))[0].numpy()}
    drawn = {
        image.tobytes()
        for t in range(30)
        for image in train.batch(sampler.indices(t).ravel())[0].numpy()
    }
    assert len(drawn) == 9
    assert not held & drawn


@pytest.mark.parametrize("count", [-1, 12, 13])
def test_a_part_that_is_none_or_everything_is_refused(dataset, count):
    with pytest.raises(
        UserError, match=f"validation={count}: must be 0 .none. or more, and fewer than the 12"
    ):
        splits(dataset, validation=count)
