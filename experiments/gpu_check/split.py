"""Learners of several processes get the same as whole ones, trained one after the other."""

import atexit
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import topologies
from experiments.gpu_check.cases import FULLY, TENSORS, Case
from experiments.gpu_check.deviation import difference
from experiments.gpu_check.job import Job
from gossip import Gossip
from gossip.comm.base import Communicator
from gossip.comm.transports.gloo import destroy, start_torch_distributed
from gossip.task.device import place

WIDTH, BATCH = 16, 4
"""Numbers in each layer, and samples of a process."""
NAMES = ("learner", "shard")
LR, MOMENTUM = 0.1, 0.9


def of_split(job: Job, comm: Communicator, case: Case) -> float:
    """Largest difference of this process's learner, and of the mean model, along a trajectory."""
    n, steps = comm.processes // case.each, job.size.steps
    kind = {"device": place(job.device), "dtype": getattr(torch, case.dtype)}
    batches = torch.from_numpy(
        np.random.default_rng(0).standard_normal((steps, n, case.each * BATCH, WIDTH))
    ).to(**kind)
    mesh = _mesh(job.device, job.backend, n, case.each)
    j, k = (mesh.get_local_rank(name) for name in NAMES)
    own = slice(k * BATCH, (k + 1) * BATCH) if case.split == FULLY else slice(None)
    model = Gossip(
        SPLIT_BY[case.split](_module().to(**kind), mesh["shard"]),
        case.topology,
        order=case.order,
        backend=job.backend,
        timeout=job.seconds,
        mesh=mesh["learner"],
    )
    optimizer, worst = _sgd(model), torch.zeros((), **kind)
    for t, learners in enumerate(_whole(case, batches)):
        _step(model, optimizer, batches[t, j, own])
        worst = torch.maximum(worst, difference(_row(model), learners[j]))
    with model.average():
        return torch.maximum(worst, difference(_row(model), learners.mean(0))).item()


def _fully(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    fully_shard(module, mesh=mesh)
    return module


def _by_tensors(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """The first layer by columns and the last by rows; each process has all of the norm."""
    return parallelize_module(module, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})


SPLIT_BY = {FULLY: _fully, TENSORS: _by_tensors}
"""How a learner is split -> the function that does it, in place."""


@cache
def _mesh(device: str, backend: str, n: int, each: int) -> DeviceMesh:
    """Of n learners; its groups of processes are there to the end, as torch knows equal ones by it.

    Collective. By then nobody waits for a message any more.
    """
    start_torch_distributed()
    made = init_device_mesh(
        device,
        (n, each),
        mesh_dim_names=NAMES,
        backend_override={"learner": backend, "shard": backend},
    )
    for group in made.get_all_groups():
        if group is not dist.group.WORLD:
            atexit.register(destroy, group)
    return made


def _whole(case: Case, batches: Tensor) -> Iterator[Tensor]:
    """The weights of all learners after each step, [n, d], by the formula."""
    n = batches.shape[1]
    learners = [_module().to(batches) for _ in range(n)]
    optimizers = [_sgd(module) for module in learners]
    topology = topologies.build(case.topology, n) if n > 1 else None
    for t, batch in enumerate(batches):
        before = torch.stack([_row(module) for module in learners])
        for module, optimizer, own in zip(learners, optimizers, batch, strict=True):
            _step(module, optimizer, own)
        after = torch.stack([_row(module) for module in learners])
        if topology is not None:
            w = torch.from_numpy(topology.matrix(t).toarray()).to(after)
            after = w @ after if case.order == "atc" else w @ before + (after - before)
        for module, row in zip(learners, after, strict=True):
            nn.utils.vector_to_parameters(row.clone(), module.parameters())
        yield after


def _module() -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        layers = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)
        return nn.Sequential(*layers)


def _sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM)


def _step(module: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor) -> None:
    optimizer.zero_grad()
    module(inputs).square().mean().backward()
    optimizer.step()


def _row(module: nn.Module) -> Tensor:
    """All weights of a learner, [d]; collective where it is split."""
    parts = (p.detach() for p in module.parameters())
    whole = (p.full_tensor() if hasattr(p, "full_tensor") else p for p in parts)
    return torch.cat([p.reshape(-1) for p in whole])
