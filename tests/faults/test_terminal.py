"""A run and its results do not depend on who reads its lines, nor on what its terminal does."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.command_runs import Run, summary
from tests.faults.jobs import NEED_MPI, START_SECONDS
from tests.machine import patience
from tests.start import PYTHONPATH

OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 2 --widths 4 --lr 0.1 --steps 6 --algorithm dpsgd"
    " --monitor cheap --monitor-every 1"
)
COMMAND = f"'{sys.executable}' -m gossip.run {' '.join(OPTIONS)}"
LIMIT_SECONDS = 100.0


def shell(folder: Path, text: str) -> subprocess.CompletedProcess:
    """What a shell makes of a line, in `folder`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        cwd=folder,
        env={**clean, "PYTHONPATH": PYTHONPATH, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=patience(LIMIT_SECONDS),
        check=False,
    )


def code_of(run: Run) -> int:
    deadline = time.monotonic() + patience(LIMIT_SECONDS)
    while run.poll() is None:
        assert time.monotonic() < deadline, "still running"
        time.sleep(0.01)
    return run.poll()


def assert_whole(out: Path) -> None:
    """The run has come to its end, and drawn its picture."""
    assert summary(out)["steps"] == 6
    assert summary(out)["verdict"] in ("converged", "diverged")
    assert (out / "figure.png").is_file()


class TestOutput:
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
    def test_an_encoding_without_our_letters(self, tmp_path, encoding):
        out = tmp_path / "run"
        run = Run(tmp_path, [*OPTIONS, "--out", str(out)], draws=True, encoding=encoding)
        assert code_of(run) == 0
        assert_whole(out)
        assert f"wrote {out}" in (tmp_path / "output").read_bytes().decode(encoding)

    def test_a_full_disk_behind_the_log(self, tmp_path):
        out, full = tmp_path / "run", Path("/dev/full")
        run = Run(tmp_path, [*OPTIONS, "--out", str(out)], draws=True, output=full)
        assert code_of(run) == 0
        assert_whole(out)

    def test_the_reader_leaves_after_a_line(self, tmp_path):
        out, pipe = tmp_path / "run", tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        # It stops at a step until the reader has gone.
        run = Run(tmp_path, [*OPTIONS, "--out", str(out)], ["gradient:3:STOP"], output=pipe)
        deadline = time.monotonic() + patience(LIMIT_SECONDS)
        while not (out / "config.toml").exists():
            assert run.poll() is None
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.01)
        os.close(reader)
        while run.poll() is None:
            assert time.monotonic() < deadline, "still running"
            run.send(signal.SIGCONT)
            time.sleep(0.01)
        assert run.poll() == 0
        assert summary(out)["steps"] == 6

    @pytest.mark.timeout(110)
    @pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&- <&-"])
    def test_closed_streams(self, tmp_path, closed):
        """No file of the run gets their numbers, where others would write into it."""
        done = shell(tmp_path, f"{COMMAND} --out run {closed}")
        assert done.returncode == 0
        assert_whole(tmp_path / "run")

    @pytest.mark.timeout(110)
    def test_few_open_files(self, tmp_path):
        done = shell(tmp_path, f"ulimit -n 40; {COMMAND} --out run")
        assert done.returncode == 0, done.stderr
        assert_whole(tmp_path / "run")


@pytest.mark.timeout(110)
@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("output", ["2>&1 | head -n 1", ">&- 2>&-"])
@pytest.mark.skipif(NEED_MPI[0].args[0], reason="no mpirun in this environment")
def test_the_launcher_goes_on_without_a_reader(tmp_path, output):
    """An mpirun whose lines nobody takes ends its job; here they go through the launcher."""
    command = COMMAND.replace("gossip.run", "gossip.launch -n 2")
    done = shell(tmp_path, f"{command} --out run {output}")
    assert done.returncode == 0, done.stderr
    assert_whole(tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("gossip.data", "list"),
        ("gossip.schedule", "--samples 1000 --steps 20 --csv made"),
        ("gossip.simulate", "--help"),
        ("topologies", "ring -n 8"),
        ("experiments.dpsgd.fig2", "--help"),
    ],
)
def test_tools_do_their_work_on_a_full_disk(tmp_path, module, words):
    done = shell(tmp_path, f"'{sys.executable}' -m {module} {words} > /dev/full")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--csv" not in words or (tmp_path / "made").is_file()


SIGNALS = """
import signal
from gossip.comm.shutdown.stop import Stop
from gossip.comm.stacked import Stacked
from gossip.launch import mpirun as launch
from gossip.runs import sweep

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

def show():
    print([s.name for s in KINDS if signal.getsignal(s) is signal.SIG_IGN])

def listen():
    with Stop(Stacked(1), print, None).listening():
        show()
    with launch.signals():
        show()
    sweep.stop_on_sigterm()
    show()

listen()
for heard in (KINDS[:2], KINDS[2:]):  # the next program of the shell would hear them
    for signum in heard:
        signal.signal(signum, signal.SIG_DFL)
    listen()
"""


def test_an_ignored_signal_stays_ignored(tmp_path):
    """`nohup` ignores SIGHUP; a shell without job control SIGINT, of what it starts by `&`."""
    (tmp_path / "program.py").write_text(SIGNALS)
    done = shell(tmp_path, f"trap '' INT TERM HUP; '{sys.executable}' program.py")
    ignored = ["SIGINT", "SIGTERM", "SIGHUP"]
    expected = [str(names) for names in (ignored, ignored[2:], []) for _ in range(3)]
    assert done.stdout.splitlines() == expected, done.stderr


@pytest.mark.timeout(110)
@pytest.mark.skipif(NEED_MPI[0].args[0], reason="no mpirun in this environment")
def test_nohup_outlives_the_terminal_and_still_hears_ctrl_c(start_command):
    """Both signals that a hang-up and a background job mean to be ignored, then one that is not."""
    launch = [sys.executable, "-m", "gossip.launch", "-n", "2", "--module", "tests.faults.job"]
    line = f"trap '' HUP INT USR1; exec {shlex.join([*launch, 'nothing'])}"
    job = start_command(["bash", "-c", line], JOB_LEARNERS="2", JOB_STEPS="100000")
    job.pids()
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
        job.process.send_signal(signum)
    with pytest.raises(subprocess.TimeoutExpired):
        job.process.wait(0.5)
    job.process.send_signal(signal.SIGTERM)
    ended = job.end(START_SECONDS)
    assert ended.code == 128 + signal.SIGTERM
    assert (job.folder / "closed").exists()
