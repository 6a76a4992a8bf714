#!/bin/bash
#SBATCH --job-name=gossip
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# A run on Slurm, which goes on where the time of a job is up: sbatch examples/jobs/slurm.sh OPTIONS
#
# In a checkout on a file system that all nodes share, where `python` finds this package. Two
# minutes before its end a job's processes get SIGUSR1: they keep a checkpoint of that very step
# and end with 130. Then, and where Slurm itself requeues the job since a node was lost, the job
# begins again under its old number and so goes on with the same folder.
#
# Without MPI, over TCP. With a cluster's own MPI, for which mpi4py was built: MPI=pmix or pmi2.
set -u
export RUN="${RUN:-runs/slurm-$SLURM_JOB_ID}"
export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
# From Slurm 22.05 on srun binds a task to one core unless it is told of sbatch's number itself.
export SRUN_CPUS_PER_TASK="$OMP_NUM_THREADS"
srun --mpi="${MPI:-none}" examples/jobs/run.sh --learners 16 --checkpoint-every 500 "$@"
code=$?
case "$code" in
130 | 138) scontrol requeue "$SLURM_JOB_ID" ;; # 138: it came before the run listened
esac
exit "$code"
