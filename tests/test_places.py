"""A run finds again what it was begun with, from any folder, and when its own has moved."""

import json
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from gossip.config import Averaging, Config, Data, load
from gossip.config.places import absolute, from_copy, keep_copy
from gossip.errors import UserError
from gossip.run import main

pytestmark = pytest.mark.usefixtures("no_pictures")

RUN = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --widths 4 --lr 0.1 --algorithm dpsgd"
    " --monitor cheap --topology g.edgelist"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two folders, in the first of which there is a file; the way to go to one of them."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "g.edgelist").write_text("0 1\n1 2\n2 3\n3 0\n")
    monkeypatch.chdir(tmp_path / "a")
    return lambda name: monkeypatch.chdir(tmp_path / name)


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_run_goes_on_from_elsewhere_without_its_file_and_moved(here, tmp_path, capsys):
    assert main([*RUN, "--steps", "3", "--out", "run"]) == 0
    here("b")
    assert main(["--resume", "../a/run", "--steps", "5"]) == 0
    shutil.move(tmp_path / "a" / "run", tmp_path / "moved")
    shutil.rmtree(tmp_path / "a")
    assert main(["--resume", "../moved", "--steps", "7"]) == 0
    assert summary(tmp_path / "moved")["steps"] == 7
    capsys.readouterr()


def test_another_graph_of_that_name_is_not_taken_for_it(here, capsys):
    assert main([*RUN, "--steps", "3", "--out", "run"]) == 0
    Path("run/topology/g.edgelist").write_text("0 1\n1 2\n2 3\n")
    assert main(["--resume", "run", "--steps", "5"]) == 2
    assert "the mixing matrices differ" in capsys.readouterr().err


def test_both_runs_of_a_study_have_it(here, tmp_path, capsys):
    several = [*RUN, "--algorithm", "dpsgd", "ssgd", "--steps", "2", "--out", "study"]
    assert main(several) == 0
    here("b")
    assert main(["--resume", "../a/study", "--steps", "3"]) == 0
    assert main(["--resume", "../a/study/dpsgd", "--steps", "4"]) == 0
    assert summary(tmp_path / "a" / "study" / "dpsgd")["steps"] == 4
    capsys.readouterr()


def test_the_users_data_are_found_from_elsewhere_and_may_move(here, tmp_path, capsys):
    rng = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        arrays[f"x_{part}"] = rng.integers(0, 255, (80, 4, 4), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(80) % 3
    (tmp_path / "a" / "data").mkdir()
    np.savez(tmp_path / "a" / "data" / "mine.npz", **arrays)
    words = [*RUN, "--dataset", "mine", "--data-dir", "data", "--steps", "2", "--out", "run"]
    assert main(words) == 0, capsys.readouterr().err
    here("b")
    assert main(["--resume", "../a/run", "--steps", "3"]) == 0, capsys.readouterr().err
    shutil.move(tmp_path / "a" / "data", tmp_path / "b" / "data")
    assert main(["--resume", "../a/run", "--steps", "4"]) == 2
    assert main(["--resume", "../a/run", "--steps", "4", "--data-dir", "data"]) == 0
    assert summary(tmp_path / "a" / "run")["steps"] == 4
    capsys.readouterr()


def test_only_files_become_paths(here, tmp_path):
    config = absolute(Config(gossip=Averaging(topology="ring")))
    assert (config.gossip.topology, config.data.data_dir) == ("ring", None)
    given = Config(gossip=Averaging(topology="g.edgelist"), data=Data(dataset="x", data_dir="d"))
    config = absolute(given)
    assert config.gossip.topology == str(tmp_path / "a" / "g.edgelist")
    assert config.data.data_dir == str(tmp_path / "a" / "d")
    assert absolute(config) == config


def test_a_path_that_is_not_utf_8_is_one_sentence(capsys):
    assert main([*RUN, "--data-dir", os.fsdecode(b"d\xff"), "--out", "run"]) == 2
    assert (
        r"d\udcff' is not UTF-8, which config.toml has to be: rename it" in capsys.readouterr().err
    )
    assert not Path("run").exists()


def test_of_an_algorithms_options_the_run_it_follows_becomes_a_path(here, tmp_path):
    own = ("noise=own", "strength_from=runs/x")
    given = Config(algorithm=("ssgd-injected",), gossip=Averaging(algorithm_options=own))
    config = absolute(given)
    followed = f"strength_from={tmp_path / 'a' / 'runs' / 'x'}"
    assert config.gossip.algorithm_options == ("noise=own", followed)


def test_the_config_of_a_run_starts_another_one_from_elsewhere(here, tmp_path, capsys):
    assert main([*RUN, "--steps", "2", "--out", "run"]) == 0
    assert load(tmp_path / "a" / "run" / "config.toml").gossip.topology == str(
        tmp_path / "a" / "g.edgelist"
    )
    here("b")
    assert main(["--config", "../a/run/config.toml", "--out", "again"]) == 0
    capsys.readouterr()


def test_a_copy_does_not_leave_the_folder_by_a_link(here, tmp_path):
    config = Config(gossip=Averaging(topology="g.edgelist"))
    (tmp_path / "b" / "topology").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a link"):
        keep_copy(config, tmp_path / "b")
    assert not (tmp_path / "g.edgelist").exists()
    assert from_copy(config, tmp_path / "b") == config


def test_a_module_that_is_elsewhere_says_where_it_was_looked_for(here, tmp_path, capsys):
    assert main(["--model", "no_such_module:net", "--dataset", "digits"]) == 2
    text = capsys.readouterr().err
    assert f"looked in {tmp_path / 'a'} and on PYTHONPATH" in text
