"""A checkpoint of any number of processes goes on with any other."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mpi4py import MPI

from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import Mpi
from gossip.config import Model
from tests.mpi.reference import on_first
from tests.resume.walks import LATE, WALKS, config, late, same_bits, start_of, walk

pytestmark = pytest.mark.mpi

N = 12
"""Learners; 1, 2, 3, 4 and 6 processes divide them."""
POINT = 7


@pytest.fixture
def folder():
    """One folder for all processes."""
    world = MPI.COMM_WORLD
    path = Path(world.bcast(tempfile.mkdtemp() if world.rank == 0 else None))
    yield path
    world.Barrier()
    if world.rank == 0:
        shutil.rmtree(path)


def chosen_for(name, rule):
    chosen = config(name, rule, model=Model(widths=(8,), dtype="float64"))
    return replace(chosen, gossip=replace(chosen.gossip, learners=N))


def everyone(outcome, comm, shared):
    """Weights of all learners, [n, d]; those of the one model, [1, d]."""
    return outcome.state.x if shared else comm.gather(outcome.state.x)


@pytest.mark.skipif(MPI.COMM_WORLD.size > 6, reason="12 learners")
@pytest.mark.parametrize("rule", ["lena", "lsw"])
@pytest.mark.parametrize("name", WALKS)
def test_any_processes_go_on_with_the_checkpoint_of_others(name, rule, folder):
    world, chosen = Mpi(N), chosen_for(name, rule)
    shared = name.startswith("ssgd")
    whole, _ = walk(chosen, world, folder, at=[POINT])
    MPI.COMM_WORLD.Barrier()  # process 0 has committed it
    expected = everyone(whole, world, shared)

    again, _ = walk(chosen, world, start=start_of(folder, POINT, world.hosted))
    assert same_bits(again.state.x, whole.state.x)

    def alone() -> torch.Tensor:
        return walk(chosen, Stacked(N), start=start_of(folder, POINT, range(N)))[0].state.x

    torch.testing.assert_close(on_first(alone), expected, rtol=0, atol=1e-12)

    half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
    if N % half.size == 0:
        fewer = Mpi(N, half)
        other, _ = walk(chosen, fewer, start=start_of(folder, POINT, fewer.hosted))
        rows = everyone(other, fewer, shared)
        torch.testing.assert_close(rows, expected, rtol=0, atol=1e-12)


@pytest.mark.skipif(MPI.COMM_WORLD.size > 6, reason="12 learners")
@pytest.mark.parametrize("name", LATE)
def test_an_average_that_was_under_way_is_sent_again(name, folder):
    world, chosen = Mpi(N), late(name, N, model=Model(widths=(8,), dtype="float64"))
    points = (8, 9)
    whole, _ = walk(chosen, world, folder, at=points)
    MPI.COMM_WORLD.Barrier()
    for point in points:
        again, _ = walk(chosen, world, start=start_of(folder, point, world.hosted))
        assert same_bits(again.state.x, whole.state.x)
        assert again.bytes_sent_per_learner == whole.bytes_sent_per_learner
    alone = on_first(lambda: walk(chosen, Stacked(N))[0].state.x)
    torch.testing.assert_close(world.gather(whole.state.x), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(MPI.COMM_WORLD.size > 6, reason="12 learners")
def test_many_processes_go_on_with_the_checkpoint_of_one(folder):
    chosen = chosen_for("dpsgd", "lena")
    if MPI.COMM_WORLD.rank == 0:
        whole, _ = walk(chosen, Stacked(N), folder, at=[POINT])
        expected = whole.state.x
    else:
        expected = torch.empty(0)
    MPI.COMM_WORLD.Barrier()
    world = Mpi(N)
    outcome, _ = walk(chosen, world, start=start_of(folder, POINT, world.hosted))
    rows = world.gather(outcome.state.x)
    if world.process == 0:
        torch.testing.assert_close(rows, expected, rtol=0, atol=1e-12)
