"""What stands in for a forked process of a job ends as it does, and takes it along."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked, nursery, stand_in
from tests.machine import patience
from tests.stand_in import NURSERY, PART, ask

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun"),
]
TESTS = """
import os, pathlib, signal, time
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
here = pathlib.Path(__file__).parent

def test_each_is_where_mpirun_has_put_it():
    assert rank in (0, 1)
    assert pathlib.Path.cwd() != here
    (here / f"{rank}.pid").write_text(str(os.getpid()))

def test_one_dies_and_the_other_waits():
    while not all((here / f"{r}.pid").exists() for r in (0, 1)):
        time.sleep(0.01)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
"""
SERVER = """
import json, os, socket, sys, time
from tests.forked import Order, serve
served = serve(socket.socket(fileno=int(sys.argv[1])), sys.stdin.fileno())
if isinstance(served, Order):
    while time.process_time() < float(served.words[0]): pass
    os._exit(0)
print(json.dumps(served))
"""


def ended(folder: Path, *words: str) -> subprocess.CompletedProcess:
    file = folder / "test_job.py"
    file.write_text(TESTS)
    bare = ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", str(file)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    nursery.folder()
    clean[NURSERY] = os.environ[NURSERY]
    launch = ["gossip.launch", "-n", "2", "--module", "tests.stand_in", "--"]
    return subprocess.run(
        [sys.executable, "-m", *launch, "-m", "pytest", *bare, *words],
        env=clean,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )


def test_a_job_that_ends_well(tmp_path):
    done = ended(tmp_path, "-k", "each_is_where")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1 passed") == 2


def test_a_job_that_loses_a_process_leaves_none(tmp_path):
    done = ended(tmp_path)
    assert done.returncode not in (0, 1), done.stdout + done.stderr
    pids = {int(file.read_text()) for file in tmp_path.glob("*.pid")}
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_nursery_tells_what_was_spent_on_each_part(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "here"))
        listener.listen()
        number = listener.fileno()
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            pass_fds=[number],
        )
    for part, seconds in (("one", 0.1), ("two", 0.3), ("one", 0.2)):
        child = ask(tmp_path / "here", [str(seconds)], {2: 2}, {PART: part}, str(tmp_path))
        with child.server:
            assert stand_in.ended(child) == 0
    spent = json.loads(server.communicate(timeout=patience(60))[0])
    assert spent.keys() == {"one", "two"}
    assert min(spent.values()) >= 0.3


@pytest.mark.parametrize("sent", [b"", b"\n", b"\n{"])
def test_a_stand_in_that_is_killed_before_it_has_asked_is_left_alone(sent):
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, Path(os.devnull).open() as file:
        with theirs:
            if sent:
                socket.send_fds(theirs, [sent[:1]], [file.fileno()])
                theirs.sendall(sent[1:])
        assert forked.received(ours) is None
