"""Batches that grow, and workers with them: the same walk on any number of processes."""

import time
from dataclasses import replace

import pytest
import torch
from mpi4py import MPI

from gossip.comm.stacked import Stacked
from gossip.comm.transports.gloo import Gloo
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging, BatchGrowth, Config, Data, Model, Monitoring, Rate
from tests.machine import slowness
from tests.mpi.reference import on_first, walk

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(12 % MPI.COMM_WORLD.size != 0, reason="12 learners"),
]

N = 12
OPTIONS = {
    "geodamp": ("delay=0.2", "factor=2"),
    "adadamp": ("dwell=2", "wait=2"),
    "adadamp-nn": ("dwell=2", "wait=2", "share=0.5"),
    "radadamp": ("dwell=2", "wait=2"),
    "noise-scale": ("dwell=2", "wait=2"),
}


def config(name, damping, **damped):
    return Config(
        algorithm=(name,),
        steps=12,
        gossip=Averaging(learners=N),
        data=Data(dataset="digits", batch_size=5),
        model=Model(widths=(8,), dtype="float64"),
        rate=Rate(lr=0.3, momentum=0.9, decay="cosine"),
        damping=BatchGrowth(damping=damping, damping_options=OPTIONS[damping], **damped),
        monitoring=Monitoring(monitor="cheap", monitor_every=3),
    )


def assert_same_walk(chosen, comm):
    done, expected = walk(chosen, comm), on_first(lambda: walk(chosen, Stacked(N)))
    x = expected.x
    hosted = x if len(x) == 1 else x[comm.hosted.start : comm.hosted.stop]
    torch.testing.assert_close(done.x, hosted, rtol=1e-12, atol=1e-12)
    for row, other in zip(done.rows, expected.rows, strict=True):
        for column in ("step", "samples", "batch_size", "damping"):
            assert row.get(column) == other.get(column)
        assert row.get("train_loss", 0.0) == pytest.approx(other.get("train_loss", 0.0), rel=1e-9)
    return [row for row in done.rows if "batch_size" in row]


@pytest.mark.parametrize(
    ("name", "damping"),
    [*(("dpsgd", damping) for damping in OPTIONS), ("ssgd", "adadamp"), ("ssgd", "noise-scale")],
)
def test_batches_grow_alike_on_any_processes(name, damping):
    rows = assert_same_walk(config(name, damping), Mpi(N))
    assert len({row["batch_size"] for row in rows}) > 1


def test_batches_grow_alike_with_gloo():
    assert_same_walk(config("dpsgd", "radadamp"), Gloo(N))


@pytest.mark.parametrize("transport", [Mpi, Gloo])
@pytest.mark.parametrize("samples", [50, 97])
def test_the_update_is_the_same_for_any_number_of_workers(transport, samples):
    chosen = config("ssgd", "geodamp", samples_per_worker=samples)
    comm = transport(N)
    rows = assert_same_walk(chosen, comm)
    told = [row for row in rows if "workers" in row]
    for row in told:
        total = N * int(row["batch_size"])
        assert row["workers"] == min(comm.processes, -(-total // samples))
    if samples == 97 and comm.processes > 1:
        assert told[0]["workers"] == 1
        assert told[-1]["workers"] > 1
    same = replace(chosen.damping, samples_per_worker=0)
    assert_same_walk(replace(chosen, damping=same), comm)


@pytest.mark.skipif(MPI.COMM_WORLD.size == 1, reason="nobody waits")
@pytest.mark.parametrize("transport", [Mpi, Gloo])
def test_who_waits_for_a_sum_sleeps_in_the_kernel(transport):
    comm = transport(N)
    comm.patient()
    row = torch.ones(1, 100, dtype=torch.float64)
    comm.mean(row)  # takes the memory
    before = time.process_time()
    if comm.process == 0:
        time.sleep(1.0)
    comm.mean(row)
    # A process that looks all the time takes what there is of a core, all of these seconds.
    assert time.process_time() - before < 0.2 * slowness()
