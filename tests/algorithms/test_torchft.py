"""torchft's LocalSGD and DiLoCo beside ours, on one network, start and batches."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Barrier
from typing import Any
from unittest.mock import Mock, create_autospec

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from gossip.algorithms.base import Method
from gossip.algorithms.outer import DiLoCo, Outer
from gossip.algorithms.streaming import Streaming
from gossip.comm.stacked import Stacked
from tests.problems import complete, digits_task, optimizer

torchft = pytest.importorskip("torchft.local_sgd", reason="no torchft here: pip install torchft")

N, STEPS = 4, 24
TASK = digits_task(widths=(14, 36), activation="tanh")  # both halves of a row are whole layers
START = TASK.init(0)
BATCHES = [
    TASK.train.batch(indices)
    for indices in np.random.default_rng(0).integers(len(TASK.train), size=(STEPS, N, 20))
]
INNER = {
    "sgd": (torch.optim.SGD, {"momentum": 0.5}, 0.1),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0.1}, 0.01),
}
"""Under our names: torch's own, options, rate."""


def ours(method: Callable[..., Method], inner: str) -> Tensor:
    """Weights after each step, [steps, n, d]."""
    _, options, lr = INNER[inner]
    algorithm, comm, found = method(optimizer(inner, **options)), Stacked(N), []
    state = algorithm.init(START, N)
    for inputs, labels in BATCHES:
        gradient = partial(TASK.gradient, inputs=inputs, labels=labels)
        state, _ = algorithm.step(state, gradient, complete(N), lambda *_: lr, comm)
        found.append(state.x)
    return torch.stack(found)


class Replicas:
    """N threads that all reach every average, in the place of torchft's managers and server."""

    def __init__(self) -> None:
        self._sent = [START] * N
        self._everybody = Barrier(N, self._average, timeout=30)

    def _average(self) -> None:
        mean = torch.stack(self._sent).mean(0)
        for tensor in self._sent:
            tensor.copy_(mean)

    def manager(self, j: int) -> Mock:
        """What replica j asks; the number of averages so far says whose turn it is."""

        def allreduce(tensor: Tensor, should_quantize: bool = False) -> Mock:
            self._sent[j] = tensor
            self._everybody.wait()
            return Mock()

        made = create_autospec(torchft.Manager, instance=True)
        made._use_async_quorum = False
        made.allreduce.side_effect = allreduce
        made.should_commit.return_value = True
        made.current_step.side_effect = lambda: made.should_commit.call_count
        return made

    def run(self, replica: Callable[[int], Tensor]) -> Tensor:
        """What each returns, [steps, n, d]; if one fails, none waits for it."""

        def guarded(j: int) -> Tensor:
            try:
                return replica(j)
            except BaseException:
                self._everybody.abort()
                raise

        with ThreadPoolExecutor(N) as pool:
            return torch.stack(list(pool.map(guarded, range(N))), dim=1)


def theirs(wrap: Callable[..., Any], inner: str, entered: int = 0) -> Tensor:
    """The same by torchft, which counts steps from when it is entered: after `entered` steps."""
    replicas, (kind, options, lr) = Replicas(), INNER[inner]

    def replica(j: int) -> Tensor:
        net, found = TASK.build().double(), []
        vector_to_parameters(START.clone(), net.parameters())
        optimizer = kind(net.parameters(), lr=lr, **options)
        wrapped = wrap(replicas.manager(j), net, optimizer)
        with ExitStack() as stack:
            for t, (inputs, labels) in enumerate(BATCHES):
                if t == entered:
                    stack.enter_context(wrapped)
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(inputs[j]), labels[j]).backward()
                optimizer.step()
                found.append(parameters_to_vector(net.parameters()).detach())
        return torch.stack(found)

    return replicas.run(replica)


def diloco(
    manager: Mock,
    net: nn.Sequential,
    inner: torch.optim.Optimizer,
    fragments: int = 1,
    **options: object,
) -> Any:
    """An outer optimizer for each fragment: one for all also steps the others, along inner g_j."""
    parts = [net] if fragments == 1 else [net[:3], net[3:]]
    outer = [
        torch.optim.SGD(part.parameters(), lr=0.7, momentum=0.9, nesterov=True) for part in parts
    ]
    return torchft.DiLoCo(manager, parts, inner, outer, **options)


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inner", INNER)
def test_local_sgd_is_torchfts(inner):
    same(
        ours(partial(Outer, every=3), inner), theirs(partial(torchft.LocalSGD, sync_every=3), inner)
    )


@pytest.mark.parametrize("inner", INNER)
def test_diloco_is_torchfts(inner):
    same(ours(partial(DiLoCo, every=3), inner), theirs(partial(diloco, sync_every=3), inner))


@pytest.mark.parametrize(
    ("fragments", "delay", "merge"), [(1, 2, 0.0), (2, 0, 0.5), (2, 1, 0.5), (2, 2, 0.3)]
)
def test_streaming_diloco_is_torchfts_that_begins_to_count_later(fragments, delay, merge):
    """Fragment p ends its first round after H + pH/P steps; there after (p + 1) H/P - tau."""
    there = {"fragment_sync_delay": delay, "fragment_update_alpha": merge}
    other = partial(diloco, fragments=fragments, sync_every=6, **there)
    own = partial(Streaming, every=6, fragments=fragments, delay=delay, merge=merge)
    same(ours(own, "adamw"), theirs(other, "adamw", entered=6 - 6 // fragments + delay))
