"""From the [rate] table of a config to the rule that gives the learning rate."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from gossip.config import Config, Rate
from gossip.errors import UserError
from gossip.keyvalue import parse_options, typed_options
from gossip.rates import (
    DECAYS,
    SCALINGS,
    WARMUPS,
    Budget,
    Length,
    Product,
    RateContext,
    gradient_variance,
    layer_ratio,
)
from gossip.rates.decay import Decay
from gossip.rates.follow import follow_trace
from gossip.rates.warmup import Ramp, StateAware
from gossip.task.layers import Layer


def budget(config: Config, samples: int) -> Budget:
    """How much a run of `config` on `samples` training samples may compute."""
    learners, batch = config.gossip.learners, config.data.batch_size
    steps = float(config.steps)
    if config.epochs is not None:
        # Rounded, so that 300 steps that are 300.00000000000006 in floats are not 301.
        steps = max(1.0, round(config.epochs * samples / (learners * batch), 9))
    return Budget(
        learners=learners,
        batch=batch,
        samples=samples,
        steps=steps,
        baseline_batch=config.rate.baseline_batch,
    )


def rule(rate: Rate, budget: Budget, layers: tuple[Layer, ...]) -> Product:
    """The learning-rate rule of a run.

    Raises:
        UserError: an option that a part does not have or that cannot be run.
    """
    length = Length(steps=rate.warmup_steps, epochs=rate.warmup_epochs, share=rate.warmup_share)
    context = RateContext(budget=budget, layers=layers, lr=rate.lr, length=length)
    make_scaling = SCALINGS[rate.scaling]
    given = parse_options(rate.scaling_options, "scaling")
    # LENA's options are those of its variance too; other scalings have a variance by default.
    known = inspect.signature(gradient_variance).parameters if rate.scaling == "lena" else ()
    of_variance = {key: given.pop(key) for key in list(given) if key in known}
    scaling = make_scaling(context, **typed_options(f"scaling {rate.scaling}", make_scaling, given))
    if rate.scaling != "none":
        context = replace(context, nominal=scaling.nominal)
    warmup = _part("warm-up", WARMUPS, rate.warmup, context, rate.warmup_options)
    if isinstance(warmup, Ramp):
        context = replace(context, warmup=warmup.steps)
    return Product(
        base=rate.lr,
        scaling=scaling,
        warmup=warmup,
        decay=_decay(rate, context),
        ratio=layer_ratio(rate.layer_ratio, rate.layer_ratio_limits),
        variance=gradient_variance(
            context, **typed_options("scaling lena", gradient_variance, of_variance)
        ),
        budget=budget,
        layers=layers,
    )


def warnings(rule: Product) -> list[str]:
    """What a user should know of a rule before the run: a warm-up that may never end."""
    budget, warmup = rule.budget, rule.warmup
    if isinstance(warmup, Ramp) and warmup.steps > rule.most_steps:
        return [
            f"the warm-up takes {warmup.steps:g} steps and the run has {rule.most_steps:g}: the "
            "full learning rate is never reached"
        ]
    if isinstance(warmup, StateAware) and warmup.threshold > budget.steps:
        return [
            f"a layer whose gradients are nearly equal on all {budget.learners} learners is not "
            f"warm within the run: it needs {math.ceil(warmup.threshold)} of {budget.steps:g} steps"
        ]
    return []


IDLE = {
    ("warmup", "none"): ("warmup_steps", "warmup_epochs", "warmup_share", "warmup_options"),
    ("scaling", "none"): ("scaling_options",),
    ("decay", "constant"): ("decay_options",),
    ("layer_ratio", "off"): ("layer_ratio_limits",),
}
"""Options that say nothing where a part is not there."""


def idle(rate: Rate) -> list[str]:
    """Notes on options that were given and have no effect."""
    read = rate.scaling in ("linear", "sqrt", "adascale") or rate.warmup == "legw"
    read = read or "reference=paper-example" in rate.decay_options
    of_baseline = []
    if rate.baseline_batch is not None and not read:
        of_baseline = [f"baseline-batch has no effect with --scaling {rate.scaling}"]
    of_parts = [
        f"{option.replace('_', '-')} has no effect with --{part.replace('_', '-')} {name}"
        for (part, name), options in IDLE.items()
        if getattr(rate, part) == name
        for option in options
        if getattr(rate, option) not in (None, ())
    ]
    return [*of_baseline, *of_parts, *_idle_decay(rate)]


def _idle_decay(rate: Rate) -> Iterator[str]:
    takes, default = inspect.signature(DECAYS[rate.decay]).parameters, Rate()
    for name in ("at", "factor"):
        option = f"decay_{name}"
        if name not in takes and getattr(rate, option) != getattr(default, option):
            yield f"decay-{name} has no effect with --decay {rate.decay}"
    if rate.lr_trace is None and rate.lr_trace_window != default.lr_trace_window:
        yield "lr-trace-window has no effect without --lr-trace"


def _decay(rate: Rate, context: RateContext) -> Decay:
    """The decay, or the trace that is in its place."""
    if rate.lr_trace is not None:
        return follow_trace(context, rate.lr_trace, window=rate.lr_trace_window)
    flags = _flags(rate)
    return _part("decay", DECAYS, rate.decay, context, rate.decay_options, **flags)


def _flags(rate: Rate) -> dict[str, Any]:
    """The decay's options that have a flag of their own, as far as it takes them."""
    takes = inspect.signature(DECAYS[rate.decay]).parameters
    flags = {"at": rate.decay_at, "factor": rate.decay_factor}
    return {key: value for key, value in flags.items() if key in takes and value is not None}


def _part(
    kind: str,
    table: dict[str, Callable[..., Any]],
    name: str,
    context: RateContext,
    given: Iterable[str],
    **flags: Any,
) -> Any:
    make = table[name]
    options = parse_options(given, kind)
    if kind == "decay" and (twice := sorted({"at", "factor"} & options.keys())):
        raise UserError(f"{kind} option {twice[0]!r} has a flag: --{kind}-{twice[0]}")
    return make(context, **typed_options(f"{kind} {name}", make, options), **flags)
