"""The gradient of a step as it is, compiled, or recorded as a CUDA graph; tried before the run."""

from collections.abc import Callable
from functools import partial

from gossip.algorithms.loss_scale import LossScale
from gossip.config.compute import Compute
from gossip.data import Sampler
from gossip.errors import UserError
from gossip.task import Gradients, Task
from gossip.task.cuda_graphs import Captured, expected_to_pay

Take = Callable[..., Gradients]
"""As `Task.gradient`."""


def of_steps(
    compute: Compute, task: Task, sampler: Sampler, *, squares: bool, one_size: bool = True
) -> tuple[Take, list[str]]:
    """How steps take gradients, and a note where that is not as it was to be.

    Args:
        compute: what is wanted.
        task: whose gradients.
        sampler: of the batches.
        squares: whether the rate or the damper looks at single gradients.
        one_size: whether all batches have one shape, which a recording needs.

    Raises:
        UserError: torch.compile or CUDA graphs are asked for, and do not work with the model.
    """
    if compute.compile:
        _try_compiler(task, sampler)
    asked = compute.cuda_graphs == "on"
    if asked and not one_size:
        raise UserError(
            "cuda_graphs=on: a recorded step has one batch size, and here it changes (--damping, "
            "--samples-per-worker); use --cuda-graphs off"
        )
    auto = one_size and compute.cuda_graphs == "auto" and expected_to_pay(task, len(sampler.hosted))
    if not (asked or auto):
        return task.gradient, []
    captured = Captured(task.gradient)
    scale = LossScale().scale if compute.scales_loss else None
    reason = _obstacle(partial(captured, squares=squares, scale=scale), task, sampler)
    if reason is None:
        return captured, []
    if asked:
        raise UserError(
            f"cuda_graphs=on: this model cannot be recorded ({reason}); use --cuda-graphs off"
        )
    return task.gradient, [f"no CUDA graphs: this model cannot be recorded ({reason})"]


def _obstacle(take: Take, task: Task, sampler: Sampler) -> str | None:
    """Why the gradient is not recorded, of a row for each learner or of one for all of them."""
    if task.has_buffers:
        return "it keeps running statistics"
    if task.draws:
        return "it draws random numbers"
    try:
        for rows in sorted({1, len(sampler.hosted)}):
            _take_first(take, task, sampler, rows=rows)
    except RuntimeError as error:
        return _first_line(error)
    return None


def _try_compiler(task: Task, sampler: Sampler) -> None:
    try:
        _take_first(task.gradient, task, sampler, rows=len(sampler.hosted))
    # What a compiler makes of a model is its own affair.
    except Exception as error:
        raise UserError(
            f"compile: torch.compile does not work here with this model ({_first_line(error)}); "
            "it needs a C++ compiler on a CPU and Triton on a GPU; leave --compile away"
        ) from error


def _take_first(take: Take, task: Task, sampler: Sampler, *, rows: int) -> None:
    """Take the gradient of step 0 as an algorithm with so many rows does."""
    buffers = task.init_buffers(len(sampler.hosted)) if task.has_buffers else None
    batch = task.train.batch(sampler.indices(0))
    seeds = range(len(sampler.hosted))
    take(task.init(0).repeat(rows, 1), *batch, buffers=buffers, seeds=seeds)


def _first_line(error: Exception) -> str:
    """The first line of a library's message, which may be long."""
    said = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {said[0]}"[:200]
