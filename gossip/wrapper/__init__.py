"""Decentralised averaging in a user's own training script, around any torch module."""

from gossip.wrapper import guard
from gossip.wrapper.averager import Averager
from gossip.wrapper.leaving import leave
from gossip.wrapper.module import Gossip

__all__ = ["Averager", "Gossip", "leave"]

# Now, and not with the first wrapper: a script may fail before it, while the others wait in it.
guard.install()
