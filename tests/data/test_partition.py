import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossip.data import PARTITIONS
from gossip.data.partition import Population
from gossip.errors import UserError

LABELS = np.random.default_rng(0).integers(0, 10, 5000)


def shards(name, n=16, seed=0, **options):
    return PARTITIONS[name](Population(num_samples=5000, n=n, seed=seed, labels=LABELS, **options))


@pytest.mark.parametrize("name", PARTITIONS)
@settings(deadline=None)
@given(n=st.integers(1, 40), seed=st.integers(0, 99), concentration=st.floats(1e-3, 1e3))
def test_shards_are_disjoint_and_cover_all_samples(name, n, seed, concentration):
    parts = shards(name, n, seed, concentration=concentration)
    assert len(parts) == (1 if name == "shared" else n)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(5000))


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_shards_are_a_function_of_the_seed(name):
    first, again, other = shards(name), shards(name), shards(name, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_iid_shards_differ_in_size_by_at_most_one():
    sizes = [len(shard) for shard in shards("iid", 7)]
    assert sizes == [715, 715, 714, 714, 714, 714, 714]


def skew(parts):
    """Mean total variation distance between the labels of a shard and those of all samples."""
    overall = np.bincount(LABELS, minlength=10) / 5000
    counts = [np.bincount(LABELS[part], minlength=10) for part in parts if len(part)]
    return np.mean([np.abs(c / c.sum() - overall).sum() / 2 for c in counts])


def test_smaller_concentrations_are_more_skewed():
    skews = [skew(shards("dirichlet", concentration=beta)) for beta in (0.05, 0.5, 5, 5000)]
    assert skews == sorted(skews, reverse=True)
    assert skews[0] > 0.6
    assert skews[-1] < 0.03
    assert skew(shards("iid")) < 0.1


def test_dirichlet_shares_have_their_closed_form_mean_and_variance():
    n, beta = 5, 0.5
    shares = np.array(
        [[np.mean(np.isin(part, np.flatnonzero(LABELS == 3))) * len(part) for part in parts]
         for parts in (shards("dirichlet", n, seed, concentration=beta) for seed in range(300))]
    ) / np.sum(LABELS == 3)  # fmt: skip
    variance = (1 / n) * (1 - 1 / n) / (n * beta + 1)
    assert shares.mean() == pytest.approx(1 / n)
    assert shares.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("nan")])
def test_a_concentration_that_is_not_positive_is_refused(concentration):
    with pytest.raises(UserError, match="must be positive"):
        shards("dirichlet", concentration=concentration)


def test_label_skew_without_labels_is_refused():
    with pytest.raises(UserError, match="needs the label"):
        PARTITIONS["dirichlet"](Population(num_samples=5000, n=2, seed=0))
