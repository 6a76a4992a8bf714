"""The run folder: making it, reading and writing config and summary, and finding runs."""

import errno
import json
import math
import os
import platform
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli_w

import gossip
from gossip import trace
from gossip.errors import UserError
from gossip.storage import tables
from gossip.storage.names import CONFIG, FIGURE, LOCK, SUMMARY

TRACE = trace.FILE

MAX_TEXT_BYTES = tables.MOST_BYTES
"""A config or summary larger than this is not read."""

__all__ = [
    "CONFIG",
    "FIGURE",
    "LOCK",
    "SUMMARY",
    "TRACE",
    "create",
    "find_runs",
    "make",
    "provenance",
    "read_config",
    "read_summary",
    "replacing",
    "sync_folder",
    "write_config",
    "write_summary",
    "write_text",
]

_PACKAGES = ("torch", "numpy", "scipy", "pyarrow", "mpi4py")


def create(out: Path) -> Path:
    """Make the folder `out`, with its parents, for a new run.

    Raises:
        UserError: it holds something already, or cannot be made or written to.
    """
    out = Path(out)
    make(out)
    try:
        if any(entry.name != LOCK for entry in out.iterdir()):
            raise UserError(
                f"run folder {out} exists already: choose another --out or remove it, or go on "
                f"with it by --resume {out}"
            )
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(f"cannot write to run folder {out}: {error.strerror}") from error
    return out


def make(folder: Path) -> None:
    """Make a run folder, with its parents, where there is none.

    Raises:
        UserError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"{folder} is a file: choose another --out or remove it") from error
    except OSError as error:
        raise UserError(f"cannot write to run folder {folder}: {error.strerror}") from error


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write config.toml at once or not at all; TOML has no null, so None is left out.

    It is on disk then, before any checkpoint: without it a run does not go on.
    """
    with suppress(OSError):
        for left in folder.glob(f".{CONFIG}.*"):  # by one that was killed as it wrote
            left.unlink()
    write_text(folder / CONFIG, tomli_w.dumps(_toml(config)), synced=True)


def read_config(folder: Path) -> dict[str, Any]:
    """The tables of config.toml; empty if there is none.

    Raises:
        UserError: it is not TOML.
    """
    return _read(folder / CONFIG, tables.from_toml)


def error(config: Mapping[str, Any]) -> str:
    """What a run's errors are: the share of labels that are wrong, or another."""
    return str(config.get("record", {}).get("error", "error"))


def test_error(configs: Iterable[Mapping[str, Any]]) -> str:
    """What the column test_error of runs is, by their config.toml: `test error`, `test 1 - R^2`."""
    return f"test {' or '.join(dict.fromkeys(map(error, configs))) or 'error'}"


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json at once or not at all; JSON has no NaN and no infinity: they are null."""
    text = json.dumps(_json(summary), indent=2, allow_nan=False)
    write_text(folder / SUMMARY, text + "\n")


def read_summary(folder: Path) -> dict[str, Any]:
    """What `write_summary` wrote, None for a number that was not finite; empty if there is none.

    Raises:
        UserError: it is not a JSON object.
    """
    return _read(folder / SUMMARY, tables.from_json)


def write_text(path: Path, text: str, *, synced: bool = False) -> None:
    """Replace `path` by `text`, see `replacing`.

    Args:
        path: of the file.
        text: its content.
        synced: wait until it is on disk.

    Raises:
        UserError: it cannot be written.
    """
    with replacing(path, synced=synced) as partial, partial.open("x", encoding="utf-8") as file:
        file.write(text)
        if synced:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, *, synced: bool = False) -> Generator[Path]:
    """A file to be written beside `path`, which then replaces it.

    A reader, a kill or a full disk finds the old or the new, nothing between.

    Args:
        path: of the file.
        synced: wait until the name is on disk.

    Raises:
        UserError: it cannot be written.
    """
    # A thread may write the same file: last words while the main thread closes the run.
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        # Made anew: in a folder from elsewhere, a link of that name could lead out of it.
        partial.unlink(missing_ok=True)
        yield partial
        partial.replace(path)
        if synced:
            sync_folder(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a disk may have become read only
            partial.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk.

    Raises:
        OSError: it failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(descriptor)


def provenance() -> dict[str, Any]:
    """What ran where: versions, commit (None outside a checkout), dirty, host, cores.

    That of the code which this process has loaded: it is looked up once, at the first call.
    """
    return {**_facts(), "host": socket.gethostname(), "cores": os.cpu_count()}


@cache
def _facts() -> dict[str, Any]:
    """Versions and commit; to ask git for it takes half of the time of a run of a few steps."""
    versions = {"python": platform.python_version(), "gossip": gossip.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    commit, dirty = _commit()
    return {"versions": versions, "commit": commit, "dirty": dirty}


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The run folders meant by `paths`, in their order, each once.

    Args:
        paths: a run folder, its trace file, or the folder of a study: one whose sub-folders are
            run folders, which come in the order of their names.

    Raises:
        UserError: a path does not exist, or none of them is any of these; one that is not, among
            others (`STUDY/*`), is left out.
    """
    found: dict[Path, None] = {}
    paths = [*map(Path, paths)]
    for path in paths:
        runs = runs_in(path)
        if not runs and (len(paths) == 1 or not path.exists()):
            missing = "" if path.exists() else " (it does not exist)"
            raise UserError(f"no run in {path}{missing}: looked for {TRACE} there and one below")
        found.update(dict.fromkeys(runs))
    if paths and not found:
        text = ", ".join(map(str, paths))
        raise UserError(f"no run in any of {text}: looked for {TRACE} there and one below")
    return list(found)


def runs_in(path: Path) -> list[Path]:
    """The run folders that one path means, see `find_runs`; none if it holds no run."""
    if path.name == TRACE and path.is_file():
        return [path.parent]
    if (path / TRACE).is_file():
        return [path]
    return sorted(file.parent for file in path.glob(f"*/{TRACE}") if file.is_file())


def _commit() -> tuple[str | None, bool | None]:
    """Commit of the running code and whether it was changed since; (None, None) if unknown."""
    here = Path(__file__).parent
    try:
        # An installed package may lie in somebody else's checkout: only a tracked file counts.
        _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(here, "rev-parse", "HEAD").strip()
        return commit, bool(_git(here, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout


def _read(path: Path, parse: Any) -> dict[str, Any]:
    if not path.is_file():
        return {}
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise UserError(f"{path} has more than {MAX_TEXT_BYTES} bytes: not written by gossip")
    try:
        return parse(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _toml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _toml(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_toml(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
