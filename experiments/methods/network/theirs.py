"""Other libraries' ways, in the loop that everybody writes, on the harness's start and batches."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from experiments.methods.methods import Method, Trial
from experiments.methods.network.training import Training, prepared
from experiments.methods.size import Size
from gossip.comm.base import Communicator
from gossip.study import parts


def theirs(method: Method, trial: Trial, seed: int, size: Size, comm: Communicator) -> Training:
    """A method of another library; collective."""
    study = prepared(seed, size, comm)
    module = parts.model(study.config, study.dataset)()
    _fill(module, study.task.init(seed))

    def loss(model: nn.Module, t: int) -> Tensor:
        inputs, labels = study.task.train.batch(study.sampler.indices(t))
        logits = model(inputs[0])  # [B, classes], or [B, T, classes]
        return cross_entropy(logits.flatten(0, -2), labels[0].flatten())

    if method.algorithm == "decent-dp":
        return _decent(module, method, trial, loss)
    model, optimizer = BUILDERS[method.algorithm](module, trial.lr, size.every)

    def step(t: int) -> None:
        optimizer.zero_grad()
        loss(model, t).backward()
        optimizer.step()

    return Training(step, lambda: _weights(module))


def _fill(module: nn.Module, weights: Tensor) -> None:
    parameters = list(module.parameters())
    with torch.no_grad():
        for p, part in zip(parameters, weights.split([p.numel() for p in parameters]), strict=True):
            p.copy_(part.view_as(p))


def _weights(module: nn.Module) -> Tensor:
    return parameters_to_vector(module.parameters()).detach()


Built = tuple[nn.Module, torch.optim.Optimizer]


def _sgd(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def _ddp(module: nn.Module, lr: float, every: int) -> Built:
    """Gradients averaged in buckets while backward goes on."""
    model = DistributedDataParallel(module)
    return model, _sgd(model, lr)


def _bf16(module: nn.Module, lr: float, every: int) -> Built:
    """Torch refuses its hook by name where there is no NCCL, though Gloo adds bf16, too."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        return bf16_compress_hook(group, bucket)

    model = DistributedDataParallel(module)
    model.register_comm_hook(None, hook)
    return model, _sgd(model, lr)


def _power_sgd(module: nn.Module, lr: float, every: int) -> Built:
    """From the second step on, the earliest it takes."""
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
        PowerSGDState,
        powerSGD_hook,
    )

    model = DistributedDataParallel(module)
    state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook)
    return model, _sgd(model, lr)


def _post_local(module: nn.Module, lr: float, every: int) -> Built:
    """Averaged gradients in the first round, then averaged weights behind each."""
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
        PostLocalSGDState,
        post_localSGD_hook,
    )
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = DistributedDataParallel(module)
    state = PostLocalSGDState(None, None, every, post_local_gradient_allreduce=False)
    model.register_comm_hook(state, post_localSGD_hook)
    # It averages behind step warmup_steps, warmup_steps + period, ..., counted from 0.
    averager: Any = PeriodicModelAverager(period=every, warmup_steps=every - 1)
    return model, PostLocalSGDOptimizer(_sgd(model, lr), averager)


BUILDERS: dict[str, Callable[[nn.Module, float, int], Built]] = {
    "ddp": _ddp,
    "ddp-bf16": _bf16,
    "ddp-powersgd": _power_sgd,
    "torch-post-local": _post_local,
}
"""Model and optimizer of a rate and the steps of a round, by `Method.algorithm`."""


def _decent(
    module: nn.Module, method: Method, trial: Trial, loss: Callable[[nn.Module, int], Tensor]
) -> Training:
    """DPSGD that starts a step's messages at the end of the step before.

    Its first step takes a gradient and updates nothing; the second makes both updates. Its edges
    are pairs that take turns, also on the ring: one neighbour per step, not two.
    """
    from loguru import logger

    logger.disable("decent_dp")
    from decent_dp.ddp import DecentralizedDataParallel

    def make(named: list[tuple[str, Any]]) -> Any:
        return torch.optim.SGD([parameter for _, parameter in named], lr=trial.lr)

    model: Any = DecentralizedDataParallel(
        module, make, topology=method.topology, _local_world_size=dist.get_world_size()
    )

    def finish() -> None:
        for work in model._comm_ops:
            if work is not None:
                work.wait()
        # Each is a ring of connections, and there are dozens of trainings in a process.
        for group in dict.fromkeys(model._topo._registry.values()):
            dist.destroy_process_group(group)

    return Training(lambda t: loss(model, t).backward(), lambda: _weights(module), finish)
