"""What the launcher makes of a job that has lost a process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossip.launch import mpirun as launch
from gossip.launch import restart
from gossip.launch.restart import Try
from gossip.storage import glance
from gossip.storage.names import step_folder
from tests.faults.jobs import CRASHED, NEED_MPI, START_SECONDS
from tests.machine import patience

LOST = [os.EX_TEMPFAIL, 9, 137, signal.SIGSEGV, 139, signal.SIGBUS, 135, signal.SIGABRT, 134]
LOST = sorted({*LOST, *CRASHED})
ENDED = [0, 1, 2, 3, 130, 143, -9, -15]
ASKED = ["--on-failure", "continue"]


def made(out: Path, on_failure: str = "continue", learners: int = 16, **steps: int) -> Path:
    """A run folder with checkpoints; those of the folder's own run are `own`."""
    out.mkdir(exist_ok=True)
    text = f'[reliability]\non_failure = "{on_failure}"\n[gossip]\nlearners = {learners}\n'
    (out / "config.toml").write_text(text)
    for run, step in steps.items():
        folder = out / ("" if run == "own" else run) / "checkpoint" / step_folder(step)
        folder.mkdir(parents=True)
        (folder / "manifest.json").touch()
    return out


def again(out: Path, processes: int = 16, code: int = 9, words=(), **steps: int):
    return restart.next_try(Try(processes, ["--out", str(out), *words], steps), code)


@pytest.mark.parametrize("code", LOST)
def test_a_lost_process_is_a_reason_to_go_on(tmp_path, code):
    following, text = again(made(tmp_path, own=100), code=code)
    assert following == Try(8, ["--resume", str(tmp_path), *ASKED], {"": 100})
    assert text == (
        f"a process was lost (code {code}): {tmp_path} goes on from step 100 on 8 processes"
    )


@pytest.mark.parametrize("code", ENDED)
def test_any_other_end_is_the_end(tmp_path, code):
    assert again(made(tmp_path, own=100), code=code) == (None, "")


@pytest.mark.parametrize(
    ("learners", "counts"),
    [(16, [16, 8, 4, 2, 1, 1]), (12, [12, 6, 4, 3, 2, 1, 1]), (7, [7, 1, 1]), (6, [4, 3, 2, 1, 1])],
)
def test_processes_are_the_next_smaller_divisor(learners, counts):
    assert [restart.fewer(p, learners) for p in counts[:-1]] == counts[1:]


def test_one_process_goes_on_as_long_as_it_gets_on(tmp_path):
    out = made(tmp_path, own=100)
    following, _ = again(out, processes=1, **{"": 60})
    assert following is not None
    assert following.processes == 1
    following, text = restart.next_try(following, 9)
    assert following is None
    assert text.endswith("without a new checkpoint since it started: giving up")


def test_a_second_run_in_the_folder_counts_as_getting_on(tmp_path):
    out = made(tmp_path, dpsgd=100, ssgd=20)
    following, text = again(out, processes=1, dpsgd=100)
    assert following is not None
    assert "goes on from dpsgd step 100, ssgd step 20 on 1 process" in text


def test_without_a_checkpoint_it_begins_anew_on_fewer(tmp_path):
    following, text = again(made(tmp_path), processes=2)
    assert following == Try(1, ["--resume", str(tmp_path), *ASKED])
    assert "from the beginning on 1 process" in text
    assert again(made(tmp_path), processes=1)[0] is None


def test_an_unfinished_checkpoint_does_not_count(tmp_path):
    made(tmp_path, own=100)
    (tmp_path / "checkpoint" / step_folder(200)).mkdir()
    assert glance.checkpoints(tmp_path) == {"": 100}


def test_the_command_line_wins_over_the_config(tmp_path):
    out = made(tmp_path, on_failure="stop")
    assert again(out) == (None, "")
    assert again(out, words=["--on_failure=continue"])[0] is not None
    assert again(made(tmp_path), words=["--on-failure", "stop"]) == (None, "")


def test_a_resumed_run_is_resumed_again(tmp_path):
    last = Try(4, ["--resume", str(made(tmp_path, own=5)), *ASKED], {"": 5})
    following, _ = restart.next_try(last, 75)
    assert following == Try(2, last.words, {"": 5})


def test_code_named_on_the_command_line_is_named_again(tmp_path):
    words = ["--topology", "mine:petersen", "--model=nets:net", "--dataset", "mnist"]
    following, _ = again(made(tmp_path), words=words)
    assert following is not None
    assert following.words[4:] == ["--topology=mine:petersen", "--model=nets:net"]


def test_a_job_that_died_before_its_folder_was_made_is_not_started_again(tmp_path):
    following, text = again(tmp_path / "none", words=ASKED)
    assert following is None
    assert "config.toml was written" in text
    assert again(tmp_path / "none") == (None, "")


@pytest.mark.parametrize(
    "text", ["= 3", "", "gossip = 3", "reliability = 3\n[gossip]\nlearners = 4", "\0", "#" * 2**21]
)
def test_a_config_that_makes_no_sense_ends_it(tmp_path, text):
    (tmp_path / "config.toml").write_text(text)
    following, told = again(tmp_path)
    assert following is None
    assert "config.toml cannot be read (" in told


@pytest.mark.parametrize(
    "words",
    [ASKED, ["--on-failure=continue"], ["--on_failure", "continue"], ["--config", "run.toml"]],
)
def test_a_folder_is_chosen_where_it_may_be_needed(monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(glance.time, "strftime", lambda form: "now")
    assert restart.with_folder(words) == [*words, "--out", "runs/now"]
    Path("runs/now").mkdir(parents=True)
    assert restart.with_folder(words)[-1] == "runs/now-2"
    assert restart.first_try(4, "other", words).words == words


@pytest.mark.parametrize("more", [[], ["--out", "x", *ASKED], ["--resume=x", *ASKED]])
def test_a_folder_is_not_chosen_where_there_is_one_or_none_is_needed(more):
    assert restart.with_folder(["--lr", "1", *more]) == ["--lr", "1", *more]


def test_the_launcher_imports_nothing_large():
    code = "import sys, gossip.launch; print(sorted({'torch', 'tyro', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FAKE = """
import os, pathlib, signal, sys, time
process = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ.get("PMI_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
out = pathlib.Path(sys.argv[2])
from mpi4py import MPI
signal.signal(signal.SIGUSR1, lambda *_: MPI.COMM_WORLD.Abort(3))
if process == 0:
    print(f"started on {size}:", *sys.argv[1:], flush=True)
    (out / f"started{size}").touch()
MPI.COMM_WORLD.Barrier()
if process == 0 and size > int(os.environ["ENOUGH"]):
    os.kill(os.getpid(), signal.SIGKILL)
MPI.COMM_WORLD.Barrier()
time.sleep(float(os.environ["SECONDS"]))
"""


@pytest.fixture
def start_fake(start_command, tmp_path):
    """Starts the launcher on 4 processes of a module that dies on more than `enough`."""
    (tmp_path / "fake.py").write_text(FAKE)
    out = made(tmp_path / "out", learners=4, own=30)

    def start(*words: str, enough: int, seconds: float = 0.0):
        command = [sys.executable, "-m", "gossip.launch", "-n", "4", "--module", "fake"]
        path = os.pathsep.join([str(tmp_path), str(Path(launch.__file__).parents[2])])
        return start_command(
            [*command, "--out", str(out), *words],
            PYTHONPATH=path,
            ENOUGH=str(enough),
            SECONDS=str(seconds),
        )

    return start


class TestStarted:
    """With a job that is really started again."""

    pytestmark = NEED_MPI

    def test_the_job_is_started_again_until_it_ends_well(self, start_fake, tmp_path):
        ended = start_fake(enough=1).end(START_SECONDS)
        assert ended.code == 0
        resumed = f"--resume {tmp_path / 'out'} --on-failure continue"
        starts = [line for line in ended.text.splitlines() if line.startswith("started")]
        assert starts == [
            f"started on 4: --out {tmp_path / 'out'}",
            f"started on 2: {resumed}",
            f"started on 1: {resumed}",
        ]
        lines = ended.told()
        assert ["gossip.launch: a process was lost" in line for line in lines] == [True, True]
        assert lines[0].endswith("goes on from step 30 on 2 processes")

    def test_it_gives_up_with_the_last_code(self, start_fake):
        ended = start_fake(enough=0).end(START_SECONDS)
        assert ended.code in restart.LOST
        assert ended.told()[-1].endswith("giving up")

    @pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_all_tries(self, start_fake, tmp_path, signum):
        job = start_fake(enough=2, seconds=60.0)
        deadline = time.monotonic() + patience(START_SECONDS)
        while not (tmp_path / "out" / "started2").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        job.process.send_signal(signum)
        ended = job.end()
        assert ended.code == 128 + signum
        assert "started on 1" not in ended.text
