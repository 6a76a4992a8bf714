"""From the [damping] table of a config to the damper of a run, and what it refuses."""

import math
from dataclasses import replace

from gossip.config import Config
from gossip.damping import DAMPERS, Damper, count, planned
from gossip.data import Sampler
from gossip.errors import UserError
from gossip.keyvalue import parse_options, typed_options
from gossip.rates import Rule, Span
from gossip.task import Task


def damper(config: Config, sampler: Sampler) -> Damper | None:
    """What decides the batch of each step; None: it is always the same.

    Raises:
        UserError: an option that the damper does not have, or a batch that cannot be drawn.
    """
    if config.damping.damping == "none":
        return None
    if config.damping.damping == "noise-scale" and sampler.n == 1:
        raise UserError(
            "damping noise-scale compares the gradients of several learners: use --learners 2 or "
            "more, which one process can host"
        )
    # Where shards have unequal sizes, the smallest decides, and not N // n.
    return named(config, sampler.num_samples, sampler.largest_batch)


def named(config: Config, samples: int, largest: int) -> Damper:
    """The damper that a config names, with a cap of `largest` if it says none.

    With replacement the first batch may be above that, and is then the cap.

    Args:
        config: of the run.
        samples: N.
        largest: samples that there are for each learner.

    Raises:
        UserError: an option that it does not have or that cannot be run.
    """
    chosen, kind = config.damping, DAMPERS[config.damping.damping]
    given = parse_options(chosen.damping_options, "damping")
    if "max_batch" in given:
        raise UserError("damping option 'max_batch' has a flag: --max-batch")
    options = typed_options(f"damping {chosen.damping}", kind, given)
    made = kind(initial=config.data.batch_size, max_batch=chosen.max_batch, **options)
    if made.max_batch is not None and largest < made.max_batch < math.inf:
        raise UserError(
            f"max_batch={made.max_batch:g}: {samples} samples among {config.gossip.learners} "
            f"learners are {largest} for each; give at most that, or inf"
        )
    if made.max_batch is None and type(made).cap is Damper.cap:
        return replace(made, max_batch=max(largest, made.initial))
    return made


def check(config: Config, task: Task, rule: Rule) -> None:
    """Refuse samples per worker where the update would depend on who computes.

    Raises:
        UserError: it would.
    """
    if not config.damping.samples_per_worker:
        return
    data, name = config.data, f"samples_per_worker={config.damping.samples_per_worker}"
    if config.algorithm != ("ssgd",):
        raise UserError(
            f"{name} with --algorithm {' '.join(config.algorithm)}: only ssgd's learners have one "
            "model, whose gradient any of them can take; use --algorithm ssgd"
        )
    if data.partition != "shared" or data.replacement:
        raise UserError(
            f"{name}: a learner has samples of its own with partition={data.partition}, "
            f"replacement={data.replacement}; use --partition shared without --replacement"
        )
    if rule.needs_norms or config.damping.damping == "noise-scale":
        raise UserError(
            f"{name}: the scaling, warm-up or damping looks at the gradient of each learner, and "
            "with fewer workers there are fewer; leave --samples-per-worker away"
        )
    if task.looks_at_batch or task.has_buffers or task.draws:
        raise UserError(
            f"{name}: the model's gradient depends on who is in a batch with whom, or on what a "
            "learner draws (BatchNorm, Dropout), so on the number of workers; leave it away"
        )


def needs_squares(made: Damper | None, rule: Rule) -> bool:
    """Whether the gradient of every learner is looked at, and not only their sum's."""
    return rule.needs_norms or (made is not None and "noise" in made.observes)


def updates(made: Damper | None, rule: Rule, config: Config, samples: int) -> int:
    """Updates of a run; at most so many, where the rule or the damper follows gradients."""
    if made is None or made.observes or rule.counts_tau:
        return max(1, math.ceil(rule.most_steps))
    learners = config.gossip.learners
    epochs = rule.most_steps * learners * config.data.batch_size / samples
    return count(made, epochs, samples, learners=learners)


def spans(made: Damper, steps: float, config: Config, samples: int) -> list[Span]:
    """The steps of a run as long as `steps` of the first batch, by a damper that follows a plan.

    Raises:
        UserError: it follows no plan.
    """
    learners = config.gossip.learners
    unit = learners * config.data.batch_size
    return [
        Span(
            plan.samples / unit,
            (plan.samples + learners * plan.damping.batch) / unit,
            plan.damping.lr_factor,
        )
        for plan in planned(made, steps * unit / samples, samples, learners=learners)
    ]


def idle(config: Config) -> list[str]:
    """Notes on options that were given and have no effect."""
    chosen = config.damping
    given = {"damping-options": chosen.damping_options, "max-batch": chosen.max_batch}
    return [
        f"{name} has no effect with --damping none"
        for name, value in given.items()
        if chosen.damping == "none" and value not in (None, ())
    ]


def unknown(config: Config) -> list[str]:
    """Notes on what a schedule cannot tell before the samples are dealt."""
    capped = config.damping.damping == "none" or config.damping.max_batch is not None
    if capped or config.data.partition != "dirichlet":
        return []
    return [
        "shards of --partition dirichlet differ in size and the schedule has all at N // n: "
        "without --max-batch, a run caps the batch at the smallest, whose size is known once the "
        "labels are"
    ]
