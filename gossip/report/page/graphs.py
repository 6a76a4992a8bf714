"""The topologies of runs for the page: drawn, and the eigenvalues of W to be read and saved."""

import numpy as np

import topologies
from gossip.errors import UserError
from gossip.report.runs import Run
from topologies.plot import MOST_LEARNERS
from topologies.spectrum import eigenvalues
from topologies.topology import Topology


def graphs(runs: list[Run]) -> list[Topology]:
    """The topologies of the runs' configs, each once.

    A run folder may come from anybody: what is not in our table, a file or a function, is left out,
    and so is what has more learners than a picture can show.
    """
    from gossip.config import from_tables
    from gossip.study.parts import topology  # not at once: torch takes a second to load

    found: dict[bytes, Topology] = {}
    for run in runs:
        if not _from_our_table(run):
            continue
        try:
            config = from_tables(run.config)
            made = topology(config, config.gossip.learners)
        except UserError:  # of another version, or of no harness
            continue
        first = f"{made.name} {made.period} ".encode() + made.matrix(0).toarray().tobytes()
        found.setdefault(first, made)
    return list(found.values())


def spectrum(topology: Topology) -> dict[str, object]:
    """The eigenvalues of W(0), [n], as points over their number, the largest modulus first."""
    values = eigenvalues(topology.matrix(0))
    return {
        "label": f"{topology.name}, n = {topology.n}",
        "real": np.round(values.real, 12).tolist(),
        "imaginary": np.round(values.imag, 12).tolist(),
    }


def _from_our_table(run: Run) -> bool:
    n, options = run.setting("learners"), run.setting("topology_options") or []
    named = [run.setting("topology"), *(str(option).partition("=")[2] for option in options)]
    known = {*topologies.TOPOLOGIES, *topologies.WEIGHTS, "none"}
    return (
        isinstance(n, int)
        and 1 < n <= MOST_LEARNERS
        and named[0] in topologies.TOPOLOGIES
        and all(name in known or _is_number(name) for name in named[1:])
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
