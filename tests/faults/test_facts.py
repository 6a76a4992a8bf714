"""Processes that exist are used or refused: none trains alone because nobody has announced it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gossip.comm import connect as start
from gossip.comm.startup import ancestry, launchers, rendezvous, together
from gossip.comm.startup.environment import CutOffError, speaks
from gossip.errors import UserError
from gossip.launch import mpirun as launch
from tests.faults.jobs import MPIRUN, NEED_MPI
from tests.machine import patience
from tests.start import PYTHONPATH

MOST_SECONDS = 110.0
"""For what takes some ten; guards against a hang."""
SPAWNED = Path(__file__).with_name("spawned.py")
CHILD = """
import os, subprocess, sys
if "mpi" in sys.argv[1]:
    from mpi4py import MPI
else:
    import torch
if "0" in map(os.environ.get, ("PMI_RANK", "RANK", "OMPI_COMM_WORLD_RANK")):
    for command in eval(sys.argv[2]):
        subprocess.run(command, close_fds="inherit" not in sys.argv[1], check=True)
"""
ALONE = """
import torch
from gossip import Gossip
from gossip.comm.startup import launchers
print(Gossip(torch.nn.Linear(1, 1)).comm.n, launchers.launched(), flush=True)
"""
TOOLS = ("topologies ring -n 4", "gossip.data list")
# In one write: the pieces of two processes' prints may come between each other.
SIZE = """\
import os
from gossip.comm.startup.launchers import launched
os.write(1, f'size {launched().size}\\n'.encode())"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in {*launchers.ADDRESS, launchers.AGENT, *(n for s in launchers.SIGNS for n in s)}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(ancestry.CONNECTION, raising=False)


def environment(monkeypatch, names, *values):
    for name, value in zip(names, values, strict=False):
        monkeypatch.setenv(name, str(value))


def spawned(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SPAWNED), str(folder), *words],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=patience(MOST_SECONDS),
        check=False,
    )


class TestTorchDistributed:
    """The user's program has let processes find each other."""

    @pytest.mark.timeout(MOST_SECONDS)
    @pytest.mark.usefixtures("forking")
    @pytest.mark.parametrize("words", [["train", "spawn"], ["gloo", "fork"]])
    def test_the_wrapper_averages_over_the_group(self, tmp_path, words):
        done = spawned(tmp_path, *words)
        assert (done.returncode, done.stdout) == (0, "2 0.5\n"), done.stderr

    @pytest.mark.timeout(MOST_SECONDS)
    @pytest.mark.usefixtures("forking")
    def test_a_run_is_one_of_all_its_processes(self, tmp_path):
        done = spawned(tmp_path, "run", "fork")
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert (found["processes"], found["backend"], found["steps"]) == (2, "gloo", 6)

    @pytest.mark.parametrize(
        ("backend", "text"),
        [
            ("mpi", "these 2 only know each other by torch.distributed"),
            ("stacked", "keeps all learners in one process, but 2 were started"),
        ],
    )
    def test_a_backend_that_does_not_fit_is_refused(self, monkeypatch, backend, text):
        monkeypatch.setitem(sys.modules, "torch.distributed", Group(1, 2))
        with pytest.raises(UserError, match=text):
            start.choose_backend(backend, 4)


class Group:
    """torch.distributed, or mpi4py.MPI, after its start."""

    def __init__(self, rank, size):
        self.COMM_WORLD = SimpleNamespace(rank=rank, size=size)
        self.is_available = self.is_initialized = self.Is_initialized = lambda: True
        self.Is_finalized = lambda: False
        self.get_rank, self.get_world_size = lambda: rank, lambda: size


class TestContradictions:
    @pytest.mark.parametrize(
        ("by", "value", "module", "fact"),
        [
            (launchers.HYDRA, (1, 4, 4, 1), "torch.distributed", (1, 2)),
            (launchers.TORCHRUN, (0, 1, 1, 0), "torch.distributed", (1, 2)),
            (launchers.TORCHRUN, (0, 2, 2, 0), "mpi4py.MPI", (1, 2)),
            (launchers.SLURM, (0, 1), "mpi4py.MPI", (0, 2)),
        ],
    )
    def test_what_is_said_and_what_exists(self, monkeypatch, by, value, module, fact):
        environment(monkeypatch, by, *value)
        monkeypatch.setitem(sys.modules, module, Group(*fact))
        rank, size = value[:2]
        expected = rf"this is process {rank} of {size} by .*, but process {fact[0]} of {fact[1]} by"
        with pytest.raises(CutOffError, match=expected):
            together.together(lambda: None)
        with pytest.raises(UserError, match="start the processes in one way"):
            start.choose_backend("auto", 4)

    def test_two_facts(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch.distributed", Group(0, 2))
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", Group(0, 4))
        with pytest.raises(UserError, match=r"0 of 2 by .*torch.dist.*, but .* 0 of 4 by .*MPI"):
            start.choose_backend("auto", 4)

    def test_what_is_left_of_a_torchrun(self, monkeypatch):
        """Its four names say 1, and mpirun's 2: each would train alone."""
        environment(monkeypatch, launchers.TORCHRUN, 0, 1, 1, 0)
        environment(monkeypatch, launchers.HYDRA, 1, 2)
        with pytest.raises(UserError, match=r"torchrun \(RANK, WORLD_SIZE\), but .* 1 of 2 by"):
            start.choose_backend("auto", 4)

    @pytest.mark.parametrize("outer", [launchers.HYDRA, launchers.PRRTE, launchers.SLURM])
    def test_a_torchrun_on_each_host_is_none(self, monkeypatch, outer):
        environment(monkeypatch, outer, 1, 2)
        environment(monkeypatch, launchers.TORCHRUN, 3, 8, 4, 3)
        monkeypatch.setenv(launchers.AGENT, "none")
        assert launchers.contradiction() is None
        assert launchers.launched() == launchers.Launched(3, 8, 4, 3)

    def test_an_mpirun_in_a_step_of_slurm_is_none(self, monkeypatch):
        environment(monkeypatch, launchers.SLURM, 0, 1)
        environment(monkeypatch, launchers.PRRTE, 1, 4, 4, 1)
        assert launchers.contradiction() is None

    def test_the_same_said_twice_is_none(self, monkeypatch):
        environment(monkeypatch, launchers.PRRTE, 1, 4, 2, 1)
        environment(monkeypatch, launchers.TORCHRUN, 1, 4, 2, 1)
        monkeypatch.setitem(sys.modules, "torch.distributed", Group(1, 4))
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", Group(1, 4))
        assert launchers.contradiction() is None
        assert launchers.launched() == launchers.Launched(1, 4, 2, 1)


def test_an_mpi_whose_launcher_is_unknown_is_a_fact(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", Group(2, 4))
    assert launchers.launched() == launchers.Launched(2, 4)
    assert rendezvous.meets_by_mpi()
    assert not speaks()


def test_what_torch_asks_for_is_a_start_by_hand(monkeypatch):
    """RANK and WORLD_SIZE with an address: env://, as Kubernetes' jobs have it."""
    environment(monkeypatch, ("RANK", "WORLD_SIZE"), 1, 2)
    assert launchers.launched() is None
    environment(monkeypatch, launchers.ADDRESS, "localhost", 29500)
    assert launchers.launched() == launchers.Launched(1, 2)


@pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment")
class TestChildren:
    """What a process of a job starts by itself is not one of the job."""

    pytestmark = NEED_MPI[1:2]

    @pytest.fixture
    def from_a_rank(self, start_command, tmp_path):
        """The output of commands that process 0 of two has started."""
        program = tmp_path / "program.py"
        program.write_text(CHILD)

        def ended(kind: str, *commands: list[str]) -> str:
            mpirun = [MPIRUN, "-n", "2", sys.executable]
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
            launcher = torchrun if kind == "torch" else mpirun
            job = start_command([*launcher, str(program), kind, repr(commands)])
            done = job.end(MOST_SECONDS)
            assert done.code == 0, done.text
            return done.text

        return ended

    @pytest.mark.timeout(MOST_SECONDS)
    @pytest.mark.parametrize("kind", ["mpi", "mpi, inherit", "torch"])
    def test_it_trains_alone_and_says_so_and_tools_run(self, from_a_rank, kind):
        tools = [[sys.executable, "-m", *words.split()] for words in TOOLS]
        text = from_a_rank(kind, [sys.executable, "-c", ALONE], *tools)
        assert "1 None" in text
        assert "process 0 of a job of 2 has started this one, which is none of that job" in text

    @pytest.mark.timeout(MOST_SECONDS)
    def test_it_may_start_a_job_of_its_own(self, from_a_rank):
        text = from_a_rank("mpi", [MPIRUN, "-n", "3", sys.executable, "-c", SIZE])
        assert text.count("size 3") == 3

    @pytest.mark.timeout(MOST_SECONDS)
    def test_a_shell_between_is_none_of_the_job(self, start_command):
        line = f"'{sys.executable}' -c \"{SIZE}\"; true"
        ended = start_command([MPIRUN, "-n", "2", "sh", "-c", line]).end(MOST_SECONDS)
        assert ended.text.count("size 2") == 2


def test_the_launcher_hands_on_nothing_of_another(monkeypatch):
    environment(monkeypatch, launchers.HYDRA, 1, 4, 4, 1)
    inherited = launch.environment_for("mpich", {**os.environ, "OMPI_MCA_btl": "self"})
    assert not {*launchers.HYDRA} & inherited.keys()
    assert inherited["OMPI_MCA_btl"] == "self"
