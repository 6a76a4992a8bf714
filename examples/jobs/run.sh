#!/bin/sh
# Begins a run in the folder $RUN, or goes on with the one that is there: RUN=runs/A run.sh OPTIONS
#
# Every process of a job is this script, each time the job is started. config.toml is written only
# when all of them have met, so that either all find it or none does.
set -eu
if [ -f "$RUN/config.toml" ]; then
    exec python -m gossip.run --resume "$RUN"
fi
exec python -m gossip.run --out "$RUN" "$@"
