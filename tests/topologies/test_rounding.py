"""A doubly stochastic matrix that was rounded is one again; one that is wrong stays refused."""

import warnings
from functools import lru_cache

import numpy as np
import pytest
from scipy import sparse

import topologies
from topologies import TopologyError, TopologyWarning

PRINTED = ("%.3f", "%.4f", "%.6f", "%.4g", "%.5e")
TYPES = (np.float32, np.float16)
SIZES = (*range(1, 10), 12, 16)
"""Up to all small ones, and those that tori and hypercubes have."""


@lru_cache
def matrices():
    """The table's for so many learners, and others that are neither symmetric nor circulant."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TopologyWarning)  # negative weights
        for name in topologies.TOPOLOGIES:
            for n in SIZES:
                for weights in [{}, {"weights": "best-constant"}][: 1 + (n % 4 == 0)]:
                    try:
                        topology = topologies.build(name, n, **weights)
                    except TopologyError:
                        continue
                    if topology.preserves_mean == "always":
                        w = topology.matrix(n).toarray()  # any step
                        found.setdefault(w.tobytes(), w)
    rng = np.random.default_rng(0)
    for n in SIZES[2:]:
        parts = [np.eye(n), np.roll(np.eye(n), 1, axis=0), np.eye(n)[rng.permutation(n)]]
        found[n] = sum(c * p for c, p in zip(rng.dirichlet(np.ones(3)), parts, strict=True))
        found[-n] = (np.ones((n, n)) - np.eye(n)) / (n - 1)  # no weight of one's own
    return list(found.values())


def build(path, n):
    """W of a file, and the notes about it; also where it alone does not connect all learners."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = topologies.custom.topology_of(path.name, topologies.files.read(path))
    return made.matrix(0), [str(w.message) for w in caught]


def assert_put_right(w, notes, exact, rounded):
    """Sums of 1, symmetric as before, zeros as they were, and no further from the truth.

    What is smaller than the correction may become zero.
    """
    n = len(exact)
    for axis in (0, 1):
        np.testing.assert_allclose(w.sum(axis=axis), 1, rtol=0, atol=1e-12 * n)
    found = w.toarray()
    assert (found == found.T).all() or not (exact == exact.T).all()
    missed = np.abs(1 - np.concatenate([rounded.sum(axis=0), rounded.sum(axis=1)])).max()
    if missed <= 1e-12 * n:
        assert notes == []
        np.testing.assert_array_equal(found, rounded)
    else:
        assert len(notes) == 1
        assert f"a sum differs from 1 by {missed:.3g}" in notes[0]
        assert (found[rounded == 0] == 0).all()
        assert (np.abs(rounded[found == 0]) <= missed).all()
        bound = n * np.abs(rounded - exact).max() + missed
        np.testing.assert_allclose(found, exact, rtol=0, atol=bound)


def share(kind, kinds):
    """Every third matrix, of each kind others: three kinds or two for each matrix."""
    return matrices()[kinds.index(kind) % 3 :: 3]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_rounded_array_is_what_it_was(dtype, tmp_path):
    for w in share(dtype, (*TYPES, *PRINTED)):
        np.save(tmp_path / "w.npy", w.astype(dtype))
        rounded = w.astype(dtype).astype(np.float64)
        assert_put_right(*build(tmp_path / "w.npy", len(w)), w, rounded)


@pytest.mark.parametrize("printed", PRINTED)
def test_a_printed_matrix_is_what_it_was(printed, tmp_path):
    for w in share(printed, (*TYPES, *PRINTED)):
        np.savetxt(tmp_path / "w.csv", w, delimiter=",", fmt=printed)
        rounded = np.loadtxt(tmp_path / "w.csv", delimiter=",", ndmin=2)
        assert_put_right(*build(tmp_path / "w.csv", len(w)), w, rounded)


METROPOLIS = topologies.build("karate", 34).matrix(0)


@pytest.mark.parametrize("kind", ["npy", "npz", "sparse"])
def test_metropolis_weights_in_float32_are_taken_with_a_note(kind, tmp_path):
    path = tmp_path / f"w.{kind.replace('sparse', 'npz')}"
    w = METROPOLIS.astype(np.float32)
    if kind == "sparse":
        sparse.save_npz(path, w)
    else:
        (np.save if kind == "npy" else np.savez)(path, w.toarray())
    with pytest.warns(TopologyWarning, match=r"its numbers are rounded, a sum differs from 1 by"):
        found = topologies.build(str(path), 34).matrix(0)
    off_diagonal = ~np.eye(34, dtype=bool)
    np.testing.assert_array_equal(found.toarray()[off_diagonal], w.toarray()[off_diagonal])
    np.testing.assert_allclose(found.toarray(), METROPOLIS.toarray(), rtol=0, atol=1e-6)


def test_weights_that_were_computed_in_float32_are_taken():
    for n in range(2, 60):
        others = np.full((n, n), np.float32(1 / n)) * ~np.eye(n, dtype=bool)
        w = others + np.diag(np.float32(1) - others.sum(axis=1, dtype=np.float32))
        assert w.dtype == np.float32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TopologyWarning)
            topologies.check(topologies.from_matrices("w", [w]))


def test_a_sequence_is_put_right_with_one_note(tmp_path):
    w = topologies.build("ring", 7).matrix(0).toarray().astype(np.float32)
    np.save(tmp_path / "w.npy", np.stack([w, np.eye(7, dtype=np.float32), w]))
    with pytest.warns(TopologyWarning) as caught:
        topology = topologies.build(str(tmp_path / "w.npy"), 7)
    assert (topology.period, len(caught)) == (3, 1)
    np.testing.assert_array_equal(topology.matrix(1).toarray(), np.eye(7))


def test_what_a_function_gives_has_a_type_too():
    w = topologies.build("ring", 7).matrix(0).toarray()
    with pytest.warns(TopologyWarning, match="rounded"):
        topologies.check(topologies.from_matrices("mine", [w.astype(np.float32)]))
    with pytest.raises(TopologyError, match="differs from 1 by"):
        topologies.check(topologies.from_matrices("mine", [w.astype(np.float32).astype(float)]))


def wrong(by, dtype=np.float64):
    w = topologies.build("ring", 5).matrix(0).toarray()
    w[0, 0] += by
    return w.astype(dtype)


@pytest.mark.parametrize(
    ("by", "dtype"),
    [(1e-6, np.float32), (-1e-3, np.float32), (0.01, np.float16), (1e-9, np.float64)],
)
def test_what_no_rounding_makes_is_refused(by, dtype, tmp_path):
    np.save(tmp_path / "w.npy", wrong(by, dtype))
    with pytest.raises(TopologyError, match=r"W\(0\) has a row whose sum differs from 1 by"):
        topologies.build(str(tmp_path / "w.npy"), 5)


@pytest.mark.parametrize(
    "text", ["0.5,0.4\n0.4,0.5\n", "0.500,0.498\n0.498,0.500\n", "0.9,.2\n.2,.9\n"]
)
def test_what_no_printing_makes_is_refused(text, tmp_path):
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(TopologyError, match=r"W\(0\) has a row whose sum differs from 1 by"):
        topologies.build(str(tmp_path / "w.csv"), 2)


def test_rows_alone_are_not_enough():
    """Rows sum to 1 but for rounding, columns do not: the mean is lost."""
    w = np.array([[2, 1, 0], [1, 1, 1], [1, 1, 1]], np.float32) / 3
    with pytest.raises(TopologyError, match="differs from 1 by"):
        topologies.check(topologies.from_matrices("w", [w]))
