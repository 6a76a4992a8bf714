"""CUDA graphs: the kernels of a step's gradient are recorded once, and launched in one call.

A small model's step is launch-bound: the GPU waits for Python. Nothing here has been run on a GPU
yet; what needs one is `capture`.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gossip.task import Gradients, Task

MOST_NUMBERS = 2**24
"""Numbers in the weights of a process's learners up to which its step is taken for launch-bound.

A guess, not measured: 256 learners of 784-50-50-10 have 11 million.
"""
WARM_UPS = 3
"""Runs before the recording, in which libraries choose their kernels and take their workspaces."""


def expected_to_pay(task: Task, rows: int) -> bool:
    """Whether a step of so many rows on a GPU is one batched pass, and a small one."""
    numerics = task.numerics
    on_gpu = numerics.device.type == "cuda" and not numerics.compile
    return on_gpu and task.engine != "loop" and task.d * rows <= MOST_NUMBERS


class Captured:
    """`Task.gradient` of a model without running statistics, recorded once for each set of shapes.

    The results are the caller's own, as they are without a recording.
    """

    def __init__(self, gradient: Callable[..., Gradients]) -> None:
        self._gradient = gradient
        self._recordings: dict[object, _Recording] = {}

    def __call__(
        self,
        x: Tensor,
        inputs: Tensor,
        labels: Tensor,
        *,
        squares: bool = False,
        buffers: None = None,
        seeds: Sequence[int] | None = None,
        scale: float | None = None,
    ) -> Gradients:
        """As `Task.gradient`."""
        tensors = [x, inputs, labels] + ([] if scale is None else [x.new_full((), scale)])
        key = (squares, *(tensor.shape for tensor in tensors))
        if key not in self._recordings:

            def gradient(x: Tensor, inputs: Tensor, labels: Tensor, *scale: Tensor) -> Gradients:
                own = scale[0] if scale else None
                return self._gradient(x, inputs, labels, squares=squares, scale=own)

            self._recordings[key] = _Recording(gradient, tensors)
        return self._recordings[key](tensors)


class _Recording:
    """A function of tensors with constant shapes, which has its own copies of them."""

    def __init__(self, function: Callable[..., Gradients], tensors: list[Tensor]) -> None:
        self._inputs = [tensor.clone() for tensor in tensors]
        self._outputs, self._replay = capture(lambda: function(*self._inputs))

    def __call__(self, tensors: list[Tensor]) -> Gradients:
        for own, given in zip(self._inputs, tensors, strict=True):
            own.copy_(given)
        self._replay()
        # The next replay writes to the same memory.
        values, losses, squares = self._outputs
        return Gradients(
            values.clone(), losses.clone(), None if squares is None else squares.clone()
        )


def capture(function: Callable[[], Gradients]) -> tuple[Gradients, Callable[[], None]]:
    """Record a function of no arguments as a CUDA graph.

    Returns:
        Its results, which are there after each call of the second.

    Raises:
        RuntimeError: it waits for the GPU, or does something else that cannot be recorded.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # Other threads, of a transport or of a checkpoint, may use the GPU meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = function()
    return results, graph.replay
