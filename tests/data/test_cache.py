import json
import os
import pwd
import subprocess
import sys

import numpy as np
import pytest

from gossip import run
from gossip.data import CorruptDataError, Scale
from gossip.data import __main__ as command
from gossip.data import cache as data_cache
from gossip.data.dataset import ARRAYS, content_hash, hash_lines
from gossip.errors import UserError
from tests.machine import patience


@pytest.fixture
def expected(arrays):
    return data_cache.Expected("tiny-data", content_hash(hash_lines(arrays)), Scale())


@pytest.fixture
def folder(expected, arrays):
    data_cache.write(expected, "package tiny 1.0", arrays)
    return data_cache.folder_of("tiny-data")


def bases(array):
    while array is not None:
        yield array
        array = getattr(array, "base", None)


def test_what_was_written_is_read_memory_mapped_and_read_only(folder, expected, arrays):
    dataset = data_cache.read(expected)
    for a, b in zip(dataset.arrays, arrays, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
        assert not a.flags.writeable
        assert any(isinstance(base, np.memmap) for base in bases(a))
    assert (dataset.source, dataset.sha256) == ("package tiny 1.0", expected.sha256)
    assert (dataset.num_classes, dataset.input_shape) == (3, (3, 2))
    assert [path.name for path in folder.parent.iterdir()] == ["tiny-data"]  # nothing left over


def test_nothing_cached_is_none(expected):
    assert data_cache.read(expected) is None


def flip_last_byte(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("name", ARRAYS)
def test_one_flipped_bit_is_noticed_and_its_array_named(folder, expected, name):
    flip_last_byte(folder / f"{name}.npy")
    with pytest.raises(CorruptDataError, match=f"sha256 of {name} does not match.*fetch tiny-data"):
        data_cache.read(expected)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("keep", [0, 40, -1])
def test_a_torn_array_is_noticed_even_unverified(folder, expected, verify, keep):
    path = folder / "train_inputs.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptDataError, match=f"delete {folder}"):
        data_cache.read(expected, verify=verify)


@pytest.mark.parametrize("verify", [True, False])
def test_an_array_of_another_shape_or_type_is_noticed_even_unverified(folder, expected, verify):
    np.save(folder / "train_labels.npy", np.zeros(12, np.int32))
    with pytest.raises(CorruptDataError, match="train_labels"):
        data_cache.read(expected, verify=verify)


def test_pickled_objects_are_never_loaded(folder, expected):
    np.save(folder / "train_labels.npy", np.array([{}] * 12), allow_pickle=True)
    with pytest.raises(CorruptDataError, match="corrupt cached dataset"):
        data_cache.read(expected)


@pytest.mark.parametrize("verify", [True, False])
def test_data_and_manifest_altered_together_do_not_match_the_pin(folder, expected, arrays, verify):
    altered = (arrays[0] ^ 1, *arrays[1:])
    np.save(folder / "train_inputs.npy", altered[0])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"] = dict(line.split(" ", 1) for line in hash_lines(altered))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptDataError, match="manifest is not the one"):
        data_cache.read(expected, verify=verify)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1, "source": 1}']
)
def test_a_damaged_manifest_is_one_sentence(folder, expected, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CorruptDataError, match="corrupt cached dataset 'tiny-data'"):
        data_cache.read(expected)


def test_writing_replaces_a_corrupt_copy(folder, expected, arrays):
    flip_last_byte(folder / "test_labels.npy")
    data_cache.write(expected, "again", arrays)
    assert data_cache.read(expected).source == "again"
    assert [path.name for path in folder.parent.iterdir()] == ["tiny-data"]


def test_a_copy_without_its_manifest_is_not_there_yet(folder, expected):
    (folder / "manifest.json").unlink()
    assert data_cache.read(expected) is None


def test_rewriting_does_not_disturb_those_who_have_it_mapped(folder, expected, arrays):
    mapped = data_cache.read(expected)
    data_cache.write(expected, "again", arrays)
    np.testing.assert_array_equal(mapped.train_inputs, arrays[0])


def test_a_cache_that_cannot_be_written_is_a_users_error(tmp_path, monkeypatch, expected, arrays):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set GOSSIP_CACHE"):
        data_cache.write(expected, "", arrays)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("GOSSIP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_cache.cache_root() == tmp_path / "gossip"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_cache.cache_root() == tmp_path / ".cache" / "gossip"


class TestWithoutAHome:
    """A user that is a number only, as in a container: without HOME, unknown to the system."""

    @pytest.fixture(autouse=True)
    def _nobody(self, monkeypatch):
        def unknown(uid):
            raise KeyError(uid)

        for name in ("GOSSIP_CACHE", "XDG_CACHE_HOME", "HOME", "USER", "LOGNAME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(pwd, "getpwuid", unknown)
        monkeypatch.chdir("/")

    def test_a_cache_is_asked_for_in_a_sentence(self, expected, arrays, monkeypatch):
        for given in (None, "~/mine"):
            if given:
                monkeypatch.setenv("GOSSIP_CACHE", given)
            with pytest.raises(UserError, match=r"has no home folder; set GOSSIP_CACHE"):
                data_cache.write(expected, "", arrays)
            assert data_cache.read(expected) is None

    def test_what_needs_none_is_there(self, tmp_path, capsys):
        words = "--dataset digits --learners 2 --batch-size 8 --widths 4 --steps 2 --monitor cheap"
        assert run.main([*words.split(), "--out", str(tmp_path / "run")]) == 0
        assert (tmp_path / "run" / "figure.png").is_file()
        capsys.readouterr()

    def test_the_list_says_that_there_is_none(self, capsys, monkeypatch):
        monkeypatch.setattr("sys.argv", ["gossip.data", "list"])
        command.main()
        assert "has no home folder" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter any folder")
def test_a_home_that_may_not_be_entered_has_no_cache(tmp_path, monkeypatch, expected):
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "closed"))
    (tmp_path / "closed").mkdir(mode=0)
    assert data_cache.read(expected) is None


RACE = """
import sys, time, numpy as np
from pathlib import Path
from gossip.data import Scale, cache
from gossip.data.dataset import content_hash, hash_lines
x, y = np.arange(60000, dtype=np.uint8).reshape(-1, 6), np.arange(10000) % 3
arrays, meeting, me = (x, y, x, y), Path(sys.argv[1]), sys.argv[2]
sha256 = content_hash(hash_lines(arrays))
for k in range(20):
    (meeting / f"{me}-{k}").touch()
    start = time.monotonic()
    while len(list(meeting.glob(f"*-{k}"))) < 2:
        assert time.monotonic() - start < 300, "the other process has died"
    expected = cache.Expected(f"tiny-{k}", sha256, Scale())
    cache.write(expected, me, arrays)
    assert cache.read(expected).sha256 == sha256
"""


def test_two_processes_that_write_at_once_both_end_well(tmp_path, cache, arrays):
    for k in range(0, 20, 2):  # every second time a corrupt copy is in the way of both
        (cache / "data" / f"tiny-{k}").mkdir(parents=True)
        (cache / "data" / f"tiny-{k}" / "manifest.json").write_text("torn")
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, meeting, name], stderr=subprocess.PIPE)
        for name in "ab"
    ]
    for racer in racers:
        _, errors = racer.communicate(timeout=patience(60))
        assert racer.returncode == 0, errors.decode()
    assert sorted(path.name for path in (cache / "data").iterdir()) == sorted(
        f"tiny-{k}" for k in range(20)
    )
