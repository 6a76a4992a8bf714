"""The first part writes the facts of the machine into machine.json; without a GPU, no check."""

import importlib.util
import shutil
import subprocess
import sys
from typing import Any

import torch

from experiments.bench import facts
from experiments.gpu_check.job import Job, main


def describe(job: Job) -> None:
    """CPU and GPU, and the versions of what runs on them."""
    facts.write(facts.machine() | {"device": job.device, **gpu(job.device)}, job.file)


def gpu(device: str) -> dict[str, Any]:
    """Name of the first GPU and the number of GPUs; none where the CPU is to be used."""
    if device != "cuda":
        return {"gpus": 0}
    first = torch.cuda.get_device_properties(0)
    return {
        "gpus": torch.cuda.device_count(),
        "gpu": first.name,
        "gpu_memory_bytes": first.total_memory,
        "compute_capability": f"{first.major}.{first.minor}",
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "triton": importlib.util.find_spec("triton") is not None,
    }


def _driver() -> str | None:
    """Version of NVIDIA's driver, where its tool is installed."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main(describe))
