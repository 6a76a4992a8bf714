"""What is compared: a preset, an algorithm or the single worker, with options of its own."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from gossip import presets
from gossip.algorithms import ALGORITHMS
from gossip.compare.options import changed, dashed, free, reset
from gossip.config import Config
from gossip.errors import UserError, one_of
from gossip.presets import PRESETS
from gossip.recipe import parse_options

SINGLE = "single"
"""One learner, no scaling, no warm-up: what the others are measured by (SPEC 5.8)."""

YIELDING = ("lr", "optimizer", "optimizer_options", "momentum", "weight_decay")
"""What a preset sets and the command line overrides: both sides of a comparison share it."""

_GOES_WITH = {
    "scaling": ("scaling_options",),
    "warmup": ("warmup_options",),
    "decay": ("decay_at", "decay_factor", "decay_options"),
    "layer_ratio": ("layer_ratio_limits",),
}
"""Options that mean nothing to another choice of the same part."""
_LENGTHS = ("warmup_steps", "warmup_epochs", "warmup_share")

_NOT_OF_ONE = (
    *("scaling", "scaling_options", "warmup", "warmup_options", *_LENGTHS),
    *("topology", "topology_options", "weights"),
)
"""What `single` does without; a graph of many need not exist for one."""


@dataclass(frozen=True)
class Method:
    """One side of a comparison."""

    text: str
    """As the user wrote it; also its name in tables and pictures."""
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


def parse(text: str) -> Method:
    """NAME or NAME:key=value,key=value.

    Raises:
        UserError: an unknown name or option, one that all methods share, or a value given twice.
    """
    name, colon, rest = text.partition(":")
    one_of((SINGLE, *ALGORITHMS, *PRESETS), name, "method")
    options = parse_options(rest.split(",") if colon else (), f"method {name}")
    for key in options:
        free(key, f"method {name}: option")
    return Method(text, name, options)


def config(
    method: Method,
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
        laid = _under_preset(method.name, base, given)
    elif method.name == SINGLE:
        laid = reset(base, _NOT_OF_ONE)
    else:
        laid = replace(base, algorithm=(method.name,))
    laid = changed(laid, {**method.options, **(values or {})})
    n = 1 if method.name == SINGLE else n
    return replace(laid, seed=seed, gossip=replace(laid.gossip, learners=n))


def notes(method: Method, given: Collection[str]) -> list[str]:
    """Options said for all methods that this one does not follow, since its preset defines them."""
    rate = PRESETS.get(method.name, {}).get("rate", {})
    kept = {
        key: value
        for key, value in rate.items()
        if key in given and key not in YIELDING and key not in method.options
    }
    return [
        f"{method.text} keeps its own {dashed(key)}={_text(value)}; to change it, write "
        f"{method.name}:{dashed(key)}=VALUE"
        for key, value in kept.items()
    ]


def distinct(methods: Collection[Method]) -> None:
    """Refuse two methods whose runs would have the same names.

    Raises:
        UserError: there are such.
    """
    folders = [method.folder for method in methods]
    for method, folder in zip(methods, folders, strict=True):
        if folders.count(folder) > 1:
            raise UserError(f"method {method.text} is named twice")


def _under_preset(name: str, base: Config, given: Collection[str]) -> Config:
    """`base` with a preset laid over it, and nothing left of the parts that the preset replaces."""
    own = PRESETS[name].get("rate", {})
    replaced = [option for part in _GOES_WITH if part in own for option in _GOES_WITH[part]]
    replaced += _LENGTHS if set(_LENGTHS) & set(own) else ()
    said = {"steps", "epochs", *(key for key in YIELDING if key in given)}
    laid = presets.apply(name, reset(base, replaced), said)
    options = laid.rate.scaling_options
    if laid.rate.scaling == "adascale":
        options = tuple(option for option in options if option != "progress=tau")
    return replace(
        laid,
        data=base.data,
        model=base.model,
        monitoring=base.monitoring,
        rate=replace(laid.rate, scaling_options=options),
    )


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
