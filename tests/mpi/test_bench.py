"""Every side of the benchmark computes what it says: the stacked reference's steps, in float64."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from mpi4py import MPI
from scipy.sparse import csr_array, eye_array

from experiments.bench import engines, exchange, ours, peers, raw, training
from experiments.bench.variants import TOPOLOGIES, Setting, Variant
from experiments.bench.workload import Bench
from gossip.comm.node import futex
from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging
from gossip.engines import Here, MicroBatch, parts
from topologies import build

N = MPI.COMM_WORLD.size
STEPS = 5
CONFIG = training.config_of(N, (6,), "float64")
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.processes(2, 3, 4),
    pytest.mark.skipif(N == 1, reason="there are no peers of one process"),
]

Matrices = Callable[[int], csr_array]


def identity(t: int) -> csr_array:
    return csr_array(eye_array(N))


def in_pairs(topology: str) -> Matrices:
    """decent-dp's W(t): nothing in the first step, then its edges from the second and fourth on."""
    if topology == "complete":
        return lambda t: csr_array(np.full((N, N), 1 / N)) if t else identity(t)
    tau = N.bit_length() - 1

    def partner(j: int, k: int) -> int:
        if topology == "ring":
            return (j + (1 if (j + k) % 2 == 0 else -1)) % N
        return j ^ 2 ** (k % tau)

    def matrix(t: int) -> csr_array:
        if t == 0:
            return identity(t)
        w = np.eye(N) / 2
        for j in range(N):
            w[j, partner(j, t if t == 1 else t + 1)] += 0.5
        return csr_array(w)

    return matrix


def reference(variant: Variant) -> tuple[str, str, Matrices]:
    """The harness's algorithm, its order and the matrices that the variant stands for."""
    matrices = build(variant.topology, N).matrix if variant.topology != "-" else identity
    return {
        ours.COMPUTE: ("dpsgd", "awc", identity),
        ours.MEMCPY: ("dpsgd", "awc", identity),
        ours.DPSGD: ("dpsgd", "awc", matrices),
        ours.MPI_MESSAGES: ("dpsgd", "awc", matrices),
        ours.GLOO_MESSAGES: ("dpsgd", "awc", matrices),
        ours.WRAPPER: ("dpsgd", "awc", matrices),
        raw.RAW: ("dpsgd", "awc", matrices),
        ours.SSGD: ("ssgd", "awc", identity),
        peers.DDP: ("ssgd", "awc", identity),
        peers.AVERAGER: ("dpsgd", "atc", matrices),
        peers.DECENT: ("dpsgd", "awc", in_pairs(variant.topology)),
    }[variant.name]


def stacked(name: str, order: str, matrices: Matrices) -> torch.Tensor:
    """Weights of all learners after STEPS steps in one process, [N, d]."""
    config = replace(CONFIG, algorithm=(name,), gossip=Averaging(learners=N, order=order))
    bench = Bench(config, Stacked(N))
    for t in range(STEPS):
        bench.state, _ = bench.algorithm.step(
            bench.state, bench.gradient, matrices(t), bench.rates.at(t), bench.comm
        )
    return bench.state.x.expand(N, -1)


@pytest.fixture(scope="module")
def setting():
    with peers.gloo(comm := Mpi(N)):
        yield Setting.of(CONFIG, comm)


@pytest.mark.product  # the variants depend on the number of processes
@pytest.mark.parametrize("variant", training.variants(N), ids=lambda variant: variant.key)
def test_a_variant_takes_the_steps_of_the_algorithm_it_stands_for(setting, variant):
    work = variant.make(setting)
    for _ in range(STEPS):
        work.step()
    work.finish()
    expected = stacked(*reference(variant))[setting.comm.process]
    torch.testing.assert_close(work.weights(), expected, rtol=1e-12, atol=1e-12)


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in memory that other processes may see."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(end, 16) for end in line.split()[0].split("-"))
        if start <= tensor.data_ptr() < stop:
            return "memfd:gossip" in line
    raise AssertionError("in no memory at all")


@pytest.mark.skipif(not futex.available(), reason="no shared memory on this system")
def test_what_is_timed_beside_others_has_its_rows_in_shared_memory_too(setting):
    timed = [variant for variant in ours.offered(N) if variant.name == ours.DPSGD]
    works = [variant.make(setting) for variant in timed]
    for _ in range(3):
        for work in works:
            work.step()
            assert is_shared(work.weights())


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_exchanges_by_hand_and_ours_are_products_with_w(setting, name):
    topology, me = build(name, N), setting.comm.process
    start = torch.randn(N, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    messages = raw.Messages(topology, start[me].clone())
    works = exchange.mixing(setting.comm, topology, start[me : me + 1].clone())
    x = start.numpy()
    for t in range(4):
        w = topology.matrix(t)
        once = torch.from_numpy(w @ start.numpy())[[me]]
        for side in (exchange.MIX, exchange.COPIED):
            torch.testing.assert_close(works[side].step(), once)
        x = w @ x
        messages.exchange()
        torch.testing.assert_close(messages.x, torch.from_numpy(x)[me])


def test_averages_are_the_mean_of_all_learners(setting):
    x = torch.arange(5, dtype=torch.float64) + setting.comm.process
    works = exchange.averaging(setting.comm, x[None])
    expected = torch.arange(5, dtype=torch.float64) + (N - 1) / 2
    torch.testing.assert_close(works[exchange.MEAN].step(), expected)
    torch.testing.assert_close(works[exchange.ALLREDUCE].step(), expected)
    sent = works[exchange.MEMCPY].step()
    assert sent.nbytes == pytest.approx(2 * (N - 1) / N * x.nbytes, abs=8)


@pytest.mark.processes(2, 4)
def test_pairs_take_turns_on_the_ring():
    """What the reference above says of decent-dp: each step is a matching, two make the ring."""
    if N % 2:
        pytest.skip("pairs need an even number")
    edges = [in_pairs("ring")(t) for t in range(1, 4)]
    assert all(abs(w - w.T).max() == 0 and np.allclose(w.sum(axis=1), 1) for w in edges)
    assert all(N == 2 or abs(a - b).max() > 0 for a, b in pairwise(edges[1:]))


@pytest.mark.skipif(N > 4, reason="four parts do not go round")
def test_an_update_that_is_shared_over_mpi_is_the_engines(setting):
    """The sides of `engines` compute the same, shares of two parts and of one among them."""
    problem = engines.problem_of((4,))
    weights = {name: p.detach() for name, p in problem.module.named_parameters()}
    batch = [MicroBatch(part) for part in parts(np.arange(engines.BATCH), engines.PART)]
    own = Here()
    own.hold(problem)
    alone = torch.cat([g.flatten() for g in own.gradient(weights, batch).gradient.values()])
    shared = engines.summed(setting.comm, own, weights, batch)
    torch.testing.assert_close(shared, alone / engines.BATCH, rtol=1e-4, atol=1e-6)
