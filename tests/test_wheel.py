"""The distribution gossip-sgd, built, installed and run in an environment outside the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import gossip
from gossip import trace

ROOT = Path(__file__).parents[1]
CASE = ["--dataset", "digits", "--steps", "3", "--learners", "4", "--algorithm", "dpsgd"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that `python -m build` makes, by way of the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel, its dependencies being those of this one."""
    prefix = tmp_path_factory.mktemp("environment")
    done(sys.executable, "-m", "venv", "--without-pip", prefix, cwd=prefix)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", prefix]
    done(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=prefix)
    scheme = {"base": str(prefix), "platbase": str(prefix)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    # A path in a .pth file: its own .pth files, so our checkout's, are not read.
    theirs = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "dependencies.pth").write_text("\n".join(theirs))
    return prefix / "bin"


def done(*command, cwd):
    """The finished process, which must have ended well, and to which our PYTHONPATH is unknown."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    process = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
    sources = [file for package in ("gossip", "topologies") for file in (ROOT / package).rglob("*")]
    ours = {str(f.relative_to(ROOT)) for f in sources if f.is_file() and f.suffix != ".pyc"}
    folder = f"gossip_sgd-{gossip.__version__}.dist-info/"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(folder)}
    assert held == ours | {"gossip_sgd.py"}
    assert {"gossip/py.typed", "gossip/report/gossip.mplstyle"} <= held
    assert {f"gossip/report/page/page.{kind}" for kind in ("html", "css", "js")} <= held


def test_every_script_is_a_module_of_the_wheel(installed, tmp_path):
    code = """if True:
        import importlib.util, json, gossip
        from importlib.metadata import distribution
        points = distribution("gossip-sgd").entry_points.select(group="console_scripts")
        found = {p.name: importlib.util.find_spec(p.load().args[0]).origin for p in points}
        print(json.dumps([gossip.__file__, found]))
    """
    file, found = json.loads(done(installed / "python", "-c", code, cwd=tmp_path).stdout)
    site = Path(file).parents[1]
    assert site.is_relative_to(installed.parent)
    assert all(Path(origin).is_relative_to(site) for origin in found.values())
    assert set(found) == {file.name for file in installed.glob("gossip-*")}
    assert {name.removeprefix("gossip-") for name in found} == {
        "run", "launch", "report", "compare", "schedule", "simulate", "watch", "landscape", "data",
        "topologies",
    }  # fmt: skip


@pytest.fixture(scope="module")
def alone(installed, tmp_path_factory):
    """The folder of a run by the script, in an empty folder outside the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    done(installed / "gossip-run", *CASE, "--out", "alone", cwd=folder)
    return folder / "alone"


def test_an_installed_script_trains(alone):
    summary = json.loads((alone / "summary.json").read_text())
    assert (summary["steps"], summary["learners"]) == (3, 4)
    assert summary["versions"]["gossip"] == gossip.__version__
    assert summary["commit"] is None  # it is no checkout
    assert (alone / "figure.png").stat().st_size > 0
    assert trace.load(alone)["step"].to_pylist() == [0, 1, 2, 3]


def test_the_launched_run_is_the_same_by_the_mpi_of_its_environment(installed, alone):
    link_mpi(installed.parent)
    launch = [installed / "gossip-launch", "-n", "2"]
    done(*launch, *CASE, "--out", "launched", cwd=alone.parent)
    launched = alone.parent / "launched"
    assert json.loads((launched / "summary.json").read_text())["processes"] == 2
    rows, expected = trace.load(launched), trace.load(alone)
    for column in ("train_loss", "alpha_e", "sigma_w2"):
        np.testing.assert_allclose(rows[column], expected[column], rtol=1e-4, err_msg=column)


def link_mpi(prefix):
    """Put our MPICH into bin and lib of `prefix`, where its wheel would put it."""
    try:
        files = metadata.files("mpich") or []
    except metadata.PackageNotFoundError:
        pytest.skip("no mpich in this environment")
    for file in files:
        inside = file.locate().resolve().relative_to(Path(sys.prefix).resolve())
        if inside.parts[0] == "bin" or (inside.parts[0] == "lib" and ".so" in inside.name):
            (prefix / inside).parent.mkdir(parents=True, exist_ok=True)
            (prefix / inside).symlink_to(Path(sys.prefix, inside))


def test_the_topologies_script_prints_their_table(installed, tmp_path):
    table = done(installed / "gossip-topologies", "-n", "4", "ring", cwd=tmp_path).stdout
    # W of the ring of four: 1/3 on the diagonal and to both neighbours, so |lambda_2| = 1/3.
    assert "0.33333" in table
