"""Networks by name, and networks in files."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gossip.errors import UserError, suggestion
from gossip.simulate.network import CLASSES, Link, Network
from gossip.storage.tables import read_toml

GIGABIT = 1e9 / 8
"""Bytes per second."""


def uniform(name: str, latency: float, bandwidth: float, down: float = 0.0, **more: Any) -> Network:
    """Every learner on a host of its own, all links alike; `bandwidth` in bytes per second."""
    link = Link(latency=latency, up=bandwidth, down=down or bandwidth, **more)
    return Network(name=name, links=dict.fromkeys(CLASSES, link))


def _cloud(name: str) -> Network:
    near = Link(latency=1e-4, up=10 * GIGABIT, down=10 * GIGABIT)
    far = Link(latency=40e-3, up=GIGABIT, down=GIGABIT, jitter=2e-3, loss=1e-6)
    return Network(
        name=name,
        links={"host": near, "rack": near, "world": far},
        hosts_per_rack=8,
        racks_per_region=1,
    )


def _ideal(name: str) -> Network:
    return uniform(name, 0.0, math.inf)


PRESETS: dict[str, Callable[[str], Network]] = {
    "ideal": _ideal,
    "1GbE": lambda name: uniform(name, 50e-6, GIGABIT),
    "10GbE": lambda name: uniform(name, 30e-6, 10 * GIGABIT),
    "25GbE": lambda name: uniform(name, 30e-6, 25 * GIGABIT),
    "100Gb-IB": lambda name: uniform(name, 2e-6, 100 * GIGABIT),
    "NVLink": lambda name: uniform(name, 1e-6, 150e9),
    "adadamp-moderate": lambda name: uniform(name, 0.05e-6, 54 * GIGABIT),
    "adadamp-high": lambda name: uniform(name, 0.025e-6, 800 * GIGABIT),
    "home-fibre": lambda name: uniform(
        name, 8e-3, 0.1 * GIGABIT, 0.5 * GIGABIT, jitter=1e-3, loss=1e-6
    ),
    "4G": lambda name: uniform(name, 25e-3, 10e6 / 8, 30e6 / 8, jitter=10e-3, loss=1e-4),
    "cloud-regions": _cloud,
}
"""What `--network` offers besides a file; cloud-regions: 8 machines in each region."""

_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9, "tbit/s": 1e12}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def network(name_or_file: str) -> Network:
    """The network behind a name of `PRESETS` or a TOML file.

    Raises:
        UserError: there is no such thing, or something in the file cannot be.
    """
    if name_or_file in PRESETS:
        return PRESETS[name_or_file](name_or_file)
    path = Path(name_or_file)
    if path.suffix.lower() == ".toml" or path.is_file():
        return read(path)
    raise UserError(
        f"unknown network {name_or_file!r}{suggestion(name_or_file, PRESETS)}; there are "
        f"{', '.join(PRESETS)}, or give a .toml file"
    )


def read(path: Path) -> Network:
    """The network in a TOML file, which is not trusted.

    Raises:
        UserError: it cannot be read, or says what a network cannot have.
    """
    if not path.is_file():
        raise UserError(f"network {path}: there is no such file")
    try:
        tables = read_toml(path)
    except (ValueError, OSError) as error:
        raise UserError(f"network {path}: it is not TOML ({error})") from error
    try:
        return parse({"name": path.stem, **tables})
    except UserError as error:
        raise UserError(f"network {path}: {error}") from error


def parse(tables: Mapping[str, Any]) -> Network:
    """A network from TOML's tables.

    Raises:
        UserError: an unknown key, or a value that cannot be.
    """
    values = dict(tables)
    links = values.pop("links", None)
    if not isinstance(links, dict) or not links:
        raise UserError(f"it has no links: add [links.X] with X one of {', '.join(CLASSES)}")
    for name in links:
        _known(name, CLASSES, "class of links")
    _known_keys(values, {f.name for f in fields(Network)} - {"links"})
    for key in ("learners_per_host", "hosts_per_rack", "racks_per_region"):
        if key in values and (isinstance(values[key], bool) or not isinstance(values[key], int)):
            raise UserError(f"{key}={values[key]!r}: give a whole number")
    if not isinstance(values.get("serial", False), bool):
        raise UserError(f"serial={values['serial']!r}: give true or false")
    for key in ("reduce", "cores"):
        if key in values:
            values[key] = _quantity(key, values[key], {})
    values["name"] = str(values["name"])
    return Network(links={name: _link(name, link) for name, link in links.items()}, **values)


def _link(name: str, table: Any) -> Link:
    if not isinstance(table, dict):
        raise UserError(f"links.{name}={table!r}: give a table with latency and bandwidth")
    values = dict(table)
    _known_keys(values, {f.name for f in fields(Link)} | {"bandwidth"})
    both = values.pop("bandwidth", None)
    if both is not None:
        values = {"up": both, "down": both, **values}
    for key in ("latency", "up", "down"):
        if key not in values:
            missing = "bandwidth, or up and down" if key != "latency" else key
            raise UserError(f"links.{name} has no {missing}: add it")
    for key in ("up", "down"):
        values[key] = _quantity(key, values[key], _RATES) / 8
    for key in ("latency", "jitter", "overhead", "gap"):
        if key in values:
            values[key] = _quantity(key, values[key], _TIMES)
    for key in ("loss", "handling"):
        if key in values:
            values[key] = _quantity(key, values[key], {})
    try:
        return Link(**values)
    except UserError as error:
        raise UserError(f"links.{name}: {error}") from error


def _quantity(key: str, value: Any, units: Mapping[str, float]) -> float:
    """A number, or text like "10 Gbit/s" or "30 us"."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    number, _, unit = str(value).strip().partition(" ")
    try:
        return float(number) * (units[unit.strip().lower()] if unit else 1.0)
    except (KeyError, ValueError):
        example = (
            f" with a unit of {', '.join(units)}, as in '10 {list(units)[-2]}'" if units else ""
        )
        raise UserError(f"{key}={value!r}: give a number{example}") from None


def _known_keys(values: Mapping[str, Any], allowed: set[str]) -> None:
    for key in values:
        _known(key, sorted(allowed), "key")


def _known(name: str, allowed: Any, kind: str) -> None:
    if name not in allowed:
        raise UserError(
            f"unknown {kind} {name!r}{suggestion(name, allowed)}; there are {', '.join(allowed)}"
        )
