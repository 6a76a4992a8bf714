"""A DataLoader's worker processes, under mpirun: they are none of the job's, and read the same."""

import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from gossip.launch import mpirun as launch
from tests.start import CHECKOUT

SCRIPT = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    from gossip import Gossip

    class Squares(Dataset):
        def __len__(self):
            return 12
        def __getitem__(self, i):
            return torch.tensor([i, i * i], dtype=torch.float64) / 10

    def walked(**options):
        torch.manual_seed(0)
        module = torch.nn.Linear(2, 1).double()
        model = Gossip(module, "ring")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = DataLoader(Squares(), batch_size=3, **options)
        for _ in range(2):
            for x in loader:
                optimizer.zero_grad()
                (model(x + model.comm.process) - 1).square().mean().backward()
                optimizer.step()
        return module.weight.detach()

    if __name__ == "__main__":
        from mpi4py import MPI  # not in workers that are spawned, which are none of the job
        alone = walked()
        options = {"num_workers": 1, "persistent_workers": True}
        for start in ("fork", "forkserver" if MPI.COMM_WORLD.rank else "spawn"):
            helped = walked(**options, multiprocessing_context=start)
            assert torch.equal(alone, helped), start
            print("the same", flush=True)
"""


@pytest.mark.timeout(300)  # a worker imports torch anew
@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
@pytest.mark.usefixtures("forking")
def test_workers_of_a_data_loader_give_the_same_weights_however_they_start(tmp_path):
    """One process spawns what the other has from a server: each of these workers imports torch."""
    script = tmp_path / "script.py"
    script.write_text(dedent(SCRIPT))
    mpirun = launch.find_mpirun()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    environment = launch.environment_for(
        launch.kind_of(mpirun), {**clean, "PYTHONPATH": CHECKOUT, "OMP_NUM_THREADS": "1"}
    )
    command = [mpirun, "-n", "2", sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("the same")) == (0, 4), done.stdout + done.stderr
