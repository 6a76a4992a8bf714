#!/bin/sh
# A run of torchrun on several nodes, which may come and go: on each of them
#
#     HEAD=first-node RUN=/shared/runs/A examples/jobs/torchrun.sh OPTIONS
#
# in a checkout, with RUN on a file system that all share. When a node is lost, or one comes, all
# processes start again and go on from the last checkpoint, on as many as there are then: their
# number has to divide the learners, as 1, 2, 3 and 4 nodes of 4 processes divide 48. Only HEAD,
# where they meet, has to stay.
set -eu
: "${HEAD:?is the name of the node where all meet}" "${RUN:?is the run folder}"
export RUN OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec torchrun --nnodes="${NODES:-1:4}" --nproc-per-node="${PROCESSES:-4}" --max-restarts=100 \
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:${PORT:-29400}" --rdzv-id="${JOB:-gossip}" \
    --no-python -- "$(dirname "$0")/run.sh" --learners 48 --checkpoint-every 500 "$@"
