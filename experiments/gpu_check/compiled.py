"""torch.compile is timed in a part of its own, as compiling may take longer than all else."""

import importlib.util
import sys

from experiments.bench import rows as table
from experiments.gpu_check.job import Job, main
from experiments.gpu_check.switches import compared
from experiments.gpu_check.training import resnet
from gossip.config.compute import Compute
from gossip.errors import UserError


def measure(job: Job) -> None:
    """Time ResNets, compiled and not, in float32 and in bf16.

    Raises:
        UserError: there is no GPU, or nothing that compiles for it.
    """
    size, device = job.size, job.device
    if device != "cuda":
        raise UserError("torch.compile is tried on a GPU only; docs/compute.md has it on a CPU")
    if importlib.util.find_spec("triton") is None:
        raise UserError("torch.compile needs Triton on a GPU, and it is missing here")
    net, learners = resnet(size.resnet_options), size.switched_learners
    for amp in ("off", "bf16"):
        sides = {
            f"as it comes, amp {amp}": Compute(device=device, amp=amp),
            f"compiled, amp {amp}": Compute(device=device, amp=amp, compile=True),
        }
        table.append(compared(job, net, learners, size.switched_batch, sides), job.file)


if __name__ == "__main__":
    sys.exit(main(measure))
