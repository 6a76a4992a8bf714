"""The sides of a comparison: a preset, an algorithm or the single worker, with own options."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from gossip.algorithms import NAMES
from gossip.compare.options import changed, dashed, free, reset
from gossip.config import Config, presets
from gossip.config.presets import GOES_WITH, PRESETS
from gossip.errors import UserError, one_of
from gossip.keyvalue import parse_options

SINGLE = "single"
"""One learner, no scaling, no warm-up: what the others are measured by."""

YIELDING = ("lr", "optimizer", "optimizer_options", "momentum", "weight_decay")
"""What a preset sets and the command line overrides: both sides of a comparison share it."""

_NOT_OF_ONE = (
    *("scaling", "warmup", *GOES_WITH["scaling"], *GOES_WITH["warmup"]),
    *("topology", "topology_options", "weights"),
)
"""What `single` does without; a graph of many need not exist for one."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    text: str
    """The text that the user wrote; also the name in tables and pictures."""
    name: str
    """A preset, an algorithm, or `single`."""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Its own, by flat name."""

    @property
    def folder(self) -> str:
        """Its text as part of the name of a folder."""
        return file_name(self.text)


def file_name(text: str) -> str:
    """`text` with nothing that a file name cannot hold."""
    return re.sub(r"[^\w.=,+-]", "-", text)


def parse(text: str) -> Side:
    """NAME or NAME:key=value,key=value.

    Raises:
        UserError: an unknown name or option, one that all methods share, or a value given twice.
    """
    name, colon, rest = text.partition(":")
    one_of((SINGLE, *NAMES, *PRESETS), name, "method")
    options = parse_options(rest.split(",") if colon else (), f"method {name}")
    for key in options:
        free(key, f"option of method {name}")
    return Side(text, name, options)


def config(
    method: Side,
    base: Config,
    n: int,
    seed: int,
    values: Mapping[str, str] | None = None,
    *,
    given: Collection[str] = (),
) -> Config:
    """The run of a method with n learners.

    Later ones win: `base`, the preset, those of `YIELDING` that are in `given`, the method's own
    options, `values`. Data, model and length are the base's. AdaScale counts its progress in
    epochs, so that it sees as many samples as the others, unless its own options say tau.

    Args:
        method: of `parse`.
        base: what all methods share.
        n: learners; `single` has one whatever this says.
        seed: of weights, batches and noise.
        values: of the options that are being tuned.
        given: flat names of the options that the user said for all methods.

    Raises:
        UserError: an option that cannot be run.
    """
    base = replace(base, algorithm=("ssgd",))
    if method.name in PRESETS:
        laid = _under_preset(method, base, given)
    elif method.name == SINGLE:
        laid = reset(base, _NOT_OF_ONE)
    else:
        laid = replace(base, algorithm=(method.name,))
    own = {**method.options, **(values or {})}
    laid = changed(laid, own)
    if len(laid.algorithm) != 1:
        raise UserError(f"method {method.text}: give it one algorithm")
    if "scaling_options" not in own:
        laid = _in_epochs(laid)
    n = 1 if method.name == SINGLE else n
    return replace(laid, seed=seed, gossip=replace(laid.gossip, learners=n))


def notes(method: Side, given: Collection[str]) -> list[str]:
    """Options said for all methods that this one does not follow, since its preset defines them."""
    rate = PRESETS.get(method.name, {}).get("rate", {})
    own = [*rate, *(option for part in GOES_WITH if part in rate for option in GOES_WITH[part])]
    return [
        f"{method.text} keeps its own {dashed(key)}"
        f"{'=' + _text(rate[key]) if key in rate else ''}; to change it, write "
        f"{method.name}:{dashed(key)}=VALUE"
        for key in dict.fromkeys(own)
        if key in given and key not in YIELDING and key not in method.options
    ]


def distinct(methods: Collection[Side]) -> None:
    """Refuse two methods whose runs would have the same names.

    Raises:
        UserError: there are such.
    """
    folders = [method.folder for method in methods]
    for method, folder in zip(methods, folders, strict=True):
        if folders.count(folder) > 1:
            raise UserError(f"method {method.text} is named twice")


def _under_preset(method: Side, base: Config, given: Collection[str]) -> Config:
    """`base` with a preset laid over it, but for the parts that the method changes itself."""
    said = {"steps", "epochs", *(key for key in YIELDING if key in given)}
    said |= {part for part in GOES_WITH if part in method.options}
    laid = presets.apply(method.name, base, said)
    return replace(laid, data=base.data, model=base.model, monitoring=base.monitoring)


def _in_epochs(config: Config) -> Config:
    """AdaScale's progress counted in epochs, so that it sees as many samples as the others."""
    options = tuple(o for o in config.rate.scaling_options if o.split("=")[0] != "progress")
    return replace(config, rate=replace(config.rate, scaling_options=options))


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
