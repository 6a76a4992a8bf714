"""What a method asks of W(t), of its optimizer and of a run: what it refuses follows from these."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Properties:
    """Of a method with a common step; the defaults are those of DPSGD, which asks for little.

    `gossip.study.fitting` makes the refusals: one sentence each, before anything is written.
    """

    columns: Literal["always", "expectation", "any"] = "expectation"
    """Which W(t) keep the mean: all of them (doubly stochastic), those of a random topology on
    average, or none need to, since the method weighs by the mass that has arrived."""
    symmetric: bool = False
    """Whether W has to be symmetric."""
    least_eigenvalue: float | None = None
    """What the least eigenvalue of a symmetric W has to lie above."""
    static: bool = False
    """Whether W has to be the same at every step."""
    tree: bool = False
    """Whether the graph has to be a tree."""
    own_momentum: bool = False
    """Whether the method has a momentum of its own, and takes plain SGD beside it."""
    steers: bool = False
    """Whether the optimizer takes something else than its learner's gradient: a tracker, a mean."""
    exact_mean: bool = True
    """Whether what it shows the rate and the damper as the mean gradient is that, to rounding."""
    shares_moments: bool = False
    """Whether it averages what the optimizer keeps."""
    own_points: bool = True
    """Whether a step takes one gradient of each learner, at its own weights."""
    one_rate: bool = False
    """Whether it reckons with the learning rate, which then is one number for the whole model."""
    leaves_out: bool = True
    """Whether a learner may leave out a step whose gradient is not finite."""
    mixes_every: int = 1
    """Steps from one W(t) that it multiplies by to the next."""
    rounds: bool = True
    """Whether rows may travel rounded to half precision."""
    survives: bool = True
    """Whether the other learners can go on without those of a lost process."""


def needs(properties: Properties) -> str:
    """What a method needs of a topology, in words."""
    said = {
        "a tree": properties.tree,
        "symmetric W": properties.symmetric,
        f"least eigenvalue above {properties.least_eigenvalue or 0:.3g}": (
            properties.least_eigenvalue is not None
        ),
        "the same W at every step": properties.static,
        "doubly stochastic W": properties.columns == "always" and not properties.symmetric,
        "any directed graph": properties.columns == "any",
    }
    return ", ".join(text for text, holds in said.items() if holds) or "-"
