"""Random directed schedules, until the time is up: no deadlock, and no wrong row.

By hand, for a minute on all kinds of communicators together:
`python -m gossip.launch -n 4 --module tests.mpi.stress -- --seconds 60`.
"""

import argparse
import time

import numpy as np
import torch
from scipy.sparse import csr_array

from gossip.comm.base import Communicator
from gossip.comm.startup.environment import prepare_environment

TALK = 20
"""Rounds between two looks at the clock of process 0."""
MOST_IN_FLIGHT = 6
LENGTHS = (1, 37, 5000)
"""Numbers of parameters."""


def stress(comm: Communicator, seconds: float, seed: int = 0) -> int:
    """Mixes by random matrices, some of them in flight at once, checked against W X. Collective.

    Matrices, rows and how many are in flight are the same everywhere, by `seed`; how late each
    process is is its own.

    Returns:
        How many mixes there were.
    """
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, comm.process])
    end, done = time.monotonic() + seconds, 0
    while comm.share(time.monotonic() < end)[0]:
        for _ in range(TALK):
            started = []
            for _ in range(common.integers(1, MOST_IN_FLIGHT)):
                w, x = random_matrix(common, comm.n), random_rows(common, comm.n)
                mine = x[comm.hosted.start : comm.hosted.stop].clone()
                started.append((comm.start_mix(mine, w), w, x))
                be_late(own)
            for pending, w, x in started:
                expected = torch.from_numpy(w @ x.numpy())[comm.hosted.start : comm.hosted.stop]
                be_late(own)
                assert torch.allclose(pending(), expected, rtol=1e-12, atol=1e-12)
            done += len(started)
            if common.random() < 0.1:
                comm.mean(torch.ones(1, 3))
    return done


def random_matrix(random: np.random.Generator, n: int) -> csr_array:
    """Any directed edges with any weights, [n, n]; half of the time weights of an average."""
    w = random.random((n, n)) * (random.random((n, n)) < random.random())
    if random.random() < 0.5:
        w += np.eye(n)
        w /= w.sum(axis=1, keepdims=True)
    return csr_array(w)


def random_rows(random: np.random.Generator, n: int) -> torch.Tensor:
    """Rows of all learners, [n, d]."""
    return torch.from_numpy(random.standard_normal((n, int(random.choice(LENGTHS)))))


def be_late(random: np.random.Generator) -> None:
    """Sometimes, by up to two milliseconds."""
    if random.random() < 0.05:
        time.sleep(random.random() * 2e-3)


def main() -> None:
    prepare_environment()
    from mpi4py import MPI

    from gossip.comm.transports.gloo import Gloo
    from gossip.comm.transports.mpi import Mpi

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    places = {"one node": 0, "two nodes": rank % 2, "apart": rank}
    kinds = [(kind, name, place) for kind in (Mpi, Gloo) for name, place in places.items()]
    for kind, name, place in kinds:
        comm = kind(2 * size, place=place)
        done = stress(comm, options.seconds / len(kinds), options.seed)
        if rank == 0:
            print(f"{kind.__name__}, {name}: {done} mixes of {comm.n} learners, all right")


if __name__ == "__main__":
    main()
