"""The data itself: what is published under these names is what the literature describes."""

import numpy as np
import pytest

from gossip.data import DATASETS, UnavailableError, cache, fetch, load, splits

HISTOGRAM = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TOKENS = {"brown": 10_000, "brown-2k": 2_000, "brown-bytes": 123, "brown-backwards": 27}
"""Number of ids."""
NOT_PIXELS = ("diabetes", "phone-speech")
"""Which have tests of their own."""
LARGE = {"cifar10", "phone-speech", *TOKENS}
"""Never fetched by the tests, only looked at where somebody has."""


def real(name):
    if name in LARGE and not cache.is_cached(name):
        pytest.skip(f"{name} is not in the cache: python -m gossip.data fetch {name}")
    try:
        return fetch(name)
    except UnavailableError as error:
        pytest.skip(str(error))


def channel_moments(inputs):
    """Mean and standard deviation of each channel of [N, C, H, W], or of all of [N, H, W]."""
    channels = np.moveaxis(inputs, 1, 0) if inputs.ndim == 4 else inputs[None]
    # A channel at a time: all of CIFAR-10 in float64 is 1.2 GB.
    return [np.array([f(c, dtype=np.float64) for c in channels]) for f in (np.mean, np.std)]


@pytest.mark.network
@pytest.mark.parametrize("name", [name for name in DATASETS if name not in NOT_PIXELS])
def test_counts_shapes_and_scale_are_those_announced(name):
    dataset, source = real(name), DATASETS[name]
    assert dataset.train_inputs.shape == (source.num_train, *source.input_shape)
    assert dataset.test_inputs.shape == (source.num_test, *source.input_shape)
    assert dataset.num_classes == TOKENS.get(name, 10)
    assert dataset.sha256 == source.sha256
    if name in TOKENS:  # tokens have no scale
        return
    assert dataset.train_inputs.max() == source.scale.high
    mean, std = channel_moments(dataset.train_inputs / np.float32(source.scale.high))
    assert mean == pytest.approx(np.ravel(source.scale.mean), abs=5.1e-5)
    assert std == pytest.approx(np.ravel(source.scale.std), abs=5.1e-5)


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


@pytest.mark.network
def test_cifar10_has_its_published_labels_and_colours():
    dataset = real("cifar10")
    assert np.bincount(dataset.train_labels).tolist() == [5000] * 10
    assert np.bincount(dataset.test_labels).tolist() == [1000] * 10
    assert dataset.train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert dataset.test_labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert dataset.train_inputs[0, :, 0, 0].tolist() == [59, 62, 63]  # of the frog
    train, _, validation = splits(dataset, "standardised", validation=5000)
    assert np.bincount(train.labels).tolist() == [4500] * 10
    assert np.bincount(validation.labels).tolist() == [500] * 10
    inputs, _ = train.batch(np.arange(2000))
    assert inputs.mean(dim=(0, 2, 3)).abs().max() < 0.05
    assert inputs.std(dim=(0, 2, 3)).sub(1).abs().max() < 0.05


@pytest.mark.network
def test_brown_labels_each_word_with_the_next_and_knows_nine_in_ten():
    dataset = real("brown")
    for inputs, labels in (
        (dataset.train_inputs, dataset.train_labels),
        (dataset.test_inputs, dataset.test_labels),
    ):
        np.testing.assert_array_equal(inputs[:, 1:], labels[:, :-1])
        assert 0.07 < np.mean(labels == 0) < 0.1
    counts = np.bincount(dataset.train_labels.ravel(), minlength=10_000)
    assert (counts > 0).all()  # every word of the vocabulary is trained on
    assert counts[1:].argmax() == 0  # "the" comes first


@pytest.mark.network
def test_bytes_of_brown_are_its_text():
    dataset = real("brown-bytes")
    np.testing.assert_array_equal(dataset.train_inputs[:, 1:], dataset.train_labels[:, :-1])
    text = dataset.train_inputs[:2].astype(np.uint8).tobytes().decode("ascii")
    assert text.startswith("the fulton county grand jury said friday an investigation")
    assert chr(np.bincount(dataset.train_labels.ravel()).argmax()) == " "


@pytest.mark.network
def test_brown_backwards_has_every_word_once_and_its_letters_backwards():
    dataset = real("brown-backwards")
    words = np.r_[dataset.train_inputs, dataset.test_inputs]
    labels = np.r_[dataset.train_labels, dataset.test_labels]
    np.testing.assert_array_equal(labels, words[:, ::-1])
    spelled = [bytes(word[word > 0] + 96).decode("ascii") for word in words.astype(np.uint8)]
    assert {"the", "fulton", "backwards"} < set(spelled)
    assert len(set(spelled)) == len(spelled)
    assert (np.diff(words > 0, axis=1) >= 0).all()  # nothing behind the first letter is none


@pytest.mark.network
def test_phone_speech_is_hidden_in_the_middle_and_has_a_long_tail_of_labels():
    dataset, source = real("phone-speech"), DATASETS["phone-speech"]
    assert dataset.train_inputs.shape == (source.num_train, *source.input_shape)
    assert dataset.test_inputs.shape == (source.num_test, *source.input_shape)
    assert dataset.num_classes == 839
    assert dataset.sha256 == source.sha256
    seen = np.r_[:7, 14:21]
    parts = [dataset.train_inputs[:, k] / np.float32(255) for k in seen]
    mean = np.mean([part.mean(axis=0, dtype=np.float64) for part in parts], axis=0)
    square = np.mean([np.square(part, dtype=np.float64).mean(axis=0) for part in parts], axis=0)
    assert mean == pytest.approx(source.scale.mean, abs=5.1e-5)
    assert np.sqrt(square - mean**2) == pytest.approx(source.scale.std, abs=5.1e-5)
    for part in splits(dataset, "standardised"):
        if part is not None:
            inputs, _ = part.batch(np.arange(100))
            assert inputs[:, 7:14].abs().max() < 0.1  # nothing but the mean
    share = np.bincount(dataset.train_labels) / source.num_train
    assert share.min() > 0
    assert share.max() == pytest.approx(0.0138, abs=1e-4)
    assert -(share * np.log(share)).sum() == pytest.approx(6.151, abs=1e-3)
    assert (share < 1e-3).mean() == pytest.approx(0.689, abs=1e-3)


def test_diabetes_needs_no_fetch_and_is_scikit_learns():
    datasets = pytest.importorskip("sklearn.datasets")
    dataset, source = load("diabetes"), DATASETS["diabetes"]
    assert dataset.are_numbers
    inputs = np.concatenate([dataset.train_inputs, dataset.test_inputs])
    labels = np.concatenate([dataset.train_labels, dataset.test_labels])
    published = datasets.load_diabetes(scaled=False)
    expected = np.column_stack([published.data, published.target]).astype("f4")
    assert sorted(map(bytes, np.hstack([inputs, labels]))) == sorted(map(bytes, expected))
    np.testing.assert_allclose(inputs.min(0), source.scale.low, rtol=1e-6)
    np.testing.assert_allclose(inputs.max(0), source.scale.high, rtol=1e-6)
    unit, y = splits(dataset)[0].batch(np.arange(source.num_train))
    np.testing.assert_allclose(unit.double().mean(0), source.scale.mean, atol=5.1e-5)
    np.testing.assert_allclose(unit.double().std(0, correction=0), source.scale.std, atol=5.1e-5)
    np.testing.assert_allclose(y.double().std(correction=0), 1, rtol=1e-6)


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
