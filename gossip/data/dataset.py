"""A data set: four arrays, their scale, and a hash that identifies the data."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from gossip.errors import UserError, said

ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
"""The four arrays, in the order in which they are stored and hashed."""

MOST_CLASSES = 2**20
"""Labels and token ids are below this: a model has weights for all up to the largest."""

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Values of `ARRAYS`: inputs [N, *shape] uint8 or float32, or token ids [N, T] int32; labels
int64, [N], or [N, T] where each of T steps has its own; or numbers, [N, k] float32."""


class UnavailableError(UserError):
    """The data is not here and could not be had; another dataset may still be."""


class CorruptDataError(UserError):
    """The data is here, but it is not what it should be."""


@dataclass(frozen=True)
class Scale:
    """How raw values become numbers to train on; mean and std are those of the unit inputs.

    Each is one number, or an array that broadcasts over an input's shape (one value a channel).
    """

    low: float | np.ndarray = 0.0
    high: float | np.ndarray = 255.0
    mean: float | np.ndarray = 0.0
    std: float | np.ndarray = 1.0


TOKEN_SCALE = Scale(high=1.0)
"""Of token ids, which stay what they are."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples as they were published, unscaled, read-only."""

    name: str
    source: str
    """Where it came from, in words: package and version, folder, or the user's function."""
    sha256: str
    """`content_hash` of the four arrays: the same data has the same hash whatever file held it."""
    num_classes: int
    """Of labels that are numbers: k, how many each sample has."""
    train_inputs: np.ndarray
    """[N, *shape] uint8 or float32, or token ids [N, T] int32; memory-mapped from the cache."""
    train_labels: np.ndarray
    """Classes, [N] or [N, T] int64; or numbers, [N, k] float32."""
    test_inputs: np.ndarray
    test_labels: np.ndarray
    scale: Scale

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, (28, 28) for MNIST."""
        return self.train_inputs.shape[1:]

    @property
    def are_numbers(self) -> bool:
        """Whether labels are real numbers to be predicted, and not classes."""
        return self.train_labels.dtype.kind == "f"

    @property
    def arrays(self) -> Arrays:
        """The four arrays in the order of `ARRAYS`."""
        return self.train_inputs, self.train_labels, self.test_inputs, self.test_labels


def are_tokens(inputs: np.ndarray) -> bool:
    """Whether inputs are token ids, which are looked up, never scaled: bytes are pixels."""
    return inputs.dtype.kind in "iu" and inputs.dtype != np.uint8


def array_hash(array: np.ndarray) -> str:
    """sha256 of an array's bytes in row-major order; 26 ms for MNIST's training images."""
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B")).hexdigest()


def describe_array(array: np.ndarray) -> str:
    """Type and shape in words, `uint8 60000x28x28`."""
    return f"{array.dtype.name} {'x'.join(map(str, array.shape))}"


def content_hash(lines: list[str]) -> str:
    r"""sha256 over one line for each of `ARRAYS`: `NAME TYPE SHAPE SHA256\n`.

    A hash of hashes, so that a cache can be compared with its pin without reading 47 MB, and a
    mismatch can be traced to one array.
    """
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def hash_lines(arrays: Arrays) -> list[str]:
    """The lines `content_hash` is made of."""
    return [
        f"{name} {describe_array(array)} {array_hash(array)}"
        for name, array in zip(ARRAYS, arrays, strict=True)
    ]


def canonical(arrays: Arrays, name: str) -> Arrays:
    """Check four arrays from anywhere and bring them to the types of `Arrays`.

    Raises:
        UserError: shapes, types or values are not those of a labelled dataset.
    """
    train_inputs, train_labels, test_inputs, test_labels = arrays
    train = _canonical_half(train_inputs, train_labels, f"dataset {name!r}, training set")
    test = _canonical_half(test_inputs, test_labels, f"dataset {name!r}, test set")
    for kind, one, other in zip(("inputs", "labels"), train, test, strict=True):
        if one.shape[1:] != other.shape[1:] or one.dtype != other.dtype:
            raise UserError(
                f"dataset {name!r}: training {kind} are {describe_array(one)}, test {kind} "
                f"{describe_array(other)}: give both the same type and sample shape"
            )
    return (*train, *test)


def _canonical_half(
    inputs: np.ndarray, labels: np.ndarray, where: str
) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = _array(inputs, f"{where}: inputs"), _array(labels, f"{where}: labels")
    fits = labels.ndim in (1, 2) and inputs.ndim >= 2 and labels.size > 0 and inputs.size > 0
    shared = 1 if labels.dtype.kind == "f" else labels.ndim
    if not fits or inputs.shape[:shared] != labels.shape[:shared]:
        raise UserError(
            f"{where}: inputs are {describe_array(inputs)} and labels {describe_array(labels)}: "
            "give inputs [N, ...] and labels [N] with the same N of at least 1, or, for sequences, "
            "inputs [N, T, ...] and labels [N, T], of at least one number each, or labels [N, k] "
            "that are floats, k numbers to be predicted of each sample"
        )
    if labels.dtype.kind == "f":
        return _canonical_inputs(inputs, where), _numbers(labels, where)
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= MOST_CLASSES:
        those = f" from {labels.min()} to {labels.max()}" if labels.dtype.kind in "iu" else ""
        raise UserError(
            f"{where}: labels are {labels.dtype.name}{those}: give integers that count from 0, "
            f"fewer than {MOST_CLASSES}, or floats, for numbers to be predicted"
        )
    return _canonical_inputs(inputs, where), labels.astype("<i8", copy=False)


def _numbers(labels: np.ndarray, where: str) -> np.ndarray:
    """Labels that are numbers, [N, k] float32."""
    with np.errstate(over="ignore"):
        single = labels.reshape(len(labels), -1).astype("<f4")
    if not np.isfinite(single).all():
        raise UserError(
            f"{where}: labels are {labels.dtype.name}, and not all finite as float32: give numbers "
            "there, or leave these samples out"
        )
    return single


def _array(values: object, what: str) -> np.ndarray:
    """What a user gave as an array: a list, a tensor, or another thing that says how."""
    if np.ma.is_masked(values):
        raise UserError(f"{what} are masked in places: give numbers there, or leave them out")
    try:
        return np.asarray(values)
    # How it becomes an array is its own affair.
    except Exception as error:
        raise UserError(
            f"{what} are {type(values).__name__}, which NumPy makes no array of ({said(error)})"
        ) from error


def _canonical_inputs(inputs: np.ndarray, where: str) -> np.ndarray:
    if inputs.dtype == np.uint8:
        return inputs
    if are_tokens(inputs):
        return _canonical_tokens(inputs, where)
    if np.issubdtype(inputs.dtype, np.floating):
        with np.errstate(over="ignore"):
            single = inputs.astype("<f4", copy=False)
        if np.isfinite(single).all():
            return single
    raise UserError(
        f"{where}: inputs are {inputs.dtype.name}: give uint8, or floats that are all finite as "
        "float32"
    )


def _canonical_tokens(inputs: np.ndarray, where: str) -> np.ndarray:
    if inputs.ndim != 2 or inputs.min() < 0 or inputs.max() >= MOST_CLASSES:
        raise UserError(
            f"{where}: inputs are {describe_array(inputs)} from {inputs.min()} to {inputs.max()}: "
            "give pixels as uint8, numbers as floats, and token ids as integers [N, T] that count "
            f"from 0, fewer than {MOST_CLASSES}"
        )
    return inputs.astype("<i4", copy=False)


def measured_scale(train_inputs: np.ndarray) -> Scale:
    """The scale of data nobody pinned: bytes span 0..255, floats their range in the training set.

    Floats already within [0, 1] are left alone, and so are token ids. One pass over the training
    set.
    """
    if are_tokens(train_inputs):
        return TOKEN_SCALE
    low, high = 0.0, 255.0
    if train_inputs.dtype != np.uint8:
        low, high = float(train_inputs.min()), float(train_inputs.max())
        if low >= 0.0 and high <= 1.0:
            low, high = 0.0, 1.0
    span = (high - low) or 1.0
    mean = (float(train_inputs.mean(dtype=np.float64)) - low) / span
    std = float(train_inputs.std(dtype=np.float64)) / span
    return Scale(low, low + span, mean, std or 1.0)


def from_arrays(name: str, source: str, arrays: Arrays, scale: Scale | None = None) -> Dataset:
    """A dataset of four arrays in the order of `ARRAYS`, checked, hashed and, if need be, measured.

    Raises:
        UserError: shapes, types or values are not those of a labelled dataset.
    """
    arrays = canonical(arrays, name)
    return trusted(
        name, source, arrays, content_hash(hash_lines(arrays)), scale or measured_scale(arrays[0])
    )


def checked(dataset: Dataset) -> Dataset:
    """A dataset that a user has made, its arrays, hash and number of classes being true.

    Raises:
        UserError: arrays or scale are not those of a labelled dataset.
    """
    made = from_arrays(dataset.name, dataset.source, dataset.arrays, dataset.scale)
    _check_scale(made)
    if made.are_numbers:
        return made
    return replace(made, num_classes=max(made.num_classes, dataset.num_classes))


def _check_scale(dataset: Dataset) -> None:
    """Refuse a scale that does not make numbers of the inputs."""
    scale, shape = dataset.scale, dataset.input_shape
    try:
        numbers = [
            np.broadcast_to(np.asarray(value, np.float64), shape)
            for value in (scale.low, scale.high, scale.mean, scale.std)
        ]
    except (ValueError, TypeError) as error:
        raise UserError(
            f"dataset {dataset.name!r}: its scale does not fit inputs of shape {list(shape)} "
            f"({said(error)})"
        ) from error
    low, high, _, std = numbers
    if not (np.isfinite(numbers).all() and (high > low).all() and (std > 0).all()):
        raise UserError(
            f"dataset {dataset.name!r}: its scale is not one of finite numbers with low < high "
            "and std > 0"
        )


def trusted(name: str, source: str, arrays: Arrays, sha256: str, scale: Scale) -> Dataset:
    """A dataset of four arrays that need no check; the views it holds are read-only."""
    train_inputs, train_labels, test_inputs, test_labels = map(_read_only, arrays)
    return Dataset(
        name,
        source,
        sha256,
        _num_classes(train_inputs, train_labels, test_inputs, test_labels),
        train_inputs,
        train_labels,
        test_inputs,
        test_labels,
        scale,
    )


def _num_classes(
    train_inputs: np.ndarray,
    train_labels: np.ndarray,
    test_inputs: np.ndarray,
    test_labels: np.ndarray,
) -> int:
    """How many outputs a model needs for a label."""
    if train_labels.dtype.kind == "f":
        return train_labels.shape[1]
    classes = [train_labels, test_labels]
    if are_tokens(train_inputs):  # a word may only ever be read
        classes += [train_inputs, test_inputs]
    return 1 + int(max(array.max() for array in classes))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def hold_out_every_fifth(inputs: np.ndarray, labels: np.ndarray) -> Arrays:
    """Split into 4/5 training and 1/5 test, stratified by class, the same on every machine.

    Within each class, in file order, every fifth sample is held out; of labels that are numbers, in
    the order of these; of those that are lists, in file order. No random numbers: a generator may
    change between versions of NumPy, and the hash of a split is pinned.
    """
    order = np.argsort(labels, kind="stable") if labels.ndim == 1 else np.arange(len(labels))
    test = np.sort(order[::5])
    train = np.setdiff1d(np.arange(len(labels)), test)
    return inputs[train], labels[train], inputs[test], labels[test]
