"""The learning rate of every iteration, exactly and without training."""

from gossip.schedule.course import Iteration, Schedule, courses

__all__ = ["Iteration", "Schedule", "courses"]
