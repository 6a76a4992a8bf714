"""Checkpoints: how a run goes on after it has ended before its time."""

from gossip.checkpoint.layout import newest, step_of
from gossip.checkpoint.reading import facts, learners, read, verify
from gossip.checkpoint.snapshot import Snapshot
from gossip.checkpoint.writer import Writer

__all__ = ["Snapshot", "Writer", "facts", "learners", "newest", "read", "step_of", "verify"]
