"""Data files, caches and packages from anybody."""

import gzip
import io
import json
import tarfile
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given

from gossip.data import cache, cifar, load, packages, readers
from gossip.data.cache import Expected
from gossip.data.dataset import MOST_CLASSES, CorruptDataError, Scale, content_hash, hash_lines
from gossip.errors import UserError
from tests.data.data_files import idx_bytes, write_idx
from tests.hostile.damage import BINARY, TEXT, damaged, fuzz, fuzzed, one_sentence, torn

PIXELS = np.random.default_rng(0).integers(0, 256, (18, 3, 2), dtype=np.uint8)
LABELS = np.arange(18, dtype=np.int64) % 3
ARRAYS = (PIXELS[:12], LABELS[:12], PIXELS[12:], LABELS[12:])
NAMED = dict(zip(readers.NPZ_KEYS, ARRAYS, strict=True))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_npz_is_a_dataset_or_one_sentence(save, tmp_path):
    save(tmp_path / "own.npz", **NAMED)
    fuzzed(tmp_path / "own.npz", lambda: load("own", tmp_path).arrays[0].sum(), 100)


@pytest.mark.parametrize("zipped", [False, True])
def test_damaged_idx_files_are_a_dataset_or_one_sentence(zipped, tmp_path):
    folder = write_idx(tmp_path / "own", ARRAYS, zipped=zipped)
    for path in sorted(folder.iterdir()):
        fuzzed(path, lambda: load("own", tmp_path).arrays[0].sum(), 40)


def test_a_damaged_cache_is_the_pinned_data_or_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path))
    expected = Expected("own", content_hash(hash_lines(ARRAYS)), Scale())
    cache.write(expected, "made up", ARRAYS)

    def read():
        dataset = cache.read(expected)
        assert dataset is not None
        assert hash_lines(dataset.arrays) == hash_lines(ARRAYS)

    for path in sorted(cache.folder_of("own").iterdir()):
        fuzzed(path, read, 40, TEXT if path.suffix == ".json" else BINARY)


def archive_of(kind, members):
    target = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=target, mode="w:gz" if kind == "tgz" else "w") as archive:
            for name, data in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def opened(kind, data, name="package/a", **limits):
    if kind == "zip":
        return packages.zip_member(data, name, **limits)
    if kind == "gz":
        return packages.gunzip_bytes(data, name, **limits)
    return packages.tar_members(data, [name], **limits)[0]


@pytest.mark.parametrize("kind", ["zip", "tar", "tgz", "gz"])
def test_a_damaged_package_is_some_bytes_or_one_sentence(kind):
    content = bytes(range(256)) * 8
    members = {"package/a": content, "package/b": b"b" * 1000}
    whole = gzip.compress(content) if kind == "gz" else archive_of(kind, members)
    assert opened(kind, whole) == content

    @fuzz(80)
    @given(data=damaged(whole, BINARY))
    def check(data):
        with one_sentence():
            assert isinstance(opened(kind, data), bytes)

    check()
    for data in torn(whole, 40):
        with one_sentence():
            opened(kind, data)


@pytest.mark.parametrize("kind", ["zip", "tar", "tgz", "gz"])
def test_a_bomb_is_not_unpacked(kind):
    content = bytes(2**25)
    bomb = gzip.compress(content) if kind == "gz" else archive_of(kind, {"package/a": content})
    del content
    tracemalloc.start()
    with pytest.raises(CorruptDataError, match=r"larger than|more than"):
        opened(kind, bomb, max_bytes=2**16)
    assert tracemalloc.get_traced_memory()[1] < 2**22 + (2**26 if kind == "tar" else 0)
    tracemalloc.stop()


def test_members_have_nowhere_to_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = tarfile.TarInfo("package/a")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("../../escaped"))
    with pytest.raises(CorruptDataError, match="is a link or larger"):
        packages.tar_members(target.getvalue(), ["package/a"])
    assert packages.tar_members(target.getvalue(), ["../../escaped"]) == [b""]
    assert list(tmp_path.iterdir()) == []


def test_an_npz_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_BYTES", 2**20)
    np.savez_compressed(tmp_path / "own.npz", **NAMED | {"x_train": np.zeros(2**25, np.uint8)})
    tracemalloc.start()
    with pytest.raises(CorruptDataError, match="x_train unpacks to more than 1048576 bytes"):
        load("own", tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_gzipped_idx_bomb_is_not_unpacked(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(2**25)))
    tracemalloc.start()
    with pytest.raises(CorruptDataError, match="unpacks to more than 65536 bytes"):
        readers.gunzip(tmp_path / "x.gz", 2**16)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_a_name_leads_out_of_no_folder(tmp_path):
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "other.npz", **NAMED)
    for name in ("../other", str(tmp_path / "other"), "data/../../other"):
        with pytest.raises(UserError, match="unknown dataset"):
            load(name, tmp_path / "data")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y_train": LABELS[:12] + MOST_CLASSES}, "count from 0, fewer than 1048576"),
        ({"y_train": np.full(12, np.iinfo(np.uint64).max, np.uint64)}, "give integers"),
        ({"y_train": LABELS[:12].astype("m8[s]")}, "give integers"),
        ({"x_train": np.full((12, 3, 2), 1e300)}, "floats that are all finite as float32"),
        ({"x_train": np.full((12, 3, 2), np.inf)}, "floats that are all finite"),
        ({"x_train": PIXELS[:12] + 1j}, "inputs are complex128"),
        ({"x_train": PIXELS[:12].astype(str)}, "inputs are str"),
    ],
)
def test_values_that_would_cost_or_spoil_a_run_are_refused(changes, sentence, tmp_path):
    np.savez(tmp_path / "own.npz", **NAMED | changes)
    with pytest.raises(UserError, match=sentence):
        load("own", tmp_path)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0, 2**32 - 1), (0, *[2**32 - 1] * 7)])
def test_an_idx_file_without_data_is_refused(shape, tmp_path):
    head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
    (tmp_path / "x").write_bytes(head)
    for read in (lambda: readers.parse_idx(head, "x"), lambda: readers.map_idx(tmp_path / "x")):
        with pytest.raises(CorruptDataError, match=r"announces .*, or no data: replace it"):
            read()
    assert readers.parse_idx(idx_bytes(PIXELS), "x").shape == PIXELS.shape


def png(width, height, rows):
    """A PNG picture that says it has width x height pixels in RGB."""

    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_damaged_pictures_are_pictures_or_one_sentence():
    pytest.importorskip("PIL")
    whole = png(1024, 2, (b"\0" + bytes(3072)) * 2)
    assert cifar.parse_images(whole, "x").shape == (2, 3, 32, 32)

    @fuzz(60)
    @given(data=damaged(whole, BINARY))
    def check(data):
        with one_sentence():
            cifar.parse_images(data, "x")

    check()
    for width, height in [(1024, 2**16), (1024, 2**20), (2**31 - 1, 2**31 - 1), (0, 0)]:
        with pytest.raises(CorruptDataError, match=r"x: (not a whole PNG|a picture of more than)"):
            cifar.parse_images(png(width, height, b"\0" * 100), "x")


@pytest.mark.parametrize(
    "text", ["[" * 10**5, "[1, [2]]", "[1e3]", json.dumps([10**30]), "9" * 5000]
)
def test_labels_that_are_none_are_refused(text):
    with pytest.raises(CorruptDataError, match="x: not "):
        cifar.parse_labels(text.encode(), "x")
