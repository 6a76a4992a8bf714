"""A run that is killed or stopped at any moment goes on, and ends as the one that was not."""

import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from gossip import report, trace
from gossip.launch import restart
from gossip.storage import glance
from tests.faults.command_runs import (
    NUM_STEPS,
    SHORT,
    STEPS,
    Run,
    assert_same,
    begin,
    kept,
    launch,
    resume,
    run,
    summary,
    table,
)
from tests.faults.jobs import MPIRUN, Job, left_behind, wait_for
from tests.machine import patience

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.usefixtures("forking", "no_pictures"),  # pictures of reports
]

PLACES = {
    "data": 18,
    "gradient": 18,
    "exchange": 18,
    "monitor": 4,
    "checkpoint": 3,
    "checkpoint-file": 12,
    "checkpoint-name": 6,
    "trace": 5,
    "summary": 1,
}
"""Place -> the call in which a process is killed: in the middle of 40 steps, but for the last."""
MPI_KILLS = [("gradient", 9, 0), ("exchange", 9, 1), ("monitor", 2, 2), ("checkpoint-file", 3, 1)]
"""Place, call and process that is killed then, one of three, each time the run goes on."""
GROWING = ["--algorithm", "ssgd", "--damping", "geodamp", "--samples-per-worker", "100"]
GROWING += ["--damping-options", "delay=0.4", "factor=2"]
"""Six learners' 60 samples are for one process, and from update 10 on twice as many for two."""
KILLS = 20
SLOW = ["--straggler", "constant", "--straggler-options", "s=2", "learners=0"]
SLOW += ["--straggler-seconds", "0.02"]
"""A step takes 20 ms more, so that a kill or signal finds the run on its way."""
LONG_SECONDS = 100.0
"""A whole job, on a busy machine."""


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder / "run"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run that nothing happened to, of one process."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    assert begin(out).code == 0
    return out


def assert_readable(out: Path) -> None:
    """Whatever there is can be read: a whole trace up to some step, and no word of an end."""
    rows = trace.load(out)["step"].to_pylist()
    assert rows == list(range(len(rows)))
    report.report([out])
    # Open MPI kills with a warning, which leaves time for last words.
    assert not (out / "summary.json").exists() or summary(out)["verdict"] == "interrupted"


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_anywhere_costs_the_steps_since_the_last_checkpoint(place, tmp_path, undisturbed):
    out = tmp_path / "run"
    ended = begin(out, deeds=[f"{place}:{PLACES[place]}"])
    assert ended.code == -signal.SIGKILL
    assert_readable(out)
    before = kept(out)[0]
    assert before >= (STEPS - 5 if place == "summary" else 5)
    ended = resume(out)
    assert ended.code == 0, ended.text
    assert f"dpsgd: goes on at step {before} of {STEPS}" in ended.text
    assert summary(out)["resumed_at"] == [before]
    assert_same(out, undisturbed, exact=True)
    assert not list((out / "checkpoint").glob(".*"))


@pytest.mark.pictures
def test_a_kill_before_the_first_checkpoint_begins_again(tmp_path, undisturbed, capsys):
    out = tmp_path / "run"
    assert begin(out, deeds=["gradient:3"]).code == -signal.SIGKILL
    assert report.main([str(out)]) == 0
    assert "interrupted" in capsys.readouterr().out
    assert (out / "figure.png").stat().st_size > 0
    ended = resume(out)
    assert ended.code == 0
    assert f"goes on at step 0 of {STEPS}" in ended.text
    assert_same(out, undisturbed, exact=True)


@pytest.mark.timeout(240)
def test_kills_at_any_moment_until_it_is_finished(tmp_path):
    steps, chance = 400, random.Random(20)
    long = [*SHORT, *SLOW, "--steps", str(steps)]
    undisturbed, out = fresh(tmp_path / "undisturbed"), tmp_path / "run"
    assert run(undisturbed.parent, *long, "--out", str(undisturbed)).code == 0
    options, kills = [*long, "--out", str(out)], 0
    for _ in range(KILLS):
        going = Run(tmp_path, options)
        if kills:
            wait_for(going, lambda going=going: "goes on at step" in going.output.read_text())
        else:
            wait_for(going, lambda: glance.checkpoints(out))
        time.sleep(chance.uniform(0.0, 0.4))
        going.send(signal.SIGKILL)
        code = going.end().code
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        options = ["--resume", str(out)]
    assert kills > KILLS / 4
    assert resume(out).code == 0
    assert_same(out, undisturbed, exact=True, steps=steps)


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("USR1", 130)])
def test_a_stopped_run_keeps_the_very_step(name, code, tmp_path, undisturbed):
    out = tmp_path / "run"
    ended = begin(out, deeds=[f"gradient:18:{name}"], draws=name == "INT")
    assert ended.code == code
    assert "Traceback" not in ended.text
    assert "interrupted" in ended.text
    done = summary(out)["steps"]
    assert trace.load(out)["step"].to_pylist() == list(range(done + 1))
    assert not trace.torn(trace.load(out))
    assert (out / "figure.png").exists() == (name == "INT")
    assert (summary(out)["verdict"], kept(out)[0]) == ("interrupted", done)
    assert 17 < done < STEPS
    assert f"go on with: python -m gossip.run --resume {out}" in ended.text
    ended = resume(out)
    assert ended.code == 0
    assert f"goes on at step {done} of {STEPS}" in ended.text
    assert_same(out, undisturbed, exact=True)


def test_the_second_algorithm_is_killed_and_the_first_not_repeated(tmp_path):
    two = ["--algorithm", "dpsgd", "ssgd"]
    out, undisturbed = fresh(tmp_path / "killed"), fresh(tmp_path / "undisturbed")
    assert begin(undisturbed, *two).code == 0
    ended = begin(out, *two, deeds=[f"gradient:{STEPS + 18}"])
    assert ended.code == -signal.SIGKILL
    first = {path: path.read_bytes() for path in (out / "dpsgd").rglob("*") if path.is_file()}
    ended = resume(out)
    assert ended.code == 0
    assert "dpsgd: finished already" in ended.text
    assert "ssgd: goes on at step 1" in ended.text
    assert all(path.read_bytes() == content for path, content in first.items())
    for name in ("dpsgd", "ssgd"):
        rows, expected = table(out / name), table(undisturbed / name)
        assert rows.keys() == expected.keys()
        assert all(rows[k].tobytes() == expected[k].tobytes() for k in rows), name


def wait_for_text(job: Job, text: str) -> str:
    """Wait until the job has said something, or has ended."""
    deadline = time.monotonic() + patience(LONG_SECONDS)
    while text not in (said := (job.folder / "output").read_text()) and job.process.poll() is None:
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    return (job.folder / "output").read_text()


@pytest.mark.needs_mpi
@pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment")
@pytest.mark.timeout(3 * LONG_SECONDS)
def test_a_worker_is_killed_after_the_batch_has_grown(start_command, tmp_path):
    """The update does not depend on who computes it, so one process ends what two began."""
    out, whole = tmp_path / "run", fresh(tmp_path / "whole")
    assert begin(whole, *GROWING).code == 0
    steps = summary(whole)["steps"]
    # Process 1 computes from update 10 on, when there is work for two.
    options = [*SHORT, *NUM_STEPS, *GROWING, "--out", str(out)]
    ended = start_command(launch(2, *options, deed="gradient:3:KILL:1")).end(LONG_SECONDS)
    assert ended.code in restart.LOST
    [line] = [line for line in ended.told() if line.startswith("learner")]
    assert line.startswith("learners 3-5 (process 1 on host ")
    assert "at step 12" in line
    assert_readable(out)
    before = kept(out)[0]
    assert before in (5, 10)  # the checkpoint of step 10 is being written while steps go on
    ended = resume(out)
    assert ended.code == 0
    assert f"goes on at step {before} of {steps}" in ended.text
    assert_same(out, whole, exact=False, steps=steps, but=["workers"])


@pytest.mark.needs_mpi
@pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment")
@pytest.mark.one_mpi
@pytest.mark.timeout(3 * LONG_SECONDS)
def test_three_processes_are_killed_again_and_again(start_command, tmp_path, undisturbed):
    """Each time on another phase; from wherever the run is then, fewer processes end it, too.

    Over 10 s: eight jobs, of which each goes on where the one before was killed.
    """
    out, whole = tmp_path / "run", tmp_path / "whole"
    options = [*SHORT, *NUM_STEPS, *SLOW, "--out", str(out)]
    resumed_at = set()  # a checkpoint that was not whole yet is resumed from the one before, again
    for place, call, process in MPI_KILLS:
        deed = f"{place}:{call}:KILL:{process}"
        job = start_command(launch(3, *options, deed=deed))
        wait_for_text(job, "died at step")
        ended = job.end()
        assert ended.code in restart.LOST
        [line] = [line for line in ended.told() if line.startswith("learner")]
        first = 2 * process
        assert line.startswith(f"learners {first}-{first + 1} (process {process} on host ")
        assert_readable(out)
        alone = fresh(tmp_path / place)
        shutil.copytree(out, alone)
        assert resume(alone).code == 0
        assert_same(alone, undisturbed, exact=False)
        resumed_at.update(kept(out)[:1])
        options = ["--resume", str(out)]

    two = fresh(tmp_path / "two")
    shutil.copytree(out, two)
    assert start_command(launch(2, "--resume", str(two))).end(LONG_SECONDS).code == 0
    assert_same(two, undisturbed, exact=False)

    stopped = start_command(launch(3, *options, deed="gradient:2:USR1:1")).end(LONG_SECONDS)
    assert stopped.code == 130
    assert (summary(out)["verdict"], kept(out)[0]) == ("interrupted", summary(out)["steps"])
    resumed_at.update(kept(out)[:1])
    assert start_command(launch(3, *options)).end(LONG_SECONDS).code == 0
    assert summary(out)["resumed_at"] == sorted(resumed_at)
    begun = start_command(launch(3, *SHORT, *NUM_STEPS, "--out", str(whole)))
    assert begun.end(LONG_SECONDS).code == 0
    assert_same(out, whole, exact=True)
    assert_same(out, undisturbed, exact=False)
    assert left_behind(tmp_path) == []


@pytest.mark.needs_mpi
@pytest.mark.skipif(not MPIRUN, reason="no mpirun in this environment")
def test_the_launcher_passes_on_what_slurm_sends(start_launcher, tmp_path):
    job = start_launcher("nothing")
    job.pids()
    job.process.send_signal(signal.SIGUSR1)
    assert job.end().code == 128 + signal.SIGUSR1
    assert (tmp_path / "closed").exists()
