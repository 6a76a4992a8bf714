"""A user's own files, functions, graphs and matrices: round trips, and one sentence each if bad."""

import json
import math

import networkx as nx
import numpy as np
import pytest

import topologies
from tests.topologies.kite import FORMATS, W, save_edges
from topologies import TopologyError
from topologies import files as files_module


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_comes_back_as_it_was(name, tmp_path):
    FORMATS[name](tmp_path / name)
    topology = topologies.build(str(tmp_path / name), 5)
    np.testing.assert_allclose(topology.matrix(0).toarray(), W.toarray(), atol=1e-15)
    assert topology.name == name


def test_weights_apply_to_a_graph_from_a_file(tmp_path):
    save_edges(tmp_path / "kite.edgelist")
    lazy = topologies.build(str(tmp_path / "kite.edgelist"), 5, weights="lazy").matrix(0)
    np.testing.assert_allclose(lazy.toarray(), (np.eye(5) + W.toarray()) / 2, atol=1e-15)


def test_a_stack_of_matrices_is_a_period(tmp_path):
    source = topologies.build("one-peer-exponential", 8)
    np.save(tmp_path / "w.npy", np.stack([source.matrix(t).toarray() for t in range(3)]))
    topology = topologies.build(str(tmp_path / "w.npy"), 8)
    assert topology.period == 3
    assert (topology.matrix(4) != source.matrix(4)).nnz == 0


def test_labels_are_numbered_by_value_or_in_declared_order():
    by_value = topologies.from_graph(nx.Graph([("10", "9"), ("9", "2")]))
    assert by_value.neighbours_in(1, 0).tolist() == [0, 2]
    declared = topologies.from_graph(nx.Graph([("hub", "a"), ("hub", "b")]))
    assert declared.neighbours_in(0, 0).tolist() == [1, 2]


def identity_like(n):
    return [[float(i == j) for j in range(n)] for i in range(n)]


SWAP = [[0.0, 1.0], [1.0, 0.0]]
BAD_MATRICES = [
    ([[0.5, 0.5], [0.4, 0.5]], 2, r"W\(0\) has a row whose sum differs from 1 by 0.1"),
    ([[0.9, 0.1], [0.3, 0.7]], 2, r"cannot preserve the mean.*make it doubly stochastic"),
    ([[math.nan, 0.5], [0.5, 0.5]], 2, "has a weight that is not finite"),
    (identity_like(3), 3, r"the 3 learners fall into 3 groups .*: connect them"),
    ([[0.5, 0.5], [0.5, 0.5]], 3, "it has 2 learners, got n=3: use 2"),
    ([[0.5, 0.5]], 1, r"a mixing matrix is square, \[n, n\], got shape \(1, 2\)"),
    (SWAP, 2, r"\|lambda_n\| = 1 and it never averages: use weights 'lazy'"),
    (np.roll(np.eye(3), 1, axis=1).tolist(), 3, r"cyclic.*: use weights 'lazy'"),
    ([[3.0, -2.0], [-2.0, 3.0]], 2, r"multiplies some deviation from the mean by 5"),
]


@pytest.mark.filterwarnings("ignore:.*negative")
@pytest.mark.parametrize(("matrix", "n", "sentence"), BAD_MATRICES)
def test_a_bad_matrix_is_refused_in_one_sentence(matrix, n, sentence, tmp_path):
    np.savetxt(tmp_path / "w.csv", matrix, delimiter=",")
    with pytest.raises(TopologyError, match=sentence) as caught:
        topologies.build(str(tmp_path / "w.csv"), n)
    assert "\n" not in str(caught.value)


BAD_FILES = {
    "directed.graphml": (
        lambda path: nx.write_graphml(nx.DiGraph([(0, 1)]), path),
        "the graph is directed, it must not be",
    ),
    "directed.json": (
        lambda path: path.write_text(
            json.dumps(nx.node_link_data(nx.DiGraph([(0, 1)]), edges="edges"))
        ),
        "the graph is directed, it must not be",
    ),
    "parts.txt": (lambda path: path.write_text("a b\nc d\n"), "has 2 disconnected parts: connect"),
    "loop.txt": (lambda path: path.write_text("a b\nb b\n"), "node 'b' has a self-loop: remove"),
    "nan.txt": (lambda path: path.write_text("a b nan\n"), "has the weight nan, not a number"),
    "empty.txt": (lambda path: path.write_text("# no\n"), "the graph has no nodes"),
    "fields.txt": (lambda path: path.write_text("a b\na b c d\n"), "line 2 has 4 fields"),
    "braces.txt": (lambda path: path.write_text("a b\n{a} b\n"), "line 2 has 0 fields"),
    "text.txt": (lambda path: path.write_text("a b c\n"), "not a valid .txt file"),
    "broken.json": (lambda path: path.write_text("{"), "not a valid .json file"),
    "broken.graphml": (lambda path: path.write_text("<a>"), "not a valid .graphml file"),
    "entity.graphml": (lambda path: path.write_text("<!DOCTYPE x>"), "may not have one"),
    "broken.npz": (lambda path: path.write_text("PK"), "not a valid .npz file"),
    "words.csv": (lambda path: path.write_text("a,b\n"), "not a valid .csv file"),
    "pickle.npy": (lambda path: np.save(path, np.array([{}]), allow_pickle=True), "not a valid"),
    "kind.yaml": (lambda path: path.write_text(""), "unknown kind of file '.yaml': use one of"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence(name, tmp_path):
    save, sentence = BAD_FILES[name]
    save(tmp_path / name)
    with pytest.raises(TopologyError, match=sentence) as caught:
        topologies.build(str(tmp_path / name), 2)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named():
    with pytest.raises(TopologyError, match=r"nowhere\.npy: there is no such file"):
        topologies.build("nowhere.npy", 2)


def test_a_header_that_promises_more_than_the_file_has_is_refused(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    with (tmp_path / "w.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(TopologyError, match=r"not a valid \.npy file"):
        topologies.build(str(tmp_path / "w.npy"), 2)


def test_a_sparse_matrix_that_points_outside_itself_is_refused(tmp_path):
    arrays = {"data": np.ones(2), "indices": np.array([0, 10**6]), "indptr": np.array([0, 1, 2])}
    np.savez(tmp_path / "w.npz", format=b"csr", shape=(2, 2), **arrays)
    with pytest.raises(TopologyError, match=r"not a valid \.npz file"):
        topologies.build(str(tmp_path / "w.npz"), 2)


@pytest.mark.parametrize("name", ["w.npy", "w.npz"])
def test_a_file_that_unpacks_to_too_much_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "LARGEST_BYTES", 5000)
    write = np.save if name.endswith("npy") else np.savez_compressed
    write(tmp_path / name, np.full((50, 50), 1 / 50))
    with pytest.raises(TopologyError, match="is read: give a graph or a sparse matrix"):
        topologies.build(str(tmp_path / name), 50)


MODULE = """
import networkx as nx, numpy as np
import topologies
def graph(n): return nx.cycle_graph(n)
def matrix(n, *, own: float = 0.5): return own * np.eye(n) + (1 - own) / n
def several(n): return [np.full((n, n), 1 / n), np.eye(n)]
def ready(n, *, k: int = 1): return topologies.TOPOLOGIES["base"](n, k=k)
def wrong(n): return "ring"
def asking(n, size): return nx.cycle_graph(n)
def unclear(n, *, k: "Nothing" = 1): return nx.cycle_graph(n)
number = 3
"""


@pytest.fixture
def my_module(tmp_path, monkeypatch):
    (tmp_path / "my_topologies.py").write_text(MODULE)
    (tmp_path / "my_broken_module.py").write_text("raise RuntimeError('not\\ntoday')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "my_topologies"


def test_a_function_may_give_a_graph_a_matrix_a_list_or_a_topology(my_module):
    def build(name, **options):
        return topologies.build(f"{my_module}:{name}", 6, **options)

    ring = topologies.build("ring", 6).matrix(0)
    np.testing.assert_allclose(build("graph").matrix(0).toarray(), ring.toarray(), atol=1e-15)
    assert build("matrix", own="0.25").matrix(0)[0, 1] == 0.125
    assert build("several").period == 2
    assert build("ready", k="2").period == topologies.build("base", 6, k=2).period


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("my_topologies:grap", r"has no function 'grap' \(did you mean 'graph'\?\)"),
        ("my_topologies:number", r"'number' is not callable \(int\): give a function"),
        ("my_topologies:", "'my_topologies' has no function ''$"),
        (
            "my_topologies:asking",
            r"function\(n, \*\*options\): missing a required argument: 'size'",
        ),
        ("my_topologies:unclear", "name 'Nothing' is not defined"),
        ("my_topologise:graph", "cannot import 'my_topologise'"),
        ("my_broken_module:graph", r"'my_broken_module' \(RuntimeError: not today\)"),
        (":graph", r"cannot import '' \(ValueError: Empty module name\)"),
        (".mod:f", r"cannot import '\.mod' \(TypeError: .*relative import"),
        ("math:pi", r"'pi' is not callable \(float\)"),
        ("builtins:range", "cannot be called as function"),
        ("os:getcwd", "too many positional arguments"),
        ("my_topologies:wrong", "expected a matrix of numbers, a graph or a Topology, got str"),
    ],
)
def test_a_bad_function_is_refused_in_one_sentence(my_module, spec, sentence):
    with pytest.raises(TopologyError, match=sentence) as caught:
        topologies.build(spec, 4)
    assert "\n" not in str(caught.value)


def test_what_a_users_module_raised_is_the_cause(my_module):
    with pytest.raises(TopologyError) as caught:
        topologies.build("my_broken_module:graph", 4)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_list_of_graphs_need_not_be_connected_one_by_one():
    halves = [nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])]
    topology = topologies.check(topologies.from_matrices("halves", halves))
    np.testing.assert_allclose((topology.matrix(1) @ topology.matrix(0)).toarray(), 0.25)


def test_a_list_that_undoes_itself_is_refused():
    turn = np.roll(np.eye(3), 1, axis=1)
    with pytest.raises(TopologyError, match=r"a period multiplies some deviation .* by 1"):
        topologies.check(topologies.from_matrices("undone", [turn, turn.T]))


def test_graphs_of_a_list_are_undirected_and_have_the_same_nodes():
    edge = nx.Graph([("a", "b")])
    with pytest.raises(TopologyError, match="have different nodes: give all the same"):
        topologies.from_matrices("list", [edge, nx.Graph([("a", "c")])])
    with pytest.raises(TopologyError, match="is directed: give undirected ones"):
        topologies.from_matrices("list", [edge, nx.DiGraph([("a", "b")])])


@pytest.mark.parametrize("matrices", [[], [np.eye(2), np.eye(3)]])
def test_a_list_of_nothing_or_of_different_sizes_is_refused(matrices):
    with pytest.raises(TopologyError, match=r"list of matrices is empty|all must be square"):
        topologies.from_matrices("list", matrices)


def test_later_changes_of_the_users_matrix_change_nothing():
    mine = np.full((2, 2), 0.5)
    topology = topologies.from_matrices("mine", [mine])
    mine[:] = 7
    assert topology.matrix(0).toarray().max() == 0.5


@pytest.mark.parametrize(
    ("name", "n", "options", "sentence"),
    [
        ("rign", 8, {}, r"unknown topology 'rign' \(did you mean 'ring'\?\): use one of complete"),
        ("ring", 8, {"k": 2}, "ring has no option 'k': use weights"),
        ("complete", 8, {"weights": "lazy"}, "'weights': it has weights of its own"),
        ("base", 8, {"weights": "lazy"}, "'weights': it has weights of its own"),
        ("complete", 8, {"k": 2}, "complete has no option 'k': it has none"),
        ("base", 8, {"k": "two"}, "base: k must be a whole number, got 'two'"),
        ("base", 8, {"k": 1.5}, "base: k must be a whole number, got 1.5"),
        ("base", 8, {"k": 0}, "base: k must be at least 1, got 0"),
        ("matching", 8, {"seed": -1}, "seed must be 0 or more, got -1"),
        ("grid", 8, {"rows": 3}, "rows=3 x columns=2 is not n=8"),
        ("grid", 8, {"rows": 0}, "rows=0"),
        ("erdos-renyi", 8, {"probability": "2"}, r"probability must be in \(0, 1\], got 2.0"),
        ("erdos-renyi", 40, {"probability": 0.01}, "none of 100 random graphs was connected"),
        ("random-regular", 5, {"degree": 3}, "degree=3 does not fit n=5"),
        ("small-world", 5, {"degree": 3}, "degree must be even"),
        ("small-world", 5, {"rewiring": 2.0}, r"rewiring must be in \[0, 1\]"),
        ("balanced-tree", 5, {"degree": 1}, "degree must be at least 2, got 1"),
        ("equi-static", 5, {"epsilon": 1.5}, "epsilon and failure must be between 0 and 1"),
        ("equi-dynamic", 5, {"eta": 0.0}, r"eta must be in \(0, 1\], got 0.0"),
        ("equi-dynamic", 5, {"num_offsets": 0}, "num_offsets must be at least 1"),
        (
            "equi-dynamic-directed",
            4,
            {"num_offsets": 1, "seed": 0},
            "4 learners fall into 2 groups",
        ),
        ("periodic", 5, {"every": 0}, "every must be at least 1, got 0"),
        ("periodic", 5, {"base": "rings"}, "unknown topology 'rings'"),
        ("periodic", 5, {"k": 2}, "periodic has no option 'k' without a base"),
        ("periodic", 5, {"base": "ring", "k": 2}, "ring has no option 'k'"),
        ("complete", 20000, {}, "n=20000 learners would need 5 GB .* use one-peer-exponential"),
        ("ring", 0, {}, "n must be at least 1 learner, got 0"),
        ("ring", 2.5, {}, "n must be a whole number of learners, got 2.5"),
    ],
)
def test_a_users_mistake_is_told_in_one_sentence(name, n, options, sentence):
    with pytest.raises(TopologyError, match=sentence) as caught:
        topologies.build(name, n, **options)
    assert "\n" not in str(caught.value)
