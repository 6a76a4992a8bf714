"""Finding a dataset by name: what is here already, and fetching what is not."""

import inspect
from pathlib import Path

from gossip.data import cache, readers, sources
from gossip.data.dataset import (
    ARRAYS,
    Arrays,
    CorruptDataError,
    Dataset,
    UnavailableError,
    checked,
    from_arrays,
)
from gossip.data.sources import DATASETS, Source
from gossip.errors import UserError, load_object, lookup, said, suggestion
from gossip.streams import seeded


def load(name_or_spec: str, data_dir: Path | None = None, *, verify: bool = True) -> Dataset:
    """A dataset that is on this machine; never downloads, so that 16 ranks cannot race.

    Looked for in the user's `data_dir`, then in the cache, then, for data that comes with an
    installed package, there. A published dataset has its pinned hash wherever it was found.

    Args:
        name_or_spec: one of `DATASETS`, the name of a user's own files in `data_dir`, or
            `module:function`, which returns a `Dataset` or the four arrays of `ARRAYS`.
        data_dir: a folder with IDX files, NAME.npz or torchvision's layout, or a .npz.
        verify: hash what comes from the cache, as `gossip.data.cache.read` says.

    Raises:
        UnavailableError: it is not here; the message says how to get it.
        CorruptDataError: it is here, but not what it should be.
        UserError: no such name, function or folder.
    """
    if ":" in name_or_spec:
        return _from_object(name_or_spec)
    if data_dir is not None and (found := _in_folder(name_or_spec, Path(data_dir))):
        return found
    if name_or_spec not in DATASETS:
        _refuse_unknown(name_or_spec, data_dir)
    source = DATASETS[name_or_spec]
    cached = cache.read(source.expected(name_or_spec), verify=verify)
    if cached is not None:
        return cached
    if source.local:
        return _checked(name_or_spec, source, _read(name_or_spec, source), source.origin)
    raise _not_here(name_or_spec, data_dir)


def fetch(name: str, *, data_dir: Path | None = None) -> Dataset:
    """Put a published dataset into the cache, if it is not there, and load it from there.

    Args:
        name: one of `DATASETS`.
        data_dir: import it from the user's files instead of downloading it.

    Raises:
        UnavailableError: it could not be had.
        CorruptDataError: what came is not what it should be.
        UserError: no such name, or the cache cannot be written to.
    """
    source = lookup(DATASETS, name, "dataset")
    expected = source.expected(name)
    try:
        cached = cache.read(expected)
    except CorruptDataError:
        cached = None  # replaced below
    if cached is not None:
        return cached
    arrays, origin = _get(name, source, data_dir)
    checked = _checked(name, source, arrays, origin)
    cache.write(expected, origin, checked.arrays)
    written = cache.read(expected, verify=False)
    return written if written is not None else checked


def _get(name: str, source: Source, data_dir: Path | None) -> tuple[Arrays, str]:
    if data_dir is not None:
        found = readers.find(name, Path(data_dir), published=True)
        if found is None:
            raise _not_here(name, data_dir)
        return found[0], f"--data-dir {found[1].resolve()}"
    by_torchvision = sources.from_torchvision(source)
    if by_torchvision is not None and _hash(name, by_torchvision[0]) == source.sha256:
        return by_torchvision
    return _read(name, source), source.origin


def _read(name: str, source: Source) -> Arrays:
    try:
        return source.read()
    except UnavailableError as error:
        raise UnavailableError(
            f"cannot get dataset {name!r} from {source.origin} ({error}): try again where that "
            "works, or put its files into a folder DIR and pass --data-dir DIR"
        ) from error


def _hash(name: str, arrays: Arrays) -> str:
    return from_arrays(name, "", arrays, DATASETS[name].scale).sha256


def _checked(name: str, source: Source, arrays: Arrays, origin: str) -> Dataset:
    dataset = from_arrays(name, origin, arrays, source.scale)
    if dataset.sha256 != source.sha256:
        raise CorruptDataError(
            f"what {origin} holds is not {name!r} (sha256 {dataset.sha256[:16]}..., not "
            f"{source.sha256[:16]}...): replace it, or use it under a name of its own"
        )
    return dataset


def _in_folder(name: str, data_dir: Path) -> Dataset | None:
    source = DATASETS.get(name)
    found = readers.find(name, data_dir, published=source is not None)
    if found is None:
        return None
    origin = f"--data-dir {found[1].resolve()}"
    if source is None:
        return from_arrays(name, origin, found[0])
    return _checked(name, source, found[0], origin)


def _from_object(spec: str) -> Dataset:
    make = load_object(spec, "dataset")
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise UserError(f"dataset {spec!r} cannot be called without arguments: {error}") from error
    try:
        with seeded(0):  # the same data for all processes, and at every call
            made = make()
    except UserError:
        raise
    # What a function does to get its data is its own affair.
    except (Exception, SystemExit) as error:
        raise UserError(f"dataset {spec!r} cannot be made: {said(error)}") from error
    if isinstance(made, Dataset):
        return checked(made)
    if not isinstance(made, tuple | list) or len(made) != len(ARRAYS):
        count = f" of {len(made)}" if isinstance(made, tuple | list) else ""
        raise UserError(
            f"dataset {spec!r} returned {type(made).__name__}{count}: return a gossip.data.Dataset "
            "or a tuple (train_inputs, train_labels, test_inputs, test_labels)"
        )
    train_inputs, train_labels, test_inputs, test_labels = made
    return from_arrays(spec, spec, (train_inputs, train_labels, test_inputs, test_labels))


def _refuse_unknown(name: str, data_dir: Path | None) -> None:
    looked = f", and {data_dir} has no file or folder of that name that is one" if data_dir else ""
    raise UserError(
        f"unknown dataset {name!r}{suggestion(name, DATASETS)}; there are {', '.join(DATASETS)}"
        f"{looked}; or give module:function"
    )


def _not_here(name: str, data_dir: Path | None) -> UnavailableError:
    looked = f" nor in {data_dir}" if data_dir else ""
    return UnavailableError(
        f"dataset {name!r} is not on this machine{looked}: run python -m gossip.data fetch {name}, "
        f"or put {', '.join(readers.IDX_NAMES)} (or .gz), or {name}.npz with "
        f"{', '.join(readers.NPZ_KEYS)}, into a folder DIR and pass --data-dir DIR"
    )
