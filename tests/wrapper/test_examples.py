"""The examples run as they stand, alone and under mpirun."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gossip.data import cache
from gossip.launch import mpirun as launch
from gossip.report.runs import load_runs

ROOT = Path(__file__).parents[2]
MNIST = next((name for name in ("mnist-5k", "mnist") if cache.is_cached(name)), "digits")


def output(*command: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    environment = {**clean, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if command[0] != sys.executable:
        environment = launch.environment_for(launch.kind_of(command[0]), environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mnist_alone_learns():
    text = output(sys.executable, "examples/mnist.py", "--dataset", MNIST, "--epochs", "2")
    *_, (n, accuracy) = re.findall(r"n = (\d+): ([\d.]+)%", text)
    assert n == "1"
    assert float(accuracy) > 80


@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
def test_mnist_on_two_processes_learns_and_is_told_by_one():
    command = ["examples/mnist.py", "--dataset", MNIST, "--epochs", "2"]
    text = output(launch.find_mpirun(), "-n", "2", sys.executable, *command)
    *_, (n, accuracy) = re.findall(r"n = (\d+): ([\d.]+)%", text)
    assert n == "2"
    assert float(accuracy) > 80


def test_the_recorded_script_leaves_its_effective_rate(tmp_path):
    out = tmp_path / "run"
    command = ["examples/recorded.py", "--dataset", "digits", "--epochs", "1", "--out", str(out)]
    output(sys.executable, *command)
    (run,) = load_runs([out])
    ratio = run.column("alpha_e_ratio")
    assert run.verdict == "converged"
    assert 0.9 < float(np.nanmean(ratio)) < 1.1  # alone, plain SGD: alpha, but for the batches


@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_hugging_faces_llama_on_two_processes_learns():
    command = ["examples/llama.py", "--steps", "60", "--batch-size", "4"]
    text = output(launch.find_mpirun(), "-n", "2", sys.executable, *command)
    found = re.findall(r"step (\d+): ([\d.]+) bits .* n = 2", text)
    (_, early), (last, late) = found
    assert last == "60"
    assert float(late) < float(early) < 8  # bits of a byte of which nothing is known


def test_the_resnet_runs():
    text = output(
        sys.executable, "examples/resnet.py", "--width", "2", "--samples", "64", "--epochs", "1"
    )
    assert text.startswith("epoch 1: accuracy ")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("skorch") is None, reason="skorch is not installed")
def test_a_grid_search_in_two_processes_over_batches_that_grow(tmp_path):
    picture = tmp_path / "schedule.png"
    text = output(
        sys.executable, "examples/damped_sklearn.py", "--epochs", "6", "--picture", str(picture)
    )
    assert text.count("of what was held out") == 4
    assert float(re.search(r"test accuracy: ([\d.]+)%", text)[1]) > 90
    assert picture.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.skipif(
    None in (find_spec("skorch"), find_spec("distributed")), reason="the extras are not installed"
)
def test_a_dask_cluster_comes_to_the_weights_of_one_process():
    text = output(sys.executable, "examples/damped_dask.py", "--epochs", "3")
    assert re.findall(r"epoch (\d+): batch (\d+)", text) == [
        ("1", "64"),
        ("2", "256"),
        ("3", "1024"),
    ]
    assert float(re.search(r"largest difference of a weight: ([\d.e+-]+)", text)[1]) < 1e-4


@pytest.mark.slow  # importing Lightning takes most of it
@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning_needs_no_adapter_on_two_processes():
    command = ["examples/lightning_module.py", "--dataset", "digits", "--epochs", "6"]
    text = output(launch.find_mpirun(), "-n", "2", sys.executable, *command)
    ((n, steps, accuracy),) = re.findall(r"n = (\d+), (\d+) steps: ([\d.]+)%", text)
    batches = 1437 // 2 // 32
    assert (n, int(steps)) == ("2", 6 * batches // 2)  # two batches are one step
    assert float(accuracy) > 80


@pytest.mark.slow  # importing transformers takes most of it
@pytest.mark.skipif(not shutil.which("mpirun", path=f"{sys.prefix}/bin"), reason="no mpirun here")
@pytest.mark.skipif(
    None in (find_spec("transformers"), find_spec("accelerate")), reason="they are not installed"
)
def test_hugging_faces_loops_stop_together_and_go_on_bit_for_bit(tmp_path):
    """The Trainer by the adapter of the example, accelerate by none."""
    script = str(Path(__file__).with_name("frameworks.py"))
    text = output(launch.find_mpirun(), "-n", "2", sys.executable, script, str(tmp_path))
    found = re.findall(r"^(\w+) \[(.*), (.*)\] (\S+)$", text, re.M)
    assert [(name, float(a), float(b), float(d)) for name, a, b, d in found] == [
        ("trainer", 1, 1, 0),
        ("accelerate", 1, 1, 0),
    ]
    bits = [float(b) for b in re.findall(r"([\d.]+) bits per byte, mean model of n = 2", text)]
    accuracies = [float(a) for a in re.findall(r"mean model, n = 2: ([\d.]+)%", text)]
    assert bits[0] == bits[2] < bits[1] < 8  # bits of a byte of which nothing is known
    assert len(accuracies) == 2 + 1 + 1
    assert accuracies[0] == accuracies[2] < accuracies[1] == accuracies[3]
