"""The other library named gossip, installed beside ours or in its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gossip
import gossip_sgd

ROOT = Path(__file__).parents[1]
STRANGER = '"""Signals and hooks."""\n\ndef register(): ...\n'


@pytest.fixture
def mixed(tmp_path):
    """A folder where the two libraries lie in one package, as in one site-packages."""
    package = tmp_path / "gossip"
    package.mkdir()
    for entry in (ROOT / "gossip").iterdir():
        if entry.name != "__pycache__":  # ours, into which theirs would be compiled
            (package / entry.name).symlink_to(entry)
    (package / "hooks.py").write_text(STRANGER)
    return tmp_path


def attempt(folder, *arguments, **environment):
    """Python's run of `arguments`, where `folder` comes before this checkout."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


START = [
    *([["-m", f"gossip.{name}"] for name in ("run", "launch")]),
    *([["-c", f"import gossip_sgd; gossip_sgd.{name}()"] for name in ("run", "report")]),
]


@pytest.mark.parametrize("arguments", START, ids=" ".join)
def test_anothers_init_on_top_of_our_files_is_an_error(mixed, arguments):
    (mixed / "gossip/__init__.py").unlink()
    (mixed / "gossip/__init__.py").write_text(STRANGER)
    process = attempt(mixed, *arguments)
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert str(mixed / "gossip/__init__.py") in line
    assert "pip uninstall gossip, then install gossip-sgd again" in line


@pytest.mark.parametrize("files", [["__init__.py", "hooks.py"], []], ids=["other", "left over"])
def test_a_package_without_our_files_is_an_error(tmp_path, files):
    (tmp_path / "gossip").mkdir()
    for name in files:
        (tmp_path / "gossip" / name).write_text("import what_it_needs\n" + STRANGER)
    (tmp_path / "gossip_sgd.py").symlink_to(ROOT / "gossip_sgd.py")
    # Without site, so that no installed gossip is found behind this one.
    script = ["-S", "-c", "import gossip_sgd; gossip_sgd.launch()"]
    process = attempt(tmp_path, *script, PYTHONPATH=str(tmp_path))
    assert process.returncode == 2
    assert process.stderr.startswith("gossip.launch: import gossip finds another library (")
    assert len(process.stderr.splitlines()) == 1


def test_both_in_one_folder_with_ours_on_top_is_a_warning(mixed):
    process = attempt(mixed, "-c", "import gossip; print(gossip.__version__)")
    assert process.stdout.strip() == gossip.__version__
    assert "each overwrites the other's gossip/__init__.py: pip uninstall gossip" in process.stderr


def test_the_warning_comes_from_one_process_of_a_job(mixed):
    rank = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    assert attempt(mixed, "-c", "import gossip", **rank).stderr == ""


def test_our_own_packages_are_not_strangers():
    assert gossip_sgd.stranger("gossip") is None
    assert gossip_sgd.stranger("topologies") is None
