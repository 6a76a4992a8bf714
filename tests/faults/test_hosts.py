"""Two hosts that share files and no memory, started as examples/jobs and docs/cluster.md say.

The hosts are network namespaces of this machine, so these tests need root.
"""

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults import two_hosts
from tests.faults.command_runs import kept, run, summary, table
from tests.faults.jobs import MPICH, MPIRUN, NEED_MPI, ROOT, START_SECONDS, Job, wait_for

SECONDS = 110.0
"""For what takes some twenty; guards against a hang."""
pytestmark = [
    *NEED_MPI[:2],
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS),
    pytest.mark.usefixtures("_hosts"),
]

OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --widths 8 --lr 0.1 --dtype float64"
    " --topology exponential --algorithm dpsgd --monitor cheap --monitor-every 50"
)
SSH = """#!/bin/sh
shift  # -x
host=$1
shift
name=$(case "$host" in {cases} esac)
exec ip netns exec "$name" unshare --uts sh -c "hostname $host; $*"
"""
"""What mpirun takes for ssh."""
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture
def _hosts():
    with ExitStack() as held:
        try:
            held.enter_context(two_hosts.two_hosts())
        except OSError as error:
            pytest.skip(f"no hosts can be made here: {error}")
        yield


def assert_equal(out: Path, alone: Path) -> None:
    rows, expected = table(out), table(alone)
    for name in expected.keys() - {"seconds_waiting"}:
        assert rows[name] == pytest.approx(expected[name], rel=1e-8, abs=1e-11, nan_ok=True), name


@pytest.mark.skipif(not MPICH, reason="only MPICH's mpirun takes a shell script for ssh")
def test_mpirun_over_two_hosts_is_the_stacked_run(tmp_path):
    out, alone, ssh = tmp_path / "out", tmp_path / "alone", tmp_path / "ssh"
    cases = " ".join(f"{two_hosts.address(j)}) echo {two_hosts.name(j)};;" for j in range(2))
    ssh.write_text(SSH.format(cases=cases))
    ssh.chmod(0o755)
    options = [*OPTIONS, "--steps", "10", "--out"]
    assert run(tmp_path, *options, str(alone)).code == 0
    mpirun = [MPIRUN, "-launcher", "ssh", "-launcher-exec", str(ssh), "-n", "2"]
    addresses = ",".join(map(two_hosts.address, range(2)))
    words = [sys.executable, "-m", "gossip.run", *options, str(out)]
    ended = Job(tmp_path, two_hosts.command(0, *mpirun, "-hosts", addresses, *words)).end(
        2 * START_SECONDS
    )
    assert ended.code == 0, ended.text
    assert (summary(out)["backend"], summary(out)["processes"]) == ("mpi", 2)
    assert_equal(out, alone)


def test_torchrun_goes_on_with_the_host_that_is_left(tmp_path):
    """A host is lost in the middle of a run: the other begins again, from the last checkpoint."""
    out, alone = tmp_path / "out", tmp_path / "alone"
    options = [*OPTIONS, "--steps", "1000"]
    environment = {"PATH": PATH, "RUN": str(out), "HEAD": two_hosts.address(0), "NODES": "1:2"}
    environment |= {"PROCESSES": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    environment["PET_RDZV_CONF"] = (
        "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3"
    )
    script = str(ROOT / "examples" / "jobs" / "torchrun.sh")
    jobs = []
    for j in range(2):
        (tmp_path / f"host{j}").mkdir()
        command = two_hosts.command(j, script, *options, "--checkpoint-every", "20")
        jobs.append(Job(tmp_path / f"host{j}", command, **environment))
    first, second = jobs
    wait_for(first, lambda: kept(out) and b"block-00001" in manifest(out))
    two_hosts.lose(1)
    second.process.wait()
    ended = first.end(2 * START_SECONDS)
    assert ended.code == 0, ended.text
    found = summary(out)
    assert (found["processes"], found["steps"]) == (1, 1000)
    assert 0 < found["resumed_at"][-1] < 1000
    assert run(tmp_path, *options, "--out", str(alone)).code == 0
    assert_equal(out, alone)


def manifest(out: Path) -> bytes:
    """That of the newest checkpoint."""
    return (out / "checkpoint" / f"step-{kept(out)[-1]:09d}" / "manifest.json").read_bytes()
