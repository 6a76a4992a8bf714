"""Processes that know no MPI: started by torchrun, or by srun; how they begin, and how they end."""

import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gossip.comm import connect
from gossip.comm.startup import environment, launchers, rendezvous
from gossip.comm.transports import nccl
from gossip.comm.transports.nccl import SHARED_GPUS, check_gpus
from gossip.errors import UserError
from tests.faults.command_runs import run, table
from tests.faults.jobs import AS_USERS, NEED_MPI, ROOT, START_SECONDS
from tests.machine import patience

pytestmark = [*NEED_MPI[1:3], pytest.mark.usefixtures("forking")]  # no MPI in it: run once

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
JOB = str(Path(__file__).with_name("job.py"))
OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --widths 8 --lr 0.1 --steps 10 --dtype float64"
    " --topology exponential --algorithm dpsgd --monitor cheap"
)


@pytest.fixture
def start_job(start_command):
    """Starts job.py under torchrun."""
    command = [*TORCHRUN, "2", JOB]
    return lambda *arguments, **environment: start_command([*command, *arguments], **environment)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for names in launchers.SIGNS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    rendezvous.store.cache_clear()
    yield
    rendezvous.store.cache_clear()


@pytest.mark.timeout(110)
def test_a_run_under_torchrun_is_the_stacked_run(start_command, tmp_path):
    """As users have it, so some 10 s: torchrun and both processes import all of torch."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    module = ["-m", "--", "gossip.run", *OPTIONS, "--out"]  # torchrun has a --monitor-interval
    assert run(tmp_path, *OPTIONS, "--out", str(alone)).code == 0
    job = start_command([*TORCHRUN, "2", *module, str(together)], **AS_USERS)
    ended = job.end(2 * START_SECONDS)
    assert ended.code == 0, ended.text
    assert ended.text.count("verdict") == 1
    assert '"backend": "gloo"' in (together / "summary.json").read_text()
    rows, expected = table(together), table(alone)
    for name in expected.keys() - {"seconds_waiting"}:
        assert rows[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-12, nan_ok=True), name


def test_a_failing_process_ends_the_job(start_job):
    ended = start_job("fail", "1", JOB_BACKEND="gloo-messages", JOB_LEARNERS="4").end(START_SECONDS)
    assert ended.code == 1
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert line.endswith("failed at step 17 in gradient: ValueError: that gradient is no good")


def test_a_mistake_on_the_command_line_is_told_once(start_command):
    command = [*TORCHRUN, "2", "-m", "gossip.run", "--topology", "rign"]
    ended = start_command(command).end(START_SECONDS)
    [line] = [line for line in ended.told() if line.startswith("gossip.run: ")]
    assert "did you mean 'ring'?" in line


def variables_set(monkeypatch, **variables: object) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_meeting_to_which_nobody_comes_is_an_error(monkeypatch, rank):
    variables_set(monkeypatch, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2)
    variables_set(monkeypatch, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    monkeypatch.setattr(rendezvous, "MEETING_SECONDS", 1.0)
    with pytest.raises(
        environment.CutOffError, match=rf"process {rank} of 2 cannot meet.*MASTER_ADDR"
    ):
        rendezvous.everyone("here")


def test_gloos_threads_end_before_python_does():
    """One that needs Python later, to free what it has sent, would end the process by a signal."""
    program = """if True:
        import time
        from contextlib import suppress
        from pathlib import Path
        from gossip.comm.connect import connect
        from gossip.comm.transports import gloo
        from tests.machine import patience

        def threads():
            count = 0
            for file in Path("/proc/self/task").glob("*/comm"):
                with suppress(OSError):  # it has just ended
                    count += "gloo" in file.read_text()
            return count

        comm = connect("gloo", 2)
        comm.share("a word")
        before = threads()
        gloo._end()
        deadline = time.monotonic() + patience(5)
        while threads() and time.monotonic() < deadline:
            time.sleep(0.01)  # one that is over stays there for a moment
        print(before > 0, threads(), comm.n)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, check=True
    )
    assert done.stdout == "True 0 2\n"


def test_the_mpi_backend_under_torchrun_is_an_error(monkeypatch):
    variables_set(monkeypatch, RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=2)
    with pytest.raises(UserError, match=r"needs processes that mpirun.*torchrun.*--backend gloo"):
        connect.choose_backend("mpi", 4)


def test_a_rank_and_a_size_alone_are_not_torchruns(monkeypatch):
    variables_set(monkeypatch, RANK=0, WORLD_SIZE=2)
    assert launchers.launched() is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n7", "n7"), ("n[03-05,9]", "n03"), ("a1,b2", "a1"), ("gpu-[12,14]", "gpu-12")],
)
def test_slurms_processes_meet_on_their_first_host(monkeypatch, nodes, first):
    variables_set(monkeypatch, SLURM_STEP_NODELIST=nodes, SLURM_JOB_ID=31234, SLURM_STEP_ID=1)
    assert rendezvous.slurm_address() == (first, 21235)


def test_slurms_processes_meet_without_mpi(tmp_path):
    """As srun starts them, but both here."""
    program = (
        "from gossip.comm.connect import connect;"
        "from gossip.comm.startup.environment import prepare_environment; prepare_environment();"
        "c = connect('auto', 4); print(type(c).__name__, c.share(c.process))"
    )
    common = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost"}
    common |= {"SLURM_JOB_ID": str(free_port()), "PATH": "/usr/bin", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**common, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    for process in processes:
        assert process.communicate(timeout=patience(START_SECONDS))[0] == "Gloo [0, 1]\n"


def test_processes_share_a_gpu_only_where_nccl_lets_them():
    own, shared = [["a", "0"], ["a", "1"], ["b", "0"]], [["a", "0"], ["a", "1"], ["a", "0"]]
    check_gpus(own, (2, 20, 5), {})
    check_gpus(shared, (2, 31, 2), {SHARED_GPUS: "1"})
    for version, setting in (((2, 28, 9), "1"), ((2, 31, 2), "0")):
        text = rf"processes 0, 2 share GPUs.*NCCL {version[0]}\.{version[1]}.*ENABLE={setting}"
        with pytest.raises(UserError, match=text):
            check_gpus(shared, version, {SHARED_GPUS: setting})


@pytest.mark.parametrize("backend", ["nccl", "auto"])
def test_nccl_without_a_gpu_is_an_error(monkeypatch, backend):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    variables_set(monkeypatch, RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=2)
    with pytest.raises(UserError, match="backend 'nccl'"):
        connect.choose_backend(backend, 4, "cuda")


@pytest.fixture
def _gpus(monkeypatch):
    """As if there were some, and an NCCL for them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)


@pytest.mark.usefixtures("_gpus")
@pytest.mark.parametrize("backend", ["nccl", "auto"])
def test_nccl_takes_the_gpu_on_which_the_rows_are(monkeypatch, backend):
    """Not one that it deals again by itself: a script's own choice stays."""
    variables_set(monkeypatch, RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=2)
    made = []
    monkeypatch.setattr(torch.cuda, "set_device", made.append)
    monkeypatch.setattr(nccl, "Nccl", lambda n, **options: made.append((n, options["device"])))
    connect.choose_backend(backend, 4, "cuda:3")()
    assert made == [(4, "cuda:3")]


@pytest.mark.usefixtures("_gpus")
def test_nccl_for_rows_on_the_cpu_is_an_error():
    with pytest.raises(UserError, match=r"'nccl' sends between GPUs.*on the cpu.*--device auto"):
        connect.choose_backend("nccl", 4, "cpu")


def test_a_torch_without_gloo_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    with pytest.raises(UserError, match="backend 'gloo' is not in this torch"):
        connect.choose_backend("gloo", 4)
