"""One learner's gradient overflows: the learners of all processes leave the step out."""

import numpy as np
import pytest
import torch
from mpi4py import MPI

from gossip.algorithms.loss_scale import LossScale
from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.compute import Compute
from gossip.task import Gradients
from tests.mpi.reference import on_first, walk

pytestmark = pytest.mark.mpi


def config(n: int, name: str, model: str) -> Config:
    return Config(
        algorithm=(name,),
        steps=12,
        gossip=Averaging(learners=n),
        data=Data(dataset="digits", batch_size=10),
        model=Model(model=f"tests.compute.overflow:{model}"),
        rate=Rate(lr=0.05, momentum=0.9),
        monitoring=Monitoring(monitor="cheap", monitor_every=5),
        compute=Compute(amp="fp16"),
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [("dpsgd", "Overflowing"), ("dpsgd", "OneOverflows"), ("ssgd", "OneOverflows")],
)
def test_the_walk_is_that_of_one_process(name, model):
    """Some steps are left out because of a learner elsewhere.

    SSGD takes one gradient of all batches of a process, so that what overflows by little, and the
    rounding in half precision, depend on the number of processes.
    """
    comm = Mpi(2 * MPI.COMM_WORLD.size)
    chosen = config(comm.n, name, model)
    done, expected = walk(chosen, comm), on_first(lambda: walk(chosen, Stacked(comm.n)))
    assert done.skips == expected.skips > 0
    scales = [[row.get("loss_scale") for row in each.rows] for each in (done, expected)]
    assert scales[0] == scales[1]
    x = expected.x
    hosted = x if len(x) == 1 else x[comm.hosted.start : comm.hosted.stop]
    torch.testing.assert_close(done.x, hosted, rtol=1e-2, atol=1e-3)


def test_one_learner_of_one_process_is_enough():
    comm = Mpi(2 * MPI.COMM_WORLD.size)
    values = torch.ones(2, 3)
    if comm.process == comm.processes - 1:
        values[1, 2] = np.inf
    scale = LossScale()
    judged = scale.judged(lambda x: Gradients(values, torch.ones(2)), comm)
    assert judged(torch.zeros(2, 3)).values.isnan().all()
    assert scale == LossScale(scale=2.0**15)
    assert comm.share(scale.scale) == [2.0**15] * comm.processes
