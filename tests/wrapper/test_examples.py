"""The examples run as they stand, alone and under mpirun."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from gossip.data import cache
from gossip.launch import mpirun as launch
from gossip.report.runs import load_runs
from tests import nursery
from tests.start import CHECKOUT
from tests.wrapper.on_two import BREAK, HEAD

ROOT = Path(__file__).parents[2]
MNIST = next((name for name in ("mnist-5k", "mnist") if cache.is_cached(name)), "digits")


def output(*command: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    environment = {**clean, "PYTHONPATH": CHECKOUT, "OMP_NUM_THREADS": "1"}
    if command[0] != sys.executable:
        environment = launch.environment_for(launch.kind_of(command[0]), environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(*libraries: str) -> bool:
    return None not in map(find_spec, libraries)


WRAPPER = Path(__file__).parent
ON_TWO = {
    "mnist.py": (["--dataset", MNIST, "--epochs", "2"], ()),
    "llama.py": (["--steps", "60", "--batch-size", "4"], ("transformers",)),
    "lightning_module.py": (["--dataset", "digits", "--epochs", "6", "--out"], ("lightning",)),
    "frameworks.py": ([], ("transformers", "accelerate")),
}
WITH_FOLDER = "lightning_module.py", "frameworks.py"
"""Of those whose last argument is a folder to write to."""
"""What two processes run -> its arguments, and the libraries that it needs."""


@pytest.fixture(scope="module")
def on_two(tmp_path_factory) -> dict[str, str]:
    """What each script has said that two processes of one mpirun ran, one after the other.

    Over 10 s: both import Lightning, transformers and accelerate, and train six times and more.
    """
    folder = str(tmp_path_factory.mktemp("frameworks"))
    words = []
    for name, (arguments, libraries) in ON_TWO.items():
        if installed(*libraries):
            script = WRAPPER / name if (WRAPPER / name).exists() else Path("examples", name)
            more = [folder] if name in WITH_FOLDER else []
            words += [BREAK, str(script), *arguments, *more]
    runner = str(WRAPPER / "on_two.py")
    with nursery.forking():
        text = output(launch.find_mpirun(), "-n", "2", sys.executable, runner, *words)
    said = (part.partition("\n") for part in f"\n{text}".split(f"\n{HEAD}")[1:])
    return {name: rest for name, _, rest in said}


def on_two_processes(test):
    """With one job for all, which the first of them starts."""
    no_mpirun = not shutil.which("mpirun", path=f"{sys.prefix}/bin")
    for mark in (
        pytest.mark.skipif(no_mpirun, reason="no mpirun here"),
        pytest.mark.slow,  # importing Lightning and transformers takes most of it
        pytest.mark.timeout(300),
    ):
        test = mark(test)
    return test


@pytest.fixture
def alone(monkeypatch, capsys):
    """What an example prints that is run in this process, which has its imports already."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_mnist_alone_learns(alone):
    text = alone("mnist.py", "--dataset", MNIST, "--epochs", "2")
    *_, (n, accuracy) = re.findall(r"n = (\d+): ([\d.]+)%", text)
    assert n == "1"
    assert float(accuracy) > 80


@on_two_processes
def test_mnist_on_two_processes_learns_and_is_told_by_one(on_two):
    *_, (n, accuracy) = re.findall(r"n = (\d+): ([\d.]+)%", on_two["mnist.py"])
    assert n == "2"
    assert float(accuracy) > 80


def test_the_recorded_script_leaves_its_effective_rate(alone, tmp_path):
    out = tmp_path / "run"
    alone("recorded.py", "--dataset", "digits", "--epochs", "1", "--out", str(out))
    (run,) = load_runs([out])
    ratio = run.column("alpha_e_ratio")
    assert run.verdict == "converged"
    assert 0.9 < float(np.nanmean(ratio)) < 1.1  # alone, plain SGD: alpha, but for the batches


@on_two_processes
@pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")
def test_hugging_faces_llama_on_two_processes_learns(on_two):
    found = re.findall(r"step (\d+): ([\d.]+) bits .* n = 2", on_two["llama.py"])
    (_, early), (last, late) = found
    assert last == "60"
    assert float(late) < float(early) < 8  # bits of a byte of which nothing is known


def test_the_resnet_runs(alone):
    text = alone("resnet.py", "--width", "2", "--samples", "64", "--epochs", "1")
    assert text.startswith("epoch 1: accuracy ")


@pytest.mark.slow  # the compiler takes most of it
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler")
@pytest.mark.usefixtures("forking")
def test_a_compiled_loop_learns():
    text = output(sys.executable, "examples/compiled.py", "--epochs", "3")
    ((n, accuracy),) = re.findall(r"n = (\d+), inductor: ([\d.]+)%", text)
    assert n == "1"
    assert float(accuracy) > 60


@pytest.mark.slow
@pytest.mark.skipif(not installed("skorch"), reason="skorch is not installed")
@pytest.mark.usefixtures("forking")
def test_a_grid_search_in_two_processes_over_batches_that_grow(alone, tmp_path):
    """Some 10 s: two processes of joblib import skorch, and fit 12 models."""
    from joblib.externals.loky import get_reusable_executor

    picture = tmp_path / "schedule.png"
    text = alone("damped_sklearn.py", "--epochs", "6", "--picture", str(picture))
    get_reusable_executor().shutdown(wait=True)
    assert text.count("of what was held out") == 4
    assert float(re.search(r"test accuracy: ([\d.]+)%", text)[1]) > 90
    assert picture.stat().st_size > 0


@pytest.mark.skipif(not installed("skorch", "distributed"), reason="the extras are not installed")
def test_a_dask_cluster_comes_to_the_weights_of_one_process(alone, monkeypatch):
    """With workers that are threads: tests/engines/test_cluster.py has processes."""
    import distributed

    inside = partial(distributed.LocalCluster, processes=False)
    monkeypatch.setattr(distributed, "LocalCluster", inside)
    text = alone("damped_dask.py", "--epochs", "3")
    assert re.findall(r"epoch (\d+): batch (\d+)", text) == [
        ("1", "64"),
        ("2", "256"),
        ("3", "1024"),
    ]
    assert float(re.search(r"largest difference of a weight: ([\d.e+-]+)", text)[1]) < 1e-4


@on_two_processes
@pytest.mark.skipif(not installed("lightning"), reason="lightning is not installed")
def test_lightning_needs_no_adapter_on_two_processes(on_two):
    text = on_two["lightning_module.py"]
    ((n, steps, accuracy),) = re.findall(r"n = (\d+), (\d+) steps: ([\d.]+)%", text)
    batches = 1437 // 2 // 32
    assert (n, int(steps)) == ("2", 6 * batches // 2)  # two batches are one step
    assert float(accuracy) > 80


@pytest.mark.slow
@pytest.mark.skipif(not installed("lightning"), reason="lightning is not installed")
@pytest.mark.filterwarnings("ignore")
def test_lightning_goes_on_bit_for_bit(alone, tmp_path):
    def trained(name: str, *more: str) -> dict:
        words = ["--dataset", "digits", "--out", str(tmp_path / name), *more]
        alone("lightning_module.py", *words)
        return torch.load(tmp_path / name / "learner-0.ckpt", weights_only=False)

    whole = trained("whole", "--epochs", "3")
    trained("part", "--epochs", "2")
    resumed = trained("part", "--epochs", "3", "--resume")
    assert whole["global_step"] == resumed["global_step"] == 3 * (1437 // 32 // 2)
    for name, weights in whole["state_dict"].items():
        assert torch.equal(weights, resumed["state_dict"][name])


@on_two_processes
@pytest.mark.skipif(not installed("transformers", "accelerate"), reason="they are not installed")
def test_hugging_faces_loops_stop_together_and_go_on_bit_for_bit(on_two):
    """The Trainer by the adapter of the example, accelerate by none."""
    text = on_two["frameworks.py"]
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
