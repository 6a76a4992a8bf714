"""Where the files that a run needs are, so that it finds them again from any folder."""

import shutil
from dataclasses import replace
from pathlib import Path

from gossip.config import Config
from gossip.errors import UserError
from topologies import TOPOLOGIES
from topologies.files import READERS

PATHS = ("strength_from",)
"""Options of algorithms that are paths."""
TOPOLOGY = "topology"
"""Folder with a copy of the topology's file, in the run's own."""


def topology_file(name: str) -> Path | None:
    """The file that a topology is read from; None: it has a name, or a function makes it."""
    path = Path(name)
    is_file = name not in TOPOLOGIES and (path.suffix.lower() in READERS or path.is_file())
    return path if is_file else None


def absolute(config: Config) -> Config:
    """`config` with the paths in it absolute: they are relative to where the command was typed.

    Raises:
        UserError: one cannot be written down in config.toml.
    """
    gossip, data = config.gossip, config.data
    if file := topology_file(gossip.topology):
        gossip = replace(gossip, topology=_absolute(file))
    if data.data_dir:
        data = replace(data, data_dir=_absolute(data.data_dir))
    gossip = replace(gossip, algorithm_options=tuple(map(_with_path, gossip.algorithm_options)))
    rate = config.rate
    if rate.lr_trace:
        rate = replace(rate, lr_trace=_absolute(rate.lr_trace))
    return replace(config, gossip=gossip, data=data, rate=rate)


def _absolute(path: str | Path) -> str:
    found = str(Path(path).absolute())
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"the path {found!a} is not UTF-8, which config.toml has to be: rename it"
        ) from error
    return found


def _with_path(option: str) -> str:
    """An option of an algorithm, key=value, its value absolute if it is a path."""
    key, _, value = option.partition("=")
    return f"{key}={_absolute(value)}" if key in PATHS and value else option


def keep_copy(config: Config, folder: Path) -> None:
    """Copy what a run may not find again into its folder: the file of its topology.

    Raises:
        UserError: it cannot be copied.
    """
    file = topology_file(config.gossip.topology)
    copy = folder / TOPOLOGY / (file.name if file else "")
    if file is None or copy.exists():
        return
    if copy.parent.is_symlink():  # a folder from elsewhere, which could lead out of itself
        raise UserError(f"{copy.parent} is a link: remove it")
    try:
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
    except OSError as error:
        raise UserError(f"cannot copy {file} to {copy}: {error.strerror}") from error


def from_copy(config: Config, folder: Path) -> Config:
    """`config` with the topology's copy in the folder of its run, where there is one."""
    file = topology_file(config.gossip.topology)
    copy = folder / TOPOLOGY / (file.name if file else "")
    if file is None or not copy.is_file():
        return config
    return replace(config, gossip=replace(config.gossip, topology=str(copy.absolute())))
