"""Bounds that several methods share: decays, and the rate up to which none is divided by."""

from gossip.errors import UserError

SMALLEST_RATE = 1e-8
"""An alpha that is not above this, as in a warm-up that begins at 0 or where --lr-trace follows a
run, divides no differences of weights: what they would have gone into stays as it is."""


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
