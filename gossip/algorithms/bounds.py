"""Bounds that several methods share: decays, and the least rate that is divided by."""

from gossip.errors import UserError

SMALLEST_RATE = 1e-8
"""Below this, differences of weights are divided by it and not by alpha, which a warm-up may begin
at 0."""


def share_below_one(name: str, value: float) -> None:
    """Refuse a decay outside [0, 1).

    Raises:
        UserError: it is.
    """
    if not 0 <= value < 1:
        raise UserError(f"{name}={value}: it is a decay, in [0, 1)")


def share_at_most_one(name: str, value: float) -> None:
    """Refuse a share outside [0, 1].

    Raises:
        UserError: it is.
    """
    if not 0 <= value <= 1:
        raise UserError(f"{name}={value}: it is a share, in [0, 1]")
