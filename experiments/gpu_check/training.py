"""A step as a run takes it, in one process, and a plain torch model to compare it with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from experiments.bench.workload import Bench, study_of
from gossip.algorithms import Gradient
from gossip.algorithms.loss_scale import LossScale
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.config import Config, Model
from gossip.config.compute import Compute
from gossip.data import Dataset
from gossip.errors import UserError
from gossip.models import MODELS


class Trained(Bench):
    """A step with everything that `gossip.train` adds: running statistics and loss scale."""

    def __init__(self, config: Config, comm: Communicator) -> None:
        super().__init__(config, comm)
        task = self.study.task
        self._buffers = task.init_buffers(len(comm.hosted)) if task.has_buffers else None
        self._scale = LossScale() if config.compute.scales_loss else None

    @property
    def gradient(self) -> Gradient:
        """The gradient on the one batch, judged by all learners where the loss is scaled."""
        take = partial(
            self.study.gradient, inputs=self.inputs, labels=self.labels, buffers=self._buffers
        )
        if self._scale is None:
            return take
        return self._scale.judged(partial(take, scale=self._scale.scale), self.comm)


@dataclass(frozen=True)
class Net:
    """A model and random data that fit together."""

    model: str
    """Name in `gossip.models.MODELS`."""
    dataset: str
    """Data set, the name of a function in `experiments.bench.workload`."""
    options: Mapping[str, int] = field(default_factory=dict)
    """Options of the model."""

    def config(self, n: int, batch: int, compute: Compute) -> Config:
        """DPSGD on a ring of n learners; batches are drawn with replacement."""
        given = tuple(f"{name}={value}" for name, value in self.options.items())
        model = Model(model=self.model, model_options=given)
        config = study_of(n, batch, dataset=self.dataset, model=model)
        return replace(config, data=replace(config.data, replacement=True), compute=compute)

    def stacked(self, n: int, batch: int, compute: Compute) -> Callable[[], None]:
        """A step of all learners in one process.

        Raises:
            UserError: it cannot be computed so here.
        """
        trained = Trained(self.config(n, batch, compute), Stacked(n))
        if off := trained.study.task.notes:
            raise UserError("; ".join(off))
        return trained.step

    def plain(self, batch: int, compute: Compute) -> Callable[[], None]:
        """A step of SGD on one torch module, float32, with as many samples."""
        config = self.config(1, batch, replace(compute, cuda_graphs="off"))
        return _plain_step(self, Bench(config, Stacked(1)))

    def module(self, dataset: Dataset) -> nn.Module:
        """The torch module for the inputs and classes of a data set."""
        return MODELS[self.model](dataset.input_shape, dataset.num_classes, **self.options)


def _plain_step(net: Net, bench: Bench) -> Callable[[], None]:
    inputs, labels = bench.inputs[0], bench.labels[0]
    module = net.module(bench.study.dataset).to(inputs.device)
    sgd = torch.optim.SGD(module.parameters(), lr=bench.lr)

    def step() -> None:
        sgd.zero_grad()
        cross_entropy(module(inputs), labels).backward()
        sgd.step()

    return step


MLP = Net("mlp", "few")


def resnet(options: Mapping[str, int]) -> Net:
    """ResNet-18 for images of 32 by 32."""
    return Net("resnet18", "cifar_like", options)
