import errno
import json
import os
import stat
import subprocess
import tomllib

import pytest

from gossip.errors import UserError
from gossip.storage import folder
from tests.report import made_up


def test_an_empty_or_new_folder_is_taken(tmp_path):
    assert folder.create(tmp_path / "a" / "b").is_dir()
    assert folder.create(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert not any((tmp_path / "a" / "b").iterdir())


def test_an_existing_run_is_never_written_over(tmp_path):
    made_up.run(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match="exists already: choose another --out or remove it"):
        folder.create(tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        folder.create(tmp_path / "file")
    with pytest.raises(UserError, match="cannot write to run folder"):
        folder.create(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Permission denied"):
        folder.create(tmp_path / "run")
    with pytest.raises(UserError, match="Permission denied"):
        folder.create(tmp_path)


def test_a_config_comes_back_without_its_nones(tmp_path):
    tables = {"gossip": {"lr": 1.5, "topology": None, "out": tmp_path, "cuts": (1, 2)}}
    folder.write_config(tmp_path, tables)
    expected = {"gossip": {"lr": 1.5, "out": str(tmp_path), "cuts": [1, 2]}}
    assert folder.read_config(tmp_path) == expected
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_config_is_on_disk_before_it_has_its_name_and_then_its_name(tmp_path, monkeypatch):
    synced = []

    def noted(descriptor):
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        synced.append((kind, (tmp_path / "config.toml").exists()))

    monkeypatch.setattr(folder.os, "fsync", noted)
    folder.write_config(tmp_path, {"seed": 1})
    assert synced == [(stat.S_IFREG, False), (stat.S_IFDIR, True)]


def test_a_summary_is_strict_json_with_null_for_what_is_not_finite(tmp_path):
    values = {"loss": float("nan"), "max": [float("inf"), 1.0], "sub": {"x": float("-inf")}}
    folder.write_summary(tmp_path, values)

    def refuse(name):
        raise AssertionError(name)

    text = (tmp_path / "summary.json").read_text()
    expected = {"loss": None, "max": [None, 1.0], "sub": {"x": None}}
    assert json.loads(text, parse_constant=refuse) == expected
    assert folder.read_summary(tmp_path) == expected


def test_a_failed_write_keeps_the_old_file(tmp_path):
    folder.write_summary(tmp_path, {"steps": 1})
    with pytest.raises(TypeError):
        folder.write_summary(tmp_path, {"steps": object()})
    assert folder.read_summary(tmp_path) == {"steps": 1}
    with pytest.raises(UserError, match="cannot write"):
        folder.write_summary(tmp_path / "nowhere", {})


def test_a_disk_that_has_become_read_only_is_one_sentence(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("open", "unlink"):
        monkeypatch.setattr(folder.Path, name, refused)
    with pytest.raises(UserError, match=r"cannot write .*summary\.json: Read-only file system"):
        folder.write_summary(tmp_path, {})


@pytest.mark.parametrize("text", ["[", "[1]", '"x"', "[" * 100_000, "\xff"])
def test_an_unreadable_summary_is_one_clear_error(tmp_path, text):
    (tmp_path / "summary.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="cannot read"):
        folder.read_summary(tmp_path)


def test_an_unreadable_config_is_one_clear_error(tmp_path):
    (tmp_path / "config.toml").write_text("lr =")
    with pytest.raises(UserError, match="cannot read"):
        folder.read_config(tmp_path)
    (tmp_path / "config.toml").write_bytes(b"#" * (folder.MAX_TEXT_BYTES + 1))
    with pytest.raises(UserError, match="more than"):
        folder.read_config(tmp_path)


def test_facts_name_versions_host_and_cores():
    facts = folder.provenance()
    assert {"python", "gossip", "numpy", "pyarrow"} <= set(facts["versions"])
    assert facts["cores"] >= 1
    json.dumps(facts)


@pytest.fixture
def looked_up():
    """Provenance as of a new process."""

    def anew():
        folder._facts.cache_clear()
        return folder.provenance()

    yield anew
    folder._facts.cache_clear()


def test_the_commit_is_that_of_the_code(tmp_path, monkeypatch, looked_up):
    def git(*arguments):
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        command = ["git", *who, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    code = tmp_path / "folder.py"
    code.write_text("")
    monkeypatch.setattr(folder, "__file__", str(code))
    git("init")
    assert looked_up()["commit"] is None  # not tracked: somebody else's checkout
    git("add", "folder.py")
    git("commit", "-m", "x")
    facts = looked_up()
    assert (facts["commit"], facts["dirty"]) == (git("rev-parse", "HEAD").strip(), False)
    code.write_text("changed")
    assert folder.provenance() == facts  # what this process has loaded has not changed
    assert looked_up()["dirty"] is True
    monkeypatch.setenv("PATH", "")
    assert looked_up()["commit"] is None


def test_runs_are_found_alone_in_studies_and_once(tmp_path):
    study = tmp_path / "study"
    names = ["ssgd", "dpsgd"]
    ssgd, dpsgd = (made_up.run(study / name, made=made_up.rows(3)) for name in names)
    (study / "notes").mkdir()
    other = made_up.run(tmp_path / "other", made=made_up.rows(3))
    assert folder.find_runs([other, study]) == [other, dpsgd, ssgd]
    assert folder.find_runs([ssgd, study, ssgd / "trace.arrows"]) == [ssgd, dpsgd]


def test_a_path_without_runs_is_one_clear_error(tmp_path):
    with pytest.raises(UserError, match=r"looked for trace\.arrows there and one below"):
        folder.find_runs([tmp_path])
    with pytest.raises(UserError, match="does not exist"):
        folder.find_runs([tmp_path / "no"])


def test_what_lies_beside_runs_is_left_out(tmp_path):
    runs = [made_up.run(tmp_path / name, made=made_up.rows(3)) for name in ("a", "b")]
    (tmp_path / "notes").mkdir()
    (tmp_path / "figure.png").write_bytes(b"")
    assert folder.find_runs(sorted(tmp_path.iterdir())) == runs
    with pytest.raises(UserError, match="does not exist"):
        folder.find_runs([*runs, tmp_path / "no"])
    with pytest.raises(UserError, match=r"no run in any of .*figure\.png, .*notes: looked for"):
        folder.find_runs([tmp_path / "figure.png", tmp_path / "notes"])
