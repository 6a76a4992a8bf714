"""Transport from GPU to GPU over NCCL, on a stream of its own beside the gradient."""

import os
from collections.abc import Hashable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Decode, Pending
from gossip.comm.startup.machine import machine
from gossip.comm.transports.blocks import Finish
from gossip.comm.transports.gloo import Gloo, as_bytes, as_lost_connection, destroy
from gossip.comm.transports.message_plan import MessagePlan
from gossip.errors import UserError

SHARED_GPUS_FROM = (2, 31)
"""Version of NCCL that lets several processes use one GPU ..."""
SHARED_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"
"""... if this variable is 1."""


class Nccl(Gloo):
    """n learners in equal blocks on the processes of a job, one GPU for each process.

    What lies on GPUs goes by NCCL, without a copy on the host; the processes' words, and what
    lies on the CPU, by Gloo. A mix has a stream of its own, so that messages and sums run beside
    the gradient; its end is waited for by the stream of whoever asks for the result, not by the
    host. So `traffic.seconds_waiting` does not contain it, and a message that does not come is not
    seen by `waiting`: torch's own watchdog ends the process, by default after 10 minutes.

    The messages of a mix are one group of NCCL's: those make progress together, in whatever order
    the peers come to theirs (NCCL's guide, "Point-to-point communication" and "Group calls"), and
    groups and sums follow each other in the same order everywhere, so nothing can wait crosswise.
    Between two processes the messages of a group match in the order of learners, which both sides
    have. That subsets of the processes may call is guaranteed only after a first call by all.

    Args:
        n: number of learners.
        device: the GPU of this process's rows; "cuda": torch's current one.
        wire: as of `Blocks`.

    Raises:
        UserError: processes share a GPU that this NCCL does not let them share; on all.
    """

    backend = "nccl"

    def __init__(self, n: int, *, device: str = "cuda", wire: torch.dtype | None = None) -> None:
        super().__init__(n, wire=wire)
        name = str(torch.cuda.get_device_properties(device).uuid)
        check_gpus(self.share([repr(machine()), name]), torch.cuda.nccl.version(), os.environ)
        self._gpus: Any = dist.new_group(backend="nccl")
        self._stream = torch.cuda.Stream(device)
        self._add_up(torch.zeros(1, device=device))

    def close(self) -> None:
        """Let go of torch.distributed; there are no more calls."""
        group, self._gpus = self._gpus, None
        destroy(group)
        super().close()

    def _place(self) -> Hashable:
        """No two processes see the same memory."""
        return None

    def _carrier(self, x: Tensor) -> Any:
        """The group of torch.distributed that sends such a tensor."""
        return self._gpus if x.is_cuda else self._group

    def _staged(self, x: Tensor) -> Tensor:
        """`x` where it is; see `Blocks`."""
        return x

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """Start X <- W X; see `Communicator.start_mix`.

        On a GPU the whole mix is queued at once, on the stream for mixes: its waits for messages
        are that stream's. The returned call holds `x`; when it has been made, nothing reads `x`
        that the asking stream does not wait for. Arrivals are written and read on the one stream.
        """
        if not x.is_cuda:
            return super().start_mix(x, w, decode)
        self._stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(self._stream):
            mixed = super().start_mix(x, w, decode)()
            done = self._stream.record_event()

        def pending() -> Tensor:
            stream = torch.cuda.current_stream(x.device)
            stream.wait_event(done)
            mixed.record_stream(stream)  # its memory belongs to the stream for mixes
            return mixed

        return pending

    def _exchange(self, plan: MessagePlan, rows: Tensor, arrivals: Tensor) -> Finish:
        """Start the messages of a plan; see `Blocks`."""
        start = self._as_group if rows.is_cuda else super()._exchange
        return start(plan, rows, arrivals)

    def _as_group(self, plan: MessagePlan, rows: Tensor, arrivals: Tensor) -> Finish:
        """Exchange rows as `_exchange` does, in one NCCL group."""
        first, group = self.hosted.start, self._carrier(rows)
        calls: list[Any] = [
            dist.P2POp(dist.irecv, as_bytes(arrival), process, group=group)
            for arrival, (_, process) in zip(arrivals, plan.far, strict=True)
        ]
        calls += [
            dist.P2POp(dist.isend, as_bytes(rows[k - first]), process, group=group)
            for k, process in plan.sends
        ]
        with as_lost_connection():
            works = dist.batch_isend_irecv(calls) if calls else []

        def finish() -> None:
            for work in works:
                work.wait()  # lets the current stream wait

        return finish


def check_gpus(
    places: list[list[str]], version: tuple[int | str, ...], environment: Mapping[str, str]
) -> None:
    """Check that each process has a GPU of its own, or may share it.

    Args:
        places: host and name of the GPU of each process.
        version: of NCCL.
        environment: of this process.

    Raises:
        UserError: otherwise, with the reason.
    """
    shared = [p for p, place in enumerate(places) if places.count(place) > 1]
    able, allowed = version[:2] >= SHARED_GPUS_FROM, environment.get(SHARED_GPUS) == "1"
    if not shared or (able and allowed):
        return
    here = ".".join(map(str, version))
    least = ".".join(map(str, SHARED_GPUS_FROM))
    raise UserError(
        f"processes {', '.join(map(str, shared))} share GPUs, which NCCL allows from version "
        f"{least} on with {SHARED_GPUS}=1; here are NCCL {here} and {SHARED_GPUS}="
        f"{environment.get(SHARED_GPUS, '')}: start as many processes on a host as it has GPUs "
        "(each may host several learners), each on its own (gossip.task.device.place), or use the "
        "backend mpi or gloo"
    )
