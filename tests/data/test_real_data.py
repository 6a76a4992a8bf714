"""The data itself: what is published under these names is what the literature describes."""

import numpy as np
import pytest

from gossip.data import DATASETS, UnavailableError, fetch, load, splits

HISTOGRAM = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def real(name):
    try:
        return fetch(name)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.network
@pytest.mark.parametrize("name", DATASETS)
def test_counts_shapes_and_scale_are_those_announced(name):
    dataset, source = real(name), DATASETS[name]
    assert dataset.train_inputs.shape == (source.num_train, *source.input_shape)
    assert dataset.test_inputs.shape == (source.num_test, *source.input_shape)
    assert dataset.num_classes == 10
    assert dataset.sha256 == source.sha256
    assert dataset.train_inputs.max() == source.scale.high
    unit = dataset.train_inputs / source.scale.high
    assert unit.mean() == pytest.approx(source.scale.mean, abs=5.1e-5)
    assert unit.std() == pytest.approx(source.scale.std, abs=5.1e-5)


@pytest.mark.network
def test_mnist_has_its_published_label_histogram():
    dataset = real("mnist")
    assert np.bincount(dataset.train_labels).tolist() == HISTOGRAM
    assert dataset.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]


@pytest.mark.network
def test_mnist_5k_is_taken_from_mnists_training_set_and_held_out_evenly():
    small, full = real("mnist-5k"), real("mnist")
    assert np.bincount(small.train_labels).tolist() == [400] * 10
    assert np.bincount(small.test_labels).tolist() == [100] * 10
    known = {image.tobytes() for image in full.train_inputs}
    assert all(image.tobytes() in known for image in small.train_inputs)
    assert all(image.tobytes() in known for image in small.test_inputs)


def test_digits_need_no_fetch_and_no_sample_is_in_both_sets():
    pytest.importorskip("sklearn")
    dataset = load("digits")
    assert dataset.source == "scikit-learn load_digits"
    inputs, labels = splits(dataset)[0].batch(np.arange(1437))
    assert inputs.max() == 1
    assert np.bincount(labels).tolist() == [142, 146, 141, 147, 144, 146, 145, 143, 139, 144]
    fetched = fetch("digits")
    assert fetched.sha256 == dataset.sha256
    np.testing.assert_array_equal(fetched.test_inputs, dataset.test_inputs)
    from sklearn.datasets import load_digits

    everything = np.concatenate([dataset.train_inputs, dataset.test_inputs]).reshape(1797, -1)
    published = load_digits().data.astype(np.uint8)
    assert sorted(map(bytes, everything)) == sorted(map(bytes, published))
