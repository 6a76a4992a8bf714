"""The cache: one .npy file per array and a manifest, written at once, memory-mapped by all."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossip.data.dataset import (
    ARRAYS,
    Arrays,
    CorruptDataError,
    Dataset,
    Scale,
    content_hash,
    describe_array,
    hash_lines,
    trusted,
)
from gossip.errors import UserError
from topologies.arrays import map_npy

MANIFEST = "manifest.json"
_FORMAT = 1
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class Expected:
    """What the program, not the cache, knows about a dataset."""

    name: str
    sha256: str
    """The pin: `content_hash` of the true data."""
    scale: Scale


def cache_root() -> Path:
    """GOSSIP_CACHE, or gossip/ in XDG_CACHE_HOME, or ~/.cache/gossip.

    Raises:
        UserError: this user has no home, as in a container that gives each a number only.
    """
    own, theirs = (os.environ.get(name) for name in ("GOSSIP_CACHE", "XDG_CACHE_HOME"))
    try:
        return Path(own or Path(theirs or "~/.cache", "gossip")).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"no cache: user {os.getuid()} has no home folder; set GOSSIP_CACHE to a folder that "
            "can be written to"
        ) from error


def folder_of(name: str) -> Path:
    """Where the dataset `name` is or would be cached."""
    return cache_root() / "data" / name


def is_cached(name: str) -> bool:
    """Whether there is a copy of `name`; whether it is sound is only known when it is read."""
    try:
        return (folder_of(name) / MANIFEST).is_file()
    except (UserError, PermissionError):  # no home, or one that this user may not enter
        return False


def read(expected: Expected, *, verify: bool = True) -> Dataset | None:
    """A cached dataset, memory-mapped read-only, or None if it is not cached.

    Args:
        expected: its name and pin.
        verify: hash the arrays (about 35 ms for MNIST). Without, only the manifest, the types,
            the shapes and the file sizes are compared: enough for the other ranks of a run
            whose rank 0 has verified the same files.

    Raises:
        CorruptDataError: torn, altered, or made by a version with another pin.
    """
    if not is_cached(expected.name):
        return None
    folder = folder_of(expected.name)
    try:
        source, recorded = _read_manifest(folder)
        arrays = _map_arrays(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _corrupt(expected.name, folder, str(error) or type(error).__name__) from error
    _compare(expected, folder, recorded, arrays, verify=verify)
    return trusted(expected.name, source, arrays, expected.sha256, expected.scale)


def _read_manifest(folder: Path) -> tuple[str, list[str]]:
    with (folder / MANIFEST).open("rb") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"a manifest of more than {_MOST_BYTES} bytes")
    try:
        manifest = json.loads(text)
    except RecursionError:
        raise ValueError("a manifest of tables in tables") from None
    if manifest["format"] != _FORMAT:
        raise ValueError(f"manifest of format {manifest['format']}")
    return str(manifest["source"]), [f"{name} {manifest['arrays'][name]}" for name in ARRAYS]


def _map_arrays(folder: Path) -> Arrays:
    paths = (folder / f"{name}.npy" for name in ARRAYS)
    train_inputs, train_labels, test_inputs, test_labels = (map_npy(path) for path in paths)
    return train_inputs, train_labels, test_inputs, test_labels


def _compare(
    expected: Expected, folder: Path, recorded: list[str], arrays: Arrays, *, verify: bool
) -> None:
    if content_hash(recorded) != expected.sha256:
        reason = "its manifest is not the one this version of gossip knows"
        raise _corrupt(expected.name, folder, reason)
    if verify:
        found = hash_lines(arrays)
    else:
        found = [
            f"{name} {describe_array(array)} {line.split()[-1]}"
            for name, array, line in zip(ARRAYS, arrays, recorded, strict=True)
        ]
    wrong = [name for name, a, b in zip(ARRAYS, found, recorded, strict=True) if a != b]
    if wrong:
        raise _corrupt(expected.name, folder, f"sha256 of {', '.join(wrong)} does not match")


def _corrupt(name: str, folder: Path, reason: str) -> CorruptDataError:
    return CorruptDataError(
        f"corrupt cached dataset {name!r} ({reason}): delete {folder} and run "
        f"python -m gossip.data fetch {name}"
    )


def write(expected: Expected, source: str, arrays: Arrays) -> None:
    """Cache a dataset: a reader finds whole files only, and the manifest once all are there.

    Two processes may write the same dataset at once. Each fills a folder of its own and renames
    the files from there; since the content is pinned, a sound file is only ever replaced by an
    equal one. (Renaming the folder instead cannot repair a corrupt copy: one process could move
    the other's sound one out of the way.)

    Raises:
        UserError: the cache cannot be written to.
    """
    folder = folder_of(expected.name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{expected.name}-", dir=folder.parent))
    except OSError as error:
        raise UserError(
            f"cannot write to the cache {folder.parent} ({error.strerror}): "
            "set GOSSIP_CACHE to a folder that can be written to"
        ) from error
    try:
        _fill(new, source, arrays)
        _move(new, folder)
    except OSError as error:
        raise UserError(
            f"cannot write to the cache {folder} ({error.strerror}): "
            "free some space or set GOSSIP_CACHE to another folder"
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fill(folder: Path, source: str, arrays: Arrays) -> None:
    for name, array in zip(ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    described = dict(line.split(" ", 1) for line in hash_lines(arrays))
    manifest = {"format": _FORMAT, "source": source, "arrays": described}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _move(new: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in (*(f"{name}.npy" for name in ARRAYS), MANIFEST):
        (new / name).replace(folder / name)
