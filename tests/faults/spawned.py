"""Two processes that torch.multiprocessing starts and that find each other by a file.

Usage: spawned.py FOLDER DEED [METHOD], with DEED one of `train` (the wrapper), `run` (gossip.run)
or a backend of the wrapper. Process 0 prints what came of it.
"""

import shlex
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from gossip import Gossip
from gossip.report import figures
from gossip.run import main

RUN = shlex.split(
    "--dataset digits --batch-size 10 --learners 2 --widths 4 --lr 0.1 --steps 6 --algorithm dpsgd"
    " --monitor cheap --dtype float64 --out"
)


def work(process: int, folder: str, deed: str) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=process, world_size=2)
    if deed == "run":
        # A picture takes longer than the run.
        figures.study_figure, figures.save = (lambda runs: None), (lambda figure, path: path)
        code = main([*RUN, f"{folder}/run"])
        assert code == 0
    else:
        wrapped(process, "auto" if deed == "train" else deed)
    dist.destroy_process_group()


def wrapped(process: int, backend: str) -> None:
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    torch.nn.init.constant_(model.weight, 1.0)
    learner = Gossip(model, topology="complete", order="atc", backend=backend)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.5)
    # w <- 1 - 0.5 * (0 + 2) / 2
    learner(torch.full((1, 1), 2.0 * process, dtype=torch.float64)).sum().backward()
    optimizer.step()
    with learner.average() as mean:
        if process == 0:
            print(learner.comm.n, mean.weight.item(), flush=True)


if __name__ == "__main__":
    folder, deed, method = (*sys.argv[1:4], "spawn")[:3]
    mp.start_processes(work, (folder, deed), nprocs=2, start_method=method)
