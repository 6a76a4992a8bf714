"""Steps with each switch of [compute] on and off are timed in turn."""

import sys
from collections.abc import Callable, Iterator, Mapping

import torch

from experiments.bench import rows as table
from experiments.bench.measure import Work, interleaved
from experiments.bench.rows import Case, Row, rows_of
from experiments.gpu_check.job import Job, left_out, main
from experiments.gpu_check.timing import meeting_on, timed
from experiments.gpu_check.training import MLP, Net, resnet
from gossip.comm.stacked import Stacked
from gossip.config.compute import Compute
from gossip.errors import UserError
from gossip.task.device import place

PLAIN, EAGER = "float32", "each kernel launched"
GRAPH_LEARNERS = 16


def measure(job: Job) -> None:
    """Measure all rows; each case is written as it comes."""
    for found in rows(job):
        table.append(found, job.file)


def rows(job: Job) -> Iterator[list[Row]]:
    """Precision and memory format of ResNets; CUDA graphs of MLPs."""
    size, device = job.size, job.device
    images = resnet(size.resnet_options)
    precisions = {
        PLAIN: Compute(device=device),
        "tf32": Compute(device=device, tf32=True),
        "bf16": Compute(device=device, amp="bf16"),
        "fp16": Compute(device=device, amp="fp16"),
        "channels last": Compute(device=device, channels_last=True),
        "bf16, channels last": Compute(device=device, amp="bf16", channels_last=True),
    }
    yield compared(job, images, size.switched_learners, size.switched_batch, precisions)
    if device != "cuda":
        left_out(Stacked(1), "CUDA graphs, which need a GPU")
        return
    graphs = {
        EAGER: Compute(device=device, cuda_graphs="off"),
        "CUDA graph": Compute(device=device, cuda_graphs="on"),
        "each kernel launched, bf16": Compute(device=device, cuda_graphs="off", amp="bf16"),
        "CUDA graph, bf16": Compute(device=device, cuda_graphs="on", amp="bf16"),
    }
    for n in (1, GRAPH_LEARNERS):
        yield compared(job, MLP, n, size.mlp_batch, graphs)


def compared(job: Job, net: Net, n: int, batch: int, sides: Mapping[str, Compute]) -> list[Row]:
    """A row for each way to compute; the first is the base, and one that cannot be is left out.

    Raises:
        UserError: nothing is left to compare the first with.
    """
    device, works = place(job.device), dict[str, Work]()
    for name, compute in sides.items():
        try:
            step = net.stacked(n, batch, compute)
        except UserError as error:
            left_out(Stacked(1), f"{name}: {error}")
            continue
        works[name] = timed(_with_tf32(step, compute), device)
    base = next(iter(sides))
    if base not in works or len(works) == 1:
        raise UserError("fewer than two ways to compute work here; what is left out says why")
    meeting = meeting_on(Stacked(1), device)
    times = interleaved(works, job.size.rounds, meeting, job.size.block_ms)
    title = f"{net.model}, n={n} B={batch}, ring"
    case = Case(table="switches", case=title, learners=n, batch=batch)
    return rows_of(case, times, base)


def _with_tf32(step: Callable[[], None], compute: Compute) -> Callable[[], None]:
    """`step` under its own choice of TF32, which is the process's: others have another."""
    if compute.device != "cuda":
        return step

    def chosen() -> None:
        torch.backends.cudnn.allow_tf32 = compute.tf32
        torch.set_float32_matmul_precision("high" if compute.tf32 else "highest")
        step()

    return chosen


if __name__ == "__main__":
    sys.exit(main(measure))
