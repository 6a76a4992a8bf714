"""A user's tables and folders of images are the arrays that they were made of."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import csv, parquet

from gossip import run, trace
from gossip.data import CorruptDataError, load
from gossip.data.files import stacked
from gossip.errors import UserError

DRAWS = np.random.default_rng(0)


def table(path, rows=20, labels=None, **columns):
    numbers = {"a": DRAWS.standard_normal(rows).astype("f4"), "b": DRAWS.integers(9, size=rows)}
    labels = np.arange(rows) % 3 if labels is None else labels
    path.parent.mkdir(parents=True, exist_ok=True)
    made = pa.table({**numbers, "label": labels, **columns})
    parquet.write_table(made, path)
    return np.stack([numbers["a"], numbers["b"]], axis=1).astype("f4")


def test_train_and_test_tables_are_the_arrays(tmp_path):
    inputs = [table(tmp_path / "mine" / f"{name}.parquet") for name in ("train", "test")]
    found = load("mine", tmp_path)
    np.testing.assert_array_equal(found.train_inputs, inputs[0])
    np.testing.assert_array_equal(found.test_inputs, inputs[1])
    assert found.train_labels.tolist() == (np.arange(20) % 3).tolist()


def test_of_one_table_every_fifth_of_a_class_is_held_out_and_texts_are_classes(tmp_path):
    inputs = table(tmp_path / "mine.parquet", labels=["no", "yes"] * 10)
    found = load("mine", tmp_path)
    assert len(found.test_labels) == 4
    together = np.concatenate([found.train_inputs, found.test_inputs])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(inputs, axis=0))
    for x, y in zip(found.train_inputs, found.train_labels, strict=True):
        assert y == np.flatnonzero((inputs == x).all(1))[0] % 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"c": ["x"] * 20}, "column 'c' is string"),
        ({"c": [None] + [1.0] * 19}, "column 'c' has cells without a value"),
        ({"c": [1.0] * 3 + [float("nan")] * 17}, "column 'c' is not finite as float32 in row 3"),
        ({"c": [0.0] * 19 + [1e300]}, "column 'c' is not finite as float32 in row 19"),
        ({"label": [None] + [0.5] * 19}, "neither numbers nor texts, or none in places"),
        ({"label": [None] + [1] * 19}, "neither numbers nor texts, or none in places"),
        (
            {"label": pa.array([None] + ["no", "yes"] * 9 + ["no"]).dictionary_encode()},
            "neither numbers nor texts, or none in places",
        ),
    ],
)
def test_tables_of_something_else_are_refused(tmp_path, columns, message):
    table(tmp_path / "mine.parquet", **columns)
    with pytest.raises(UserError, match=message):
        load("mine", tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_real_numbers_are_to_be_predicted_and_every_fifth_of_their_order_is_held_out(
    tmp_path, ending
):
    labels = DRAWS.standard_normal(20)
    inputs = table(tmp_path / "mine.parquet", labels=labels)
    if ending == "csv":
        csv.write_csv(parquet.read_table(tmp_path / "mine.parquet"), tmp_path / "mine.csv")
        (tmp_path / "mine.parquet").unlink()
    found = load("mine", tmp_path)
    assert found.are_numbers
    assert found.num_classes == 1
    np.testing.assert_array_equal(
        np.sort(found.test_labels[:, 0]), np.sort(labels)[::5].astype("f4")
    )
    for x, y in zip(found.train_inputs, found.train_labels, strict=True):
        assert y == np.float32(labels[(inputs == x).all(1)])


def test_a_csv_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "mine.csv").write_text("a,label\n1,2\n1,2,3\n")
    with pytest.raises(CorruptDataError, match="not a CSV table"):
        load("mine", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,label\n1,no\n2,\n3,yes\n", "neither numbers nor texts, or none in places"),
        ("a,label\n", "has no rows"),
        ("a,a,label\n1,2,0\n", "several columns are named 'a'"),
        ("a,label,label\n1,0,0\n", "several columns are named 'label'"),
    ],
)
def test_a_csv_with_labels_left_out_or_a_name_twice_is_refused(tmp_path, text, message):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        load("mine", tmp_path)


def test_a_table_without_labels_and_no_table_are_refused(tmp_path):
    parquet.write_table(pa.table({"a": [1.0]}), tmp_path / "mine.parquet")
    with pytest.raises(UserError, match="one must be 'label'"):
        load("mine", tmp_path)
    (tmp_path / "mine.parquet").write_bytes(b"PAR1nothing")
    with pytest.raises(CorruptDataError, match="not a Parquet table"):
        load("mine", tmp_path)


def test_classes_and_columns_of_the_test_table_are_those_of_the_training_table(tmp_path):
    table(tmp_path / "mine" / "train.parquet", labels=["no", "yes"] * 10)
    table(tmp_path / "mine" / "test.parquet", labels=["no", "perhaps"] * 10)
    with pytest.raises(UserError, match="classes that it has not: 'perhaps'"):
        load("mine", tmp_path)
    table(tmp_path / "mine" / "test.parquet", c=np.arange(20))
    with pytest.raises(UserError, match="its columns are not those of"):
        load("mine", tmp_path)


def images(folder, count, shape, classes=("cat", "dog")):
    pixels = DRAWS.integers(256, size=(count, *shape), dtype=np.uint8)
    for k, image in enumerate(pixels):
        path = folder / classes[k % len(classes)] / f"{k:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return np.concatenate([pixels[c :: len(classes)] for c in range(len(classes))])


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_folders_of_images_are_the_arrays(tmp_path, shape):
    expected = [images(tmp_path / "mine" / name, 6, shape) for name in ("train", "val")]
    found = load("mine", tmp_path)
    for inputs, pixels in zip((found.train_inputs, found.test_inputs), expected, strict=True):
        axes = (0, 3, 1, 2) if len(shape) == 3 else (0, 1, 2)
        np.testing.assert_array_equal(inputs, pixels.transpose(axes))
    assert found.train_labels.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("kind", ["16 bits", "1 bit", "grey with alpha"])
def test_every_kind_of_grey_is_grey(tmp_path, kind):
    """Of 16 bits the upper 8 are taken; Pillow's own conversion would cut them off at 255."""
    pixels = DRAWS.integers(256, size=(5, 4), dtype=np.uint8)
    made, expected = {
        "16 bits": (Image.fromarray(pixels.astype(np.uint16) * 257), pixels),
        "1 bit": (Image.fromarray(pixels > 127), np.where(pixels > 127, 255, 0)),
        "grey with alpha": (Image.merge("LA", (Image.fromarray(pixels),) * 2), pixels),
    }[kind]
    for part in ("train", "test"):
        folder = tmp_path / "mine" / part / "cat"
        folder.mkdir(parents=True)
        made.save(folder / "a.png")
        Image.fromarray(np.zeros((5, 4), np.uint8)).save(folder / "b.png")
    found = load("mine", tmp_path)
    np.testing.assert_array_equal(found.train_inputs, np.stack((expected, 0 * expected)))


def test_images_that_do_not_fit_are_refused(tmp_path):
    for part in ("train", "test"):
        images(tmp_path / "mine" / part, 4, (5, 4))
    Image.new("L", (7, 5)).save(tmp_path / "mine" / "test" / "dog" / "z.png")
    with pytest.raises(UserError, match="7 x 5 pixels where the first image has 4 x 5"):
        load("mine", tmp_path)
    (tmp_path / "mine" / "test" / "dog" / "z.png").write_bytes(b"nothing")
    with pytest.raises(CorruptDataError, match="not an image"):
        load("mine", tmp_path)
    images(tmp_path / "mine" / "test", 1, (5, 4), ["cow"])
    with pytest.raises(UserError, match="class 'cow' is not in"):
        load("mine", tmp_path)


def saved(folder, *tables):
    """As Hugging Face's datasets 5.0 save a split: streams of batches, and their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{k:05d}-of-{len(tables):05d}.arrow" for k in range(len(tables))]
    for name, each in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, each.schema) as f:
            f.write_table(each)
    state = {"_data_files": [{"filename": name} for name in names], "_split": folder.name}
    (folder / "state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_images_of_32_bits_a_channel_are_refused(kind):
    deep = Image.fromarray(np.arange(16, dtype=kind).reshape(4, 4))
    with pytest.raises(UserError, match="has 32 bits a channel"):
        stacked([(deep, "a.tif")], (4, 4), grey=False, out=np.empty((1, 3, 4, 4), np.uint8))


def test_a_saved_data_set_of_hugging_face_is_its_columns(tmp_path):
    numbers = DRAWS.standard_normal((4, 6, 2)).astype("f4")
    tables = [pa.table({"a": x[:, 0], "label": [0, 1, 2] * 2, "b": x[:, 1]}) for x in numbers]
    saved(tmp_path / "mine" / "train", *tables[:3])
    saved(tmp_path / "mine" / "test", tables[3])
    found = load("mine", tmp_path)
    np.testing.assert_array_equal(found.train_inputs, np.concatenate(numbers[:3]))
    np.testing.assert_array_equal(found.test_inputs, numbers[3])
    assert found.train_labels.tolist() == [0, 1, 2] * 6
    saved(tmp_path / "mine" / "test", tables[3].drop_columns("b"))
    with pytest.raises(UserError, match="its columns are not those of"):
        load("mine", tmp_path)
    (tmp_path / "mine" / "train" / "state.json").write_text("{}")
    with pytest.raises(CorruptDataError, match="not a saved data set"):
        load("mine", tmp_path)


def test_columns_of_lists_are_windows_of_tokens_and_a_label_for_each(tmp_path):
    windows = DRAWS.integers(7, size=(10, 4))
    ids, following = windows.tolist(), np.roll(windows, -1, axis=1)
    fixed = pa.array(following.tolist(), pa.list_(pa.int32(), 4))
    table = pa.table({"input_ids": ids, "label": fixed})
    saved(tmp_path / "mine", table.slice(0, 6), table.slice(6))
    parquet.write_table(table, tmp_path / "other.parquet")
    rest = np.delete(np.arange(10), [0, 5])
    for name in ("mine", "other"):
        found = load(name, tmp_path)
        np.testing.assert_array_equal(found.train_inputs, windows[rest])
        np.testing.assert_array_equal(found.test_labels, following[[0, 5]])
        assert found.train_inputs.dtype == np.int32
    for column, said in (
        ([*ids[:9], [1]], "lists of different lengths"),
        ([*ids[:9], None], "lists of different lengths"),
        ([["a"]] * 10, "make numbers of it"),
        ([[1, None]] * 10, "make numbers of it"),
    ):
        saved(tmp_path / "mine", pa.table({"input_ids": column, "label": fixed}))
        with pytest.raises(UserError, match=said):
            load("mine", tmp_path)
    saved(tmp_path / "mine", table.append_column("mask", table["input_ids"]))
    with pytest.raises(UserError, match="which may be the one input alone"):
        load("mine", tmp_path)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_a_saved_data_set_of_images_is_its_pixels(tmp_path, shape):
    def cell(pixels):
        Image.fromarray(pixels).save(file := io.BytesIO(), "PNG")
        return {"bytes": file.getvalue(), "path": None}

    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pixels = DRAWS.integers(256, size=(2, 6, *shape), dtype=np.uint8)
    for name, part in zip(("train", "validation"), pixels, strict=True):
        images = pa.array([cell(p) for p in part], kind)
        saved(tmp_path / "mine" / name, pa.table({"image": images, "label": ["b", "a"] * 3}))
    found = load("mine", tmp_path)
    axes = (0, 3, 1, 2) if len(shape) == 3 else (0, 1, 2)
    np.testing.assert_array_equal(found.train_inputs, pixels[0].transpose(axes))
    np.testing.assert_array_equal(found.test_inputs, pixels[1].transpose(axes))
    assert found.test_labels.tolist() == [1, 0] * 3
    broken = pa.table({"image": pa.array([{"bytes": b"no", "path": None}], kind), "label": ["a"]})
    saved(tmp_path / "mine" / "validation", broken)
    with pytest.raises(CorruptDataError, match="image 0: not an image"):
        load("mine", tmp_path)
    for other in ({"picture": images}, {"image": [1.0] * 6}):
        saved(tmp_path / "mine" / "validation", pa.table({**other, "label": ["b", "a"] * 3}))
        with pytest.raises(UserError, match="mine: there is no column 'image' of images"):
            load("mine", tmp_path)


@pytest.mark.usefixtures("no_pictures")
def test_a_run_learns_from_a_table(tmp_path):
    table(tmp_path / "mine.parquet", rows=100)
    options = ["--dataset", "mine", "--data-dir", str(tmp_path), "--algorithm", "dpsgd"]
    options += ["--learners", "2", "--batch-size", "10", "--steps", "3", "--monitor-every", "1"]
    assert run.main([*options, "--out", str(tmp_path / "run")]) == 0
    assert np.isfinite(trace.column(trace.load(tmp_path / "run"), "alpha_e")[:3]).all()
