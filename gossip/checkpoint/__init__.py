"""Checkpoints: how a run goes on after it has ended before its time."""

from gossip.checkpoint.layout import newest, step_of
from gossip.checkpoint.reading import check, facts, learners, read
from gossip.checkpoint.snapshot import Snapshot
from gossip.checkpoint.writer import Writer

__all__ = ["Snapshot", "Writer", "check", "facts", "learners", "newest", "read", "step_of"]
