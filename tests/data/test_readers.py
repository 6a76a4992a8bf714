import gzip

import numpy as np
import pytest

from gossip.data import CorruptDataError
from gossip.data.readers import IDX_NAMES, find, gunzip, map_idx, parse_idx, train_test_npz
from gossip.errors import UserError
from tests.data.data_files import idx_bytes, write_idx


def same(found, arrays):
    assert found is not None
    for a, b in zip(found[0], arrays, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("folder", [".", "mnist", "MNIST/raw"])
def test_idx_files_are_found_in_every_usual_layout(tmp_path, arrays, zipped, dotted, folder):
    write_idx(tmp_path / folder, arrays, zipped, dotted)
    same(find("mnist", tmp_path, published=True), arrays)


def test_torchvision_names_its_folder_without_hyphen(tmp_path, arrays):
    write_idx(tmp_path / "FashionMNIST" / "raw", arrays)
    same(find("fashion-mnist", tmp_path, published=True), arrays)


def test_bare_idx_files_are_not_taken_for_data_whose_hash_nobody_knows(tmp_path, arrays):
    write_idx(tmp_path, arrays)
    assert find("mine", tmp_path, published=False) is None
    write_idx(tmp_path / "mine", arrays)
    same(find("mine", tmp_path, published=False), arrays)


@pytest.mark.parametrize("place", ["mine.npz", "mine/mine.npz"])
def test_npz_is_found_by_the_name_of_the_dataset(tmp_path, arrays, place):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays, strict=True)))
    same(find("mine", tmp_path, published=False), arrays)
    same(find("whatever", path, published=False), arrays)


def test_nothing_is_found_in_an_empty_folder_and_no_folder_is_an_error(tmp_path):
    assert find("mnist", tmp_path, published=True) is None
    with pytest.raises(UserError, match="no such folder"):
        find("mnist", tmp_path / "absent", published=True)


def test_missing_idx_files_are_named(tmp_path, arrays):
    write_idx(tmp_path, arrays)
    (tmp_path / IDX_NAMES[3]).unlink()
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte \(or \.gz\) missing"):
        find("mnist", tmp_path, published=True)


def test_raw_idx_is_memory_mapped_read_only(tmp_path, arrays):
    path = tmp_path / "file"
    path.write_bytes(idx_bytes(arrays[0]))
    mapped = map_idx(path)
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"\0\0\x0d" + data[3:], "not an IDX file"),  # floats, not bytes
        (lambda data: b"PK\x03\x04" + data[4:], "not an IDX file"),
        (lambda data: b"", "not an IDX file"),
        (lambda data: data[:-1], "where its header announces"),
        (lambda data: data + b"\0", "where its header announces"),
        (lambda data: data[:9], "where its header announces"),
        (lambda data: data[:4] + b"\xff" * 12 + data[16:], "where its header announces"),
    ],
)
def test_damaged_idx_is_refused_mapped_or_not(tmp_path, arrays, damage, message):
    data = damage(idx_bytes(arrays[0]))
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(CorruptDataError, match=message):
        parse_idx(data, "file")
    with pytest.raises(CorruptDataError, match=message):
        map_idx(tmp_path / "file")


def test_torn_and_oversized_gzip_files_are_refused(tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(b"x" * 5000))
    assert gunzip(path, 5000) == b"x" * 5000
    with pytest.raises(CorruptDataError, match="more than 4999 bytes"):
        gunzip(path, 4999)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptDataError, match="not a whole gzip file"):
        gunzip(path)


def test_npz_with_objects_or_without_a_key_or_torn_is_refused(tmp_path, arrays):
    path = tmp_path / "file.npz"
    keys = ("x_train", "y_train", "x_test", "y_test")
    np.savez(path, **dict(zip(keys, (np.array([{}]), *arrays[1:]), strict=True)))
    with pytest.raises(CorruptDataError, match="pickle"):
        train_test_npz(path)
    np.savez(path, x_train=arrays[0])
    with pytest.raises(CorruptDataError, match="y_train"):
        train_test_npz(path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CorruptDataError, match=r"not a \.npz"):
        train_test_npz(path)
