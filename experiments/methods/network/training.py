"""A way to train is a step, an end, and the learner's weights: ours by the harness's own step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from torch import Tensor

from experiments.methods import plan
from experiments.methods.methods import BASELINE, METHODS, Method, Trial
from experiments.methods.size import ALIKE, Size
from gossip.comm.base import Communicator
from gossip.comm.compressing import compressing
from gossip.compress import wire
from gossip.config import WIRES
from gossip.rates import Controller
from gossip.study import Study, algorithm, parts, prepare
from gossip.study.rate_rule import budget, rule
from gossip.train import mixing_matrix


@dataclass(frozen=True)
class Training:
    """One learner's training."""

    step: Callable[[int], None]
    """Step t, with its batch."""
    weights: Callable[[], Tensor]
    """[d], of this learner."""
    finish: Callable[[], object] = lambda: None
    """Wait for what is under way behind the last step: it belongs to its time."""


def ours(method: Method, trial: Trial, seed: int, size: Size, comm: Communicator) -> Training:
    """A method of the harness; collective."""
    config = plan.config(ALIKE, method, trial, seed, size)
    base = prepared(seed, size, comm)
    topology, _ = parts.topology_and_remarks(config, comm.n)
    rates = rule(config.rate, budget(config, len(base.task.train)), base.task.layers)
    study = replace(base, config=config, topology=topology, rule=rates)
    way = comm if method.wire in WIRES else compressing(comm, wire(method.wire))
    made, controller = algorithm(method.algorithm, study), Controller(rates, comm)
    state = made.init(study.task.init(seed), len(comm.hosted))

    def step(t: int) -> None:
        nonlocal state
        inputs, labels = study.task.train.batch(study.sampler.indices(t))
        gradient = partial(study.gradient, inputs=inputs, labels=labels, squares=False)
        state, _ = made.step(state, gradient, mixing_matrix(study, t), controller.at(t), way)

    return Training(step, lambda: state.x[0], lambda: state.arrived())


@lru_cache(maxsize=8)
def prepared(seed: int, size: Size, comm: Communicator) -> Study:
    """Data, start and batches that all ways have at a seed; collective."""
    method = METHODS[BASELINE]
    return prepare(plan.config(ALIKE, method, method.trials(size)[0], seed, size), comm)
