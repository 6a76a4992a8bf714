"""Reading files a user may have: IDX (raw or gzipped), .npz, torchvision's folders."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError
from gossip.data.files import read_images, read_tables
from gossip.data.saved import read_saved
from gossip.errors import UserError
from topologies.arrays import read_npz as arrays_of

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
"""The four files of MNIST and its descendants, in the order of `ARRAYS`."""
NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
"""What a .npz must hold, in the order of `ARRAYS`."""
MAX_BYTES = 2**30
"""No array that is unpacked into memory may be larger: a bound on gzip bombs."""
_UNSIGNED_BYTE = 0x08


def parse_idx(data: bytes, where: str) -> np.ndarray:
    """The array in an IDX file's bytes.

    Raises:
        CorruptDataError: wrong magic number, or more or fewer bytes than the header announces.
    """
    shape, header = _idx_header(data[:64], len(data), where)
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def map_idx(path: Path) -> np.ndarray:
    """The array in a raw IDX file, memory-mapped.

    Raises:
        CorruptDataError: wrong magic number, or more or fewer bytes than the header announces.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise CorruptDataError(f"cannot read {path} ({error.strerror}): replace it") from error
    shape, header = _idx_header(head, path.stat().st_size, str(path))
    return np.memmap(path, np.uint8, "r", header, shape)


def _idx_header(head: bytes, size: int, where: str) -> tuple[tuple[int, ...], int]:
    # Magic number: two zero bytes, the type, the number of axes; then one big-endian int32 each.
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] != _UNSIGNED_BYTE or not 1 <= head[3] <= 15:
        raise CorruptDataError(
            f"{where}: not an IDX file of bytes (it starts with {head[:4].hex() or 'nothing'}, "
            "not 000008..): replace it"
        )
    header = 4 + 4 * head[3]
    shape = tuple(int(k) for k in np.frombuffer(head[4:header].ljust(header - 4, b"\0"), ">u4"))
    expected = header + int(np.prod(shape, dtype=object))
    if size != expected or expected == header:
        raise CorruptDataError(
            f"{where}: {size} bytes where its header announces {expected}, or no data: replace it"
        )
    return shape, header


def gunzip(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Contents of a .gz file.

    Raises:
        CorruptDataError: it is torn, not gzip, or unpacks to more than `max_bytes`.
    """
    try:
        with gzip.open(path) as file:
            data = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{path}: not a whole gzip file ({error}): replace it") from error
    if len(data) > max_bytes:
        raise CorruptDataError(f"{path}: unpacks to more than {max_bytes} bytes: replace it")
    return data


def read_idx_folder(folder: Path) -> Arrays | None:
    """The four IDX files in a folder, or None if none of them is there.

    Raises:
        UserError: some are there, but not all.
    """
    paths = [_idx_path(folder, name) for name in IDX_NAMES]
    missing = [name for name, path in zip(IDX_NAMES, paths, strict=True) if path is None]
    if len(missing) == len(paths):
        return None
    if missing:
        raise UserError(
            f"{folder}: {', '.join(missing)} (or .gz) missing: put all four files there"
        )
    train_inputs, train_labels, test_inputs, test_labels = (_read_idx(p) for p in paths if p)
    return train_inputs, train_labels, test_inputs, test_labels


def _idx_path(folder: Path, name: str) -> Path | None:
    dotted = name.replace("-idx", ".idx")
    candidates = (folder / f"{stem}{end}" for stem in (name, dotted) for end in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _read_idx(path: Path) -> np.ndarray:
    return parse_idx(gunzip(path), str(path)) if path.suffix == ".gz" else map_idx(path)


def train_test_npz(path: Path) -> Arrays:
    """The arrays x_train, y_train, x_test, y_test of a .npz; pickled objects are refused.

    Raises:
        CorruptDataError: not a .npz, or one with other keys, with pickled objects or with an array
            of more than `MAX_BYTES`.
    """
    try:
        arrays = arrays_of(path, MAX_BYTES, NPZ_KEYS)
    except (OSError, ValueError, KeyError) as error:
        raise CorruptDataError(
            f"{path}: not a .npz with {', '.join(NPZ_KEYS)} ({error}): replace it"
        ) from error
    train_inputs, train_labels, test_inputs, test_labels = (arrays[key] for key in NPZ_KEYS)
    return train_inputs, train_labels, test_inputs, test_labels


def find(name: str, data_dir: Path, *, published: bool) -> tuple[Arrays, Path] | None:
    """The dataset `name` in a user's folder, and where it was.

    Looked for in the folder that bears the dataset's name (`mnist`, torchvision's `MNIST/raw`,
    `FashionMNIST/raw`) and in `data_dir` itself: NAME.npz, then the four IDX files, then tables and
    images (`gossip.data.files`, `gossip.data.saved`).

    Args:
        name: the dataset.
        data_dir: the user's folder, or a .npz file.
        published: whether the data has a pinned hash. IDX files do not say what they are; those
            in `data_dir` itself are only taken for a dataset whose hash will be checked.

    Raises:
        UserError: there is no such folder, or some IDX files are missing.
        CorruptDataError: the files cannot be read.
    """
    if Path(name).name != name:  # it may come from a config file, and not lead out of the folder
        return None
    if data_dir.suffix == ".npz" and data_dir.is_file():
        return train_test_npz(data_dir), data_dir
    if not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir}: there is no such folder: create it or correct it")
    own = [p for p in sorted(data_dir.iterdir()) if p.is_dir() and _plain(p.name) == _plain(name)]
    for folder in (*own, *(p / "raw" for p in own), data_dir):
        npz = folder / f"{name}.npz"
        if npz.is_file():
            return train_test_npz(npz), npz
        arrays = read_idx_folder(folder) if published or folder != data_dir else None
        if arrays is not None:
            return arrays, folder
        if published:  # its hash is of the bytes of other files
            continue
        if (table := read_tables(folder, name)) is not None:
            return table
        if (saved := read_saved(folder)) is not None:
            return saved
        if folder != data_dir and (images := read_images(folder)) is not None:
            return images, folder
    return None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
