"""What happens to a job when something happens to one of its processes, or to the launcher.

Every job is started in a folder of its own under a hard limit, and afterwards no process may be
left that knows this folder. The MPI is the one of this Python environment.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gossip import launch

pytest.importorskip("mpi4py")
MPIRUN = launch.find_mpirun() if shutil.which("mpirun", path=f"{sys.prefix}/bin") else ""
pytestmark = [
    pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(60),
]

JOB = Path(__file__).with_name("job.py")
ROOT = Path(__file__).parents[2]
START_SECONDS = 40.0
END_SECONDS = 10.0
NUM_PROCESSES = 3


@dataclass
class Ended:
    """How a job ended."""

    code: int
    text: str
    seconds: float
    folder: Path

    def told(self) -> list[str]:
        """Our own lines, without those of the MPI and of the traceback."""
        return [line for line in self.text.splitlines() if line.startswith(("learner", "error:"))]


class Job:
    """A job that has been started, with its output in a file (a pipe could fill up)."""

    def __init__(self, folder: Path, command: list[str], **environment: str) -> None:
        self.folder = folder
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
        # What gossip.launch sets, so that a plain mpirun works as root on a few cores, too.
        kind = launch.kind_of(MPIRUN)
        environment = {
            **launch.environment_for(kind, clean),
            "JOB_FOLDER": str(folder),
            "JOB_LEARNERS": str(2 * NUM_PROCESSES),
            "PYTHONPATH": str(ROOT),
            **environment,
        }
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )

    def pids(self) -> list[int]:
        """The pids of the processes; waits until they are in the middle of training."""
        deadline = time.monotonic() + START_SECONDS
        while not (self.folder / "ready").exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"the job did not start: {(self.folder / 'output').read_text()}")
            time.sleep(0.02)
        return [int(pid) for pid in (self.folder / "ready").read_text().split()]

    def end(self, limit_seconds: float = END_SECONDS) -> Ended:
        """Wait for the end; nothing of the job may be left then."""
        start = time.monotonic()
        try:
            code = self.process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running: {(self.folder / 'output').read_text()}")
        seconds = time.monotonic() - start
        while left_behind(self.folder) and time.monotonic() < start + limit_seconds:
            time.sleep(0.05)
        assert left_behind(self.folder) == []
        return Ended(code, (self.folder / "output").read_text(), seconds, self.folder)


def left_behind(folder: Path) -> list[int]:
    """Pids of living processes that have the folder's name in their environment."""
    needle = f"JOB_FOLDER={folder}\0".encode()
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (proc / "environ").read_bytes():
                found.append(int(proc.name))
        except OSError:
            continue  # it has just ended
    return found


@pytest.fixture
def start(tmp_path):
    """Starts jobs under mpirun, and kills what a failing test leaves."""

    def start(*arguments, **environment) -> Job:
        command = [MPIRUN, "-n", str(NUM_PROCESSES), sys.executable, str(JOB), *arguments]
        return Job(tmp_path, command, **environment)

    yield start
    for pid in left_behind(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start_launcher(tmp_path):
    """Starts jobs under gossip.launch, and kills what a failing test leaves."""

    def start(*arguments) -> Job:
        launcher = [sys.executable, "-m", "gossip.launch", "-n", str(NUM_PROCESSES)]
        command = [*launcher, "--module", "tests.faults.job", *arguments]
        return Job(tmp_path, command)

    yield start
    for pid in left_behind(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("backend", ["light", "auto"])
def test_an_exception_is_told_once_with_learner_and_step(start, backend):
    ended = start("fail", "1", JOB_BACKEND=backend).end(START_SECONDS)
    assert ended.code == 1
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1 on host ")
    assert line.endswith("failed at step 17 in gradient: ValueError: that gradient is no good")
    assert ended.text.count("Traceback") == 1
    assert line in (ended.folder / "end.txt").read_text()


def test_the_same_exception_everywhere_is_told_once(start):
    ended = start("fail", "-1").end(START_SECONDS)
    assert ended.code != 0
    assert len(ended.told()) == 1
    assert ended.text.count("Traceback") == 1


def test_a_mistake_that_only_one_process_sees_ends_all(start):
    ended = start("mistake", "1").end(START_SECONDS)
    assert ended.code == 2
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
    assert "dataset 'mnits' is not known" in line
    assert "Traceback" not in ended.text


def test_a_mistake_that_all_processes_see_is_told_once(start):
    ended = start("mistake", "-1").end(START_SECONDS)
    assert ended.code == 2
    assert ended.told() == ["error: dataset 'mnits' is not known"]


def test_sys_exit_on_one_process_ends_all(start):
    ended = start("exit", "1").end(START_SECONDS)
    assert ended.code != 0
    [line] = ended.told()
    assert "process 1" in line
    assert "SystemExit" in line


@pytest.mark.parametrize("deed", ["crash", "leave"])
def test_a_process_that_dies_without_an_exception_is_named(start, deed):
    ended = start(deed, "1").end(START_SECONDS)
    assert ended.code != 0 or deed == "leave"
    [line] = ended.told()
    assert line.startswith("learners 2-3 (process 1")
    assert "died at step 17 in gradient" in line


@pytest.mark.parametrize(("backend", "culprit"), [("light", 0), ("light", 2), ("auto", 1)])
def test_a_killed_process_is_named(start, backend, culprit):
    job = start("nothing", JOB_BACKEND=backend)
    os.kill(job.pids()[culprit], signal.SIGKILL)
    ended = job.end()
    assert ended.code != 0
    [line] = ended.told()
    assert line.startswith(f"learners {2 * culprit}-{2 * culprit + 1} (process {culprit}")
    assert "died at step" in line
    assert line in (ended.folder / "end.txt").read_text()


def test_sigterm_to_mpirun_is_told_once(start):
    job = start("nothing")
    job.pids()
    job.process.send_signal(signal.SIGTERM)
    ended = job.end()
    assert ended.code != 0
    [line] = ended.told()
    assert "got SIGTERM at step" in line
    assert (ended.folder / "closed").exists() or (ended.folder / "last_words").exists()


def test_sigterm_ends_a_process_that_does_not_come_back(start):
    job = start("sleep", "1")
    job.pids()
    job.process.send_signal(signal.SIGTERM)
    ended = job.end()
    assert ended.code != 0
    assert len(ended.told()) == 1
    assert (ended.folder / "last_words").exists()


def test_sigint_to_mpirun_leaves_a_readable_run(start):
    job = start("nothing")
    job.pids()
    job.process.send_signal(signal.SIGINT)
    ended = job.end()
    assert ended.code != 0
    assert len(ended.told()) == 1
    assert (ended.folder / "closed").exists() or (ended.folder / "last_words").exists()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_launcher_lets_the_run_close(start_launcher, signum, code):
    job = start_launcher("nothing")
    job.pids()
    job.process.send_signal(signum)
    ended = job.end()
    assert ended.code == code
    assert len(ended.told()) == 1
    assert (ended.folder / "closed").exists()


def test_the_launcher_passes_the_exit_code_on(start_launcher):
    assert start_launcher("mistake", "-1").end(START_SECONDS).code == 2


def test_ctrl_c_twice_ends_a_process_that_does_not_come_back(start_launcher):
    job = start_launcher("sleep", "1")
    job.pids()
    for _ in range(2):
        job.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert job.end().code == 130


def test_a_single_process_closes_on_ctrl_c(tmp_path):
    job = Job(tmp_path, [sys.executable, str(JOB), "nothing"])
    job.pids()
    job.process.send_signal(signal.SIGINT)
    ended = job.end()
    assert ended.code == 130
    assert (ended.folder / "closed").exists()


def test_a_killed_mpirun_leaves_nobody_behind(start):
    job = start("nothing")
    job.pids()
    job.process.kill()
    job.end()
