"""A wrong start is one clear error before training, and never a hang."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gossip.comm import connect
from gossip.comm.stacked import Stacked
from gossip.comm.startup import environment, launchers, together
from gossip.errors import UserError
from gossip.launch import mpirun as launch
from tests.machine import patience

ROOT = Path(__file__).parents[2]
CONNECT = "from gossip.comm.connect import connect; connect({backend!r}, {n})"
BLOCKED = "import sys; sys.modules['mpi4py'] = None; "


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for names in launchers.SIGNS:
        for name in names:
            monkeypatch.delenv(name, raising=False)


def last_line(code: str, **environment: str) -> str:
    """The last line that a fresh Python prints when it runs `code`, which must fail."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("names", launchers.SIGNS)
def test_launched_reads_what_the_launcher_says(monkeypatch, names):
    assert launchers.launched() is None
    for name, value in zip(names, ("1", "4", "2", "1"), strict=True):
        monkeypatch.setenv(name, value)
    assert launchers.launched() == launchers.Launched(1, 4, 2, 1)
    assert not environment.speaks()


def test_a_single_process_is_stacked():
    assert isinstance(connect.connect("auto", 3), Stacked)


def test_stacked_under_mpirun_is_an_error(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "4")
    with pytest.raises(UserError, match=r"4 were started.*each would train all 8"):
        connect.choose_backend("stacked", 8)


def test_an_unknown_backend_lists_the_known():
    with pytest.raises(UserError, match=r"did you mean mpi.*auto, stacked, mpi, gloo, nccl"):
        connect.choose_backend("mpl", 8)


def test_processes_that_do_not_divide_the_learners_are_an_error(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "3")
    with pytest.raises(UserError, match=r"16 learners on 3 processes.*1, 2, 4, 8, 16 processes"):
        connect.choose_backend("auto", 16)


@pytest.mark.parametrize("names", [launchers.PRRTE, launchers.HYDRA])
def test_a_foreign_mpirun_is_an_error(names):
    pytest.importorskip("mpi4py")
    foreign = "PMI_SIZE" if "Open MPI" in mpi_version() else "OMPI_COMM_WORLD_SIZE"
    if foreign not in names:
        pytest.skip("the launcher of this MPI")
    environment = dict(zip(names, ("0", "4", "4", "0"), strict=True))
    line = last_line(CONNECT.format(backend="auto", n=4), **environment)
    assert "mpirun started 4 processes, but MPI sees 1" in line
    assert "mpi4py uses" in line


def test_an_srun_that_speaks_another_pmi_is_told_of_srun():
    pytest.importorskip("mpi4py")
    environment = dict(zip(launchers.SLURM, ("0", "4", "4", "0"), strict=True))
    line = last_line(CONNECT.format(backend="auto", n=4), **environment, PMI_JOBID="2.1")
    assert "srun started 4 processes, but MPI sees 1" in line
    assert "--mpi=none" in line


def mpi_version() -> str:
    """The library's version, asked in a process of its own: this one stays without MPI."""
    code = "from mpi4py import MPI; print(MPI.Get_library_version())"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_missing_mpi4py_is_an_error():
    line = last_line(BLOCKED + CONNECT.format(backend="mpi", n=4))
    assert "needs mpi4py" in line
    assert "pip install mpi4py mpich (the extra gossip-sgd[mpi])" in line


def test_a_process_without_mpi4py_speaks_for_itself():
    code = BLOCKED + "from gossip.run import main; sys.exit(main([]))"
    line = last_line(code, PMI_RANK="1", PMI_SIZE="2")
    assert line.startswith("gossip.run: backend 'mpi' needs mpi4py")


def test_stacked_needs_no_mpi4py():
    code = BLOCKED + CONNECT.format(backend="auto", n=4) + "; sys.exit('fine')"
    assert last_line(code) == "fine"


def test_only_too_many_processes_yield(monkeypatch):
    monkeypatch.delenv("MPIR_CVAR_ENABLE_HEAVY_YIELD", raising=False)
    monkeypatch.setenv("PMI_RANK", "0")
    for local, expected in (
        (environment.num_cores(), None),
        (environment.num_cores() + 1, "1"),
    ):
        monkeypatch.setenv("PMI_SIZE", str(local))
        monkeypatch.setenv("MPI_LOCALNRANKS", str(local))
        environment.prepare_environment()
        assert os.environ.get("MPIR_CVAR_ENABLE_HEAVY_YIELD") == expected


def test_threads_are_the_users_choice(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    environment.prepare_environment()
    assert os.environ["OMP_NUM_THREADS"] == "7"


class Told:
    """A communicator whose processes have said what the test says."""

    hosted = range(2)

    def __init__(self, *told):
        self.told = list(told)

    def share(self, value):
        return [value, *self.told]


def test_agreement_is_silent():
    together.agree(Told({"config": "a"}), {"config": "a"})


def test_disagreement_names_fact_processes_learners_and_values():
    comm = Told({"config": "a", "code": "2"}, {"config": "a", "code": "1"})
    with pytest.raises(UserError) as error:
        together.agree(comm, {"config": "a", "code": "1"})
    assert str(error.value) == (
        "the processes disagree about code: 1 on processes 0, 2 (learners 0, 1, 4, 5), "
        "2 on process 1 (learners 2, 3)"
    )


@pytest.mark.parametrize("n", ["0", "-3"])
def test_the_launcher_needs_a_process(n, capsys):
    assert launch.main(["-n", n]) == 2
    assert f"-n {n}: a run needs at least one process" in capsys.readouterr().err


def test_the_launcher_needs_an_mpirun(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launch.main([]) == 2
    assert "no mpirun" in capsys.readouterr().err


def test_unknown_options_go_to_the_module():
    options, rest = launch.parsed(["-n", "4", "--topology", "ring", "--lr", "0.1"])
    assert (options.n, options.module) == (4, "gossip.run")
    assert rest == ["--topology", "ring", "--lr", "0.1"]
    assert launch.parsed(["--", "-n", "3"])[1] == ["-n", "3"]
