"""The command line checks that every module is there before it imports one that may be missing."""

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gossip.comm.startup.inherited import heard
from gossip.errors import UserError
from topologies.terminal import lossy_output

NEEDED = (
    "torch",
    "numpy",
    "scipy",
    "networkx",
    "matplotlib",
    "msgspec",
    "pyarrow",
    "rich",
    "safetensors",
    "tomli_w",
    "tyro",
)
"""Modules that must be installed; mpi4py need not be, as torchrun does without."""


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0, 1 if an equality or a part has failed, 2 for a mistake."""
    options = _parser().parse_args(argv)
    for signum in heard(signal.SIGTERM):
        signal.signal(signum, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        check_imports(NEEDED)
        check_nccl(options.nccl)
        from experiments.gpu_check.driver import Driver

        backend = options.backend or {"cuda": "nccl", "cpu": "gloo"}[options.device]
        how = options.device, backend, options.smoke, options.nccl, options.only, options.out
        return Driver(*how).run()
    except UserError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"gpu-check: stopped; {options.out} keeps what is done", file=sys.stderr)
        return 130


def check_imports(names: Sequence[str]) -> None:
    """Check that all modules are there, without importing them.

    Raises:
        UserError: otherwise.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"{sys.executable} lacks {', '.join(missing)}: put them into a folder on PYTHONPATH, "
            "as experiments/gpu_check/README.md says"
        )


def check_nccl(file: Path | None) -> None:
    """Check that the NCCL library exists."""
    if file is not None and not file.is_file():
        raise UserError(f"--nccl {file}: there is no such file; give the path of a libnccl.so.2")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.gpu_check",
        description="Check the GPU code on one GPU, in under 8 minutes: equality with the stacked "
        "backend, overlap, speed, memory and mixed precision.",
        allow_abbrev=False,
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--backend", choices=("nccl", "gloo"), help="default: nccl, on the CPU gloo"
    )
    parser.add_argument(
        "--nccl",
        type=Path,
        metavar="FILE",
        help="another libnccl.so.2, loaded in place of torch's (several processes on one GPU need "
        "2.31 or newer)",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="try the code in seconds; its numbers mean nothing"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="PART", help="files of others stay (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-check"), help="folder (default: gpu-check)"
    )
    return parser
