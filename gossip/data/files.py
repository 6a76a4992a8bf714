"""Reading a user's Parquet and CSV tables, and folders of images by class, as arrays."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError, hold_out_every_fifth
from gossip.data.lists import holds_lists, regular
from gossip.errors import UserError, said

if TYPE_CHECKING:
    import pyarrow as pa

LABEL = "label"
"""The column of a table that is to be predicted; all others are inputs."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
"""Endings of the files that are images."""
GREY = ("1", "L", "LA", "I;16")
"""Modes of images with one channel, as Pillow calls them."""
TABLES = (".parquet", ".csv")
"""Endings of the files that are tables; the first line of a .csv has the columns' names."""
TESTS = ("test", "val", "validation")
"""Names that a test set's folder or file may have."""
MAX_BYTES = 2**32
"""What is unpacked into memory at most."""


def read_tables(folder: Path, name: str) -> tuple[Arrays, Path] | None:
    """NAME.parquet, of which every fifth row of a class is held out, or train and test.parquet.

    The column `label` has whole numbers from 0, or texts, which become numbers in their order, or
    real numbers, which are to be predicted; all other columns are numbers, the inputs [N, columns]
    float32 in the order of the training table. `.csv` goes for `.parquet`.

    Returns:
        None where there is no such table.

    Raises:
        CorruptDataError: it cannot be read.
        UserError: its columns are not as above.
    """
    whole, train = (_existing(folder, [stem]) for stem in (name, "train"))
    if whole is not None:
        inputs, labels, _ = _table(whole, None, None)
        numbers, _ = numbered(labels, labels, whole)
        return hold_out_every_fifth(inputs, numbers), whole
    test = _existing(folder, TESTS)
    if train is None or test is None:
        return None
    inputs, labels, columns = _table(train, None, None)
    test_inputs, test_labels, _ = _table(test, columns, train)
    numbers, test_numbers = numbered(labels, test_labels, train)
    return (inputs, numbers, test_inputs, test_numbers), folder


def _existing(folder: Path, stems: Iterable[str]) -> Path | None:
    """The first table of these names that is there."""
    paths = (folder / f"{stem}{ending}" for stem in stems for ending in TABLES)
    return next((path for path in paths if path.is_file()), None)


def _table(
    path: Path, columns: list[str] | None, like: Path | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Inputs [N, columns], labels [N] of any type, and the names of the columns."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    kind = "CSV" if path.suffix == ".csv" else "Parquet"
    try:
        if _unpacked(path) > MAX_BYTES:
            raise CorruptDataError(f"{path}: unpacks to more than {MAX_BYTES} bytes: split it")
        table = csv.read_csv(path) if kind == "CSV" else parquet.read_table(path)
    except (OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise CorruptDataError(f"{path}: not a {kind} table ({said(error)})") from error
    return columns_of(table, path, columns, like)


def _unpacked(path: Path) -> int:
    """Bytes of a table in memory, about."""
    from pyarrow import parquet

    if path.suffix == ".csv":
        return path.stat().st_size
    about = parquet.read_metadata(path)
    return sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))


def columns_of(
    table: "pa.Table", path: Path, columns: list[str] | None, like: Path | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Inputs [N, columns], labels [N] of any type, and the names of the columns, of a table.

    Where the one column beside the labels is of lists, the inputs are these: [N, T] token ids,
    where they are whole numbers. Labels may be lists, too.

    Args:
        table: with the column `LABEL`.
        path: where it was.
        columns: which there have to be besides, in their order; None: those that there are.
        like: where the table was that has these.

    Raises:
        UserError: the columns are others, or no numbers.
    """
    import pyarrow as pa

    if twice := {name for name in table.column_names if table.column_names.count(name) > 1}:
        raise UserError(f"{path}: several columns are named {min(twice)!r}: name each differently")
    if not table.num_rows:
        raise UserError(f"{path}: has no rows: give at least one")
    names = [name for name in table.column_names if name != LABEL]
    if LABEL not in table.column_names or not names:
        raise UserError(
            f"{path}: columns are {', '.join(table.column_names)[:200]}: one must be {LABEL!r}, "
            "and others the inputs"
        )
    if columns is not None and sorted(names) != sorted(columns):
        raise UserError(f"{path}: its columns are not those of {like}: give both the same")
    labels = regular(table, LABEL, path) if holds_lists(table, LABEL) else cells_of(table, LABEL)
    if len(names) == 1 and holds_lists(table, names[0]):
        return regular(table, names[0], path), labels, names
    values = []
    for name in columns or names:
        kind = table.schema.field(name).type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()
        if not numeric or table[name].null_count:
            problem = f"is {kind}" if not numeric else "has cells without a value"
            if holds_lists(table, name):
                problem += ", which may be the one input alone"
            raise UserError(
                f"{path}: column {name!r} {problem}: leave it out, or make numbers of it"
            )
        with np.errstate(over="ignore"):  # what is no float32 is refused with all that is infinite
            numbers = table[name].to_numpy().astype(np.float32)
        if not np.isfinite(numbers).all():
            raise UserError(
                f"{path}: column {name!r} is not finite as float32 in row "
                f"{np.isfinite(numbers).argmin()}: leave it out, or give finite numbers"
            )
        values.append(numbers)
    return np.stack(values, axis=1), labels, columns or names


def cells_of(table: "pa.Table", name: str) -> np.ndarray:
    """A column as an array, None or NaN where there is no value."""
    import pyarrow as pa

    column = table[name]
    if pa.types.is_dictionary(column.type):  # to_numpy gives a missing value the last category
        column = column.cast(column.type.value_type)
    return column.to_numpy(zero_copy_only=False)


def numbered(train: np.ndarray, test: np.ndarray, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Labels as numbers: numbers as they are, texts by their order in the training set."""
    if train.dtype.kind in "iu" and test.dtype.kind in "iu":
        return train, test
    if all(part.dtype.kind in "iuf" and np.isfinite(part).all() for part in (train, test)):
        return train.astype(np.float64), test.astype(np.float64)
    # A CSV has an empty text where a label is left out.
    if not all(isinstance(label, str) and label for label in [*train, *test]):
        raise UserError(
            f"{path}: column {LABEL!r} has labels that are neither numbers nor texts, or none in "
            "places: give one kind"
        )
    classes = sorted(set(train))
    if unknown := sorted(set(test) - set(classes)):
        raise UserError(f"{path}: the test set has classes that it has not: {unknown[0]!r}")
    return np.searchsorted(classes, list(train)), np.searchsorted(classes, list(test))


def read_images(folder: Path) -> Arrays | None:
    """FOLDER/train/CLASS/*.png and FOLDER/test/CLASS/*.png, as torchvision's ImageFolder has them.

    All images have one size. Inputs are [N, H, W] uint8 where all are grey, else [N, 3, H, W], of
    16 bits the upper 8; classes are numbered in the order of their names, images taken in that of
    theirs.

    Returns:
        None where there are no such folders.

    Raises:
        CorruptDataError: an image cannot be read.
        UserError: sizes or classes differ, or there is no image.
    """
    train = folder / "train"
    test = next((folder / name for name in TESTS if (folder / name).is_dir()), None)
    if not train.is_dir() or test is None:
        return None
    classes = sorted(path.name for path in train.iterdir() if path.is_dir())
    if unknown := {path.name for path in test.iterdir() if path.is_dir()} - set(classes):
        raise UserError(f"{test}: class {min(unknown)!r} is not in {train}: give both the same")
    found = [_files(part, classes) for part in (train, test)]
    for part, files in zip((train, test), found, strict=True):
        if not files:
            raise UserError(f"{part}: no {', '.join(IMAGES)} in its folders, one for each class")
    grey = all(_mode(path) in GREY for files in found for path, _ in files)
    size = _size(found[0][0][0])
    halves = [_images(files, size, grey=grey) for files in found]
    return halves[0][0], halves[0][1], halves[1][0], halves[1][1]


def _files(folder: Path, classes: list[str]) -> list[tuple[Path, int]]:
    """The images of a folder and their labels."""
    return [
        (path, k)
        for k, name in enumerate(classes)
        if (folder / name).is_dir()
        for path in sorted((folder / name).iterdir())
        if path.suffix.lower() in IMAGES
    ]


def _images(
    files: list[tuple[Path, int]], size: tuple[int, int], *, grey: bool
) -> tuple[np.ndarray, np.ndarray]:
    shape = (len(files), *size) if grey else (len(files), 3, *size)
    if np.prod(shape, dtype=object) > MAX_BYTES:
        raise UserError(f"{files[0][0].parents[1]}: more than {MAX_BYTES} bytes of images")
    opened = ((_opened(path), str(path)) for path, _ in files)
    inputs = stacked(opened, size, grey=grey, out=np.empty(shape, np.uint8))
    return inputs, np.array([label for _, label in files])


def stacked(
    images: Iterable[tuple[Any, str]],
    size: tuple[int, int],
    *,
    grey: bool,
    out: np.ndarray,
) -> np.ndarray:
    """Pixels of images, [N, H, W] uint8 or [N, 3, H, W].

    Args:
        images: each with what messages call it.
        size: H and W.
        grey: whether they have one channel.
        out: where the pixels go.

    Raises:
        UserError: one has another size, or numbers of 32 bits, which have no range of their own.
    """
    for k, (image, name) in enumerate(images):
        if image.mode in ("I", "F"):
            raise UserError(
                f"{name}: has 32 bits a channel: scale all images to 8 or 16, or give the numbers "
                "as .npz"
            )
        with image:
            pixels = _pixels(image, "L" if grey else "RGB")
        if pixels.shape[:2] != size:
            raise UserError(
                f"{name}: {pixels.shape[1]} x {pixels.shape[0]} pixels where the first image has "
                f"{size[1]} x {size[0]}: give all one size"
            )
        out[k] = pixels if grey else pixels.transpose(2, 0, 1)
    return out


def _pixels(image: Any, mode: str) -> np.ndarray:
    """[H, W] or [H, W, 3] uint8; `convert` alone would make 255 of all that 16 bits have above."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return np.asarray(image.convert(mode))


def _mode(path: Path) -> str:
    with _opened(path, whole=False) as image:
        return image.mode


def _size(path: Path) -> tuple[int, int]:
    with _opened(path, whole=False) as image:
        return image.size[1], image.size[0]


def _opened(path: Path, *, whole: bool = True) -> Any:
    """The image of a file; if not whole, its pixels are not read yet."""
    from PIL import Image

    try:
        image = Image.open(path)
        if whole:
            image.load()
    # Decoders raise what they like.
    except Exception as error:
        raise CorruptDataError(f"{path}: not an image ({said(error)}): replace it") from error
    return image
