"""State dict of a wrapper: the keys of the module's, and the step among its metadata."""

import warnings
from typing import TYPE_CHECKING, Any

from gossip.errors import UserError

if TYPE_CHECKING:
    from gossip.wrapper.module import Gossip

_EXTRA = "_extra_state"
"""torch's name for what `get_extra_state` gives."""


def register(model: "Gossip") -> None:
    """Have torch call the hooks below."""
    model.register_state_dict_pre_hook(_before_saving)
    model.register_state_dict_post_hook(_after_saving)
    model.register_load_state_dict_pre_hook(_before_loading)


def _before_saving(model: "Gossip", prefix: str, keep_vars: bool) -> None:
    """What an optimizer has left to be added is added, before the weights are looked at."""
    model._rounds.state()


def _after_saving(
    model: "Gossip", state: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> None:
    """What is no weight goes where torch keeps the versions of modules."""
    metadata[_EXTRA] = state.pop(prefix + _EXTRA)


def _before_loading(
    model: "Gossip", state: dict[str, Any], prefix: str, metadata: dict[str, Any], *_: Any
) -> None:
    if metadata.get("assign_to_params_buffers"):
        raise UserError(
            "load_state_dict(assign=True) would put other parameters in place of those that are "
            "averaged: use assign=False"
        )
    if model._rounds.frozen:
        raise UserError("load_state_dict() inside average(): leave the block first")
    model._rounds.drop()
    # A state dict may still have it as a key, or may have lost it: then it stays as it is.
    kept = metadata.get(_EXTRA)
    goes_on = model._exchange.depends_on_step or model._rounds.keeps
    if kept is None and prefix + _EXTRA not in state and goes_on:
        warnings.warn(
            "this state dict has the weights alone (it was made anew, key by key or by "
            f"safetensors): the step stays {model._rounds.t}, on which W depends here, "
            "and what a method keeps stays; "
            "get_extra_state() of the model that was saved, and set_extra_state(), keep it",
            stacklevel=4,
        )
    state.setdefault(prefix + _EXTRA, kept or model.get_extra_state())
