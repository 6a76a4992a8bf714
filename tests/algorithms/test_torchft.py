"""torchft's LocalSGD and DiLoCo beside ours: one network, start and batches; replicas as threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Barrier
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


def theirs(wrap: Callable[..., object], inner: str, entered: int = 0) -> Tensor:
    """The same of replicas that all reach every average; steps are counted from `entered` on."""
    sent = [START] * N

    def average() -> None:
        mean = torch.stack(sent).mean(0)
        for tensor in sent:
            tensor.copy_(mean)

    everybody = Barrier(N, average, timeout=30)

    def replica(j: int) -> list[Tensor]:
        try:
            return list(walk(j))
        except BaseException:
            everybody.abort()
            raise

    def manager(j: int) -> Mock:
        """What torchft asks of its own, which a server tells who is there."""

        def allreduce(tensor: Tensor, should_quantize: bool = False) -> Mock:
            sent[j] = tensor
            everybody.wait()
            return Mock()

        made = create_autospec(torchft.Manager, instance=True)
        made._use_async_quorum = False
        made.allreduce.side_effect = allreduce
        made.should_commit.return_value = True
        made.current_step.side_effect = lambda: made.should_commit.call_count
        return made

    def walk(j: int) -> Iterator[Tensor]:
        net = TASK.build().double()
        vector_to_parameters(START.clone(), net.parameters())
        kind, options, lr = INNER[inner]
        optimizer = kind(net.parameters(), lr=lr, **options)
        wrapped = wrap(manager(j), net, optimizer)
        with ExitStack() as stack:
            for t, (inputs, labels) in enumerate(BATCHES):
                if t == entered:
                    stack.enter_context(wrapped)
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(inputs[j]), labels[j]).backward()
                optimizer.step()
                yield parameters_to_vector(net.parameters()).detach()

    with ThreadPoolExecutor(N) as pool:
        return torch.stack([torch.stack(rows) for rows in pool.map(replica, range(N))], dim=1)


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def diloco(manager: Mock, net: nn.Sequential, inner: torch.optim.Optimizer, parts=1, **options):
    """Theirs, an outer optimizer for each fragment: one for all steps the others', too."""
    fragments = [net] if parts == 1 else [net[:3], net[3:]]
    outer = [
        torch.optim.SGD(part.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        for part in fragments
    ]
    return torchft.DiLoCo(manager, fragments, inner, outer, **options)


@pytest.mark.parametrize("inner", INNER)
def test_local_sgd_is_torchfts(inner):
    same(ours(lambda made: Outer(made, 3), inner), theirs(partial(torchft.LocalSGD, sync_every=3), inner))


@pytest.mark.parametrize("inner", INNER)
def test_diloco_is_torchfts(inner):
    same(ours(lambda made: DiLoCo(made, 3), inner), theirs(partial(diloco, sync_every=3), inner))


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(("parts", "delay", "merge"), [(1, 2, 0.0), (2, 0, 0.5), (2, 1, 0.5), (2, 2, 0.3)])
def test_streaming_diloco_is_torchfts_a_part_of_a_round_later(parts, delay, merge, inner):
    """Its first round ends for fragment p after (p + 1) H/P - tau steps, ours after H + p H/P."""
    options = {"fragment_sync_delay": delay, "fragment_update_alpha": merge}
    other = partial(diloco, parts=parts, sync_every=6, **options)
    own = partial(Streaming, every=6, fragments=parts, delay=delay, merge=merge)
    same(ours(own, inner), theirs(other, inner, entered=6 - 6 // parts + delay))
