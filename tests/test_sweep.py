"""A sweep makes what is missing, keeps what is finished and leaves nothing behind."""

import functools
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from experiments.common.scale import Scale, smoke
from experiments.dpsgd import fig2
from gossip.config import Config
from gossip.errors import UserError
from gossip.runs import sweep
from gossip.storage import folder as run_folder
from tests.machine import patience
from tests.start import PYTHONPATH

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow  # starts processes


def two_runs(scale: Scale) -> dict[str, Config]:
    return dict(list(fig2.grid(scale, "unit").items())[:2])


def test_only_what_is_not_finished_is_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    runs = two_runs(smoke(tmp_path))
    first, second = (tmp_path / key for key in runs)
    sweep.run_all(runs, tmp_path, jobs=2)
    assert sweep.finished(tmp_path) == sorted([first, second])
    (second / run_folder.SUMMARY).unlink()  # as if it had been killed
    made = [(folder / run_folder.TRACE).stat().st_mtime_ns for folder in (first, second)]
    capsys.readouterr()
    sweep.run_all(runs, tmp_path, jobs=2)
    again = [(folder / run_folder.TRACE).stat().st_mtime_ns for folder in (first, second)]
    assert again[0] == made[0]
    assert again[1] > made[1]
    assert capsys.readouterr().err.count("\n") == 1


def test_what_a_run_is_forked_from_is_frozen() -> None:
    """Else its collections of garbage copy the pages that all runs share."""
    forkserver._forkserver._stop()  # one that runs already has loaded what its first user asked for
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(sweep.PRELOADED)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=count_frozen, args=(send,))
    process.start()
    send.close()  # so that its death ends the wait
    assert receive.poll(patience(60))
    assert receive.recv() > 100_000
    process.join()


def count_frozen(send: Connection) -> None:
    send.send(gc.get_freeze_count())


def test_a_run_of_another_config_is_not_taken_for_this_one(tmp_path: Path) -> None:
    key, config = next(iter(two_runs(smoke(tmp_path)).items()))
    sweep.run_all({key: config}, tmp_path, jobs=1)
    assert sweep.is_finished(tmp_path / key, config)
    assert not sweep.is_finished(tmp_path / key, replace(config, seed=7))
    assert not sweep.is_finished(tmp_path / "nothing", config)


def test_a_failing_run_is_named_and_the_others_are_made(tmp_path: Path) -> None:
    runs = two_runs(smoke(tmp_path))
    (good, config), (bad, other) = runs.items()
    broken = replace(other, gossip=replace(other.gossip, topology="karate"))
    with pytest.raises(UserError, match=f"failed: {bad}; see"):
        sweep.run_all({bad: broken, good: config}, tmp_path, jobs=1)
    assert sweep.finished(tmp_path) == [tmp_path / good]
    assert "34" in sweep.log_of(tmp_path / bad).read_text()


def test_a_run_that_ends_at_a_gradient_that_is_not_finite_has_diverged(tmp_path: Path) -> None:
    key, config = next(iter(two_runs(smoke(tmp_path)).items()))
    far = replace(
        config,
        rate=replace(config.rate, lr=1e30),
        reliability=replace(config.reliability, on_nonfinite="raise"),
    )
    sweep.run_all({key: far}, tmp_path, jobs=1)
    assert sweep.is_finished(tmp_path / key, far)
    assert run_folder.read_summary(tmp_path / key)["verdict"] == "diverged"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_keeps_what_is_finished(tmp_path: Path, signum: int) -> None:
    command = [sys.executable, "-m", "experiments.dpsgd.fig2", "--smoke", "--folder", str(tmp_path)]
    # A test run in the background ignores Ctrl-C, and its children would inherit that.
    hears = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=hears,
    ) as process:
        while not sweep.finished(tmp_path / "runs" / fig2.STUDY):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signum)
        process.communicate(timeout=patience(30))
    assert process.returncode == 128 + signum
    assert sweep.finished(tmp_path / "runs" / fig2.STUDY)
    deadline = time.monotonic() + patience(10)
    while _alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(process.pid)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
