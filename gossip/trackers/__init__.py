"""Experiment trackers: a run's rows go to one as they come, and never wait for it."""

from gossip.trackers.adapters import TRACKERS
from gossip.trackers.queue import Tracking, close_all, facts_of

__all__ = ["TRACKERS", "Tracking", "close_all", "facts_of"]
