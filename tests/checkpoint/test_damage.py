"""A damaged file is found, whatever is wrong with it, and never read as if it were good."""

import json
import os
import random
import struct

import pytest

from gossip.checkpoint import newest, read, verify
from gossip.errors import UserError
from tests.checkpoint.forge import forge
from tests.checkpoint.jobs import bits, copy, saved, snapshot, whole

FILES = (
    "manifest.json",
    "shared.safetensors",
    "block-00000.safetensors",
    "block-00001.safetensors",
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The folder of two checkpoints, of which tests damage copies."""
    folder = tmp_path_factory.mktemp("good")
    saved(folder, 100, 200)
    return folder


@pytest.fixture
def path(good, tmp_path):
    """The newer of two."""
    copy(good, tmp_path / "checkpoint")
    return newest(tmp_path / "checkpoint")[0]


def refuse(path, match=None):
    """Neither is it good, nor can it be read."""
    for function in (verify, whole):
        with pytest.raises(UserError, match=match) as caught:
            function(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("file", FILES)
def test_a_torn_file(file, path):
    data = (path / file).read_bytes()
    header = 8 + struct.unpack("<Q", data[:8])[0] if file != "manifest.json" else 40
    for length in {0, 1, 7, 8, 9, header - 1, header, header + 1, len(data) // 2, len(data) - 1}:
        (path / file).write_bytes(data[:length])
        refuse(path)
    (path / file).write_bytes(data + b"\0")
    refuse(path)
    (older,) = newest(path.parent)[1:]
    verify(older)
    assert bits(whole(older)) == bits(snapshot(100))


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file(file, path):
    (path / file).unlink()
    refuse(path, "No such file")
    assert (path in newest(path.parent)) == (file != "manifest.json")


@pytest.mark.parametrize("file", FILES)
def test_a_single_other_bit(file, path):
    data = (path / file).read_bytes()
    draw = random.Random(file)
    for position in draw.sample(range(8 * len(data)), 60):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        (path / file).write_bytes(changed)
        refuse(path)
    (path / file).write_bytes(data)
    assert bits(whole(path)) == bits(snapshot(200))


def test_a_process_needs_only_the_files_it_reads(path):
    (path / "block-00001.safetensors").write_bytes(b"")
    assert bits(read(path, range(2)))[0] == 200
    with pytest.raises(UserError, match="block-00001"):
        verify(path)


def test_a_checkpoint_under_another_name(path):
    other = path.rename(path.with_name("step-000000900"))
    refuse(other, "is of step 200, not of step-000000900")


@pytest.mark.parametrize("file", FILES)
def test_links_pipes_and_folders_are_not_opened(file, path, tmp_path):
    """A pipe that nobody writes to would hang whoever opens it."""
    outside = tmp_path / "outside"
    (path / file).rename(outside)
    (path / file).symlink_to(outside)
    refuse(path, "symbolic link")
    (path / file).unlink()
    os.mkfifo(path / file)
    refuse(path, "not a regular file")
    (path / file).unlink()
    (path / file).mkdir()
    refuse(path)


def test_newest_goes_by_the_steps_not_by_the_time(path):
    os.utime(path / "manifest.json", (0, 0))
    os.utime(path, (0, 0))
    assert [p.name for p in newest(path.parent)] == ["step-000000200", "step-000000100"]


def test_newest_passes_over_what_is_no_checkpoint(path, tmp_path):
    folder, before = path.parent, newest(path.parent)
    for name in ("step-000000300", "step-300", "step-0000000400", "step-000000500.bak", "x"):
        (folder / name).mkdir()
        if name != "step-000000300":  # has no manifest
            (folder / name / "manifest.json").write_text("{}")
    (folder / "step-000000600").write_text("a file")
    (folder / "step-000000700").symlink_to(path)
    (folder / ".step-000000800.0.partial").mkdir()
    (folder / "step-٠٠٠٠٠٠٩٠٠").mkdir()
    (folder / "step-000001000").mkdir()
    (folder / "step-000001000" / "manifest.json").symlink_to(path / "manifest.json")
    assert newest(folder) == before
    assert newest(tmp_path / "nowhere") == newest(path / "manifest.json") == []


def test_a_manifest_too_large_is_not_read(path):
    with (path / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # no such file fits into memory
    refuse(path, "at most")


def test_a_header_too_large_is_not_parsed(path):
    """Also where somebody has taken the trouble to correct the hashes."""
    entry = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    header = json.dumps({"a": entry}).encode() + b" " * 2**22
    forge(path, "shared.safetensors", struct.pack("<Q", len(header)) + header + b"1")
    refuse(path, "header")
