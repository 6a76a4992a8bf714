"""Reading what `save_to_disk` of Hugging Face's `datasets` leaves, without their library."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError, hold_out_every_fifth
from gossip.data.files import (
    GREY,
    LABEL,
    MAX_BYTES,
    TESTS,
    cells_of,
    columns_of,
    numbered,
    stacked,
)
from gossip.errors import UserError, said

if TYPE_CHECKING:
    import pyarrow as pa

STATE = "state.json"
"""In the folder of each split: the names of its files."""


def read_saved(folder: Path) -> tuple[Arrays, Path] | None:
    """FOLDER/train and FOLDER/test with `state.json` and Arrow files in them.

    Or FOLDER with them itself, of which every fifth row of a class is held out. The column `label`
    has whole numbers from 0, or texts. The others are numbers, the inputs [N, columns] float32; or
    the one other is of lists of one length, [N, T]; or of images of one size, [N, H, W] uint8 where
    all are grey, else [N, 3, H, W].

    Returns:
        None where there are no such folders.

    Raises:
        CorruptDataError: a file cannot be read, or is not an image.
        UserError: its columns are not as above.
    """
    train = folder / "train"
    test = next((folder / name for name in TESTS if (folder / name / STATE).is_file()), None)
    if (folder / STATE).is_file():
        (inputs,), (labels,) = _read([folder], folder)
        return hold_out_every_fifth(inputs, numbered(labels, labels, folder)[0]), folder
    if not (train / STATE).is_file() or test is None:
        return None
    inputs, labels = _read([train, test], folder)
    numbers = numbered(labels[0], labels[1], folder)
    return (inputs[0], numbers[0], inputs[1], numbers[1]), folder


def _read(parts: list[Path], folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and labels of each part of a data set, the columns being those of the first."""
    tables = [_table(part) for part in parts]
    names = [name for name in tables[0].column_names if name != LABEL]
    if len(names) == 1 and _is_image(tables[0], names[0]):
        labels = [_column(table, LABEL, folder) for table in tables]
        pixels = [_images(table, names[0], folder) for table in tables]
        grey = all(image.mode in GREY for images in pixels for image, _ in images)
        size = pixels[0][0][0].size[::-1]
        shape = size if grey else (3, *size)
        inputs = [
            stacked(images, size, grey=grey, out=np.empty((len(images), *shape), np.uint8))
            for images in pixels
        ]
        return inputs, labels
    inputs, labels, columns = [], [], None
    for part, table in zip(parts, tables, strict=True):
        own, label, columns = columns_of(table, part, columns, parts[0])
        inputs.append(own)
        labels.append(label)
    return inputs, labels


def _table(folder: Path) -> "pa.Table":
    """A split: its files are streams of batches, one behind the other."""
    import pyarrow as pa

    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        names = [Path(each["filename"]).name for each in state["_data_files"]]
        if sum((folder / name).stat().st_size for name in names) > MAX_BYTES:
            raise UserError(f"{folder}: more than {MAX_BYTES} bytes: split it")
        parts = [pa.ipc.open_stream((folder / name).read_bytes()).read_all() for name in names]
        return pa.concat_tables(parts)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise CorruptDataError(f"{folder}: not a saved data set ({said(error)})") from error


def _is_image(table: "pa.Table", name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return pa.types.is_struct(kind) and {"bytes", "path"} == {field.name for field in kind}


def _column(table: "pa.Table", name: str, folder: Path) -> np.ndarray:
    if name not in table.column_names or not table.num_rows:
        raise UserError(
            f"{folder}: columns are {', '.join(table.column_names)[:200]}: one must be {name!r}, "
            "with a row at least"
        )
    return cells_of(table, name)


def _images(table: "pa.Table", name: str, folder: Path) -> list[tuple[Any, str]]:
    """The images of a column, and what messages call each."""
    from PIL import Image

    if name not in table.column_names or not _is_image(table, name):
        raise UserError(f"{folder}: there is no column {name!r} of images in each of its parts")
    images = []
    for k, cell in enumerate(table[name].to_pylist()):
        where = f"{folder}, image {k}"
        try:
            image = Image.open(io.BytesIO(cell["bytes"]))
            image.load()
        # Decoders raise what they like.
        except Exception as error:
            raise CorruptDataError(f"{where}: not an image ({said(error)}): replace it") from error
        images.append((image, where))
    return images
