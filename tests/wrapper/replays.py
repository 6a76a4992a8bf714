"""A method in one's own script and the same in the harness, on the same loss."""

from functools import partial

import torch
from torch import Tensor, nn

import topologies
from gossip import Gossip
from gossip.algorithms import ALGORITHMS
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.optim import FlatOptimizer
from gossip.task import Gradients
from gossip.task.layers import layers
from gossip.wrapper.methods import method
from tests.fits import PLAIN, SHORT, properties
from tests.wrapper.loops import batch_of, flat

LR, STEPS = 0.05, 9


def _fits(name: str) -> bool:
    try:
        method(name, {}, 0)
    except UserError:
        return False
    return True


NAMES = [name for name in ALGORITHMS if name != "dpsgd" and _fits(name)]
"""Those of the table that a wrapper takes."""


def options_of(name: str) -> dict[str, str]:
    """Short rounds, and compressors of a model of 14 numbers."""
    short = {**SHORT, "compressor": "top-k:3"}
    return {key: value for key, value in short.items() if key in ALGORITHMS[name].options}


def topology_of(name: str) -> str:
    return "chain" if properties(name).tree else "complete"


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 1, bias=False)).double()


def optimizer_of(name: str):
    """SGD with momentum where the method leaves the direction to it, else without."""
    asked = properties(name)
    own = asked.steers or asked.own_momentum
    return partial(torch.optim.SGD, lr=LR, weight_decay=0.01, momentum=0.0 if own else 0.9)


def loss(model: nn.Module, t: int, j: int) -> Tensor:
    return (model(batch_of(t, j)) - j - 1).square().mean()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, t: int, j: int) -> None:
    optimizer.zero_grad()
    loss(model, t, j).backward()
    optimizer.step()


def scripted(name: str, j: int, steps: int = STEPS) -> Tensor:
    """Learner j's weights [d] in its own script; collective."""
    own = module()
    model = Gossip(own, topology_of(name), algorithm=name, **options_of(name))
    optimizer = optimizer_of(name)(model.parameters())
    for t in range(steps):
        step(model, optimizer, t, j)
    return flat(own)


def harness(name: str, n: int) -> Tensor:
    """All learners' weights [n, d], stacked."""
    learners = [module() for _ in range(n)]
    make = partial(optimizer_of(name), lr=1.0)
    chosen = PLAIN._replace(options=options_of(name))
    shapes = tuple(layers(dict(learners[0].named_parameters())))
    algorithm = ALGORITHMS[name](lambda: FlatOptimizer(make, shapes), chosen)
    comm, w = Stacked(n), topologies.build(topology_of(name), n).matrix
    state = algorithm.init(flat(learners[0]), n)
    for t in range(STEPS):

        def gradient(x: Tensor, t: int = t) -> Gradients:
            rows = []
            for j, own in enumerate(learners):
                nn.utils.vector_to_parameters(x[j].clone(), own.parameters())
                grads = torch.autograd.grad(loss(own, t, j), list(own.parameters()))
                rows.append(torch.cat([g.reshape(-1) for g in grads]))
            return Gradients(torch.stack(rows), x.new_zeros(n))

        state, _ = algorithm.step(state, gradient, w(t), lambda *_: LR, comm)
    return state.x
