"""The order of messages is a proper edge colouring that all processes derive alike."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from gossip.comm.transports.edge_colouring import Edge, edges, rounds
from gossip.comm.transports.gloo import Gloo
from gossip.comm.transports.message_plan import Call

matrices = st.builds(
    lambda processes, local, density, seed: (
        random_matrix(processes * local, density, seed),
        local,
    ),
    st.integers(1, 9),
    st.integers(1, 3),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)


def random_matrix(n, density, seed):
    random = np.random.default_rng(seed)
    return csr_array(random.random((n, n)) * (random.random((n, n)) < density))


@given(matrices)
def test_every_pair_of_processes_with_a_row_to_send_is_an_edge_once(case):
    w, local = case
    j, k = w.toarray().nonzero()
    needed = {(int(b) // local, int(a) // local) for a, b in zip(j, k, strict=True)}
    found = edges(w, local)
    assert sorted(found) == sorted((s, t) for s, t in needed if s != t)
    assert rounds(found).keys() == set(found)


@given(matrices)
def test_no_process_has_two_edges_in_a_round(case):
    turn = rounds(edges(*case))
    seats = [(i, process) for edge, i in turn.items() for process in edge]
    assert len(seats) == len(set(seats))


@given(matrices)
def test_there_are_fewer_rounds_than_twice_the_edges_of_a_process(case):
    turn = rounds(edges(*case))
    degree = max((sum(p in edge for edge in turn) for p in {p for e in turn for p in e}), default=0)
    assert max(turn.values(), default=-1) + 1 <= max(2 * degree - 1, 0)


@given(matrices, st.randoms())
def test_the_order_does_not_depend_on_how_the_matrix_is_stored(case, random):
    w, local = case
    entries = w.tocoo()
    order = list(range(entries.nnz))
    random.shuffle(order)
    shuffled = csr_array(
        (entries.data[order], (entries.row[order], entries.col[order])), shape=w.shape
    )
    assert list(rounds(edges(w, local)).items()) == list(rounds(edges(shuffled, local)).items())


@given(matrices)
def test_calls_that_block_come_to_an_end_in_this_order(case):
    """Each process makes its calls one by one; a call is done when its other side makes it, too."""
    turn = rounds(edges(*case))
    left = {p: [] for edge in turn for p in edge}
    for edge in sorted(turn, key=turn.__getitem__):
        for process in edge:
            left[process].append(edge)
    while any(left.values()):
        meeting = [
            edge
            for calls in left.values()
            for edge in calls[:1]
            if all(left[process][0] == edge for process in edge)
        ]
        assert meeting, "nobody's call meets another's"
        for process in meeting[0]:
            left[process].pop(0)


def test_a_matching_is_one_round_each_way():
    assert rounds([Edge(0, 1), Edge(1, 0), Edge(2, 3), Edge(3, 2)]) == {
        Edge(0, 1): 0,
        Edge(1, 0): 1,
        Edge(2, 3): 0,
        Edge(3, 2): 1,
    }


def test_gloo_asks_for_all_rows_before_it_sends_any():
    """Else a row going out holds up the word that another may come in on the same connection."""
    plan = SimpleNamespace(
        calls=[Call(True, 0), Call(False, 0), Call(True, 1), Call(False, 1)], far=[], far_texts=[]
    )
    comm, made = object.__new__(Gloo), []
    comm.__dict__ |= {"n": 4, "_mixes": 0, "_in_flight": {}}
    comm._start = lambda call, *rest: made.append(call)
    comm._exchange(plan, None, None)
    assert made == [Call(False, 0), Call(False, 1), Call(True, 0), Call(True, 1)]
