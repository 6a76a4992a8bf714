"""PowerGossip: where it is ATC, the slow recursion that it is, and what it sends."""

import numpy as np
import pytest
import torch

import topologies
from gossip.algorithms import DpsgdAtc, power_gossip
from gossip.algorithms.matrices import matrices, others
from gossip.algorithms.power_gossip import PowerGossip
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.task import Gradients
from gossip.task.layers import Layer
from tests.problems import optimizer
from tests.quadratics import begin, problem, static, steps, weights

LR, STEPS = 0.02, 14
P = problem(8, 9)
LAYERS = (
    Layer("weight", 0, 6, torch.Size([2, 3])),
    Layer("bias", 6, 7, torch.Size([1])),
    Layer("kernel", 7, 9, torch.Size([1, 2, 1])),
)
RING = static("ring")


def walk(algorithm, p=P, w=RING, start=None):
    return weights(algorithm, p.gradient, w, p.start() if start is None else start, STEPS, LR)


@pytest.mark.parametrize("topology", ["ring", "complete", "star"])
def test_with_square_directions_it_is_atc(topology):
    two, w = problem(8, 4), static(topology)  # matrices of 2 x 2
    walks = [walk(k, two, w) for k in (PowerGossip(optimizer(), 2), DpsgdAtc(optimizer()))]
    torch.testing.assert_close(*walks, rtol=1e-12, atol=1e-12)


def test_of_a_wide_matrix_all_of_the_rank_is_atc_at_every_second_step_only():
    """r = min(a, b) directions cannot span the longer side."""
    wide = (Layer("weight", 0, 6, torch.Size([2, 3])),)
    p = problem(8, 6)
    comm, atc = Stacked(8), DpsgdAtc(optimizer())
    algorithm = PowerGossip(optimizer(layers=wide), 2)
    off, state = [], begin(algorithm, p.start())
    for t in range(6):
        exact, _ = atc.step(begin(atc, state.x), p.gradient, RING(t), lambda *_: LR, comm)
        state, _ = algorithm.step(state, p.gradient, RING(t), lambda *_: LR, comm)
        off.append(float((state.x - exact.x).abs().max()))
    assert max(off[1::2]) < 1e-13
    assert min(off[0::2]) > 1e-4


def by_edges(rank, first, layers=LAYERS, p=P):
    """The recursion with a table of directions, matrix by matrix and edge by edge."""
    dense, x, found = RING(0).toarray(), p.start().numpy(), []
    edges = [(i, j) for i in range(p.n) for j in range(i + 1, p.n) if dense[i, j]]
    parts = [
        (k.start, k.stop, k.shape[0], (k.stop - k.start) // k.shape[0])
        for k in (layers[0], layers[2])
    ]
    q = {(e, k): first[k] for e in edges for k in range(len(parts))}
    for t in range(STEPS):
        h = x - LR * p.at(torch.from_numpy(x)).numpy()
        x = h.copy()
        for i, j in edges:
            difference = h[i] - h[j]
            step = difference.copy()  # of the bias
            for k, (start, stop, a, b) in enumerate(parts):
                m = difference[start:stop].reshape(a, b)
                m = m.T if t % 2 else m
                left = m @ q[(i, j), k]
                along = left @ q[(i, j), k].T
                step[start:stop] = (along.T if t % 2 else along).ravel()
                q[(i, j), k] = np.linalg.qr(left)[0]
            x[i] -= dense[i, j] * step
            x[j] += dense[i, j] * step
        found.append(x)
    return torch.from_numpy(np.stack(found))


@pytest.mark.parametrize("rank", [1, 2])
def test_it_is_half_a_power_iteration_of_every_edge_in_turns(rank):
    algorithm = PowerGossip(optimizer(layers=LAYERS), rank, seed=3)
    state = begin(algorithm, P.start())
    turn = algorithm._turn(state, 1, 1)
    first = [q.numpy() for q in turn._right(turn.q[0, 0])]
    assert [q.shape for q in first] == [(3, rank), (2, 1)]
    torch.testing.assert_close(walk(algorithm), by_edges(rank, first), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("topology", ["ring", "torus", "star"])
def test_the_mean_moves_by_the_mean_gradient(topology):
    x = P.start()
    for state in steps(
        PowerGossip(optimizer(layers=LAYERS)), P.gradient, static(topology), x, STEPS, LR
    ):
        torch.testing.assert_close(
            state.x.mean(0), x.mean(0) - LR * P.at(x).mean(0), rtol=0, atol=1e-14
        )
        x = state.x


def test_learners_that_are_alike_stay_so_and_then_come_apart_without_a_division_by_zero():
    alike = P.start()[:1].expand(8, -1).contiguous()
    algorithm = PowerGossip(optimizer(layers=LAYERS))
    still = weights(
        algorithm, lambda x: P.gradient(x)._replace(values=torch.zeros_like(x)), RING, alike, 4, LR
    )
    assert torch.equal(still[-1], alike)
    assert walk(algorithm, start=alike).isfinite().all()


def test_both_ends_have_the_same_difference_to_the_signs_of_its_zeros(monkeypatch):
    """A QR may turn a vector by the sign of a zero, which is what a dead input leaves."""
    monkeypatch.setattr(power_gossip, "orthonormal", lambda m: m)
    alike = P.start()[:2].clone()
    alike[1, :3] = alike[0, :3]
    algorithm, comm = PowerGossip(optimizer(layers=LAYERS)), Stacked(2)
    state, _ = algorithm.step(
        begin(algorithm, alike),
        lambda x: Gradients(torch.zeros_like(x), x.new_zeros(2)),
        topologies.build("complete", 2).matrix(0),
        lambda *_: LR,
        comm,
    )
    one, other = state.rows["directions"]
    assert (one == 0).any()
    assert torch.equal(one.view(torch.int64), other.view(torch.int64))


def test_it_sends_one_side_in_turns_and_what_is_no_matrix():
    algorithm, comm = PowerGossip(optimizer(layers=LAYERS)), Stacked(8)
    state, sent = begin(algorithm, P.start()), []
    for t in range(4):
        before = comm.traffic.bytes_sent_per_learner
        state, _ = algorithm.step(state, P.gradient, RING(t), lambda *_: LR, comm)
        sent.append((comm.traffic.bytes_sent_per_learner - before) / 2 / 8)  # two neighbours
    assert sent == [2 + 1 + 1, 3 + 2 + 1] * 2
    assert algorithm.payload_bytes(9, 8) == 8 * 5


def test_a_row_is_the_matrices_of_its_layers():
    found = matrices(LAYERS, 9)
    assert [(m.a, m.b) for m in found] == [(2, 3), (1, 2)]
    assert others(found, 9).tolist() == [k == 6 for k in range(9)]
    row = torch.arange(9.0)
    assert found[0].of(row).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found[0].turned.of(row).tolist() == [[0, 3], [1, 4], [2, 5]]
    (square,) = matrices((), 3)
    assert square.of(row[:3]).tolist() == [[0, 1], [2, 0]], "filled up with zeros"
    for m in (*found, found[0].turned):
        copy = torch.full((9,), -1.0)
        m.put(copy, m.of(row))
        assert torch.equal(copy[m.start : m.stop], row[m.start : m.stop])


def test_a_rank_is_at_least_one():
    with pytest.raises(UserError, match="rank=0: give at least 1"):
        PowerGossip(optimizer(), 0)


def test_edges_meet_in_both_directions_whatever_their_colours():
    w = topologies.build("torus", 9).matrix(0)
    algorithm, nine = PowerGossip(optimizer(), 2), problem(9, 4)
    walks = [
        weights(k, nine.gradient, lambda t: w, nine.start(), 5, LR)
        for k in (algorithm, DpsgdAtc(optimizer()))
    ]
    torch.testing.assert_close(*walks, rtol=1e-12, atol=1e-12)
