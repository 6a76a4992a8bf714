from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from gossip.data import PARTITIONS, Sampler
from gossip.errors import UserError
from gossip.streams import SHUFFLE, generator


def sampler(n=4, batch_size=5, hosted=None, seed=0, num_samples=600, **options):
    hosted = hosted or range(n)
    labels = np.arange(num_samples) % 3
    return Sampler(num_samples, n, hosted, batch_size, seed, labels=labels, **options)


MODES = pytest.mark.parametrize(
    ("partition", "replacement"), [(p, r) for p in PARTITIONS for r in (False, True)]
)


@st.composite
def sizes(draw):
    num_samples = draw(st.integers(1, 120))
    n = draw(st.integers(1, 12))
    batch_size = draw(st.integers(1, 30))
    assume(n * batch_size <= num_samples)
    return num_samples, n, batch_size


@settings(deadline=None)
@given(sizes(), st.integers(0, 3))
def test_shared_epochs_cover_each_sample_once_for_any_sizes(size, seed):
    num_samples, n, batch_size = size
    s = sampler(n, batch_size, num_samples=num_samples, seed=seed)
    steps = -(-3 * num_samples // (n * batch_size))
    stream = np.concatenate([s.indices(t).ravel() for t in range(steps)])[: 3 * num_samples]
    for epoch in stream.reshape(3, num_samples):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(num_samples))


@pytest.mark.parametrize("partition", ["iid", "dirichlet"])
@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 40), st.integers(0, 3))
def test_own_shards_are_covered_once_in_each_of_the_learners_epochs(
    partition, n, batch_size, extra, seed
):
    options = {"partition": partition, "concentration": 30.0}
    s = sampler(n, batch_size, num_samples=5 * n * (batch_size + 4) + extra, seed=seed, **options)
    steps = -(-3 * max(map(len, s.shards)) // batch_size)
    streams = np.concatenate([s.indices(t) for t in range(steps)], axis=1)
    for stream, shard in zip(streams, s.shards, strict=True):
        for epoch in stream[: 3 * len(shard)].reshape(3, -1):
            np.testing.assert_array_equal(np.sort(epoch), np.sort(shard))


@MODES
@settings(deadline=None)
@given(t=st.integers(0, 500), cuts=st.sets(st.integers(1, 5)))
def test_rows_do_not_depend_on_how_learners_are_hosted(partition, replacement, t, cuts):
    options = {"partition": partition, "replacement": replacement, "concentration": 5.0}
    ends = [0, *sorted(cuts), 6]
    blocks = [sampler(6, 5, range(a, b), **options).indices(t) for a, b in pairwise(ends)]
    np.testing.assert_array_equal(np.concatenate(blocks), sampler(6, 5, **options).indices(t))


@MODES
def test_indices_are_a_pure_function_of_seed_and_step(partition, replacement):
    options = {"partition": partition, "replacement": replacement, "concentration": 5.0}
    steps = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 2))
    s, expected = sampler(**options), {t: sampler(**options).indices(t) for t in range(100)}
    for t in steps:
        found = s.indices(int(t))
        assert found.shape == (4, 5)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected[t])
        found[:] = -1  # the caller's to change
    assert not np.array_equal(sampler(seed=1, **options).indices(7), expected[7])


def test_shared_deals_the_addressed_permutation_in_contiguous_parts():
    s = sampler()
    for epoch in range(3):
        order = generator(0, SHUFFLE, epoch).permutation(600)
        found = [s.indices(t) for t in range(30 * epoch, 30 * epoch + 30)]
        np.testing.assert_array_equal(np.stack(found), order.reshape(30, 4, 5))


def test_any_split_of_the_same_total_batch_trains_on_the_same_samples():
    for t in (0, 29, 30, 77):
        one = sampler(1, 20).indices(t).ravel()
        for n in (2, 4, 20):
            np.testing.assert_array_equal(sampler(n, 20 // n).indices(t).ravel(), one)


@pytest.mark.parametrize("partition", ["shared", "iid"])
def test_epochs_are_shuffled_anew(partition):
    s = sampler(partition=partition)
    assert not np.array_equal(s.indices(0), s.indices(30))


def test_epoch_counts_the_samples_drawn_by_all_learners():
    s = sampler()
    assert s.steps_per_epoch == 30
    assert [s.epoch(t) for t in (0, 15, 30)] == [0, 0.5, 1]


@pytest.mark.parametrize("partition", ["shared", "iid", "dirichlet"])
def test_draws_with_replacement_are_even_over_the_learners_own_shard(partition):
    s = sampler(partition=partition, replacement=True, batch_size=50, concentration=5.0)
    draws = np.concatenate([s.indices(t) for t in range(400)], axis=1)
    for learner, drawn in enumerate(draws):
        shard = s.shards[0 if partition == "shared" else learner]
        counts = np.bincount(drawn, minlength=600)
        assert counts.sum() == counts[shard].sum()
        assert stats.chisquare(counts[shard]).pvalue > 1e-4


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_batch_larger_than_the_shard_is_refused(partition):
    message = "batch_size=151, learners=4.*shard of learner [0-3] has [0-9]+ of 600 samples"
    with pytest.raises(UserError, match=message):
        sampler(4, 151, partition=partition)
    sampler(4, 150)  # the whole training set in every step
    sampler(4, 700, replacement=True)


def test_a_skew_that_empties_a_shard_is_refused():
    with pytest.raises(
        UserError, match=r"shard of learner \d+ has 0 of .*concentration above 0.01"
    ):
        sampler(16, 5, partition="dirichlet", concentration=0.01)
    with pytest.raises(UserError, match="fewer than 1: use fewer learners"):
        sampler(16, 5, partition="dirichlet", concentration=0.01, replacement=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": "sharde"}, "did you mean shared"),
        ({"batch_size": 0}, "batch_size=0: must be at least 1"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        sampler(**options)
