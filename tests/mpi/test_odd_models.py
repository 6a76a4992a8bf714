"""A user's model walks the same on several processes as on one, whatever it does in a pass."""

import pytest
import torch
from mpi4py import MPI

from gossip.comm.stacked import Stacked
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from tests import odd_models
from tests.mpi.reference import on_first, walk

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.processes(1, 2, 4),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.skipif(MPI.COMM_WORLD.size not in (1, 2, 4), reason="four learners"),
]
LEARNERS = 4
BUILDS = (
    *(odd_models.FunctionalDropout, odd_models.DropoutAndBatchNorm, odd_models.PythonDraws),
    *(odd_models.NumpyDraws, odd_models.Transformer, odd_models.InBatch, odd_models.Scaled),
    *(odd_models.SparseEmbedding, odd_models.Frozen, odd_models.TiedTranspose, odd_models.Lazy),
)


@pytest.mark.parametrize("name", ["dpsgd", "ssgd", "ssgd-star"])
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_a_users_model_walks_the_same_on_any_number_of_processes(build, name):
    config = Config(
        algorithm=(name,),
        steps=4,
        gossip=Averaging(learners=LEARNERS, noise_std=0.05),
        data=Data(dataset="digits", batch_size=8),
        model=Model(model=f"tests.odd_models:{build.__name__}", dtype="float64"),
        rate=Rate(lr=0.1, momentum=0.9),
        monitoring=Monitoring(monitor="full", monitor_every=3, hessian_samples=20),
    )
    comm = Mpi(LEARNERS)
    done, expected = walk(config, comm), on_first(lambda: walk(config, Stacked(LEARNERS)))
    x = expected.x
    hosted = x if len(x) == 1 else x[comm.hosted.start : comm.hosted.stop]
    torch.testing.assert_close(done.x, hosted, rtol=1e-12, atol=1e-12)
    for row, other in zip(done.rows, expected.rows, strict=True):
        row["seconds"] = other["seconds"] = 0.0
        assert row == pytest.approx(other, rel=1e-9, abs=1e-12, nan_ok=True)
