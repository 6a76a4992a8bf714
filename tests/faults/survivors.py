"""A ring of learners that loses a process and goes on: survivors.py CULPRIT.

Prints a line for each process that is left: how many there are, and what their ring has come to.
"""

import os
import signal
import sys
import time

import numpy as np
import torch
from mpi4py import MPI
from scipy.sparse import csr_array

from gossip.comm.transports.mpi import Mpi

LOCAL, D = 2, 45_000  # too large to be sent before it is asked for
LOST_STEP, NUM_STEPS = 20, 60


def ring(n: int) -> csr_array:
    eye = np.eye(n)
    return csr_array((eye + np.roll(eye, 1, 0) + np.roll(eye, -1, 0)) / 3)


def main() -> None:
    culprit, world = int(sys.argv[1]), MPI.COMM_WORLD
    comm = Mpi(LOCAL * world.size)
    x = torch.arange(comm.hosted.start, comm.hosted.stop).float().repeat(D, 1).T.contiguous()
    w, step = ring(comm.n), 0
    while step < NUM_STEPS:
        if step == LOST_STEP and world.rank == culprit:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            x = comm.start_mix(x, w)()
            step += 1
        except MPI.Exception as error:
            if not comm.lost(error):
                raise
            comm = comm.survivors()
            w, step = ring(comm.n), min(comm.share(step))
    mean = comm.mean(x)
    rows = comm.gather(x)
    assert torch.allclose(rows.mean(0), mean, rtol=1e-5)
    assert len(set(comm.share(mean.numpy().tobytes()))) == 1
    assert float((rows - mean).abs().max()) < 1
    print(f"left: process {comm.process} of {comm.processes}, n={comm.n}", flush=True)
    time.sleep(1)  # who leaves while another is still in `share` counts as lost there
    os._exit(0)  # MPI_Finalize would wait for the lost one


if __name__ == "__main__":
    main()
