"""Options of the command that were given and have no effect."""

from collections.abc import Collection, Iterator

from gossip.study.notes import READERS

OF_RUNS = (
    *("learners", "algorithm", "topology", "topology_options", "order", "algorithm_options"),
    *("mix_every", "parameters", "bytes_per_parameter", "scaling", "steps", "seed"),
)
"""What recorded runs say themselves."""
ONLY_WITH = {
    "target": "runs",
    **dict.fromkeys(("bandwidths", "latencies", "points"), "phase_diagram"),
    "repair": "fail_every",
}
NOT_WITH = {
    **dict.fromkeys(OF_RUNS, "runs"),
    **dict.fromkeys(("compute", "straggler", "straggler_options"), "step_times"),
}


def idle(given: Collection[str], algorithms: Collection[str]) -> Iterator[str]:
    """A note on each.

    Args:
        given: names of the options that are not as by default, `runs` among them.
        algorithms: that are compared.
    """
    for option, other in ONLY_WITH.items():
        if option in given and other not in given:
            yield f"{_dashed(option)} has no effect without {_named(other)}"
    for option, other in NOT_WITH.items():
        if option in given and other in given:
            yield f"{_dashed(option)} has no effect with {_named(other)}"
    if "order" in given and "runs" not in given and not {*READERS["order"]} & {*algorithms}:
        yield f"order has no effect with --algorithm {' '.join(algorithms)}"


def _named(other: str) -> str:
    return "recorded runs" if other == "runs" else f"--{_dashed(other)}"


def _dashed(option: str) -> str:
    return option.replace("_", "-")
