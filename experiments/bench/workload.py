"""The workload that is timed: data, models, and one step of the harness."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from gossip.algorithms import Gradient
from gossip.comm.base import Communicator
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.data import Dataset, from_arrays
from gossip.rates import Controller
from gossip.study import algorithm, prepare

LR = 0.1
SHAPE, CLASSES = (28, 28), 10


@cache
def mnist_like() -> Dataset:
    """Random bytes in MNIST's shape: times do not depend on what the pictures show."""
    return _random(SHAPE, 60_000, 10_000)


@cache
def few() -> Dataset:
    """Some of `mnist_like`'s samples, drawn with replacement, where memory counts."""
    return _random(SHAPE, 1_000, 100)


@cache
def cifar_like() -> Dataset:
    """Random bytes in CIFAR-10's shape, few of them."""
    return _random((3, 32, 32), 500, 100)


def _random(shape: tuple[int, ...], train: int, test: int) -> Dataset:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, (size, *shape), dtype=np.uint8) for size in (train, test)]
    labels = [rng.permutation(size) % CLASSES for size in (train, test)]
    return from_arrays("random", "random", (inputs[0], labels[0], inputs[1], labels[1]))


def transformer(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two layers of attention, the rows of a picture as words; d = 69,450."""
    return Attention(shape[-1], classes)


class Attention(nn.Module):
    """A row of a picture in, then layers of torch's own, the mean over rows out."""

    def __init__(self, width: int, classes: int, *, features: int = 64, heads: int = 4) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(features, heads, 2 * features, 0.0, batch_first=True)
        self.embed = nn.Linear(width, features)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(features, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures [batch, words, width] -> logits [batch, classes]."""
        return self.out(self.layers(self.embed(pictures)).mean(dim=1))


def study_of(
    n: int,
    batch: int,
    *,
    dataset: str = "mnist_like",
    model: Model | None = None,
    rate: Rate | None = None,
    algorithm: str = "dpsgd",
    topology: str = "ring",
) -> Config:
    """N learners of `batch` samples; the default study's model and plain SGD unless said.

    Args:
        n: learners.
        batch: samples of each.
        dataset: one of this module's functions, or a data set's name.
        model: default: 784-50-50-10.
        rate: default: SGD.
        algorithm: a name in `gossip.algorithms.ALGORITHMS`.
        topology: a name in `topologies.TOPOLOGIES`.
    """
    own = f"{__name__}:{dataset}" if dataset in globals() else dataset
    return Config(
        algorithm=(algorithm,),
        gossip=Averaging(learners=n, topology=topology),
        data=Data(dataset=own, batch_size=batch, replacement=dataset == "few"),
        model=model or Model(),
        rate=rate or Rate(lr=LR),
        monitoring=Monitoring(monitor="cheap"),
    )


class Bench:
    """One step of an algorithm with everything but the data loading around it."""

    def __init__(self, config: Config, comm: Communicator) -> None:
        self.study = prepare(config, comm)
        self.comm = comm
        self.lr = config.rate.lr
        self.algorithm = algorithm(config.algorithm[0], self.study)
        self.state = self.algorithm.init(self.study.task.init(0), len(comm.hosted))
        self.rates = Controller(self.study.rule, comm)
        self.inputs, self.labels = self.study.task.train.batch(self.study.sampler.indices(0))
        self.t = 0

    @property
    def gradient(self) -> Gradient:
        """The gradient on the one batch of this bench."""
        squares = self.study.rule.needs_norms
        return partial(self.study.gradient, inputs=self.inputs, labels=self.labels, squares=squares)

    @property
    def matrix(self) -> csr_array:
        """W(t)."""
        return self.study.topology.matrix(self.t)

    def step(self) -> None:
        """Mix, gradient, update."""
        self.state, self.last = self.algorithm.step(
            self.state, self.gradient, self.matrix, self.rates.at(self.t), self.comm
        )
        self.t += 1

    def compute(self) -> None:
        """Gradient and update without neighbours, every time from the same weights."""
        gradients = self.gradient(self.state.x).values
        self.state.optimizer.step(self.state.x, gradients, self.lr)


@dataclass(frozen=True)
class Learner:
    """One learner outside the harness: its initial weights and its one batch."""

    build: Callable[[], nn.Module]
    start: Tensor
    """Initial weights [d], the same for all."""
    inputs: Tensor
    """[batch, *SHAPE]."""
    labels: Tensor
    """[batch]."""
    lr: float
    momentum: float

    @classmethod
    def of(cls, bench: Bench, hosted: int = 0) -> "Learner":
        """A hosted learner of the harness: its weights before the first step, its batch."""
        config = bench.study.config
        return cls(
            bench.study.task.build,
            bench.study.task.init(0),
            bench.inputs[hosted],
            bench.labels[hosted],
            config.rate.lr,
            config.rate.momentum or 0.0,
        )

    def module(self) -> nn.Module:
        """A torch module with the initial weights, in tensors of its own."""
        module = self.build().to(self.start.dtype)
        parts = self.start.split([p.numel() for p in module.parameters()])
        with torch.no_grad():
            for parameter, part in zip(module.parameters(), parts, strict=True):
                parameter.copy_(part.view_as(parameter))
        return module

    def flat_module(self) -> tuple[nn.Module, Tensor]:
        """A torch module whose parameters are views of one buffer [d], and the buffer."""
        module, flat = self.module(), self.start.clone()
        vector_to_parameters(flat, module.parameters())
        return module, flat

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of all variants."""
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum)

    def backward(self, module: nn.Module) -> None:
        """Add the batch's gradient to the parameters' own."""
        cross_entropy(module(self.inputs), self.labels).backward()

    def training(self, module: nn.Module) -> Callable[[], None]:
        """A step of the loop that everybody writes, on the one batch."""
        optimizer = self.optimizer(module.parameters())

        def step() -> None:
            optimizer.zero_grad()
            self.backward(module)
            optimizer.step()

        return step
