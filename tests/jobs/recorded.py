"""What launchers put into the environment of a process, as recorded, and what it means.

torchrun 2.13 (the variables `PET_...` are what Kubeflow Trainer 2.2 gives its pods), MPICH 5.0.2,
Open MPI 5.0.11, Ray 2.60 and Slurm 22.05 (one node, two tasks) were run; a Slurm step on two nodes
is as Slurm's manual has it. Left out: the numbers of open files (PMI_FD), which say something only
to the process that was started.
"""

from typing import NamedTuple

from gossip.comm.startup.launchers import Launched


class Recorded(NamedTuple):
    """A process as its launcher began it."""

    variables: dict[str, str]
    means: Launched | None
    """None: it is alone."""
    by_mpi: bool
    """Whether the processes find each other by MPI."""


_TORCHRUN = {
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "40175",
    "RANK": "1",
    "ROLE_NAME": "default",
    "ROLE_RANK": "1",
    "ROLE_WORLD_SIZE": "2",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_RUN_ID": "c1d92ca6-6090-44ae-96e6-f943a613acad",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "WORLD_SIZE": "2",
}
_KUBEFLOW = _TORCHRUN | {
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "gossip-node-0-0.gossip",
    "MASTER_PORT": "29500",
    "PET_MASTER_ADDR": "gossip-node-0-0.gossip",
    "PET_MASTER_PORT": "29500",
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "1",
    "TORCHELASTIC_RUN_ID": "none",
}
_RAY = {
    "ACCELERATE_TORCH_DEVICE": "cpu",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "192.0.2.2",
    "MASTER_PORT": "49879",
    "NODE_RANK": "0",
    "RANK": "1",
    "WORLD_SIZE": "2",
}
_MPICH = {
    "MPI_LOCALNRANKS": "2",
    "MPI_LOCALRANKID": "1",
    "PMI_HOSTNAME": "first",
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
}
_OPEN_MPI = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_NODE_RANK": "1",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMIX_HOSTNAME": "first",
    "PMIX_NAMESPACE": "prterun-first-18721@1",
    "PMIX_RANK": "1",
    "PRTE_LAUNCHED": "1",
}
_SBATCH = {
    "SLURM_JOB_ID": "2",
    "SLURM_JOB_NODELIST": "first",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_TASKS_PER_NODE": "2",
}
_SRUN = _SBATCH | {
    "SLURM_LOCALID": "1",
    "SLURM_PROCID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "first",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}
_SRUN_PMI2 = {"PMI_JOBID": "2.1", "PMI_RANK": "1", "PMI_SIZE": "2"}
_SRUN_NODES = _SRUN | {
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "9",
    "SLURM_STEP_NODELIST": "node[07-08]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_STEP_TASKS_PER_NODE": "8(x2)",
}

RECORDED = {
    "nobody": Recorded({}, None, by_mpi=False),
    "torchrun": Recorded(_TORCHRUN, Launched(1, 2, 2, 1), by_mpi=False),
    "torchrun in a pod of Kubeflow": Recorded(_KUBEFLOW, Launched(1, 2, 1, 0), by_mpi=False),
    "Ray Train": Recorded(_RAY, Launched(1, 2, 2, 1), by_mpi=False),
    "mpirun of MPICH": Recorded(_MPICH, Launched(1, 2, 2, 1), by_mpi=True),
    "mpirun of Open MPI": Recorded(_OPEN_MPI, Launched(1, 2, 2, 1), by_mpi=True),
    "the script of sbatch": Recorded(_SBATCH, None, by_mpi=False),
    "srun": Recorded(_SRUN, Launched(1, 2, 2, 1), by_mpi=False),
    "srun --mpi=pmi2": Recorded(_SRUN | _SRUN_PMI2, Launched(1, 2, 2, 1), by_mpi=True),
    "srun on two nodes": Recorded(_SRUN_NODES, Launched(9, 16, None, 1), by_mpi=False),
    "mpirun of MPICH in sbatch": Recorded(_SBATCH | _MPICH, Launched(1, 2, 2, 1), by_mpi=True),
    "torchrun by srun": Recorded(_SRUN | _TORCHRUN, Launched(1, 2, 2, 1), by_mpi=False),
}
