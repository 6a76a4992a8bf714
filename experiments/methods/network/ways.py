"""What is measured between hosts: methods of ours, and what torch and decent-dp have."""

from dataclasses import replace

from experiments.methods.methods import ALL_REDUCE, COMPRESSED, METHODS, ROUNDS, STEPS, Method
from experiments.methods.network.size import Size

FRAGMENTS = 2
"""Of Streaming DiLoCo, each with the longest delay that there is: the next one's time."""
OURS = {
    "dpsgd": METHODS["dpsgd"],
    "one-peer": METHODS["one-peer"],
    "int8": Method("DPSGD, ring, int8", COMPRESSED, "dpsgd", wire="int8"),
    "ssgd": METHODS["ssgd"],
    "powersgd": Method("PowerSGD", ALL_REDUCE, "powersgd", ("rank=1", "after=2")),
    "post-local": Method("post-local SGD", ROUNDS, "post-local-sgd"),
    "diloco": METHODS["diloco"],
    "streaming": replace(METHODS["streaming"], options=(f"fragments={FRAGMENTS}",)),
}  # fmt: skip
"""Run by the harness, over Gloo. Post-local SGD begins with one round of averaged gradients."""
THEIRS = {
    "ddp": Method("torch DDP", ALL_REDUCE, "ddp"),
    "ddp-bf16": Method("torch DDP, bf16 hook", ALL_REDUCE, "ddp-bf16"),
    "ddp-powersgd": Method("torch DDP, PowerSGD hook", ALL_REDUCE, "ddp-powersgd"),
    "torch-post-local": Method("torch PostLocalSGD", ROUNDS, "torch-post-local"),
    "decent-ring": Method("decent-dp, ring", STEPS, "decent-dp", topology="ring"),
    "decent-one-peer": Method("decent-dp, one peer", STEPS, "decent-dp", topology="one-peer-exp"),
}
"""Plain loops of torch; `algorithm` names what `experiments.methods.network.theirs` builds."""
WAYS = OURS | THEIRS
BASELINE = "ddp"
"""That the target is of."""


def compared(size: Size) -> dict[str, Method]:
    """The ways that take part, with options that are of the steps of a round."""
    every = size.task.every
    more = {"post-local": (f"after={every}",), "streaming": (f"delay={every // FRAGMENTS - 1}",)}
    found = {name: WAYS[name] for name in size.ways or WAYS}
    return {
        name: replace(way, options=(*way.options, *more.get(name, ())))
        for name, way in found.items()
    }
